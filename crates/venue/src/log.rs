//! The seam between a venue and its sequenced log.
//!
//! A venue asks for places in the log and takes the commands that have one, in order; books, replies and feeds follow
//! from that alone. Here this process keeps the log: [`LocalLog`] gives places at once, and the journal makes them
//! durable. A log on which several machines agree is another implementation, by an existing consensus engine; the venue
//! holds no elections.

use market::{Command, Input, Sequence, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Commands may be appended here.
    Leader,
    /// Commands are appended elsewhere and come here with their places.
    Follower,
}

/// The place of a command in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    pub sequence: Sequence,
    pub timestamp: Timestamp,
}

/// The log: gives commands their places and times.
pub trait SequencedLog: Send {
    /// The role of this process now. It may change between two turns, never within one.
    fn role(&self) -> Role;

    /// The number of commands that can be appended now.
    fn room(&self) -> usize;

    /// Asks for a place for a command received at a moment. Returns the place if it is known at once;
    /// [`next`](Self::next) then does not give it. Only a leader may append, and only as far as there is
    /// [`room`](Self::room).
    ///
    /// An appended command need not get a place: a leader that loses its role forgets it. No reply was
    /// sent for such a command.
    fn append(&mut self, command: &Command, received: Timestamp) -> Option<LogPosition>;

    /// The next command with its place. Over all places, from this call and from `append`, sequences rise
    /// by 1 and timestamps never fall.
    fn next(&mut self) -> Option<Input>;

    /// The timestamp of the last sequenced command.
    fn last_timestamp(&self) -> Timestamp;
}

/// The log of a venue that is one process: each command has its place as soon as it is appended.
#[derive(Debug)]
pub struct LocalLog {
    sequence: Sequence,
    timestamp: Timestamp,
}

impl LocalLog {
    /// Continues after this place and time.
    pub fn new(last_sequence: Sequence, last_timestamp: Timestamp) -> Self {
        Self { sequence: last_sequence, timestamp: last_timestamp }
    }
}

impl SequencedLog for LocalLog {
    fn role(&self) -> Role {
        Role::Leader
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn append(&mut self, _command: &Command, received: Timestamp) -> Option<LogPosition> {
        self.sequence = self.sequence.next();
        self.timestamp = self.timestamp.max(received);
        Some(LogPosition { sequence: self.sequence, timestamp: self.timestamp })
    }

    fn next(&mut self) -> Option<Input> {
        None
    }

    fn last_timestamp(&self) -> Timestamp {
        self.timestamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places rise by one from where the log ended, and time does not go back.
    #[test]
    fn local_log_gives_places_at_once() {
        let mut log = LocalLog::new(Sequence(7), Timestamp(100));
        let given = [90, 120, 110].map(|received| {
            let place = log.append(&Command::Time, Timestamp(received)).expect("at once");
            (place.sequence.0, place.timestamp.0)
        });
        assert_eq!(given, [(8, 100), (9, 120), (10, 120)]);
        assert_eq!((log.role(), log.last_timestamp()), (Role::Leader, Timestamp(120)));
    }
}
