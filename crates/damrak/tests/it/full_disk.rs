//! A venue whose disk is full: sequencer, journaler and engine, turn by turn, on a disk in memory.

use std::sync::Arc;

use engine::Engine;
use gateway::Submission;
use journal::{CrashStorage, Durability, Options};
use market::{
    AddInstrument, AddSession, CancelOrder, Command, EnterOrder, Event, Firm, Input, OrderKey,
    Output, Price, Quantity, RejectReason, SelfMatchPrevention, Sequence, SessionId, Side, Symbol,
    SystemEvent, Text, Timestamp,
};
use ring::{Agent, AtomicGauge, Builder, Consumer, Cursor, Flow, Producer};
use venue::{
    log::LocalLog,
    recovery,
    stage::{Checkpoint, EngineStage, JournalFigures, Journaler, Relief, Sequencer},
};

const S: u64 = 1_000_000_000;

fn key(user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: SessionId(1), channel: 0, user_ref_num }
}

fn symbol() -> Symbol {
    Symbol::new("AAPL").unwrap()
}

fn enter(number: u32) -> Command {
    let order = EnterOrder::limit(key(number), Side::Buy, symbol(), Quantity(100), Price(10_000));
    Command::Enter(order)
}

fn cancel(number: u32) -> Command {
    Command::Cancel(CancelOrder { key: key(number), quantity: Quantity::ZERO })
}

struct World {
    submissions: Producer<Submission>,
    sequencer: Sequencer,
    journaler: Journaler,
    engine: EngineStage,
    outputs: Consumer<Output>,
    figures: Arc<JournalFigures>,
    /// Of outputs up to here somebody is told.
    durable: Arc<Cursor>,
    now_ns: u64,
}

impl World {
    fn new(storage: &CrashStorage, durability: Durability) -> Self {
        let options = Options { durability, segment_bytes: 32 << 10, ..Options::new(1, 1) };
        let (engine, writer, _) =
            recovery::recover(Box::new(storage.clone()), &options, &mut |_| {}).unwrap();
        let mut submissions = Builder::<Submission>::new("submissions", 64);
        let to_sequencer = submissions.gating("sequencer");
        let (submissions, _) = submissions.build();
        let mut inputs = Builder::<Input>::new("inputs", 64);
        let (to_journaler, to_engine) = (inputs.gating("journaler"), inputs.gating("engine"));
        let (inputs, _) = inputs.build();
        let mut outputs = Builder::<Output>::new("outputs", 256);
        let collected = outputs.gating("test");
        let (outputs, _) = outputs.build();
        let (checkpoints, _) = Builder::<Checkpoint>::new("checkpoints", 64).build();
        let figures = Arc::new(JournalFigures::default());
        let due = Arc::new(AtomicGauge::new(u64::MAX));
        let durable = Arc::new(Cursor::new(0));
        let relief = Relief::new(Arc::clone(&figures), 2 * S, |_| {});
        let sequencer = Sequencer::new(
            LocalLog::new(engine.sequence(), engine.timestamp()),
            vec![to_sequencer],
            inputs,
            Arc::clone(&due),
        )
        .refusing(Arc::clone(&figures.refusing));
        Self {
            submissions,
            sequencer,
            journaler: Journaler::new(to_journaler, writer, Arc::clone(&durable), false)
                .relieved_by(relief),
            engine: EngineStage::new(to_engine, engine, outputs, checkpoints, due),
            outputs: collected,
            figures,
            durable,
            now_ns: S,
        }
    }

    /// Asks for this, and gives all that is told of it.
    fn ask(&mut self, command: Command) -> Vec<Event> {
        let received = Timestamp(self.now_ns);
        assert!(self.submissions.try_publish(Submission { received, command }).is_ok());
        self.turn();
        let mut events = Vec::new();
        let durable = self.durable.get();
        self.outputs.poll(256, |output, _| {
            assert!(output.cause.0 <= durable, "nothing is told before it is recorded");
            events.push(output.event);
            Flow::Continue
        });
        events
    }

    fn turn(&mut self) {
        self.now_ns += 1_000_000;
        self.sequencer.do_work(self.now_ns).unwrap();
        self.journaler.do_work(self.now_ns).unwrap();
        self.engine.do_work(self.now_ns).unwrap();
    }
}

