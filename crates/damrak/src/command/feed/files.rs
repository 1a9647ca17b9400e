//! `damrak feed replay` and `damrak feed convert`: send a recording again, and write it in another form.
//!
//! Invariant: a recording is read as a stream; messages that it lacks are reported at the end, with exit code 4.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::{Path, PathBuf},
    str::FromStr,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use clap::Args;
use client::recording::{
    FeedReplay, Format, PacketForm, ReadReport, RecordingError, RecordingReader, RecordingWriter,
    ReplayError, ReplayOptions, ReplayTurn, Speed,
};
use gateway::{DatagramNetwork, Udp, UdpOptions, is_multicast};
use serde_json::json;
use venue::{clock::SystemClock, failure::Failure};
use wire::{itch::Message, moldudp64::PACKET_LEN_DEFAULT};

use super::super::{
    output::{counted, print_json, print_line},
    stop_flag,
};

/// The default session of packets that are made from recorded messages.
const SESSION: [u8; 10] = *b"0000000001";
/// Bytes that a packet must have room for: the longest message with all headers.
const PACKET_LEN_MIN: usize = 128;
/// The longest content of a UDP datagram.
const PACKET_LEN_MAX: usize = 65_507;
/// The longest sleep between packets, and so the longest delay until a signal is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Shorter waits spin: a sleep would last too long.
const SPIN: Duration = Duration::from_micros(100);

/// Send a recording again, at its own speed or another.
///
/// A recording of messages (BinaryFILE, CSV) is packed into MoldUDP64 packets of a session of its own, from number 1, at
/// the times of the messages. Messages with the same time share packets, a heartbeat follows each second of silence, and
/// the end of the session follows the last message. The packets of a pcap file are sent as they are, with their losses
/// and duplicates, and then the end of their session. Requests for lost messages are not answered, so --speed max may
/// lose messages if a receiver is slower.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak feed replay day.itch --to 239.10.10.10:26500\n  \
                        damrak feed replay day.pcap --to 127.0.0.1:26500 --speed 10\n  \
                        zcat day.gz | damrak feed replay - --to 239.10.10.10:26500 --speed max\n  \
                        damrak feed watch --group 239.10.10.10:26500 --re-request none --from-start")]
pub struct ReplayArguments {
    /// The recording: BinaryFILE, pcap or CSV; `-` is standard input.
    file: PathBuf,
    /// The group or the address to send to.
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// Interface for sending to a multicast group; with loopback the packets stay on this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    interface: Ipv4Addr,
    /// A multiple of the recorded speed, like 0.5 or 10; or `max`.
    #[arg(long, default_value = "1", value_name = "N")]
    speed: SpeedArgument,
    /// Session of the packets, 10 characters. Only for a recording of messages.
    #[arg(long, default_value = "0000000001", value_name = "NAME")]
    session: String,
    /// Maximum bytes of a packet. Only for a recording of messages.
    #[arg(long, default_value_t = PACKET_LEN_DEFAULT, value_name = "BYTES")]
    packet_size: usize,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Write a recording in another form: BinaryFILE, pcap, CSV or Parquet.
///
/// Reads files of any size as a stream, also whole ITCH 5.0 days of Nasdaq. A table has a row for each message and a
/// column for each field, prices in decimals, and the symbol of each instrument; a cell is empty if the message does not
/// have the field. A Parquet file has the same columns with types: it needs a program built with `--features parquet`, or
/// convert to CSV and let DuckDB make it. Exit code 4 if a pcap file lacks messages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak feed convert day.itch day.csv\n  \
                        zcat 01302020.NASDAQ_ITCH50.gz | damrak feed convert - orders.csv --types AFECXDU\n  \
                        damrak feed convert day.itch day.parquet\n  \
                        damrak feed convert day.pcap day.itch\n  damrak feed convert day.csv day.pcap\n  \
                        duckdb -c \"COPY (FROM 'day.csv') TO 'day.parquet'\"")]
pub struct ConvertArguments {
    /// The recording: BinaryFILE, pcap or CSV, recognized by its first bytes; `-` is standard input.
    from: PathBuf,
    /// The file to write: `.csv`, `.parquet`, `.pcap`, or anything else for BinaryFILE; `-` is CSV on standard output.
    to: PathBuf,
    /// Write only messages of these types, like AFECXDU.
    #[arg(long, value_name = "TYPES", default_value = "", hide_default_value = true)]
    types: String,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
struct SpeedArgument(Speed);

impl FromStr for SpeedArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(Speed::Unlimited));
        }
        match text.trim_end_matches('x').parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Self(Speed::Times(times))),
            _ => Err("a number above 0, like 0.5 or 10, or `max`".to_owned()),
        }
    }
}

