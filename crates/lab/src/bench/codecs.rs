//! The cost of a message on the wire: framing, reading, writing, by protocol.
//!
//! The messages are those of a core that trades: requests of participants, its replies, and the same orders by FIX.
//! Each row runs in turn with a plain loop: a sum over the bytes that it reads, or a copy of those that it writes. ITCH is
//! in [`super::feed`].
//!
//! Invariant: everything that a row reads or writes was checked once before the clock starts.

use std::hint::black_box;

use client::participant::FixWriter;
use engine::Engine;
use market::{
    Command, Event, Input, Output, Price, Quantity, Sequence, SessionId, Symbol, Timestamp,
};
use proof::{
    generator::{CommandFlow, Profile},
    rng::Rng,
};
use wire::{
    fix::{CompId, Directory, Fields, Intake, LogonNote, Reports, Version, dictionary},
    moldudp64::{self, PACKET_LEN_DEFAULT, PacketKind, Packetizer},
    ouch,
    soupbintcp::{Client, LoginRequest, Server, ServerHappening, Timers},
};

use super::{
    market_set_up,
    paired::{PairedRow, scan},
};

#[derive(Clone, Copy, Debug)]
pub struct CodecOptions {
    pub seed: u64,
    /// Requests of each protocol.
    pub requests: usize,
    pub runs: usize,
}

/// The session that speaks FIX.
const SESSION: SessionId = SessionId(1);
/// Bytes that a socket gives at once.
const READ_BYTES: usize = 64 << 10;
const NOW: Timestamp = Timestamp(1_700_000_000_000_000_000);
/// Requests by FIX without an answer, after which the reader of the next ones begins with none.
const OUTSTANDING: usize = 1_024;

/// A row: its name, the plain loop beside it, the messages of a turn, and one turn of each.
type Row = (&'static str, &'static str, fn(&Material) -> &Messages, fn(&Material, &mut PairedRow));
const ROWS: [Row; 8] = [
    ("ouch-read", SUM, |it| &it.requests, ouch_read),
    ("ouch-write", COPY, |it| &it.replies, ouch_write),
    ("soupbintcp-read", SUM, |it| &it.requests, soupbintcp_read),
    ("soupbintcp-write", COPY, |it| &it.replies, soupbintcp_write),
    ("moldudp64-read", SUM, |it| &it.replies, moldudp64_read),
    ("moldudp64-write", COPY, |it| &it.replies, moldudp64_write),
    ("fix-read", SUM, |it| &it.fix_requests, fix_read),
    ("fix-write", COPY, |it| &it.fix_reports, fix_write),
];
const SUM: &str = "sum of the same bytes";
const COPY: &str = "copy of the same messages";

/// Measures all rows, a turn of each after the other.
#[must_use]
pub fn measure(options: &CodecOptions) -> Vec<PairedRow> {
    let material = Material::new(options);
    let mut rows = ROWS.map(|(name, beside, messages, _)| {
        PairedRow::new(name, (beside, "message"), messages(&material).len() as u64, None)
    });
    for _ in 0..options.runs {
        for (row, (.., turn)) in rows.iter_mut().zip(ROWS) {
            turn(&material, row);
        }
    }
    rows.into()
}

/// Messages one after the other, with where each ends.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Messages {
    fn push(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end])
    }
}

/// The messages read and written.
struct Material {
    /// OUCH requests.
    requests: Messages,
    /// The same as a client's stream by SoupBinTCP, without the login.
    request_stream: Vec<u8>,
    /// The outputs of the core that cause replies.
    outputs: Vec<Output>,
    /// The OUCH replies to them.
    replies: Messages,
    /// The same in MoldUDP64 packets.
    packets: Messages,
    /// Orders by FIX.
    fix_requests: Messages,
    /// The outputs of another core that took them, and its instruments.
    fix_outputs: Vec<Output>,
    directory: Directory,
    /// The execution reports about these.
    fix_reports: Messages,
    /// A session that has sent nothing yet.
    reports: Reports,
}

