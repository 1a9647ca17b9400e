package rivals;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** A flow in its form on disk: a header of 64 bytes, then 32 bytes an operation, little-endian. */
final class Flow {
    static final byte NEW = 0;
    static final byte CANCEL = 1;
    static final byte REPLACE = 2;
    static final byte NEW_IMMEDIATE_OR_CANCEL = 3;

    final int prefill;
    final int count;
    final int symbols;
    final long[] orderId;
    final long[] price;
    final int[] quantity;
    final int[] user;
    final short[] symbol;
    final byte[] kind;
    final boolean[] buys;

    private Flow(int prefill, int count, int symbols) {
        this.prefill = prefill;
        this.count = count;
        this.symbols = symbols;
        orderId = new long[count];
        price = new long[count];
        quantity = new int[count];
        user = new int[count];
        symbol = new short[count];
        kind = new byte[count];
        buys = new boolean[count];
    }

    int measured() {
        return count - prefill;
    }

    static Flow read(Path path) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.limit() < 64 || bytes.getInt(0) != 0x31464c57 || bytes.getInt(4) != 1) {
            throw new IOException(path + " is no flow of version 1");
        }
        int prefill = Math.toIntExact(bytes.getLong(8));
        int count = Math.toIntExact(prefill + bytes.getLong(16));
        if (bytes.limit() != 64 + 32L * count) {
            throw new IOException(path + " is not as long as its header says");
        }
        Flow flow = new Flow(prefill, count, bytes.getInt(24));
        for (int index = 0; index < count; index++) {
            int at = 64 + 32 * index;
            flow.orderId[index] = bytes.getLong(at);
            flow.price[index] = bytes.getLong(at + 8);
            flow.quantity[index] = bytes.getInt(at + 16);
            flow.user[index] = bytes.getInt(at + 20);
            flow.symbol[index] = bytes.getShort(at + 24);
            flow.kind[index] = bytes.get(at + 26);
            flow.buys[index] = bytes.get(at + 27) == 0;
            if (flow.kind[index] < NEW || flow.kind[index] > NEW_IMMEDIATE_OR_CANCEL) {
                throw new IOException(path + ": operation " + index + " is none");
            }
        }
        return flow;
    }
}
