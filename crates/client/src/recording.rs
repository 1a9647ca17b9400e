//! Recordings of a feed as files: Nasdaq's BinaryFILE, packets with nanoseconds (pcap), and tables (CSV, Parquet).
//!
//! Start at [`RecordingReader`], which reads any of them as a stream, and [`RecordingWriter`]; [`FeedReplay`] sends a
//! recording again with its original timing.
//!
//! Invariant: memory has a bound, however long the file is; unreadable bytes are an error with their place, and never
//! skipped silently.

mod binary_file;
mod csv;
#[cfg(feature = "parquet")]
mod parquet;
mod pcap;
mod replay;
mod table;

use std::{
    io::{self, BufRead, Read, Write},
    net::SocketAddrV4,
    path::Path,
};

use thiserror::Error;
use wire::{
    itch,
    moldudp64::{self, ReceiveError, Receiver, ReceiverLimits, Session},
};

use self::{binary_file::BinaryFileReader, csv::CsvReader, pcap::PcapReader};

pub use csv::CsvWriter;
#[cfg(feature = "parquet")]
pub use parquet::ParquetWriter;
pub use pcap::PcapWriter;
pub use replay::{FeedReplay, ReplayError, ReplayOptions, ReplayReport, ReplayTurn, Speed};

/// The forms of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Nasdaq's BinaryFILE: each message follows its length, two bytes, big-endian.
    BinaryFile,
    /// MoldUDP64 packets with the time of each in nanoseconds.
    Pcap,
    /// A row for each message, a column for each field.
    Csv,
    /// The columns of the table with types, compressed; only for writing.
    Parquet,
}

impl Format {
    /// The form in which a file with this name is written.
    ///
    /// # Errors
    /// This program is built without that form.
    pub fn of(path: &Path) -> io::Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("pcap") => Ok(Self::Pcap),
            Some("csv") => Ok(Self::Csv),
            Some("parquet") if cfg!(feature = "parquet") => Ok(Self::Parquet),
            Some("parquet") => Err(without_parquet()),
            _ => Ok(Self::BinaryFile),
        }
    }

    /// True if the form has a row for each message.
    #[must_use]
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}

fn without_parquet() -> io::Error {
    let what = "this program is built without Parquet; build it with `cargo build --release --features parquet`, or \
                write a .csv file, which DuckDB converts to Parquet";
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// A message of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// The session of the message, if the file has it.
    pub session: Option<Session>,
    /// The number of the message in the feed; in a file without numbers its position, from 1.
    pub number: u64,
    /// The time at which it was received, in nanoseconds since 1970, if the file has it.
    pub received_ns: Option<u64>,
    /// An ITCH message, of the length of its type.
    pub message: &'a [u8],
}

/// The error of a recording that cannot be read.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The system could not read the file.
    #[error("cannot read the recording")]
    Read(#[source] io::Error),
    /// The last record is not whole.
    #[error("the recording is cut short: its last record begins at byte {offset}")]
    CutShort {
        /// The offset of that record, in bytes.
        offset: u64,
    },
    /// A record is no message of ITCH 5.0.
    #[error("message {number}, which ends at byte {offset}, is not an ITCH 5.0 message")]
    Message {
        /// The number of the message.
        number: u64,
        /// The offset of its end, in bytes.
        offset: u64,
        /// The fault.
        source: itch::Malformed,
    },
    /// The file is pcapng.
    #[error("this is a pcapng file; `editcap -F nsecpcap IN OUT.pcap` makes a pcap file of it")]
    Pcapng,
    /// Packets are of an unknown link type.
    #[error(
        "the pcap file has link type {0}; Ethernet (1), raw IP (101), loopback (0) and Linux cooked (113, 276) can \
         be read"
    )]
    LinkType(u32),
    /// A record of a pcap file is longer than any packet.
    #[error("byte {offset}: a packet of {len} bytes; the pcap file is damaged")]
    PacketLength {
        /// The offset of the record, in bytes.
        offset: u64,
        /// The length stated in the record, in bytes.
        len: u32,
    },
    /// Packets do not belong together.
    #[error(
        "the packet before byte {offset}: {source}; keep one session, for example with `tshark -r IN -Y \
         'udp.dstport == 26477' -F nsecpcap -w OUT.pcap`"
    )]
    Packet {
        /// The offset of the end of the packet, in bytes.
        offset: u64,
        /// The fault.
        source: ReceiveError,
    },
    /// A row of a CSV file is not a message.
    #[error("line {line}: {what}")]
    Row {
        /// The line, from 1.
        line: u64,
        /// The fault.
        what: String,
    },
}

