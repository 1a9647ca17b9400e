//! Third-party queues, driven by the loops of `lab::bench::queues`.

use crossbeam_channel::{Receiver, Sender};
use crossbeam_queue::ArrayQueue;
use disruptor::{
    BusySpin, EventPoller, MultiConsumerBarrier, SingleConsumerBarrier, SingleProducer,
    SingleProducerBarrier, build_single_producer,
};
use std::sync::Arc;

use lab::bench::queues::{
    Queue, QueueEntrant, QueueValue, ReadWords, WriteWords, value, write_each,
};

pub const QUEUES: &[QueueEntrant] = &[
    QueueEntrant::of::<Rtrb>(),
    QueueEntrant::of::<CrossbeamQueue>(),
    QueueEntrant::of::<CrossbeamChannel>(),
    QueueEntrant::of::<Disruptor>(),
];

enum Rtrb {}
struct RtrbWriter<const WORDS: usize>(rtrb::Producer<QueueValue<WORDS>>);
struct RtrbReader<const WORDS: usize>(rtrb::Consumer<QueueValue<WORDS>>);

impl Queue for Rtrb {
    const NAME: &'static str = "rtrb 0.4.1";
    type Writer<const WORDS: usize> = RtrbWriter<WORDS>;
    type Reader<const WORDS: usize> = RtrbReader<WORDS>;

    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)> {
        let (writer, reader) = rtrb::RingBuffer::new(slots);
        (readers == 1).then(|| (RtrbWriter(writer), vec![RtrbReader(reader)]))
    }
}

impl<const WORDS: usize> WriteWords<WORDS> for RtrbWriter<WORDS> {
    #[inline]
    fn write(&mut self, first: u64, count: usize) -> usize {
        if count == 1 {
            return usize::from(self.0.push(value(first)).is_ok());
        }
        let Ok(chunk) = self.0.write_chunk_uninit(count.min(self.0.slots())) else { return 0 };
        chunk.fill_from_iter((first..).map(value))
    }
}

impl<const WORDS: usize> ReadWords<WORDS> for RtrbReader<WORDS> {
    #[inline]
    fn read(&mut self, limit: usize, mut see: impl FnMut(&QueueValue<WORDS>)) -> usize {
        let Ok(chunk) = self.0.read_chunk(limit.min(self.0.slots())) else { return 0 };
        let (one, other) = chunk.as_slices();
        one.iter().chain(other).for_each(&mut see);
        let count = chunk.len();
        chunk.commit_all();
        count
    }
}

enum CrossbeamQueue {}
struct Shared<const WORDS: usize>(Arc<ArrayQueue<QueueValue<WORDS>>>);

impl Queue for CrossbeamQueue {
    const NAME: &'static str = "crossbeam-queue 0.3.14";
    type Writer<const WORDS: usize> = Shared<WORDS>;
    type Reader<const WORDS: usize> = Shared<WORDS>;

    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)> {
        let queue = Arc::new(ArrayQueue::new(slots));
        (readers == 1).then(|| (Shared(Arc::clone(&queue)), vec![Shared(queue)]))
    }
}

impl<const WORDS: usize> WriteWords<WORDS> for Shared<WORDS> {
    #[inline]
    fn write(&mut self, first: u64, count: usize) -> usize {
        write_each(first, count, |value| self.0.push(value).is_ok())
    }
}

impl<const WORDS: usize> ReadWords<WORDS> for Shared<WORDS> {
    #[inline]
    fn read(&mut self, limit: usize, mut see: impl FnMut(&QueueValue<WORDS>)) -> usize {
        std::iter::from_fn(|| self.0.pop()).take(limit).inspect(|value| see(value)).count()
    }
}

enum CrossbeamChannel {}
struct ChannelWriter<const WORDS: usize>(Sender<QueueValue<WORDS>>);
struct ChannelReader<const WORDS: usize>(Receiver<QueueValue<WORDS>>);