impl Material {
    fn new(options: &CodecOptions) -> Self {
        let (requests, outputs, replies) = trade_by_ouch(options);
        let mut request_stream = Vec::with_capacity(requests.bytes.len() + 3 * requests.len());
        for request in requests.iter() {
            request_stream.extend((1 + request.len() as u16).to_be_bytes());
            request_stream.push(b'U');
            request_stream.extend_from_slice(request);
        }
        let mut packets = Messages::default();
        pack(&replies, |packet| packets.push(packet));
        let reports = Reports::new(&logon());
        let fix = trade_by_fix(options, reports.clone());
        let (fix_requests, fix_outputs, directory, fix_reports) = fix;
        Self {
            requests,
            request_stream,
            outputs,
            replies,
            packets,
            fix_requests,
            fix_outputs,
            directory,
            fix_reports,
            reports,
        }
    }
}

/// A core and the number of its last input.
#[derive(Default)]
struct Core {
    engine: Engine,
    sequence: Sequence,
}

impl Core {
    fn apply(&mut self, command: Command, mut on_output: impl FnMut(&Output)) {
        self.sequence = self.sequence.next();
        let (cause, timestamp) = (self.sequence, Timestamp(NOW.0 + self.sequence.0));
        let input = Input { sequence: cause, timestamp, command };
        self.engine.apply(&input, &mut |event: Event| {
            on_output(&Output { cause, timestamp, event });
        });
    }
}

/// Requests of a market, the outputs that cause replies, and the replies.
fn trade_by_ouch(options: &CodecOptions) -> (Messages, Vec<Output>, Messages) {
    let profile =
        Profile { odd_percent: 0, spread: 20, beyond_ouch_percent: 0, ..Profile::default() };
    let mut flow = CommandFlow::new(options.seed, profile);
    let (mut core, mut encoder) = (Core::default(), ouch::Encoder::new());
    let (mut requests, mut replies) = (Messages::default(), Messages::default());
    let mut outputs = Vec::new();
    while requests.len() < options.requests {
        let command = flow.next_command();
        if let Some(request) = ouch::request(&command) {
            let read = ouch::command(&request, SESSION, NOW);
            assert!(read.is_ok(), "{read:?} from {command:?}");
            requests.push(&request);
        }
        core.apply(command, |output| {
            let before = replies.len();
            encoder.encode(output, &mut |_, reply| replies.push(reply));
            // Instruments cause no reply, but replies name them.
            if replies.len() > before || matches!(output.event, Event::InstrumentAdded(_)) {
                outputs.push(*output);
            }
        });
    }
    (requests, outputs, replies)
}

/// Orders of one session, the outputs of a core that takes them, its instruments, and the reports.
fn trade_by_fix(
    options: &CodecOptions,
    mut reports: Reports,
) -> (Messages, Vec<Output>, Directory, Messages) {
    let symbol = Symbol::new("AAPL").expect("four characters");
    let (mut core, mut directory) = (Core::default(), Directory::default());
    for command in market_set_up(&[symbol], (Price(100), Quantity(1)), 1) {
        core.apply(command, |output| directory.take(&output.event));
    }
    let LogonNote { version, client, venue, .. } = logon();
    let mut writer = FixWriter::new(version, client, venue);
    let (mut requests, mut sent) = (Messages::default(), Messages::default());
    let (mut outputs, mut commands, mut intake) = (Vec::new(), Vec::new(), Intake::default());
    let mut rng = Rng::new(options.seed);
    for number in 1..=options.requests {
        let (side, cents) = (b'1' + rng.below(2) as u8, 15_000 + rng.below(11));
        writer.put("D", NOW.0, |builder| {
            builder.text(11, &format!("ORDER{number:08}")).char(21, b'1').text(55, "AAPL");
            builder.char(54, side).time(60, NOW).number(38, 1 + rng.below(100)).char(40, b'2');
            builder.decimal(44, cents.into(), 2).char(59, b'0');
        });
        let bytes = writer.outgoing().to_vec();
        writer.sent(bytes.len());
        read_fix(&bytes, &mut Fields::default(), &mut intake, &reports, &mut commands);
        assert!(matches!(commands[..], [Command::Note(_), Command::Enter(_)]), "{commands:?}");
        for command in commands.drain(..) {
            core.apply(command, |output| {
                let before = sent.len();
                reports.take(output, &directory, |_| true, &mut |report| sent.push(report));
                // The next report may need an output that has no report itself.
                if sent.len() > before || matches!(output.event, Event::Noted(_)) {
                    outputs.push(*output);
                }
            });
        }
        requests.push(&bytes);
    }
    (requests, outputs, directory, sent)
}