/// The counters of a [`RecordingReader`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Messages handed on.
    pub messages: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Packets of a pcap file that do not belong to the feed: other protocols, requests, fragments, cut ones.
    pub other_packets: u64,
    /// Duplicate messages: from another line, or from answers to requests.
    pub duplicates: u64,
    /// Messages that the file lacks, although later ones are there.
    pub missing: u64,
}

/// Maximum number of messages after a gap before the missing ones are given up: far more than a network reorders.
const EARLY_MAX: usize = 1 << 13;
/// A packet has less than 64 Ki messages, so no early message is dropped before the missing ones are given up.
const LIMITS: ReceiverLimits = ReceiverLimits {
    request_delay_ns: 0,
    request_timeout_ns: 0,
    pending_messages_max: EARLY_MAX + (1 << 16),
    pending_bytes_max: usize::MAX,
};

/// Reads a recording of any form as a stream; the form follows from its first bytes.
pub struct RecordingReader<R> {
    input: Input<R>,
    form: Form,
    report: ReadReport,
}

enum Form {
    BinaryFile(BinaryFileReader),
    /// The packets, and the receiver that orders their messages, from the first packet on.
    Pcap(PcapReader, Option<Box<Receiver>>),
    Csv(CsvReader),
}

impl<R: Read> RecordingReader<R> {
    /// Reads the beginning of the file.
    ///
    /// # Errors
    /// The file cannot be read, or is of another form.
    pub fn open(source: R) -> Result<Self, RecordingError> {
        let mut input = Input::new(source);
        let form = match input.peek()? {
            [0x0a, 0x0d, 0x0d, 0x0a] => return Err(RecordingError::Pcapng),
            magic if pcap::is_magic(magic) => Form::Pcap(PcapReader::open(&mut input)?, None),
            // A message is not that long.
            [b'a'..=b'z', b'a'..=b'z', ..] => Form::Csv(CsvReader::open(&mut input)?),
            _ => Form::BinaryFile(BinaryFileReader::default()),
        };
        Ok(Self { input, form, report: ReadReport::default() })
    }