impl Queue for CrossbeamChannel {
    const NAME: &'static str = "crossbeam-channel 0.5.17";
    type Writer<const WORDS: usize> = ChannelWriter<WORDS>;
    type Reader<const WORDS: usize> = ChannelReader<WORDS>;

    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)> {
        let (writer, reader) = crossbeam_channel::bounded(slots);
        (readers == 1).then(|| (ChannelWriter(writer), vec![ChannelReader(reader)]))
    }
}

impl<const WORDS: usize> WriteWords<WORDS> for ChannelWriter<WORDS> {
    #[inline]
    fn write(&mut self, first: u64, count: usize) -> usize {
        write_each(first, count, |value| self.0.try_send(value).is_ok())
    }
}

impl<const WORDS: usize> ReadWords<WORDS> for ChannelReader<WORDS> {
    #[inline]
    fn read(&mut self, limit: usize, mut see: impl FnMut(&QueueValue<WORDS>)) -> usize {
        self.0.try_iter().take(limit).inspect(|value| see(value)).count()
    }
}

enum Disruptor {}
/// The producer, whose type depends on whether there is one reader.
enum DisruptorWriter<const WORDS: usize> {
    ForOne(SingleProducer<QueueValue<WORDS>, SingleConsumerBarrier>),
    ForMany(SingleProducer<QueueValue<WORDS>, MultiConsumerBarrier>),
}
struct DisruptorReader<const WORDS: usize>(EventPoller<QueueValue<WORDS>, SingleProducerBarrier>);

impl Queue for Disruptor {
    const NAME: &'static str = "disruptor 4.4.0";
    type Writer<const WORDS: usize> = DisruptorWriter<WORDS>;
    type Reader<const WORDS: usize> = DisruptorReader<WORDS>;

    fn new<const WORDS: usize>(
        slots: usize,
        readers: usize,
    ) -> Option<(Self::Writer<WORDS>, Vec<Self::Reader<WORDS>>)> {
        let builder = build_single_producer(slots, || value::<WORDS>(0), BusySpin);
        let (first, builder) = builder.new_event_poller();
        if readers == 1 {
            let writer = DisruptorWriter::ForOne(builder.build());
            return Some((writer, vec![DisruptorReader(first)]));
        }
        let (second, mut builder) = builder.new_event_poller();
        let mut pollers = vec![first, second];
        while pollers.len() < readers {
            let (next, with_it) = builder.new_event_poller();
            pollers.push(next);
            builder = with_it;
        }
        let writer = DisruptorWriter::ForMany(builder.build());
        Some((writer, pollers.into_iter().map(DisruptorReader).collect()))
    }
}

impl<const WORDS: usize> WriteWords<WORDS> for DisruptorWriter<WORDS> {
    #[inline]
    fn write(&mut self, first: u64, count: usize) -> usize {
        match self {
            Self::ForOne(producer) => publish(producer, first, count),
            Self::ForMany(producer) => publish(producer, first, count),
        }
    }
}

/// Publishes all values or, without room for all, as many as there is room for.
#[inline]
fn publish<const WORDS: usize>(
    producer: &mut impl disruptor::Producer<QueueValue<WORDS>>,
    first: u64,
    count: usize,
) -> usize {
    if count == 1 {
        return usize::from(producer.try_publish(|slot| *slot = value(first)).is_ok());
    }
    let mut fill = |count: usize| {
        producer.try_batch_publish(count, |slots| {
            slots.zip(first..).for_each(|(slot, number)| *slot = value(number));
        })
    };
    match fill(count) {
        Ok(_) => count,
        Err(missing) => {
            let room = count.saturating_sub(missing.0 as usize);
            if room > 0 && fill(room).is_ok() { room } else { 0 }
        }
    }
}

impl<const WORDS: usize> ReadWords<WORDS> for DisruptorReader<WORDS> {
    #[inline]
    fn read(&mut self, limit: usize, see: impl FnMut(&QueueValue<WORDS>)) -> usize {
        let Ok(mut events) = self.0.take(limit as u64) else { return 0 };
        let count = (&mut events).len();
        (&mut events).for_each(see);
        count
    }
}