fn logon() -> LogonNote {
    let name = |text| CompId::new(text).expect("at most six characters");
    let (venue, client) = (name("VENUE"), name("CLIENT"));
    LogonNote { version: Version::Fix44, reset: true, counted: 1, heartbeat_s: 30, venue, client }
}

/// A session's whole treatment of a message, except its numbers: fields, dictionary, commands.
fn read_fix(
    bytes: &[u8],
    fields: &mut Fields,
    intake: &mut Intake,
    reports: &Reports,
    commands: &mut Vec<Command>,
) {
    let message = fields.read(bytes);
    let row = dictionary::message(message.msg_type(), Version::Fix44);
    let checked = dictionary::check(&message, row.expect("it is known"), Version::Fix44);
    checked.expect("it is valid");
    intake.commands(&message, SESSION, NOW, reports, commands);
}

fn pack(messages: &Messages, mut see: impl FnMut(&[u8])) {
    let mut packets = Packetizer::new(*b"0000000001", 1, PACKET_LEN_DEFAULT);
    for message in messages.iter() {
        if !packets.push(message) {
            see(packets.packet());
            packets.advance();
            assert!(packets.push(message), "an empty packet has room");
        }
    }
    see(packets.packet());
}

/// The plain loop beside a row that writes.
fn copy(messages: &Messages, header_bytes: usize, limit: usize) {
    let mut out: Vec<u8> = Vec::with_capacity(limit);
    for message in messages.iter() {
        if out.len() + header_bytes + message.len() > limit {
            black_box(&out);
            out.clear();
        }
        out.extend_from_slice(&[0; 3][..header_bytes]);
        out.extend_from_slice(message);
    }
    black_box(out);
}

fn ouch_read(material: &Material, row: &mut PairedRow) {
    row.turn(
        || _ = black_box(scan(&material.requests.bytes)),
        || {
            for request in material.requests.iter() {
                _ = black_box(ouch::command(request, SESSION, NOW));
            }
        },
    );
}

fn ouch_write(material: &Material, row: &mut PairedRow) {
    row.turn(
        || copy(&material.replies, 0, READ_BYTES),
        || {
            let mut encoder = ouch::Encoder::new();
            for output in &material.outputs {
                encoder.encode(output, &mut |_, reply| _ = black_box(reply));
            }
        },
    );
}

/// A connection that has logged in.
fn server() -> Server {
    let login = LoginRequest::new("USER01", "PASSWORD").expect("short texts");
    let client = Client::new(Timers::default(), login, NOW.0);
    let mut server = Server::new(Timers::default(), NOW.0);
    server.receive(client.outgoing(), NOW.0).expect("it is short");
    let login = server.next().expect("it is a login");
    assert!(matches!(login, Some(ServerHappening::Login(_))));
    server.accept(b"0000000001", 1, NOW.0);
    let accepted = server.outgoing().len();
    server.sent(accepted);
    server
}