/// The addresses in the headers of recorded packets: those of a feed that goes to `group`.
pub(super) fn packet_form(group: SocketAddr, interface: Ipv4Addr) -> PacketForm {
    let to = match group {
        SocketAddr::V4(group) => group,
        SocketAddr::V6(group) => SocketAddrV4::new(Ipv4Addr::LOCALHOST, group.port()),
    };
    PacketForm {
        from: SocketAddrV4::new(interface, to.port()),
        to,
        session: SESSION,
        packet_len_max: PACKET_LEN_DEFAULT,
    }
}

/// A recording of any form, from a file or standard input.
pub(super) type Recording = RecordingReader<Box<dyn Read>>;

pub(super) fn open(path: &Path) -> Result<Recording, Failure> {
    let source: Box<dyn Read> =
        match path.to_str() {
            Some("-") => Box::new(io::stdin()),
            _ => Box::new(File::open(path).map_err(|error| {
                Failure::usage(format!("cannot read {}: {error}", path.display()))
            })?),
        };
    RecordingReader::open(source).map_err(|error| unreadable(path, error))
}

pub(super) fn unreadable(path: &Path, error: RecordingError) -> Failure {
    let failure = Failure::verification(
        anyhow::Error::new(error).context(format!("{} cannot be read", path.display())),
    );
    failure.hint(
        "a recording is BinaryFILE, pcap or CSV; `zcat FILE | damrak feed …  -` reads one in gzip",
    )
}

/// Runs `damrak feed replay`.
pub(super) fn replay(arguments: &ReplayArguments) -> Result<(), Failure> {
    let session = arguments.session.as_bytes().try_into();
    let session = session.map_err(|_| Failure::usage("--session must have 10 characters"))?;
    let packet_len_max = arguments.packet_size;
    if !(PACKET_LEN_MIN..=PACKET_LEN_MAX).contains(&packet_len_max) {
        let range = format!("--packet-size must be {PACKET_LEN_MIN} to {PACKET_LEN_MAX} bytes");
        return Err(Failure::usage(range));
    }
    let options = ReplayOptions { speed: arguments.speed.0, session, packet_len_max };
    let mut replay = FeedReplay::new(open(&arguments.file)?, options);
    let mut network = sender(arguments)?;
    let (stop, clock) = (stop_flag(&[])?, SystemClock::start());
    while !stop.load(Ordering::Relaxed) {
        let turn = replay
            .turn(clock.now_ns(), &mut |packet| network.send(arguments.to, packet))
            .map_err(|error| match error {
                ReplayError::Recording(error) => unreadable(&arguments.file, error),
                error => Failure::runtime(anyhow::Error::new(error)),
            })?;
        network.flush().map_err(|error| Failure::runtime(format!("cannot send: {error}")))?;
        match turn {
            ReplayTurn::Busy => {}
            ReplayTurn::Over => break,
            ReplayTurn::Waits(ns) if Duration::from_nanos(ns) < SPIN => thread::yield_now(),
            ReplayTurn::Waits(ns) => {
                thread::sleep((Duration::from_nanos(ns) - SPIN / 2).min(SLEEP_MAX));
            }
        }
    }
    let (sent, read) = (replay.report(), replay.reader().report());
    let refused = network.losses().read().refused;
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/feed-replay/1",
            "packets": sent.packets,
            "messages": sent.messages,
            "bytes": sent.bytes,
            "refused": refused,
            "other_packets": read.other_packets,
            "seconds": clock.since_start().as_secs_f64(),
        }))?;
    } else {
        print_line(&format!(
            "sent {} to {} in {:.3} s{}",
            counted(sent.packets, "packet"),
            arguments.to,
            clock.since_start().as_secs_f64(),
            others(read),
        ))?;
    }
    match refused {
        0 => Ok(()),
        _ => Err(Failure::runtime(format!("the system refused {}", counted(refused, "packet")))
            .hint(
                "check that --interface has a route to --to, and that --packet-size fits its MTU",
            )),
    }
}

