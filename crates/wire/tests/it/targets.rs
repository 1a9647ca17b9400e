//! The properties that hold for any bytes at all. The fuzz targets and the seeded tests run the same code.

use market::{SessionId, Text, Timestamp};
use wire::{
    itch, moldudp64,
    ouch::{self, Inbound, Outbound},
    ouch42::{Requests, Response42},
    soupbintcp::{Client, ClientHappening, LoginRequest, Server, ServerHappening, Timers},
};
use zerocopy::IntoBytes;

/// Any bytes are a command or give the reason why not; a command that a client can request is read back from the
/// client's message.
pub fn decode_ouch_inbound(bytes: &[u8]) {
    if let Ok(message) = ouch::decode_inbound(bytes) {
        let appendage = match message {
            Inbound::EnterOrder(_, appendage)
            | Inbound::ReplaceOrderRequest(_, appendage)
            | Inbound::CancelOrderRequest(_, appendage)
            | Inbound::ModifyOrderRequest(_, appendage)
            | Inbound::MassCancelRequest(_, appendage)
            | Inbound::DisableOrderEntryRequest(_, appendage)
            | Inbound::EnableOrderEntryRequest(_, appendage)
            | Inbound::AccountQueryRequest(_, appendage) => appendage,
        };
        check_appendage(bytes, appendage);
    }
    let session_id = SessionId(7);
    let Ok(command) = ouch::command(bytes, session_id, Timestamp::default()) else { return };
    if let Some(request) = ouch::request_at(&command, Timestamp::default()) {
        assert_eq!(ouch::command(&request, session_id, Timestamp::default()), Ok(command));
    }
}

