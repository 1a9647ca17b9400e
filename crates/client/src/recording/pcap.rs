//! Packets with the time of each in nanoseconds: the pcap files of tcpdump and Wireshark.
//!
//! Invariant: a packet that is no whole UDP datagram over IP is counted, and not read as one.

use std::{
    io::{self, Read, Write},
    ops::Range,
};

use wire::moldudp64::{Packetizer, Session};

use super::{Input, PacketForm, ReadReport, Recorded, RecordingError, Stamped};

/// The first four bytes of a file with nanoseconds, and of one with microseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const VERSION: (u16, u16) = (2, 4);
const ETHERNET: u32 = 1;
const SECOND_NS: u64 = 1_000_000_000;
/// The longest valid record, in bytes.
const RECORD_LEN_MAX: u32 = 1 << 18;
const ETHERNET_LEN: usize = 14;
const IP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;
/// Types of frames: IPv4, IPv6, and the two tags of a VLAN.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// True if these are the first bytes of a pcap file.
pub(super) fn is_magic(bytes: &[u8]) -> bool {
    Order::of(bytes).is_some()
}

/// The byte order and time unit of a file.
#[derive(Clone, Copy)]
struct Order {
    is_big_endian: bool,
    /// Nanoseconds of a unit of the fraction.
    fraction_ns: u64,
}

impl Order {
    fn of(magic: &[u8]) -> Option<Self> {
        let magic = <[u8; 4]>::try_from(magic).ok()?;
        for is_big_endian in [false, true] {
            let number =
                if is_big_endian { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) };
            match number {
                NANOSECONDS => return Some(Self { is_big_endian, fraction_ns: 1 }),
                MICROSECONDS => return Some(Self { is_big_endian, fraction_ns: 1_000 }),
                _ => {}
            }
        }
        None
    }

    fn number(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes[at..at + 4].try_into().expect("four bytes");
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

pub(super) struct PcapReader {
    order: Order,
    link: u32,
    frame: Vec<u8>,
}

impl PcapReader {
    /// Reads the header of the file.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, RecordingError> {
        let mut header = [0; 24];
        if !input.fill(&mut header)? {
            return Err(RecordingError::CutShort { offset: 0 });
        }
        let order = Order::of(&header[..4]).expect("it was looked at");
        // The upper bits give the length of check sums.
        let link = order.number(&header, 20) & 0xffff;
        match link {
            0 | 1 | 101 | 113 | 276 => Ok(Self { order, link, frame: Vec::new() }),
            other => Err(RecordingError::LinkType(other)),
        }
    }

    /// The content of the next UDP datagram, with the time of the packet; `None` at the end of the file.
    pub(super) fn next_payload<R: Read>(
        &mut self,
        input: &mut Input<R>,
        report: &mut ReadReport,
    ) -> Result<Option<Stamped<'_>>, RecordingError> {
        loop {
            let begin = input.offset;
            let mut header = [0; 16];
            if !input.fill(&mut header)? {
                return Ok(None);
            }
            let number = |at| self.order.number(&header, at);
            let fraction_ns = u64::from(number(4)) * self.order.fraction_ns;
            let time_ns = u64::from(number(0)) * SECOND_NS + fraction_ns;
            let (kept, sent) = (number(8), number(12));
            if kept > RECORD_LEN_MAX {
                return Err(RecordingError::PacketLength { offset: begin, len: kept });
            }
            self.frame.resize(kept as usize, 0);
            input.fill_rest(&mut self.frame, begin)?;
            match self.payload().filter(|_| kept == sent) {
                Some(range) => return Ok(Some(Stamped { time_ns, payload: &self.frame[range] })),
                None => report.other_packets += 1,
            }
        }
    }

    /// The place of a UDP datagram's content in the frame; `None` for another packet, or for a part of a datagram.
    fn payload(&self) -> Option<Range<usize>> {
        let frame = &self.frame[..];
        let word =
            |at: usize| frame.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
        let (mut kind, mut at) = match self.link {
            ETHERNET => (Some(word(12)?), ETHERNET_LEN),
            113 => (Some(word(14)?), 16),
            276 => (Some(word(0)?), 20),
            0 => (None, 4),
            _ => (None, 0),
        };
        while kind.is_some_and(|kind| VLAN_TAGS.contains(&kind)) {
            kind = Some(word(at + 2)?);
            at += 4;
        }
        let version = frame.get(at)? >> 4;
        let udp = match (kind, version) {
            (Some(IPV4) | None, 4) => {
                let is_fragment = word(at + 6)? & 0x3fff != 0;
                let header_len = usize::from(frame[at] & 0x0f) * 4;
                (*frame.get(at + 9)? == UDP && !is_fragment).then_some(at + header_len)?
            }
            (Some(IPV6) | None, 6) => (*frame.get(at + 6)? == UDP).then_some(at + 40)?,
            _ => return None,
        };
        let end = udp + usize::from(word(udp + 4)?);
        (udp + UDP_LEN <= end && end <= frame.len()).then_some(udp + UDP_LEN..end)
    }
}

