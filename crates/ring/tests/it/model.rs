//! Seeded random operations on a ring, and on queues that do the same in the plain way.

use std::{array, collections::VecDeque};

use market::SplitMix64;
use ring::{Builder, Consumer, Flow, Full, LossyConsumer, LossyPoll, Monitor, Producer};

/// Large enough to be torn if any value were.
type Value = [u64; 3];

/// The published values, as each reader has still to read them.
struct Model {
    capacity: usize,
    published: u64,
    /// Values written but not published.
    pending: Vec<Value>,
    stalls: u64,
    /// Largest occupancy since the last report.
    high_water: usize,
    consumers: Vec<ModelReader>,
    lossy: Vec<ModelReader>,
}

#[derive(Default)]
struct ModelReader {
    queue: VecDeque<(u64, Value)>,
    closed: bool,
    cursor: u64,
    batch_max: usize,
    missed: u64,
}

impl ModelReader {
    fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
    }
}

impl Model {
    fn occupancy(&self) -> usize {
        self.consumers.iter().map(|consumer| consumer.queue.len()).max().unwrap_or(0)
    }

    fn has_gate(&self) -> bool {
        self.consumers.iter().any(|consumer| !consumer.closed)
    }

    fn free(&self) -> usize {
        if self.has_gate() {
            self.capacity - self.occupancy() - self.pending.len()
        } else {
            self.capacity
        }
    }

    fn write(&mut self, value: Value) -> Result<u64, Full<Value>> {
        if self.free() == 0 {
            self.stalls += 1;
            self.high_water = self.capacity; // an open batch holds slots too
            return Err(Full(value));
        }
        self.pending.push(value);
        Ok(self.published + self.pending.len() as u64)
    }

    fn publish(&mut self) {
        for value in std::mem::take(&mut self.pending) {
            self.published += 1;
            for reader in self.consumers.iter_mut().chain(&mut self.lossy) {
                if !reader.closed {
                    reader.queue.push_back((self.published, value));
                }
            }
        }
        self.high_water = self.high_water.max(self.occupancy());
    }

    fn poll(&mut self, index: usize, limit: usize, stop: Option<(usize, Flow)>) -> Vec<Value> {
        let consumer = &mut self.consumers[index];
        let mut count = limit.min(consumer.queue.len());
        match stop {
            Some((at, Flow::Stop)) => count = count.min(at + 1),
            Some((at, Flow::Hold)) => count = count.min(at),
            _ => {}
        }
        consumer.batch_max = consumer.batch_max.max(count);
        consumer.cursor += count as u64;
        consumer.queue.drain(..count).map(|(_, value)| value).collect()
    }

    fn lossy(&mut self, index: usize, limit: usize) -> (LossyPoll, Vec<Value>) {
        let lossy = &mut self.lossy[index];
        let mut polled = LossyPoll::default();
        let mut seen = Vec::new();
        if limit == 0 {
            // Only losses that are visible without an attempt to read.
            while lossy
                .queue
                .front()
                .is_some_and(|(sequence, _)| sequence + self.capacity as u64 <= self.published)
            {
                lossy.queue.pop_front();
                polled.missed += 1;
            }
        }
        while seen.len() < limit {
            let Some((sequence, value)) = lossy.queue.pop_front() else { break };
            if sequence + self.capacity as u64 <= self.published {
                polled.missed += 1;
            } else {
                seen.push(value);
            }
        }
        polled.read = seen.len();
        lossy.batch_max = lossy.batch_max.max(polled.read);
        lossy.missed += polled.missed;
        lossy.cursor += polled.missed + polled.read as u64;
        (polled, seen)
    }

    fn check(&mut self, monitor: &Monitor, closed: bool) {
        let report = monitor.read();
        assert_eq!(report.name, "model");
        assert_eq!(report.capacity, self.capacity);
        assert_eq!(report.published, self.published);
        assert_eq!(report.occupancy, self.occupancy(), "occupancy");
        assert_eq!(report.high_water, self.high_water, "high water");
        assert_eq!(report.stalls, self.stalls, "stalls");
        assert_eq!(report.closed, closed);
        let gating = self.consumers.iter_mut().map(|consumer| (consumer, true));
        let readers = gating.chain(self.lossy.iter_mut().map(|lossy| (lossy, false)));
        assert_eq!(report.readers.len(), readers.size_hint().0);
        for (seen, (reader, gating)) in report.readers.iter().zip(readers) {
            assert_eq!((seen.gating, seen.closed), (gating, reader.closed));
            assert_eq!(seen.cursor, reader.cursor, "cursor");
            assert_eq!(seen.lag, self.published - reader.cursor, "lag");
            assert_eq!(seen.batch_max, std::mem::take(&mut reader.batch_max), "batch_max");
            assert_eq!(seen.missed, reader.missed, "missed");
        }
        self.high_water = self.occupancy();
    }
}