fn soupbintcp_read(material: &Material, row: &mut PairedRow) {
    let mut server = server();
    let (stream, mut messages) = (&material.request_stream, 0);
    row.turn(
        || _ = black_box(scan(stream)),
        || {
            for bytes in stream.chunks(READ_BYTES) {
                server.receive(bytes, NOW.0).expect("all before was taken");
                while let Some(happening) = server.next().expect("the stream is sound") {
                    messages +=
                        usize::from(matches!(black_box(happening), ServerHappening::Message(_)));
                }
            }
        },
    );
    assert_eq!(messages, material.requests.len());
}

fn soupbintcp_write(material: &Material, row: &mut PairedRow) {
    let mut server = server();
    row.turn(
        || copy(&material.replies, 3, READ_BYTES),
        || {
            for reply in material.replies.iter() {
                server.send_sequenced(reply, NOW.0);
                let waiting = server.outgoing().len();
                if waiting >= READ_BYTES {
                    black_box(server.outgoing());
                    server.sent(waiting);
                }
            }
        },
    );
}

fn moldudp64_read(material: &Material, row: &mut PairedRow) {
    let mut messages = 0;
    row.turn(
        || _ = black_box(scan(&material.packets.bytes)),
        || {
            for packet in material.packets.iter() {
                let packet = moldudp64::parse(packet).expect("the packet is sound");
                let PacketKind::Data(blocks) = packet.kind else { unreachable!("it has messages") };
                messages += blocks.into_iter().map(black_box).count();
            }
        },
    );
    assert_eq!(messages, material.replies.len());
}

fn moldudp64_write(material: &Material, row: &mut PairedRow) {
    row.turn(
        || copy(&material.replies, 2, PACKET_LEN_DEFAULT),
        || pack(&material.replies, |packet| _ = black_box(packet)),
    );
}

fn fix_read(material: &Material, row: &mut PairedRow) {
    let (mut intake, mut commands) = (Intake::default(), Vec::new());
    let mut fields = Fields::default();
    row.turn(
        || _ = black_box(scan(&material.fix_requests.bytes)),
        || {
            for (index, bytes) in material.fix_requests.iter().enumerate() {
                if index % OUTSTANDING == 0 {
                    intake = Intake::default();
                }
                read_fix(bytes, &mut fields, &mut intake, &material.reports, &mut commands);
                black_box(&commands);
                commands.clear();
            }
        },
    );
}

fn fix_write(material: &Material, row: &mut PairedRow) {
    let mut reports = material.reports.clone();
    row.turn(
        || copy(&material.fix_reports, 0, READ_BYTES),
        || {
            for output in &material.fix_outputs {
                reports.take(output, &material.directory, |_| true, &mut |report| {
                    black_box(report);
                });
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row is measured, by as many messages as there are, beside a loop that takes time too.
    #[test]
    fn every_row_is_measured() {
        let rows = measure(&CodecOptions { seed: 1, requests: 2_000, runs: 2 });
        assert_eq!(rows.len(), ROWS.len());
        for row in rows {
            assert!(row.count >= 2_000, "{row:?}");
            assert_eq!((row.ns.all().len(), row.beside_ns.all().len()), (2, 2), "{row:?}");
            assert!(row.ratio() > 0.0, "{row:?}");
        }
    }

    /// The outputs cause the same reports when they are measured as when they were made.
    #[test]
    fn the_measured_reports_are_the_first_ones() {
        let material = Material::new(&CodecOptions { seed: 1, requests: 500, runs: 1 });
        let (mut reports, mut again) = (material.reports.clone(), Messages::default());
        for output in &material.fix_outputs {
            reports.take(output, &material.directory, |_| true, &mut |report| again.push(report));
        }
        assert_eq!(again.bytes, material.fix_reports.bytes);
        assert_eq!(
            material.packets.iter().flat_map(|it| &it[20..]).count(),
            material.replies.bytes.len() + 2 * material.replies.len()
        );
    }
}
