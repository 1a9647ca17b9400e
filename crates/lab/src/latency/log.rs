//! The HdrHistogram interval log (`.hlog`, version 1.3): one line for each interval and tag.
//!
//! A line holds the histogram itself: its counts in the V2 encoding (ZigZag LEB128, a run of zeros
//! as one negative number), in a zlib stream, in base64. The zlib stream uses stored blocks only:
//! a line is some kilobytes once a second, which is not worth a compressor.

use super::{DIGITS, LATENCY_NS_MAX, Latency};

/// Buckets of the first power of two: the least power of two above 2 × 10^digits.
pub(super) const SUB_BUCKETS: u64 = 2_048;

/// Version 2 of the encoding, words of up to 9 bytes.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
/// The same, in a zlib stream.
const COOKIE_COMPRESSED: u32 = 0x1c84_9304 | 0x10;

/// The lines that open an interval log; `start_ns` is Unix time.
#[must_use]
pub fn log_header(start_ns: u64) -> String {
    let (seconds, millis) = (start_ns / 1_000_000_000, start_ns / 1_000_000 % 1_000);
    format!(
        "#[Histogram log format version 1.3]\n\
         #[StartTime: {seconds}.{millis:03} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
}

impl Latency {
    /// One line of an interval log for what was recorded in the interval that began `since_ns`
    /// after the start of the log and took `interval_ns`; ends with a line break.
    ///
    /// `tag` names what was measured, without comma, space or line break. Times are written in
    /// seconds, the maximum in milliseconds, the histogram in nanoseconds.
    ///
    /// # Panics
    /// If the tag holds a character that the format gives another meaning.
    #[must_use]
    pub fn log_line(&self, tag: &str, since_ns: u64, interval_ns: u64) -> String {
        assert!(!tag.contains([',', ' ', '\n', '\r']), "not a tag: {tag:?}");
        let seconds = |ns: u64| {
            let millis = (ns + 500_000) / 1_000_000;
            format!("{}.{:03}", millis / 1_000, millis % 1_000)
        };
        format!(
            "Tag={tag},{},{},{:.3},{}\n",
            seconds(since_ns),
            seconds(interval_ns),
            self.percentiles().max_ns as f64 / 1e6,
            base64(&self.compressed())
        )
    }

    fn compressed(&self) -> Vec<u8> {
        let stream = zlib_stored(&self.encoded());
        let mut bytes = Vec::with_capacity(8 + stream.len());
        bytes.extend_from_slice(&COOKIE_COMPRESSED.to_be_bytes());
        bytes.extend_from_slice(&length_u32(&stream).to_be_bytes());
        bytes.extend_from_slice(&stream);
        bytes
    }

    fn encoded(&self) -> Vec<u8> {
        let mut counts = Vec::new();
        let mut index_next = 0;
        for bucket in self.histogram.iter_recorded() {
            let index = index_of(self.histogram.lowest_equivalent(bucket.value_iterated_to()));
            if index > index_next {
                put_zigzag(&mut counts, -i64::try_from(index - index_next).expect("few buckets"));
            }
            let count = i64::try_from(bucket.count_at_value()).expect("fewer than 2^63 latencies");
            put_zigzag(&mut counts, count);
            index_next = index + 1;
        }

        let mut bytes = Vec::with_capacity(40 + counts.len());
        bytes.extend_from_slice(&COOKIE.to_be_bytes());
        bytes.extend_from_slice(&length_u32(&counts).to_be_bytes());
        bytes.extend_from_slice(&0u32.to_be_bytes()); // counts are not shifted
        bytes.extend_from_slice(&u32::from(DIGITS).to_be_bytes());
        bytes.extend_from_slice(&1u64.to_be_bytes()); // the shortest
        bytes.extend_from_slice(&LATENCY_NS_MAX.to_be_bytes()); // the longest
        bytes.extend_from_slice(&1f64.to_be_bytes()); // a count stands for itself
        bytes.extend_from_slice(&counts);
        bytes
    }
}

/// The bucket of a value: the first 2048 are 1 ns wide, then each 1024 are twice as wide.
fn index_of(value_ns: u64) -> u64 {
    let doublings = u64::from((value_ns | (SUB_BUCKETS - 1)).ilog2() + 1 - SUB_BUCKETS.ilog2());
    doublings * (SUB_BUCKETS / 2) + (value_ns >> doublings)
}

/// ZigZag, then seven bits a byte, least significant first; the ninth byte holds eight.
fn put_zigzag(bytes: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).expect("seven or eight bits are left"));
}

