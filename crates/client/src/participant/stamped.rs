//! A TCP connection with the times at which packets left and arrived, by the clock of the kernel or of the network card.
//!
//! Invariant: a time is always from the requested clock; where that gives none, there is no time.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
};

use os::PacketTimes;

use super::{ClientError, connect_tcp};

/// A nonblocking connection that may report when its packets left and arrived.
pub trait Connection: Read + Write {
    /// The time of arrival, in nanoseconds, of the packet with the last byte of the last read.
    fn arrived_ns(&self) -> Option<u64> {
        None
    }

    /// The time at which the packet left that has the last of the first `bytes` bytes written, in nanoseconds. From
    /// call to call `bytes` must not fall: earlier times are dropped.
    fn left_ns(&mut self, _bytes: u64) -> Option<u64> {
        None
    }
}

impl Connection for TcpStream {}

/// A connection that requests these times (SO_TIMESTAMPING).
#[derive(Debug)]
pub struct StampedStream {
    stream: TcpStream,
    arrived_ns: Option<u64>,
    /// Packets that left: the bytes up to the end of each, and its time.
    left: VecDeque<(u64, u64)>,
    /// Bytes up to the end of the newest of them, and of the newest that was dropped.
    left_bytes: u64,
    forgotten_bytes: u64,
    /// Writes since the last query of the kernel.
    writes: usize,
}

/// The most packets kept, for requests that await their answer.
const LEFT_MAX: usize = 1 << 16;
/// Writes after which the kernel's queue of times is read, before it is full and times are lost.
const WRITES_MAX: usize = 32;

impl StampedStream {
    /// Connects. Waits for the connection, at most 3 s.
    ///
    /// # Errors
    /// [`ClientError::Connect`]; [`ClientError::Stamps`] if the system has no such times.
    pub fn connect(address: SocketAddr, times: PacketTimes) -> Result<Self, ClientError> {
        let stream = connect_tcp(address)?;
        os::stamp_packets(stream.as_fd(), times).map_err(ClientError::Stamps)?;
        Ok(Self {
            stream,
            arrived_ns: None,
            left: VecDeque::new(),
            left_bytes: 0,
            forgotten_bytes: 0,
            writes: 0,
        })
    }

    /// Takes the packets that have left since from the kernel.
    fn take_left(&mut self) {
        // A packet missing from the kernel's queue has no time.
        while let Ok(Some(sent)) = os::next_packet_sent(self.stream.as_fd()) {
            // A packet that is sent again ends no later than the newest.
            let further = sent.bytes.wrapping_sub(self.left_bytes as u32) as i32;
            if further > 0 {
                self.left_bytes += further as u64;
                if self.left.len() == LEFT_MAX
                    && let Some((bytes, _)) = self.left.pop_front()
                {
                    self.forgotten_bytes = bytes;
                }
                self.left.push_back((self.left_bytes, sent.sent_ns));
            }
        }
        self.writes = 0;
    }
}

impl Connection for StampedStream {
    fn arrived_ns(&self) -> Option<u64> {
        self.arrived_ns
    }

    fn left_ns(&mut self, bytes: u64) -> Option<u64> {
        if self.left_bytes < bytes {
            self.take_left();
        }
        while self.left.front().is_some_and(|(end, _)| *end < bytes) {
            self.left.pop_front();
        }
        let left = self.left.front().filter(|_| self.forgotten_bytes < bytes);
        left.map(|(_, left_ns)| *left_ns)
    }
}

impl Read for StampedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (len, arrived_ns) = os::receive_stamped(self.stream.as_fd(), buffer)?;
        self.arrived_ns = arrived_ns;
        Ok(len)
    }
}

impl Write for StampedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.writes == WRITES_MAX {
            self.take_left();
        }
        self.writes += 1;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, TcpListener},
        thread,
        time::Duration,
    };

    use super::*;

    /// A connection and its other end; `None`, with a message, where the system has no times of packets.
    fn pair() -> Option<(StampedStream, TcpStream)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        match StampedStream::connect(listener.local_addr().unwrap(), PacketTimes::Software) {
            Ok(near) => Some((near, listener.accept().unwrap().0)),
            Err(ClientError::Stamps(error)) => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A byte left with the packet that contained it, whichever packets have left since; a byte that was not written
    /// has not left.
    #[test]
    fn a_byte_left_with_its_packet() {
        let Some((mut near, mut far)) = pair() else { return };
        for text in [b"one", b"two", b"six"] {
            near.write_all(text).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        let left_ns: Vec<_> = (1..=9).map(|bytes| near.left_ns(bytes).unwrap()).collect();
        let (one, two, six) = (left_ns[0], left_ns[3], left_ns[6]);
        assert_eq!(left_ns, [[one; 3], [two; 3], [six; 3]].concat());
        assert!(one < two && two < six, "{left_ns:?}");
        assert_eq!(near.left_ns(10), None);

        assert_eq!(near.arrived_ns(), None);
        far.write_all(b"answer").unwrap();
        let mut buffer = [0; 9];
        let len = loop {
            match near.read(&mut buffer) {
                Ok(len) => break len,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        assert_eq!(len, 6);
        assert!(near.arrived_ns().unwrap() > six);
    }

    /// Dropped times are not replaced by later ones.
    #[test]
    fn a_forgotten_time_is_none() {
        let Some((mut near, mut far)) = pair() else { return };
        let mut buffer = [0; 100];
        // Packets are fewer than writes where some leave together.
        for _ in 0..2 * LEFT_MAX / buffer.len() {
            for _ in 0..buffer.len() {
                near.write_all(b"x").unwrap();
            }
            far.read_exact(&mut buffer).unwrap();
        }
        near.take_left();
        let (forgotten, newest) = (near.forgotten_bytes, near.left_bytes);
        assert!(0 < forgotten && forgotten < newest, "{forgotten} of {newest}");
        assert_eq!((near.left_ns(1), near.left_ns(forgotten)), (None, None));
        assert!(near.left_ns(forgotten + 1).is_some() && near.left_ns(newest).is_some());
    }
}