    /// The form of the file.
    #[must_use]
    pub const fn format(&self) -> Format {
        match self.form {
            Form::BinaryFile(_) => Format::BinaryFile,
            Form::Pcap(..) => Format::Pcap,
            Form::Csv(_) => Format::Csv,
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn report(&self) -> ReadReport {
        ReadReport { bytes: self.input.offset, ..self.report }
    }

    /// Reads the next record and hands its messages on: in order, each once. False at the end of the file.
    ///
    /// Messages that a pcap file lacks are counted as missing, and the next ones are handed on.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn next(
        &mut self,
        on_message: &mut impl FnMut(Recorded<'_>),
    ) -> Result<bool, RecordingError> {
        let Self { input, form, report } = self;
        let Form::Pcap(packets, receiver) = form else {
            let Some(message) = next_message(form, input, report)? else { return Ok(false) };
            on_message(message);
            return Ok(true);
        };
        let Some(Stamped { time_ns, payload }) = packets.next_payload(input, report)? else {
            // At the end of the file, messages after a gap wait no longer.
            let Some(receiver) = receiver else { return Ok(false) };
            let packet = (receiver.session(), None, input.offset);
            report.missing += hand_on(packet, report, on_message, |deliver| {
                Ok(receiver.skip_gap(&mut |number, message| deliver(number, message)))
            })?;
            return Ok(receiver.has_gap());
        };
        let Ok(packet) = moldudp64::parse(payload) else {
            report.other_packets += 1;
            return Ok(true);
        };
        let receiver =
            receiver.get_or_insert_with(|| Box::new(Receiver::new(packet.sequence_number, LIMITS)));
        let offset = input.offset;
        let packet = (Some(packet.session), Some(time_ns), offset);
        hand_on(packet, report, on_message, |deliver| {
            receiver
                .receive(payload, time_ns, &mut |number, message| deliver(number, message))
                .map(|()| 0)
                .map_err(|source| RecordingError::Packet { offset, source })
        })?;
        while receiver.statistics().pending >= EARLY_MAX {
            report.missing += hand_on(packet, report, on_message, |deliver| {
                Ok(receiver.skip_gap(&mut |number, message| deliver(number, message)))
            })?;
        }
        report.duplicates = receiver.statistics().duplicates;
        Ok(true)
    }

    /// The next packet of a pcap file, or the next message of another: its time, and the bytes.
    fn next_timed(&mut self) -> Result<Option<Stamped<'_>>, RecordingError> {
        let Self { input, form, report } = self;
        if let Form::Pcap(packets, _) = form {
            return packets.next_payload(input, report);
        }
        let Some(Recorded { message, .. }) = next_message(form, input, report)? else {
            return Ok(None);
        };
        let time_ns = itch::decode(message).expect("it was checked").timestamp();
        Ok(Some(Stamped { time_ns, payload: message }))
    }
}

/// Bytes of a recording with their time, in nanoseconds.
struct Stamped<'a> {
    time_ns: u64,
    payload: &'a [u8],
}

/// Makes `act` deliver messages, checks them and hands them on with the session and the time of their packet, which
/// ends at `offset`.
fn hand_on(
    (session, received_ns, offset): (Option<Session>, Option<u64>, u64),
    report: &mut ReadReport,
    on_message: &mut impl FnMut(Recorded<'_>),
    act: impl FnOnce(&mut dyn FnMut(u64, &[u8])) -> Result<u64, RecordingError>,
) -> Result<u64, RecordingError> {
    let mut wrong = None;
    let result = act(&mut |number, message| match itch::decode(message) {
        Err(source) => wrong = wrong.or(Some((number, source))),
        Ok(_) => {
            report.messages += 1;
            on_message(Recorded { session, number, received_ns, message });
        }
    });
    match wrong {
        Some((number, source)) => Err(RecordingError::Message { number, offset, source }),
        None => result,
    }
}

/// The next message of a file without packets.
fn next_message<'a, R: Read>(
    form: &'a mut Form,
    input: &mut Input<R>,
    report: &mut ReadReport,
) -> Result<Option<Recorded<'a>>, RecordingError> {
    let (number, received_ns, message) = match form {
        Form::BinaryFile(file) => match file.next(input)? {
            Some(message) => (report.messages + 1, None, message),
            None => return Ok(None),
        },
        Form::Csv(table) => match table.next(input)? {
            Some((received_ns, message)) => (report.messages + 1, received_ns, message),
            None => return Ok(None),
        },
        Form::Pcap(..) => unreachable!("packets are read elsewhere"),
    };
    let offset = input.offset;
    itch::decode(message).map_err(|source| RecordingError::Message { number, offset, source })?;
    report.messages += 1;
    Ok(Some(Recorded { session: None, number, received_ns, message }))
}

/// The bytes of a file, counted.
struct Input<R> {
    source: io::BufReader<R>,
    offset: u64,
}

impl<R: Read> Input<R> {
    fn new(source: R) -> Self {
        Self { source: io::BufReader::with_capacity(1 << 20, source), offset: 0 }
    }

