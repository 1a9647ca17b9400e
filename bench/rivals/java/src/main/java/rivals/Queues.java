package rivals;

import com.lmax.disruptor.EventPoller;
import com.lmax.disruptor.RingBuffer;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.YieldingWaitStrategy;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.CyclicBarrier;

/**
 * The LMAX Disruptor on the work of {@code damrak bench ring}: the loops, the digest and the waiting are those of
 * {@code crates/lab/src/bench/queues.rs}. Readers poll, so its wait strategy is never asked.
 */
final class Queues {
    static final String[] NAMES = {"LMAX Disruptor 4.0.0"};

    private static final int SPINS = 256;
    private static final long ROUND_TRIPS_OF = 10;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** Name, words of a value, threads that read, values written at a time, whether a value comes back first. */
    private record Work(String name, int words, int readers, int batch, boolean roundTrip) {}

    private static final Work[] WORKS = {
        new Work("single", 1, 1, 1, false),
        new Work("batch", 1, 1, 16, false),
        new Work("event", 16, 1, 1, false),
        new Work("fan-out", 16, 3, 16, false),
        new Work("round-trip", 1, 1, 1, true),
        new Work("one-thread", 1, 0, 64, false),
    };

    private Queues() {}

    /** Turns that nobody sees, so that what is measured is compiled by then. */
    static void warmUp() throws Exception {
        for (int turn = 0; turn < 3; turn++) {
            for (Work work : WORKS) {
                run(work, 200_000, 1024);
            }
        }
    }

    /** Answers {@code queue I WORK VALUES SLOTS}. */
    static String answer(String[] words) throws Exception {
        for (Work work : WORKS) {
            if (words.length == 5 && words[1].equals("0") && work.name.equals(words[2])) {
                return run(work, Long.parseLong(words[3]), Integer.parseInt(words[4]));
            }
        }
        throw new IllegalArgumentException("cannot do " + String.join(" ", words) + "; it is queue I WORK VALUES SLOTS");
    }

    private static String run(Work work, long values, int slots) throws Exception {
        long count = work.roundTrip ? Math.max(values / ROUND_TRIPS_OF, 1) : values;
        Seen[] seen = new Seen[Math.max(work.readers, 1)];
        // What earlier turns left behind is not this turn's to collect.
        System.gc();
        long nanoseconds =
            work.roundTrip ? roundTrips(count, slots, seen)
            : work.readers == 0 ? oneThread(count, work, slots, seen)
            : stream(count, work, slots, seen);
        StringBuilder digests = new StringBuilder();
        for (Seen one : seen) {
            digests.append(digests.isEmpty() ? "" : ", ").append(String.format("\"%016x\"", one.digest));
        }
        return "{\"ns_per_value\": " + (double) nanoseconds / count + ", \"digests\": [" + digests + "]}";
    }

    private static long stream(long count, Work work, int slots, Seen[] seen) throws Exception {
        Queue queue = new Queue(slots, work.words, work.readers);
        CyclicBarrier start = new CyclicBarrier(work.readers + 1);
        Thread[] threads = new Thread[work.readers];
        for (int index = 0; index < threads.length; index++) {
            Seen mine = seen[index] = new Seen();
            EventPoller<long[]> reader = queue.readers[index];
            threads[index] = new Thread(() -> {
                await(start);
                Wait wait = new Wait();
                while (mine.count < count) {
                    wait.turn(read(reader, mine));
                }
            });
            threads[index].start();
        }
        await(start);
        long started = System.nanoTime();
        Wait wait = new Wait();
        for (long next = 1; next <= count; ) {
            int written = queue.write(next, (int) Math.min(work.batch, count - next + 1));
            next += written;
            wait.turn(written);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return System.nanoTime() - started;
    }

    private static long roundTrips(long count, int slots, Seen[] seen) throws Exception {
        Queue out = new Queue(slots, 1, 1);
        Queue back = new Queue(slots, 1, 1);
        CyclicBarrier start = new CyclicBarrier(2);
        Thread echo = new Thread(() -> {
            await(start);
            Seen arrived = new Seen();
            Wait wait = new Wait();
            while (arrived.count < count) {
                int read = read(out.readers[0], arrived);
                if (read > 0) {
                    while (back.write(arrived.last, 1) == 0) {}
                }
                wait.turn(read);
            }
        });
        echo.start();
        Seen mine = seen[0] = new Seen();
        await(start);
        long started = System.nanoTime();
        for (long number = 1; number <= count; number++) {
            Wait wait = new Wait();
            while (out.write(number, 1) == 0) {}
            while (mine.count < number) {
                wait.turn(read(back.readers[0], mine));
            }
        }
        long nanoseconds = System.nanoTime() - started;
        echo.join();
        return nanoseconds;
    }

    private static long oneThread(long count, Work work, int slots, Seen[] seen) throws Exception {
        Queue queue = new Queue(slots, work.words, 1);
        Seen mine = seen[0] = new Seen();
        long started = THREADS.getCurrentThreadCpuTime();
        for (long next = 1; next <= count; ) {
            next += queue.write(next, (int) Math.min(work.batch, count - next + 1));
            while (mine.count < next - 1) {
                read(queue.readers[0], mine);
            }
        }
        return THREADS.getCurrentThreadCpuTime() - started;
    }

    private static int read(EventPoller<long[]> reader, Seen seen) {
        long before = seen.count;
        try {
            reader.poll(seen);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return (int) (seen.count - before);
    }

    private static void await(CyclicBarrier start) {
        try {
            start.await();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** A ring with one writer and readers that hold it back. */
    private static final class Queue {
        final RingBuffer<long[]> ring;
        final EventPoller<long[]>[] readers;

        @SuppressWarnings({"unchecked", "rawtypes"})
        Queue(int slots, int words, int count) {
            ring = RingBuffer.createSingleProducer(() -> new long[words], slots, new YieldingWaitStrategy());
            readers = new EventPoller[count];
            Sequence[] gates = new Sequence[count];
            for (int index = 0; index < count; index++) {
                readers[index] = ring.newPoller();
                gates[index] = readers[index].getSequence();
            }
            ring.addGatingSequences(gates);
        }

        /** Writes as many as there is room for, and shows them at once. */
        int write(long first, int count) {
            while (count > 0 && !ring.hasAvailableCapacity(count)) {
                count = Math.min((int) ring.remainingCapacity(), count - 1);
            }
            if (count == 0) {
                return 0;
            }
            long last = ring.next(count);
            for (int index = 0; index < count; index++) {
                long[] slot = ring.get(last - count + 1 + index);
                for (int word = 0; word < slot.length; word++) {
                    slot[word] = first + index;
                }
            }
            ring.publish(last - count + 1, last);
            return count;
        }
    }

    private static final class Seen implements EventPoller.Handler<long[]> {
        long count;
        long digest;
        long last;

        @Override
        public boolean onEvent(long[] value, long sequence, boolean endOfBatch) {
            count++;
            last = value[0];
            digest = digest * 0x9e3779b97f4a7c15L + (value[0] ^ Long.rotateLeft(value[value.length - 1], 32));
            return true;
        }
    }

    private static final class Wait {
        private int spins;

        void turn(int worked) {
            if (worked > 0) {
                spins = 0;
            } else if (spins < SPINS) {
                spins++;
                Thread.onSpinWait();
            } else {
                Thread.yield();
            }
        }
    }
}
