//! Rings between real threads.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use ring::{Builder, Consumer, Cursor, Flow, Producer, Words};

const VALUES: u64 = 200_000;

/// A value that shows whether it is whole.
#[derive(Clone, Copy)]
struct Whole([u64; 4]);

impl Whole {
    fn new(number: u64) -> Self {
        Self([number, !number, number.wrapping_mul(0x9E37_79B9), number ^ 0x5555])
    }

    fn number(&self) -> u64 {
        assert_eq!(self.0, Self::new(self.0[0]).0, "torn");
        self.0[0]
    }
}

impl Words for Whole {
    const WORDS: usize = 4;

    fn to_words(&self, words: &mut [u64]) {
        words.copy_from_slice(&self.0);
    }

    fn from_words(words: &[u64]) -> Self {
        Self(words.try_into().unwrap())
    }
}

/// Publishes 1 to `VALUES`, now one at a time, now in batches.
fn publish_all(mut producer: Producer<Whole>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut number = 1;
        while number <= VALUES {
            if number % 3 == 0 {
                let mut batch = producer.batch();
                for _ in 0..number % 40 {
                    if number > VALUES || batch.push(Whole::new(number)).is_err() {
                        break;
                    }
                    number += 1;
                }
            }
            if number <= VALUES && producer.try_publish(Whole::new(number)) == Ok(number) {
                number += 1;
            } else {
                thread::yield_now();
            }
        }
    })
}

impl PartialEq for Whole {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// Reads until the writer is gone, and sees every number once and in order.
fn consume_all(mut consumer: Consumer<Whole>, limit: usize) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut last = 0;
        while !consumer.is_finished() {
            let read = consumer.drain(limit, |value, _| {
                last += 1;
                assert_eq!(value.number(), last);
            });
            if read == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(last, VALUES);
    })
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// One consumer sees every value, in rings of one slot and of many.
#[test]
fn one_consumer_sees_everything_in_order() {
    for capacity in [1, 2, 64, 1024] {
        let mut builder = Builder::new("one to one", capacity);
        let consumer = builder.gating("consumer");
        let (producer, _) = builder.build();
        join([consume_all(consumer, 100), publish_all(producer)]);
    }
}

/// Three consumers with batches of different sizes each see every value.
#[test]
fn three_consumers_each_see_everything() {
    let mut builder = Builder::new("one to three", 128);
    let consumers = [1, 7, usize::MAX].map(|limit| (builder.gating("consumer"), limit));
    let (producer, monitor) = builder.build();
    let consuming = consumers.map(|(consumer, limit)| consume_all(consumer, limit));
    join([publish_all(producer)]);
    join(consuming);
    let report = monitor.read();
    assert_eq!((report.published, report.occupancy), (VALUES, 0));
    assert!(0 < report.high_water && report.high_water <= 128);
}

/// A diamond: the last consumer takes only values that the first has finished, by a shared cursor.
#[test]
fn last_consumer_stays_behind_the_shared_cursor() {
    let mut builder = Builder::<Whole>::new("diamond", 256);
    let mut journaler = builder.gating("journaler");
    let engine = builder.gating("engine");
    let mut release = builder.gating("release");
    let (producer, _) = builder.build();
    let durable = Arc::new(Cursor::new(0));
    let stored = Arc::new((0..=VALUES).map(|_| Cursor::new(0)).collect::<Vec<_>>());

    let journaling = {
        let (durable, stored) = (Arc::clone(&durable), Arc::clone(&stored));
        thread::spawn(move || {
            while !journaler.is_finished() {
                let mut last = None;
                journaler.drain(50, |value, _| {
                    stored[value.number() as usize].set(1);
                    last = Some(value.number());
                });
                match last {
                    Some(last) => durable.set(last),
                    None => thread::yield_now(),
                }
            }
        })
    };
    let releasing = thread::spawn(move || {
        let mut last = 0;
        while !release.is_finished() {
            let until = durable.get();
            let released = release.poll(usize::MAX, |value, _| {
                if value.number() > until {
                    return Flow::Hold;
                }
                last += 1;
                assert_eq!(value.number(), last);
                assert_eq!(stored[last as usize].get(), 1, "released before it was stored");
                Flow::Continue
            });
            if released == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(last, VALUES);
    });
    join([publish_all(producer), journaling, consume_all(engine, 64), releasing]);
}

/// Taps never hold the writer back, never see a torn value, and account for every value.
#[test]
fn lapped_taps_count_what_they_miss() {
    for capacity in [1, 2, 16] {
        let mut builder = Builder::<Whole>::new("lossy", capacity);
        let lossy = [1, 5, usize::MAX].map(|limit| (builder.lossy("lossy"), limit));
        let (producer, monitor) = builder.build();
        let reading = lossy.map(|(mut lossy, limit)| {
            thread::spawn(move || {
                let (mut last, mut read, mut missed) = (0, 0, 0);
                while !lossy.is_finished() {
                    let before = last;
                    let polled = lossy.poll(limit, |value| {
                        assert!(value.number() > last, "out of order");
                        last = value.number();
                        read += 1;
                    });
                    missed += polled.missed;
                    assert_eq!(read + missed, lossy.cursor());
                    if last == before {
                        thread::yield_now();
                    }
                }
                assert_eq!(read + missed, VALUES);
                assert_eq!(last, VALUES, "the newest value is never lost");
            })
        });
        join([publish_all(producer)]);
        join(reading);
        for reader in monitor.read().readers {
            assert_eq!(reader.cursor, VALUES);
        }
        assert_eq!(monitor.read().stalls, 0);
    }
}

/// A consumer whose thread has ended lets the writer go on.
#[test]
fn consumer_that_ends_lets_the_writer_go_on() {
    let mut builder = Builder::<Whole>::new("short-lived", 8);
    let mut short = builder.gating("short-lived");
    let long = builder.gating("long-lived");
    let (producer, _) = builder.build();
    let ending = thread::spawn(move || {
        while short.cursor() < 1_000 {
            short.drain(10, |value, _| assert!(value.number() > 0));
        }
    });
    join([ending, consume_all(long, 64), publish_all(producer)]);
}
