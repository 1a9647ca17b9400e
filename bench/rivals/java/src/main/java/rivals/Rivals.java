package rivals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Engines of others, driven as bench/rivals/README.md says: a flow, then a turn for each line of
 * standard input. With {@code queues} in place of the flow, queues between threads.
 */
public final class Rivals {
    /** Turns that nobody sees, so that what is measured is compiled by then. */
    private static final int WARM_UP = 3;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final Flow flow;
    private final Trades trades = new Trades();

    private Rivals(Flow flow) {
        this.flow = flow;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 1) {
            System.err.println("usage: rivals-java FLOW\n       rivals-java queues");
            System.exit(2);
        }
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (arguments[0].equals("queues")) {
            Queues.warmUp();
            System.out.println("{\"engines\": [\"" + String.join("\", \"", Queues.NAMES) + "\"]}");
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(Queues.answer(line.split(" ")));
            }
            return;
        }
        Rivals rivals = new Rivals(Flow.read(Path.of(arguments[0])));
        ExchangeCore.Book[] books = ExchangeCore.Book.values();
        StringBuilder names = new StringBuilder();
        for (ExchangeCore.Book book : books) {
            for (int turn = 0; turn < WARM_UP; turn++) {
                rivals.run(book);
            }
            rivals.latencies(book);
            names.append(names.isEmpty() ? "" : ", ").append('"').append(book.title).append('"');
        }
        System.out.println("{\"engines\": [" + names + "]}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            ExchangeCore.Book book = books[Integer.parseInt(words[1])];
            switch (words[0]) {
                case "run" -> System.out.println(rivals.run(book));
                case "latency" -> System.out.println(percentiles(rivals.latencies(book)));
                default -> throw new IOException("cannot do " + line + "; it is run I or latency I");
            }
        }
    }

    /** The whole flow; what the prefill costs is not measured. */
    private String run(ExchangeCore.Book book) {
        ExchangeCore engine = prepared(book);
        // What earlier turns left behind is not this turn's to collect.
        System.gc();
        long started = THREADS.getCurrentThreadCpuTime();
        measured(engine);
        long nanoseconds = THREADS.getCurrentThreadCpuTime() - started;
        return "{\"ns_per_op\": " + (double) nanoseconds / Math.max(flow.measured(), 1)
            + ", \"trades\": " + trades.count() + ", \"quantity\": " + trades.quantity()
            + ", \"hash\": \"" + String.format("%016x", trades.hash()) + "\"}";
    }

    private void measured(ExchangeCore engine) {
        for (int index = flow.prefill; index < flow.count; index++) {
            engine.apply(index);
        }
    }

    private int[] latencies(ExchangeCore.Book book) {
        ExchangeCore engine = prepared(book);
        System.gc();
        int[] nanoseconds = new int[flow.measured()];
        for (int index = flow.prefill; index < flow.count; index++) {
            long started = System.nanoTime();
            engine.apply(index);
            nanoseconds[index - flow.prefill] = (int) Math.min(System.nanoTime() - started, Integer.MAX_VALUE);
        }
        return nanoseconds;
    }

    private ExchangeCore prepared(ExchangeCore.Book book) {
        trades.clear();
        ExchangeCore engine = new ExchangeCore(book, flow, trades);
        for (int index = 0; index < flow.prefill; index++) {
            engine.apply(index);
        }
        return engine;
    }

    private static String percentiles(int[] nanoseconds) {
        Arrays.sort(nanoseconds);
        int last = nanoseconds.length - 1;
        return "{\"p50\": " + at(nanoseconds, 0.5) + ", \"p99\": " + at(nanoseconds, 0.99)
            + ", \"p999\": " + at(nanoseconds, 0.999) + ", \"max\": " + (last < 0 ? 0 : nanoseconds[last]) + "}";
    }

    private static int at(int[] sorted, double part) {
        return sorted.length == 0 ? 0 : sorted[Math.min((int) (sorted.length * part), sorted.length - 1)];
    }
}