/// Writes messages as MoldUDP64 packets in a pcap file with nanoseconds.
///
/// A packet has the messages received at the same time, as many as fit.
pub struct PcapWriter<W> {
    file: W,
    form: PacketForm,
    /// The packet that is being built, its session and its time.
    packets: Packetizer,
    session: Session,
    time_ns: u64,
    frame: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header of the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(mut file: W, form: PacketForm) -> io::Result<Self> {
        file.write_all(&NANOSECONDS.to_le_bytes())?;
        file.write_all(&VERSION.0.to_le_bytes())?;
        file.write_all(&VERSION.1.to_le_bytes())?;
        // Time zone and accuracy, which are unused.
        file.write_all(&[0; 8])?;
        file.write_all(&RECORD_LEN_MAX.to_le_bytes())?;
        file.write_all(&ETHERNET.to_le_bytes())?;
        let packets = Packetizer::new(form.session, 1, form.packet_len_max);
        Ok(Self { file, form, packets, session: form.session, time_ns: 0, frame: Vec::new() })
    }

    /// Writes a message with its time of reception or, if that is unknown, its own time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, recorded: Recorded<'_>) -> io::Result<()> {
        let Recorded { session, number, received_ns, message } = recorded;
        let session = session.unwrap_or(self.form.session);
        let own_ns = || wire::itch::decode(message).map_or(0, |message| message.timestamp());
        let time_ns = received_ns.unwrap_or_else(own_ns);
        if session != self.session {
            self.write_packet()?;
            self.session = session;
            self.packets = Packetizer::new(session, number, self.form.packet_len_max);
        }
        if time_ns != self.time_ns || number != self.packets.next_sequence() {
            self.write_packet()?;
            self.packets.restart(number);
            self.time_ns = time_ns;
        }
        if !self.packets.push(message) {
            self.write_packet()?;
            assert!(self.packets.push(message), "an empty packet has room");
        }
        Ok(())
    }

    /// Writes the data in memory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_packet()?;
        self.file.flush()
    }

    fn write_packet(&mut self) -> io::Result<()> {
        if self.packets.is_empty() {
            return Ok(());
        }
        frame(&self.form, self.packets.packet(), &mut self.frame);
        let len = self.frame.len() as u32;
        let seconds = (self.time_ns / SECOND_NS) as u32;
        let fraction = (self.time_ns % SECOND_NS) as u32;
        for number in [seconds, fraction, len, len] {
            self.file.write_all(&number.to_le_bytes())?;
        }
        self.file.write_all(&self.frame)?;
        self.packets.advance();
        Ok(())
    }
}

/// The content of a datagram in UDP, IPv4 and Ethernet.
fn frame(form: &PacketForm, payload: &[u8], frame: &mut Vec<u8>) {
    let PacketForm { from, to, .. } = form;
    let udp_len = (UDP_LEN + payload.len()) as u16;
    let ip_len = IP_LEN as u16 + udp_len;
    let [_, b, c, d] = to.ip().octets();
    let station = match to.ip().is_multicast() {
        true => [0x01, 0x00, 0x5e, b & 0x7f, c, d],
        false => [0x02, 0, 0, 0, 0, 2],
    };
    frame.clear();
    frame.extend(station);
    frame.extend([0x02, 0, 0, 0, 0, 1]);
    frame.extend(IPV4.to_be_bytes());
    // Version and length of the header, no service, length, no fragment, one hop.
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 1, UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    let words = ip.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    // The carries are added again; the second time there is at most one.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum + (sum >> 16)) as u16);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    for number in [from.port(), to.port(), udp_len] {
        frame.extend(number.to_be_bytes());
    }
    // No check sum, which UDP over IPv4 allows.
    frame.extend([0, 0]);
    frame.extend(payload);
}