fn sender(arguments: &ReplayArguments) -> Result<Udp, Failure> {
    let datagram_bytes_max = arguments.packet_size.max(PACKET_LEN_MAX);
    let options = UdpOptions { datagram_bytes_max, ..UdpOptions::default() };
    let socket = match arguments.to {
        to if is_multicast(to) => Udp::multicast_sender(arguments.interface, &options),
        SocketAddr::V4(_) => Udp::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &options),
        SocketAddr::V6(_) => Udp::bind((std::net::Ipv6Addr::UNSPECIFIED, 0).into(), &options),
    };
    socket
        .map_err(|error| Failure::environment(format!("cannot send to {}: {error}", arguments.to)))
}

/// Runs `damrak feed convert`.
pub(super) fn convert(arguments: &ConvertArguments) -> Result<(), Failure> {
    let ConvertArguments { from, to, types, json } = arguments;
    if let Some(unknown) = types.bytes().find(|code| Message::TABLES.iter().all(|it| it.0 != *code))
    {
        let all: String = Message::TABLES.iter().map(|table| char::from(table.0)).collect();
        let unknown = unknown.escape_ascii();
        return Err(Failure::usage(format!("--types has '{unknown}'; the types are {all}")));
    }
    let is_stdout = to.to_str() == Some("-");
    if !is_stdout {
        refuse_same(from, to)?;
    }
    let format = if is_stdout { Ok(Format::Csv) } else { Format::of(to) };
    let format = format.map_err(|error| unwritten(to, error))?;
    let mut reader = open(from)?;
    let file: Box<dyn Write + Send> = match is_stdout {
        true => Box::new(io::stdout()),
        false => Box::new(File::create(to).map_err(|error| unwritten(to, error))?),
    };
    let form = packet_form(([239, 10, 10, 10], 26477).into(), Ipv4Addr::LOCALHOST);
    let file = BufWriter::with_capacity(1 << 20, file);
    let writer = RecordingWriter::new(file, format, form, types.as_bytes());
    let mut writer = writer.map_err(|error| unwritten(to, error))?;
    let (mut failed, mut written) = (None, 0_u64);
    loop {
        let is_more = reader.next(&mut |recorded| {
            let is_wanted = types.is_empty() || types.as_bytes().contains(&recorded.message[0]);
            // A table learns the symbols from messages that it leaves out.
            if failed.is_none() && (is_wanted || format.is_table()) {
                written += u64::from(is_wanted);
                failed = writer.write(recorded).err();
            }
        });
        let is_more = is_more.map_err(|error| unreadable(from, error));
        match failed {
            Some(error) if is_stdout && error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Some(error) => return Err(unwritten(to, error)),
            None => {}
        }
        if !is_more? {
            break;
        }
    }
    match writer.finish() {
        Err(error) if is_stdout && error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        flushed => flushed.map_err(|error| unwritten(to, error))?,
    }
    let report = reader.report();
    if *json && !is_stdout {
        print_json(&json!({
            "schema": "damrak/feed-convert/1",
            "messages": report.messages,
            "written": written,
            "bytes": report.bytes,
            "missing": report.missing,
            "duplicates": report.duplicates,
            "other_packets": report.other_packets,
        }))?;
    } else if !is_stdout {
        let written = counted(written, "message");
        print_line(&format!("wrote {written} to {}{}", to.display(), others(report)))?;
    }
    missing(from, report)
}

/// Refuses to write the file that is read.
pub(super) fn refuse_same(from: &Path, to: &Path) -> Result<(), Failure> {
    let is_same =
        fs::canonicalize(from).is_ok_and(|from| fs::canonicalize(to).is_ok_and(|to| to == from));
    match is_same {
        true => Err(Failure::usage(format!("{} cannot be written while it is read", to.display()))),
        false => Ok(()),
    }
}

/// Fails if the file lacks messages.
pub(super) fn missing(from: &Path, report: ReadReport) -> Result<(), Failure> {
    match report.missing {
        0 => Ok(()),
        missing => Err(Failure::verification(format!(
            "{} lacks {}: they were lost before it was recorded",
            from.display(),
            counted(missing, "message")
        ))),
    }
}

pub(super) fn unwritten(path: &Path, error: io::Error) -> Failure {
    Failure::runtime(format!("cannot write {}: {error}", path.display()))
}

fn others(report: ReadReport) -> String {
    match report.other_packets {
        0 => String::new(),
        others => format!("; the file has {} that are not of a feed", counted(others, "packet")),
    }
}
