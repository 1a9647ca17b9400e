//! The protocols under every order that the memory model allows, each with a planted fault that
//! must be found:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p damrak-ring --release loom
//! ```

use std::{
    cell::Cell,
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use loom::thread;
use ring::{
    Builder, Consumer, Cursor, Doorbells, Flow, Parker, Producer, Unparker, WakeTargets,
    failpoint::{Failpoint, with},
};

/// Tries the model in every order with at most `interruptions` interruptions of each thread; in
/// every order at all for `None`.
fn check(interruptions: Option<usize>, model: fn()) {
    let executions = count(interruptions, model);
    println!("{executions} executions, interruptions {interruptions:?}");
}

/// Tries the model, and returns the number of orders.
fn count(interruptions: Option<usize>, model: fn()) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = interruptions;
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    executions.load(Ordering::Relaxed)
}

/// The model must fail once `fault` is planted.
fn check_finds(fault: Failpoint, model: fn()) {
    let found = with(fault, || catch_unwind(|| check(Some(3), model)).is_err());
    assert!(found, "{fault:?} was not found");
}

fn one_to_one<T: Copy + Send + Sync + 'static>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let mut builder = Builder::new("loom", capacity);
    let consumer = builder.gating("consumer");
    (builder.build().0, consumer)
}

fn publish(producer: &mut Producer<u64>, value: u64) {
    while producer.try_publish(value).is_err() {
        thread::yield_now();
    }
}

/// Values arrive whole and in order, and a slot is not written while a reader looks at it.
fn publish_and_consume() {
    let (mut producer, mut consumer) = one_to_one(1);
    let publishing = thread::spawn(move || {
        for value in 1..=3 {
            publish(&mut producer, value);
        }
    });
    let mut last = 0;
    while last < 3 {
        let read = consumer.drain(9, |value, _| {
            assert_eq!(*value, last + 1);
            last = *value;
        });
        if read == 0 {
            thread::yield_now();
        }
    }
    publishing.join().unwrap();
}

#[test]
fn loom_publish_and_consume() {
    check(None, publish_and_consume);
    check_finds(Failpoint::RelaxedCursor, publish_and_consume);
    check_finds(Failpoint::EarlyRelease, publish_and_consume);
}

/// Two gates: the writer waits for the slower one, and goes on when one is dropped.
fn two_consumers_one_of_them_leaves() {
    let mut builder = Builder::new("loom", 1);
    let mut stays = builder.gating("stays");
    let leaves = builder.gating("leaves");
    let (mut producer, _) = builder.build();
    let leaving = thread::spawn(move || {
        let mut leaves = leaves;
        leaves.drain(1, |value, _| assert_eq!(*value, 1));
    });
    producer.try_publish(1).unwrap();
    let mut published = 1;
    let mut last = 0;
    while last < 2 {
        let read = stays.drain(1, |value, _| last = *value);
        if published < 2 && producer.try_publish(2).is_ok() {
            published = 2;
        } else if read == 0 {
            thread::yield_now();
        }
    }
    leaving.join().unwrap();
}

#[test]
fn loom_dropped_consumer() {
    check(None, two_consumers_one_of_them_leaves);
    check_finds(Failpoint::RelaxedCursor, two_consumers_one_of_them_leaves);
}