fn is_accepted(events: &[Event]) -> bool {
    matches!(events, [Event::Accepted(_), ..])
}

fn is_canceled(events: &[Event]) -> bool {
    matches!(events, [Event::Canceled(_), ..])
}

fn is_rejected(events: &[Event], reason: RejectReason) -> bool {
    matches!(events, [Event::Rejected(rejected)] if rejected.reason == reason)
}

fn open_market(world: &mut World) {
    for command in [
        Command::AddInstrument(AddInstrument {
            symbol: symbol(),
            price_increment: Price(100),
            round_lot: Quantity(100),
        }),
        Command::AddSession(AddSession {
            username: Text::new("U1").unwrap(),
            firm: Firm::new("FIRM").unwrap(),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        }),
        Command::System(SystemEvent::StartOfSystemHours),
    ] {
        world.ask(command);
    }
}

/// Rule 50.1: when the disk is full new orders are rejected, with the reason, and orders are canceled;
/// when there is room again orders are accepted; and the journal alone comes to the same state.
#[test]
fn a_full_disk_rejects_orders_and_takes_cancels() {
    for durability in [Durability::Written, Durability::Synced] {
        let storage = CrashStorage::new();
        let mut world = World::new(&storage, durability);
        open_market(&mut world);
        storage.set_capacity(Some(70_000));
        let mut accepted = 0;
        while world.figures.reason().is_none() {
            accepted += 1;
            assert!(is_accepted(&world.ask(enter(accepted))), "{durability:?} {accepted}");
        }
        assert_eq!(world.figures.reason(), Some(RejectReason::NoRoom));
        let refused = accepted + 1;
        assert!(is_rejected(&world.ask(enter(refused)), RejectReason::NoRoom), "{durability:?}");
        assert!(is_canceled(&world.ask(cancel(1))), "{durability:?}");

        storage.set_capacity(None);
        world.now_ns += 2 * S;
        for _ in 0..9 {
            world.turn();
        }
        assert_eq!((world.figures.reason(), world.figures.alarms.get()), (None, 1));
        for number in refused + 1..refused + 200 {
            assert!(is_accepted(&world.ask(enter(number))), "{durability:?} {number}");
        }
        let segments = journal::segments_before(&mut storage.clone(), u64::MAX).unwrap();
        assert!(!segments.is_empty(), "the journal went on in another segment");

        world.journaler.close();
        let replay = recovery::replay(&mut storage.clone(), &mut |_, _| {}, &mut |_| {}).unwrap();
        let heir = Arc::default();
        world.engine = world.engine.leaving_to(Arc::clone(&heir));
        world.engine.close();
        let engine: Engine = heir.lock().unwrap().take().unwrap();
        assert_eq!(replay.engine.state_hash(), engine.state_hash());
        assert!(engine.sequence() > Sequence(u64::from(refused)));
    }
}

/// When the disk is full and stays so, the venue goes on with what was kept for cancels, and then
/// stops, saying what to do; all that was told is in the journal.
#[test]
fn a_disk_that_stays_full_stops_the_venue() {
    let storage = CrashStorage::new();
    let mut world = World::new(&storage, Durability::Synced);
    open_market(&mut world);
    storage.set_capacity(Some(70_000));
    let mut number = 0;
    let error = loop {
        number += 1;
        let received = Timestamp(world.now_ns);
        let command = if number % 2 == 1 { enter(number) } else { cancel(number - 1) };
        assert!(world.submissions.try_publish(Submission { received, command }).is_ok());
        world.sequencer.do_work(world.now_ns).unwrap();
        if let Err(error) = world.journaler.do_work(world.now_ns) {
            break error;
        }
        world.engine.do_work(world.now_ns).unwrap();
        world.outputs.poll(256, |_, _| Flow::Continue);
    };
    assert!(error.to_string().contains("free some space, then start again"), "{error}");
    assert_eq!(world.figures.reason(), Some(RejectReason::NoRoom));
    storage.set_capacity(None);
    let replay = recovery::replay(&mut storage.clone(), &mut |_, _| {}, &mut |_| {}).unwrap();
    assert!(replay.engine.sequence().0 >= world.durable.get());
}