/// The ring, and the model of its behavior.
struct Pair {
    model: Model,
    producer: Producer<Value>,
    consumers: Vec<Option<Consumer<Value>>>,
    lossy: Vec<Option<LossyConsumer<Value>>>,
    monitor: Monitor,
    random: Random,
}

impl Pair {
    fn new(seed: u64, capacity: usize) -> Self {
        let mut random = Random(SplitMix64::new(seed));
        let mut builder = Builder::new("model", capacity);
        let consumers: Vec<_> =
            (0..random.below(4)).map(|_| Some(builder.gating("consumer"))).collect();
        let lossy: Vec<_> = (0..random.below(3)).map(|_| Some(builder.lossy("lossy"))).collect();
        let (producer, monitor) = builder.build();
        let model = Model {
            capacity,
            published: 0,
            pending: Vec::new(),
            stalls: 0,
            high_water: 0,
            consumers: consumers.iter().map(|_| ModelReader::default()).collect(),
            lossy: lossy.iter().map(|_| ModelReader::default()).collect(),
        };
        Self { model, producer, consumers, lossy, monitor, random }
    }

    fn step(&mut self) {
        match self.random.below(64) {
            0..20 => {
                let value = self.random.value();
                let expected = self.model.write(value);
                self.model.publish();
                assert_eq!(self.producer.try_publish(value), expected);
            }
            20..30 => self.batch(),
            30..46 => self.read_consumer(),
            46..58 => self.read_lossy(),
            58..60 => {
                assert_eq!(self.producer.free(), self.model.free());
                assert_eq!(self.producer.cursor(), self.model.published);
            }
            60..63 => self.model.check(&self.monitor, false),
            _ => self.drop_one(),
        }
    }

    /// Pushes some values, while readers look in between and see none of them.
    fn batch(&mut self) {
        let Self { model, producer, consumers, lossy, random, .. } = self;
        let mut batch = producer.batch();
        for _ in 0..random.below(2 * model.capacity as u64 + 2) {
            let value = random.value();
            if random.below(2) == 0 {
                assert_eq!(batch.push(value), model.write(value));
            } else {
                assert_eq!(batch.push_with(|| value), model.write(value).ok());
            }
            if random.below(8) == 0 {
                read_consumer(model, consumers, random);
            }
            if random.below(8) == 0 {
                read_lossy(model, lossy, random);
            }
        }
        drop(batch);
        model.publish();
    }

    fn read_consumer(&mut self) {
        read_consumer(&mut self.model, &mut self.consumers, &mut self.random);
    }

    fn read_lossy(&mut self) {
        read_lossy(&mut self.model, &mut self.lossy, &mut self.random);
    }

    fn drop_one(&mut self) {
        if self.random.below(8) != 0 {
            return;
        }
        let index =
            self.random.below((self.consumers.len() + self.lossy.len()) as u64 + 1) as usize;
        if let Some(consumer) = self.consumers.get_mut(index) {
            *consumer = None;
            self.model.consumers[index].close();
        } else if let Some(lossy) = self.lossy.get_mut(index - self.consumers.len()) {
            *lossy = None;
            self.model.lossy[index - self.consumers.len()].close();
        }
        let open = self.consumers.iter().flatten().count();
        assert_eq!(self.producer.consumers(), open);
    }

    /// The writer is dropped; the readers read the remaining values and know that these were all.
    fn finish(mut self) {
        drop(self.producer);
        self.model.check(&self.monitor, true);
        for (index, consumer) in self.consumers.iter_mut().enumerate() {
            let Some(consumer) = consumer else { continue };
            assert!(consumer.is_closed());
            assert_eq!(consumer.is_finished(), consumer.available() == 0);
            let expected = self.model.poll(index, usize::MAX, None);
            let mut seen = Vec::new();
            assert_eq!(consumer.drain(usize::MAX, |value, _| seen.push(*value)), expected.len());
            assert_eq!(seen, expected);
            assert!(consumer.is_finished());
        }
        for (index, lossy) in self.lossy.iter_mut().enumerate() {
            let Some(lossy) = lossy else { continue };
            let (expected, _) = self.model.lossy(index, usize::MAX);
            assert_eq!(lossy.poll(usize::MAX, |_| {}), expected);
            assert!(lossy.is_finished());
        }
        self.model.check(&self.monitor, true);
    }
}