    /// The first bytes, up to 4; they stay in the input.
    fn peek(&mut self) -> Result<&[u8], RecordingError> {
        let bytes = self.source.fill_buf().map_err(RecordingError::Read)?;
        Ok(&bytes[..bytes.len().min(4)])
    }

    /// Fills the buffer; false at the end of the file, before its first byte.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, RecordingError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.source.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(RecordingError::CutShort { offset: self.offset }),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RecordingError::Read(error)),
            }
        }
        self.offset += filled as u64;
        Ok(true)
    }

    /// Reads a line without its end; false at the end of the file.
    fn read_line(
        &mut self,
        line: &mut Vec<u8>,
        len_max: usize,
        number: u64,
    ) -> Result<bool, RecordingError> {
        line.clear();
        let limit = len_max as u64 + 1;
        let read = (&mut self.source).take(limit).read_until(b'\n', line);
        let count = read.map_err(RecordingError::Read)?;
        self.offset += count as u64;
        if count > len_max {
            let what = format!("longer than {len_max} bytes");
            return Err(RecordingError::Row { line: number, what });
        }
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        Ok(count > 0)
    }

    /// Fills the buffer with the rest of a record that begins at `begin`.
    fn fill_rest(&mut self, buffer: &mut [u8], begin: u64) -> Result<(), RecordingError> {
        let cut = RecordingError::CutShort { offset: begin };
        match self.fill(buffer) {
            Ok(true) => Ok(()),
            Ok(false) if buffer.is_empty() => Ok(()),
            Ok(false) | Err(RecordingError::CutShort { .. }) => Err(cut),
            Err(error) => Err(error),
        }
    }
}

/// Writes a recording of any form.
pub enum RecordingWriter<W: Write + Send> {
    /// See [`Format::BinaryFile`].
    BinaryFile(W),
    /// See [`Format::Pcap`].
    Pcap(PcapWriter<W>),
    /// See [`Format::Csv`].
    Csv(CsvWriter<W>),
    /// See [`Format::Parquet`].
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> RecordingWriter<W> {
    /// A recording in this form. `packets` has the addresses and the session of packets, for a form with packets; `types`
    /// the types of messages of a table, all if it is empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: W, format: Format, packets: PacketForm, types: &[u8]) -> io::Result<Self> {
        Ok(match format {
            Format::BinaryFile => Self::BinaryFile(file),
            Format::Pcap => Self::Pcap(PcapWriter::new(file, packets)?),
            Format::Csv => Self::Csv(CsvWriter::new(file, types)?),
            #[cfg(feature = "parquet")]
            Format::Parquet => Self::Parquet(Box::new(ParquetWriter::new(file, types)?)),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(without_parquet()),
        })
    }

    /// Writes a message of the feed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, recorded: Recorded<'_>) -> io::Result<()> {
        match self {
            Self::BinaryFile(file) => binary_file::write(file, recorded.message),
            Self::Pcap(packets) => packets.write(recorded),
            Self::Csv(table) => table.write(recorded),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.write(recorded),
        }
    }

    /// Writes a message of a snapshot. It has no number in the feed, so it is left out of a file of packets.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_snapshot(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::BinaryFile(file) => binary_file::write(file, message),
            Self::Pcap(_) => Ok(()),
            _ => self.write(Recorded { session: None, number: 0, received_ns: None, message }),
        }
    }

    /// Writes the rest of the data in memory, and the end of the file if the form has one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::BinaryFile(file) => file.flush(),
            Self::Pcap(packets) => packets.flush(),
            Self::Csv(table) => table.flush(),
            #[cfg(feature = "parquet")]
            Self::Parquet(table) => table.finish(),
        }
    }
}

/// The addresses, the session and the length of the packets of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketForm {
    /// The source address.
    pub from: SocketAddrV4,
    /// The destination address.
    pub to: SocketAddrV4,
    /// The session of messages that name none.
    pub session: Session,
    /// Maximum bytes of a packet's content.
    pub packet_len_max: usize,
}

#[cfg(test)]
mod tests;