/// Any bytes are an outbound message with sound values, or give the reason why not.
pub fn decode_ouch_outbound(bytes: &[u8]) {
    let Ok(message) = ouch::decode_outbound(bytes) else { return };
    let (fixed, appendage) = match message {
        Outbound::SystemEvent(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderAccepted(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderReplaced(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderCanceled(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::AiqCanceled(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderExecuted(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::BrokenTrade(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::Rejected(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::CancelPending(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::CancelReject(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderPriorityUpdate(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderModified(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::OrderRestated(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::MassCancelResponse(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::DisableOrderEntryResponse(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::EnableOrderEntryResponse(fixed, appendage) => (fixed.as_bytes(), appendage),
        Outbound::AccountQueryResponse(fixed, appendage) => (fixed.as_bytes(), appendage),
    };
    assert_eq!(fixed, &bytes[..fixed.len()]);
    check_appendage(bytes, appendage);
}

/// Any bytes are a request of OUCH 4.2, or give the reason why not. The first is preceded by a note; sent again, an
/// order has no second command.
pub fn decode_ouch42(bytes: &[u8]) {
    let session_id = SessionId(7);
    let mut requests = Requests::default();
    let mut commands = Vec::new();
    let received = Timestamp::default();
    let first = requests.commands(bytes, session_id, received, None, &mut commands);
    assert_eq!(first.is_ok(), first.is_ok() && commands.len() != 1, "{commands:?}");
    let count = commands.len();
    assert_eq!(requests.commands(bytes, session_id, received, None, &mut commands), first);
    assert_eq!(commands.len(), count, "a token names one order");
    let _ = Response42::read(bytes);
}

/// The values of an appendage are the end of the message, whole and in order.
fn check_appendage(message: &[u8], appendage: ouch::Appendage<'_>) {
    let mut rebuilt = Vec::new();
    for (tag, value) in appendage.iter() {
        rebuilt.push(u8::try_from(1 + value.len()).unwrap());
        rebuilt.push(tag);
        rebuilt.extend_from_slice(value);
    }
    assert!(message.ends_with(&rebuilt));
    assert!(appendage.is_present() || rebuilt.is_empty());
    for tag in ouch::Tag::ALL {
        assert!(appendage.get(*tag).is_none_or(|value| value.len() == tag.len()));
    }
}

/// Any bytes are a feed message that lies in exactly these bytes, or give the reason why not.
pub fn decode_itch(bytes: &[u8]) {
    let Ok(message) = itch::decode(bytes) else { return };
    assert_eq!(message.as_bytes(), bytes);
    assert!(bytes.len() <= itch::MESSAGE_LEN_MAX);
    assert!(message.timestamp() <= wire::field::U48::MAX);
}

/// For any bytes from a client, the server's side stays in order, and the cuts by TCP change nothing.
pub fn soupbintcp_server(bytes: &[u8]) {
    let whole = serve(bytes, usize::MAX);
    let cut_len = 1 + usize::from(bytes.first().copied().unwrap_or(0)) % 7;
    assert_eq!(whole, serve(bytes, cut_len));
}

fn serve(bytes: &[u8], cut_len: usize) -> Vec<String> {
    let mut server = Server::new(Timers::default(), 0);
    let mut output = Vec::new();
    for (now_ns, cut) in (0..).zip(bytes.chunks(cut_len.min(32_768))) {
        if let Err(violation) = server.receive(cut, now_ns) {
            output.push(format!("{violation}"));
        }
        loop {
            match server.next() {
                Ok(Some(ServerHappening::Login(login))) => {
                    output.push(format!("{login:?}"));
                    if login.username.as_str().starts_with('~') {
                        server.reject(wire::soupbintcp::LoginRejectReason::NotAuthorized, now_ns);
                    } else {
                        server.accept(b"SESSION001", 1, now_ns);
                        server.send_sequenced(b"hello", now_ns);
                    }
                }
                Ok(Some(happening)) => output.push(format!("{happening:?}")),
                Ok(None) => break,
                Err(violation) => {
                    output.push(format!("{violation}"));
                    assert!(server.is_closed());
                }
            }
        }
    }
    output.push(format!("{:?} {}", server.outgoing(), server.is_logged_in()));
    output
}

/// For any bytes from a server, the client's side stays in order, and the cuts by TCP change nothing.
pub fn soupbintcp_client(bytes: &[u8]) {
    let whole = attend(bytes, usize::MAX);
    let cut_len = 1 + usize::from(bytes.first().copied().unwrap_or(0)) % 7;
    assert_eq!(whole, attend(bytes, cut_len));
}

fn attend(bytes: &[u8], cut_len: usize) -> Vec<String> {
    let login = LoginRequest {
        username: Text::BLANK,
        password: Text::BLANK,
        session: Text::BLANK,
        sequence_number: None,
        heartbeat_timeout_ms: None,
    };
    let mut client = Client::new(Timers::default(), login, 0);
    let mut output = Vec::new();
    let mut numbers: Option<u64> = None;
    for (now_ns, cut) in (0..).zip(bytes.chunks(cut_len.min(32_768))) {
        if let Err(violation) = client.receive(cut, now_ns) {
            output.push(format!("{violation}"));
        }
        loop {
            match client.next() {
                Ok(Some(happening)) => {
                    if let ClientHappening::Sequenced(number, _) = happening {
                        assert!(numbers.is_none_or(|last| last.saturating_add(1) == number));
                        numbers = Some(number);
                    }
                    output.push(format!("{happening:?}"));
                }
                Ok(None) => break,
                Err(violation) => {
                    output.push(format!("{violation}"));
                    assert!(client.is_closed());
                }
            }
        }
    }
    output
}

/// For any bytes at any time, silence ends both sides, a peer that reads nothing makes no buffer grow, and the bytes
/// held are bounded.
pub fn soupbintcp_in_time(bytes: &[u8]) {
    const HELD_MAX: usize = 192 * 1024;
    let timers = Timers::default();
    let login = LoginRequest::new("user", "password").expect("they fit");
    let (mut server, mut client) = (Server::new(timers, 0), Client::new(timers, login, 0));
    let mut now_ns: u64 = 0;
    let mut rest = bytes;
    while let Some((&[step, kind, len], after)) = rest.split_first_chunk() {
        let (cut, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now_ns += 1 << (step % 36);
        // The peer's bytes, third-party bytes in its name, or none; a part of them is read.
        match kind % 6 {
            0 => _ = server.receive(cut, now_ns),
            1 => _ = client.receive(cut, now_ns),
            2 => {
                let said = client.outgoing();
                let said = said[..usize::from(len).min(said.len())].to_vec();
                client.sent(said.len());
                let _ = server.receive(&said, now_ns);
            }
            3 => {
                let said = server.outgoing();
                let said = said[..usize::from(len).min(said.len())].to_vec();
                server.sent(said.len());
                let _ = client.receive(&said, now_ns);
            }
            4 if server.is_logged_in() && server.outgoing().len() < 65_536 => {
                server.send_unsequenced(cut, now_ns);
            }
            _ => {}
        }
        while let Ok(Some(happening)) = server.next() {
            if let ServerHappening::Login(login) = happening {
                match login.username.as_str() {
                    "user" => server.accept(b"SESSION001", 1, now_ns),
                    _ => server.reject(wire::soupbintcp::LoginRejectReason::NotAuthorized, now_ns),
                }
            }
        }
        while let Ok(Some(_)) = client.next() {}
        let waits = (server.outgoing().len(), client.outgoing().len());
        for _ in 0..3 {
            let _ = (server.tick(now_ns), client.tick(now_ns));
        }
        let grown = (server.outgoing().len() - waits.0, client.outgoing().len() - waits.1);
        assert!(grown.0 <= 3 && grown.1 <= 3, "one heartbeat: {grown:?}");
        assert!(server.held() <= HELD_MAX && client.held() <= HELD_MAX);
    }
    let silence_ns = timers.receive_timeout_ns.max(timers.login_timeout_ns);
    if !server.is_closed() {
        assert!(server.tick(now_ns + silence_ns).is_err(), "a silent client");
    }
}

/// Any bytes are packets and requests that lie in exactly these bytes, or give the reason why not; fed to a receiver
/// one after the other they deliver contiguous numbers within its bounds.
pub fn moldudp64(bytes: &[u8]) {
    if let Ok(request) = moldudp64::Request::parse(bytes) {
        assert_eq!(request.encode(), bytes);
    }
    let limits = moldudp64::ReceiverLimits {
        pending_messages_max: 4,
        pending_bytes_max: 64,
        ..moldudp64::ReceiverLimits::default()
    };
    let mut receiver = moldudp64::Receiver::new(1, limits);
    let mut next = 1;
    let mut rest = bytes;
    let mut now_ns = 0;
    // The first byte of each part is the length of the packet after it.
    while let Some((&len, after)) = rest.split_first() {
        let (packet, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now_ns += 300_000_000;
        let taken = receiver.receive(packet, now_ns, &mut |number, _| {
            assert_eq!(number, next);
            next += 1;
        });
        if let (Ok(()), Ok(parsed)) = (taken, moldudp64::parse(packet)) {
            assert_eq!(receiver.session(), Some(parsed.session));
        }
        assert_eq!(receiver.expected(), next);
        assert!(receiver.statistics().pending <= limits.pending_messages_max);
        if let Some(request) = receiver.next_request(now_ns) {
            assert!(receiver.has_gap() && request.sequence_number == next && request.count >= 1);
        }
    }
    if let Ok(packet) = moldudp64::parse(bytes)
        && let moldudp64::PacketKind::Data(blocks) = packet.kind
    {
        let mut packetizer =
            moldudp64::Packetizer::new(packet.session, packet.sequence_number, 65_507);
        if bytes.len() <= 65_507 {
            assert_eq!(blocks.into_iter().count(), usize::from(blocks.count()));
            for message in blocks {
                assert!(packetizer.push(message));
            }
            assert_eq!(packetizer.packet(), bytes);
        }
    }
}