fn zlib_stored(content: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = content.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let len = u16::try_from(block.len()).expect("a block is cut to fit");
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend_from_slice(&len.to_le_bytes());
        stream.extend_from_slice(&(!len).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let (mut low, mut high) = (1u32, 0u32);
    for byte in content {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend_from_slice(&(high << 16 | low).to_be_bytes());
    stream
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let octets = [0, 1, 2].map(|index| u32::from(group.get(index).copied().unwrap_or(0)));
        let bits = octets[0] << 16 | octets[1] << 8 | octets[2];
        for place in 0..4 {
            if place <= group.len() {
                text.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

fn length_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a histogram is some kilobytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base64 with each kind of ending (RFC 4648, section 10).
    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    /// Numbers take one to nine bytes and keep their sign.
    #[test]
    fn zigzag_is_golden() {
        let table: [(i64, &[u8]); 5] = [
            (0, &[0x00]),
            (-1, &[0x01]),
            (63, &[0x7e]),
            (-65, &[0x81, 0x01]),
            (i64::MIN, &[0xff; 9]),
        ];
        for (value, wanted) in table {
            let mut bytes = Vec::new();
            put_zigzag(&mut bytes, value);
            assert_eq!(bytes, wanted, "{value}");
        }
    }

    /// A zlib stream of stored blocks: header, blocks of at most 65,535 bytes, Adler-32.
    #[test]
    fn stored_blocks_are_golden() {
        assert_eq!(
            zlib_stored(b"abc"),
            [0x78, 0x01, 1, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27]
        );
        let long = zlib_stored(&[7; 70_000]);
        assert_eq!(long.len(), 2 + 2 * 5 + 70_000 + 4);
        assert_eq!((long[2], long[2 + 5 + 65_535]), (0, 1));
    }

    /// Values fall into the same buckets as in the histogram: neighbours do exactly where it says
    /// that they are equivalent.
    #[test]
    fn buckets_are_those_of_the_histogram() {
        let latency = Latency::new();
        let mut value_ns = 1;
        while value_ns < LATENCY_NS_MAX {
            assert_eq!(
                index_of(value_ns) == index_of(value_ns + 1),
                latency.histogram.equivalent(value_ns, value_ns + 1),
                "{value_ns}"
            );
            value_ns += 1 + value_ns / 1_999;
        }
        assert_eq!((index_of(0), index_of(2_047), index_of(2_048)), (0, 2_047, 2_048));
    }

    /// A line of the log, byte for byte.
    #[test]
    fn line_is_golden() {
        let mut latency = Latency::new();
        latency.record(1);
        latency.record(3);
        latency.record(3);
        latency.record(1_500_000);
        let line = latency.log_line("ack", 12_000_400_000, 1_000_000_000);
        let (head, histogram) = line.rsplit_once(',').unwrap();
        assert_eq!(head, "Tag=ack,12.000,1.000,1.500");
        assert_eq!(histogram, GOLDEN);
        assert!(log_header(1_700_000_000_123_000_000).contains("[StartTime: 1700000000.123 "));
    }

    const GOLDEN: &str = concat!(
        "HISTFAAAADt4AQEwAM//HISTEwAAAAgAAAAAAAAAAwAAAAAAAAABAAAADfhHWAA/8AAAAAAAAAECAQTntgECdQkFzg==",
        "\n"
    );
}
