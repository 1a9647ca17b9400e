//! An order entry port as the venue sees it for wiring, whatever protocol it speaks.
//!
//! Invariant: all state from before the start is given before the first turn, in the order of the methods here.

use std::sync::Arc;

use market::{OutputLine, SessionId};
use ring::{Agent, AtomicGauge};

use crate::{FaultTable, MessageArchive, OperatorEventSink};

/// An agent that takes orders.
pub trait OrderEntryPort: Agent {
    /// The name of the agent, and of the source of its operator events.
    fn component(&self) -> &'static str;

    /// Sends operator events to `sink` from now on.
    fn set_operator_events(&mut self, sink: Box<dyn OperatorEventSink>);

    /// Follows the stages of `drain` when the venue stops; see [`DRAIN_REFUSES`](crate::DRAIN_REFUSES).
    fn set_drain(&mut self, drain: Arc<AtomicGauge>);

    /// Injects the faults that operators switch on in the table. Sessions without a login have none.
    fn set_faults(&mut self, _faults: &FaultTable) {}

    /// Restores the messages sent before a snapshot. Call it before the first output.
    fn restore(&mut self, archive: &MessageArchive);

    /// Takes a line of a replayed journal: replies are stored as they were, and none is sent. The numbers used come
    /// from [`know_used`](Self::know_used).
    fn replay(&mut self, line: &OutputLine);

    /// Takes the last number that a session has used on a channel, as the engine has it at the start.
    fn know_used(&mut self, session_id: SessionId, channel: u8, user_ref_num: u32);
}