fn read_consumer(
    model: &mut Model,
    consumers: &mut [Option<Consumer<Value>>],
    random: &mut Random,
) {
    let Some(index) = random.index(consumers.len()) else { return };
    let Some(consumer) = &mut consumers[index] else { return };
    assert_eq!(consumer.available(), model.consumers[index].queue.len());

    let limit = random.limit(model.capacity);
    let stop = match random.below(3) {
        0 => None,
        1 => Some((random.below(6) as usize, Flow::Stop)),
        _ => Some((random.below(6) as usize, Flow::Hold)),
    };
    let available = consumer.available().min(limit);
    let expected = model.poll(index, limit, stop);
    let mut seen = Vec::new();
    let mut at = 0;
    let consumed = consumer.poll(limit, |value, end_of_batch| {
        assert_eq!(end_of_batch, at + 1 == available);
        let flow = match stop {
            Some((stop_at, flow)) if stop_at == at => flow,
            _ => Flow::Continue,
        };
        if flow != Flow::Hold {
            seen.push(*value);
        }
        at += 1;
        flow
    });
    assert_eq!((consumed, &seen), (expected.len(), &expected));
    assert_eq!(consumer.cursor(), model.consumers[index].cursor);
}

fn read_lossy(model: &mut Model, lossy: &mut [Option<LossyConsumer<Value>>], random: &mut Random) {
    let Some(index) = random.index(lossy.len()) else { return };
    let Some(lossy) = &mut lossy[index] else { return };
    let limit = random.limit(model.capacity);
    let (expected, values) = model.lossy(index, limit);
    let mut seen = Vec::new();
    assert_eq!(lossy.poll(limit, |value| seen.push(*value)), expected);
    assert_eq!(seen, values);
    assert_eq!(lossy.cursor(), model.lossy[index].cursor);
}

/// For any operations in any order, ring and model agree on every value, answer and figure.
#[test]
fn ring_does_what_plain_queues_do() {
    for capacity in [1, 2, 4, 8, 64] {
        for seed in 0..60 {
            let named = Named { seed, capacity };
            let mut pair = Pair::new(seed * 1_000 + capacity as u64, capacity);
            for _ in 0..1_500 {
                pair.step();
            }
            pair.finish();
            drop(named);
        }
    }
}

/// A ring has a power of two slots; any other number is refused by the builder.
#[test]
fn capacity_is_a_power_of_two() {
    for capacity in [0, 3, 6, 1_000] {
        let build = || drop(Builder::<u64>::new("odd", capacity));
        assert!(std::panic::catch_unwind(build).is_err(), "{capacity} slots");
    }
}

/// A panic in the middle of a poll consumes nothing: the same values come again.
#[test]
fn panic_in_a_poll_consumes_nothing() {
    let mut builder = Builder::new("example", 4);
    let mut consumer = builder.gating("consumer");
    let (mut producer, _) = builder.build();
    for value in 1..=3_u64 {
        producer.try_publish(value).unwrap();
    }
    let poll = std::panic::AssertUnwindSafe(|| consumer.drain(9, |value, _| assert!(*value < 2)));
    assert!(std::panic::catch_unwind(poll).is_err());
    assert_eq!(consumer.available(), 3);
    let mut sum = 0;
    consumer.drain(9, |value, _| sum += value);
    assert_eq!(sum, 6);
}

/// A gating reader that is gone stops no writer, and both the producer and the monitor show it.
#[test]
fn dropped_consumer_no_longer_gates() {
    let mut builder = Builder::new("example", 2);
    let gone = builder.gating("gone");
    let (mut producer, monitor) = builder.build();
    for value in 1..=2_u64 {
        producer.try_publish(value).unwrap();
    }
    assert_eq!(producer.try_publish(3), Err(Full(3)));
    assert_eq!(producer.consumers(), 1);
    drop(gone);
    assert_eq!(producer.try_publish(3), Ok(3));
    assert_eq!(producer.consumers(), 0);
    let report = monitor.read();
    assert!(report.readers[0].closed);
    assert_eq!((report.occupancy, report.high_water, report.stalls), (0, 2, 1));
}

/// Dropping a builder leaves readers that know that no value will come.
#[test]
fn dropped_builder_finishes_its_readers() {
    let mut builder = Builder::<u64>::new("never", 2);
    let consumer = builder.gating("consumer");
    let lossy = builder.lossy("lossy");
    assert!(!consumer.is_finished() && !lossy.is_finished());
    drop(builder);
    assert!(consumer.is_finished() && lossy.is_finished());
}

/// Prints how to repeat a failure.
struct Named {
    seed: u64,
    capacity: usize,
}

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {} and {} slots", self.seed, self.capacity);
        }
    }
}

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn index(&mut self, len: usize) -> Option<usize> {
        if len == 0 { None } else { Some(self.below(len as u64) as usize) }
    }

    fn limit(&mut self, capacity: usize) -> usize {
        if self.below(4) == 0 { usize::MAX } else { self.below(capacity as u64 + 2) as usize }
    }

    fn value(&mut self) -> Value {
        array::from_fn(|_| self.0.next_u64())
    }
}