/// A batch is seen as a whole or not at all, and a reader that sees the writer gone sees all
/// values.
fn batch_at_once() {
    let (mut producer, mut consumer) = one_to_one(2);
    let publishing = thread::spawn(move || {
        let mut batch = producer.batch();
        batch.push(1).unwrap();
        batch.push(2).unwrap();
    });
    let mut read = 0;
    while !consumer.is_finished() {
        let more = consumer.drain(9, |value: &u64, _| {
            read += 1;
            assert_eq!(*value, read);
        });
        assert!(more == 0 || more == 2, "a batch in parts");
        if more == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(read, 2);
    publishing.join().unwrap();
}

#[test]
fn loom_batch() {
    check(None, batch_at_once);
    check_finds(Failpoint::RelaxedCursor, batch_at_once);
    check_finds(Failpoint::EagerBatch, batch_at_once);
}

/// A lossy consumer that is lapped while it reads sees no torn value and accounts for every value.
fn lapped_lossy() {
    let mut builder = Builder::new("loom", 1);
    let mut lossy = builder.lossy("lossy");
    let (mut producer, _) = builder.build();
    producer.try_publish([1, 1]).unwrap();
    let publishing = thread::spawn(move || {
        for value in 2..=3 {
            producer.try_publish([value, value]).unwrap();
        }
    });
    let mut last = 0;
    let mut total = 0;
    for _ in 0..2 {
        let polled = lossy.poll(9, |value| {
            assert_eq!(value[0], value[1], "torn");
            assert!(value[0] > last, "out of order");
            last = value[0];
        });
        total += polled.read as u64 + polled.missed;
        assert_eq!(total, lossy.cursor());
    }
    publishing.join().unwrap();
    lossy.poll(9, |value| last = value[0]);
    assert_eq!((last, lossy.cursor(), lossy.is_finished()), (3, 3, true));
}

#[test]
fn loom_lapped_lossy() {
    check(Some(3), lapped_lossy); // every order at all did not end in minutes
    check_finds(Failpoint::UncheckedStamp, lapped_lossy);
    check_finds(Failpoint::NoStampFence, lapped_lossy);
}

/// Inputs go to a journaler and to a core; the core's answers leave once the journaler reports that
/// the input is durable. The medium is written and read without any ordering of its own, so only
/// the cursors can make the confirmed inputs visible.
fn replies_wait_for_the_journal(gate: fn(&Cursor) -> u64) {
    const INPUTS: u64 = 2;
    let mut inputs = Builder::new("inputs", 2);
    let mut to_journaler = inputs.gating("journaler");
    let mut to_engine = inputs.gating("engine");
    let (mut producer, _) = inputs.build();
    let (mut answers, mut replies) = one_to_one(2);
    let durable = Arc::new(Cursor::new(0));
    let medium = Arc::new([(); 2].map(|()| loom::sync::atomic::AtomicU64::new(0)));
    for input in 1..=INPUTS {
        producer.try_publish(input).unwrap();
    }
    let (of_journaler, written) = (Arc::clone(&durable), Arc::clone(&medium));
    let journaling = thread::spawn(move || {
        let mut last = 0;
        while last < INPUTS {
            let taken = to_journaler.drain(1, |input: &u64, _| {
                written[*input as usize - 1].store(*input, Ordering::Relaxed);
                last = *input;
            });
            if taken > 0 {
                of_journaler.set(last);
            }
        }
    });
    let core = thread::spawn(move || {
        to_engine.drain(9, |input, _| publish(&mut answers, *input));
    });
    let mut released = 0;
    while released < INPUTS {
        let confirmed = gate(&durable);
        let sent = replies.poll(9, |input, _| {
            if *input > confirmed {
                return Flow::Hold;
            }
            let there = medium[*input as usize - 1].load(Ordering::Relaxed);
            assert_eq!(there, *input, "acknowledged, and not in the journal");
            released = *input;
            Flow::Continue
        });
        if sent == 0 {
            thread::yield_now();
        }
    }
    journaling.join().unwrap();
    core.join().unwrap();
}

fn durable_release() {
    replies_wait_for_the_journal(Cursor::get);
}

fn release_without_waiting() {
    replies_wait_for_the_journal(|_| u64::MAX);
}

#[test]
fn loom_durable_release() {
    check(Some(3), durable_release); // every order at all did not end in minutes
    check_finds(Failpoint::RelaxedCursor, durable_release);
    let found = catch_unwind(|| check(Some(3), release_without_waiting)).is_err();
    assert!(found, "an acknowledgement before durability was not found");
}

/// Sleeps like loom's threads.
struct LoomParker(thread::Thread);

struct LoomUnparker(thread::Thread);

impl Parker for LoomParker {
    fn park(&mut self, _: Duration) {
        thread::park();
    }

    fn unparker(&self) -> Arc<dyn Unparker> {
        Arc::new(LoomUnparker(self.0.clone()))
    }
}

impl Unparker for LoomUnparker {
    fn unpark(&self) {
        self.0.unpark();
    }
}

/// A group that parks by the protocol of the doorbells wakes for work, however they interleave;
/// loom finds a lost wake-up as a deadlock.
fn doorbell() {
    let (mut producer, mut consumer) = one_to_one(2);
    let mut parker = LoomParker(thread::current());
    let doorbells = Arc::new(Doorbells::new([parker.unparker(), parker.unparker()]));
    let of_worker = Arc::clone(&doorbells);
    let working = thread::spawn(move || {
        producer.try_publish(1_u64).unwrap();
        of_worker.ring_others(1);
    });
    let work = Cell::new(0);
    let mut turn = || {
        work.set(work.get() + consumer.drain(9, |_, _| {}));
        work.get() > 0
    };
    while !turn() {
        doorbells.mark_parked(0);
        if !turn() {
            parker.park(Duration::MAX);
        }
        doorbells.clear(0);
    }
    working.join().unwrap();
}

/// As `doorbell`, but the worker rings only at its readers.
fn doorbell_of_a_reader() {
    let (mut producer, mut consumer) = one_to_one(2);
    let mut parker = LoomParker(thread::current());
    let doorbells = Arc::new(Doorbells::new([parker.unparker(), parker.unparker()]));
    let of_worker = Arc::clone(&doorbells);
    let working = thread::spawn(move || {
        producer.try_publish(1_u64).unwrap();
        of_worker.ring(&WakeTargets { readers: vec![0], writers: vec![] });
    });
    let work = Cell::new(0);
    let mut turn = || {
        work.set(work.get() + consumer.drain(9, |_, _| {}));
        work.get() > 0
    };
    while !turn() {
        doorbells.mark_parked(0);
        if !turn() {
            parker.park(Duration::MAX);
        }
        doorbells.clear(0);
    }
    working.join().unwrap();
}

/// A group that finds a ring full marks itself as held up, and wakes when its reader has made room,
/// however they interleave. Marked as waiting for work, it would sleep for ever.
fn doorbell_of_a_writer(mark: fn(&Doorbells)) {
    let (mut producer, mut consumer) = one_to_one(1);
    producer.try_publish(1_u64).unwrap();
    let mut parker = LoomParker(thread::current());
    let doorbells = Arc::new(Doorbells::new([parker.unparker(), parker.unparker()]));
    let of_reader = Arc::clone(&doorbells);
    let reading = thread::spawn(move || {
        assert_eq!(consumer.drain(1, |_, _| {}), 1);
        of_reader.ring(&WakeTargets { readers: vec![], writers: vec![0] });
    });
    let published = Cell::new(false);
    let mut turn = || {
        published.set(published.get() || producer.try_publish(2).is_ok());
        published.get()
    };
    while !turn() {
        mark(&doorbells);
        if !turn() {
            parker.park(Duration::MAX);
        }
        doorbells.clear(0);
    }
    reading.join().unwrap();
}

fn doorbell_of_a_held_up_writer() {
    doorbell_of_a_writer(|doorbells| doorbells.mark_held_up(0));
}

fn doorbell_of_a_writer_marked_wrong() {
    doorbell_of_a_writer(|doorbells| doorbells.mark_parked(0));
}

#[test]
fn loom_doorbell_of_wake_targets() {
    check(None, doorbell_of_a_reader);
    check_finds(Failpoint::NoDoorbellFence, doorbell_of_a_reader);
    check(None, doorbell_of_a_held_up_writer);
    check_finds(Failpoint::NoDoorbellFence, doorbell_of_a_held_up_writer);
    let found = catch_unwind(|| check(None, doorbell_of_a_writer_marked_wrong)).is_err();
    assert!(found, "a writer that is not marked as held up was woken for room");
}

/// As `doorbell`, but without the turn between mark and park.
fn doorbell_without_a_last_turn() {
    let (mut producer, mut consumer) = one_to_one(2);
    let mut parker = LoomParker(thread::current());
    let doorbells = Arc::new(Doorbells::new([parker.unparker(), parker.unparker()]));
    let of_worker = Arc::clone(&doorbells);
    let working = thread::spawn(move || {
        producer.try_publish(1_u64).unwrap();
        of_worker.ring_others(1);
    });
    while consumer.drain(9, |_, _| {}) == 0 {
        doorbells.mark_parked(0);
        parker.park(Duration::MAX);
        doorbells.clear(0);
    }
    working.join().unwrap();
}

#[test]
fn loom_doorbell() {
    check(None, doorbell);
    check_finds(Failpoint::NoDoorbellFence, doorbell);
    let found = catch_unwind(|| check(None, doorbell_without_a_last_turn)).is_err();
    assert!(found, "a lost wake-up was not found");
}
