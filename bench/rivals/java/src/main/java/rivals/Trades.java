package rivals;

import java.util.Arrays;

/** The trades of one turn; the hash over them is taken when the clock has stopped. */
final class Trades {
    private long[] words = new long[4 << 20];
    private int length;

    void clear() {
        length = 0;
    }

    void add(long maker, long taker, long quantity, long price) {
        if (length == words.length) {
            words = Arrays.copyOf(words, 2 * length);
        }
        words[length] = maker;
        words[length + 1] = taker;
        words[length + 2] = quantity;
        words[length + 3] = price;
        length += 4;
    }

    int count() {
        return length / 4;
    }

    long quantity() {
        long quantity = 0;
        for (int at = 0; at < length; at += 4) {
            quantity += words[at + 2];
        }
        return quantity;
    }

    long hash() {
        long hash = 0;
        for (int at = 0; at < length; at += 4) {
            long word = words[at] * 0x9E3779B97F4A7C15L + words[at + 1] * 0xC2B2AE3D27D4EB4FL
                + (words[at + 2] << 32) + words[at + 3];
            hash = (Long.rotateLeft(hash, 5) ^ word) * 0xFF51AFD7ED558CCDL;
        }
        return hash;
    }
}
