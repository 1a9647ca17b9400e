//! The golden bytes: each vector is read to its values and written back to its bytes.

use market::{CancelOrder, Command, OrderKey, Quantity, SessionId, Text, Timestamp};
use serde_json::Value;
use wire::{
    itch,
    layout::Field,
    moldudp64::{self, PacketKind, Packetizer, Request},
    ouch::{self, Inbound, MessageBuffer, Outbound, Tag},
    ouch42::{Request42, Response42},
    soupbintcp::{
        Client, ClientHappening, LoginRejectReason, LoginRequest, Server, ServerHappening, Timers,
    },
};

/// One vector of a golden file.
pub struct Vector {
    pub id: String,
    key: String,
    values: Value,
    tags: Vec<(u8, Value)>,
    pub bytes: Vec<u8>,
}

pub fn vectors(json: &str) -> Vec<Vector> {
    let rows: Value = serde_json::from_str(json).unwrap();
    let rows = rows.as_array().unwrap();
    rows.iter()
        .map(|row| Vector {
            id: row["id"].as_str().unwrap().to_owned(),
            key: row["key"].as_str().unwrap_or("").to_owned(),
            values: row["values"].clone(),
            tags: row["tags"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|tag| (u8::try_from(tag[0].as_u64().unwrap()).unwrap(), tag[1].clone()))
                .collect(),
            bytes: unhex(row["hex"].as_str().unwrap()),
        })
        .collect()
}

pub fn ouch_vectors() -> Vec<Vector> {
    vectors(include_str!("golden/ouch50.json"))
}

pub fn ouch42_vectors() -> Vec<Vector> {
    vectors(include_str!("golden/ouch42.json"))
}

pub fn itch_vectors() -> Vec<Vector> {
    vectors(include_str!("golden/itch50.json"))
}

pub fn soupbintcp_vectors() -> Vec<Vector> {
    vectors(include_str!("golden/soupbintcp.json"))
}

pub fn moldudp64_vectors() -> Vec<Vector> {
    vectors(include_str!("golden/moldudp64.json"))
}

fn bytes_of(vectors: &[Vector], id: &str) -> Vec<u8> {
    let vector = vectors.iter().find(|vector| vector.id == id);
    vector.unwrap_or_else(|| panic!("no vector {id}")).bytes.clone()
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// True if both names are equal: the specifications write `ClOrdID` for our `cl_ord_id`.
pub fn same_name(ours: &str, theirs: &str) -> bool {
    ours.replace('_', "") == theirs.to_ascii_lowercase()
}

/// A value of a vector in the bytes of a field of this length.
fn field_bytes(value: &Value, len: usize) -> Vec<u8> {
    if let Some(text) = value.as_str() {
        return format!("{text:len$}").into_bytes();
    }
    let number = value.as_i64().unwrap_or_else(|| panic!("{value} is no value"));
    number.to_be_bytes()[8 - len..].to_vec()
}

/// Checks each field of a fixed part against the vector, and that the vector names them all.
fn check_fields(vector: &Vector, fixed: &[u8], fields: &[Field]) {
    let values = vector.values.as_object().unwrap();
    assert_eq!(values.len(), fields.len() - 1, "{}: all but the type have a value", vector.id);
    for field in &fields[1..] {
        let (_, value) = values
            .iter()
            .find(|(name, _)| same_name(field.name, name))
            .unwrap_or_else(|| panic!("{}: no value for {}", vector.id, field.name));
        let lies = &fixed[field.offset..field.offset + field.len];
        assert_eq!(lies, field_bytes(value, field.len), "{}: {}", vector.id, field.name);
    }
}

/// Every OUCH vector has its values at the places in our tables, and our writer gives its bytes.
#[test]
fn ouch_vectors_hold() {
    for vector in ouch_vectors() {
        let code = vector.key.as_bytes()[vector.key.len() - 1];
        let (tables, appendage) = if vector.key.starts_with("in:") {
            (Inbound::TABLES, inbound_appendage(&vector.bytes))
        } else {
            (Outbound::TABLES, outbound_appendage(&vector.bytes))
        };
        let (_, _, fields) = tables.iter().find(|(table, ..)| *table == code).unwrap();
        let last = fields.last().unwrap();
        check_fields(&vector, &vector.bytes[..last.offset + last.len], fields);

        let tags: Vec<_> = appendage.iter().collect();
        assert_eq!(tags.len(), vector.tags.len(), "{}", vector.id);
        for ((tag, value), (code, expected)) in tags.iter().zip(&vector.tags) {
            assert_eq!(
                (tag, *value),
                (code, &*field_bytes(expected, value.len())),
                "{}",
                vector.id
            );
        }
        let rebuilt = rebuild_ouch(&vector);
        assert_eq!(*rebuilt, *vector.bytes, "{}", vector.id);
    }
}

/// Every OUCH 4.2 vector has its values at the places in our tables, and is read as its message.
#[test]
fn ouch42_vectors_hold() {
    let vectors = ouch42_vectors();
    let tables = [("in:", Request42::TABLES), ("out:", Response42::TABLES)];
    for (prefix, code, fields) in
        tables.iter().flat_map(|(prefix, rows)| rows.iter().map(move |row| (prefix, row.0, row.2)))
    {
        let key = format!("{prefix}{}", char::from(code));
        let mut of_key = vectors.iter().filter(|vector| vector.key == key).peekable();
        assert!(of_key.peek().is_some(), "no vector for {key}");
        for vector in of_key {
            let last = fields.last().unwrap();
            assert_eq!(vector.bytes.len(), last.offset + last.len, "{}", vector.id);
            check_fields(vector, &vector.bytes, fields);
            let is_read = match *prefix {
                "in:" => Request42::read(&vector.bytes).is_some(),
                _ => Response42::read(&vector.bytes).is_some(),
            };
            assert!(is_read, "{}", vector.id);
            let (longer, shorter) = ([&vector.bytes[..], b" "].concat(), &vector.bytes[1..]);
            assert_eq!(Request42::read(&longer), None, "{}", vector.id);
            assert_eq!(Response42::read(&longer), None, "{}", vector.id);
            assert_eq!(Request42::read(&[&vector.bytes[..1], &shorter[1..]].concat()), None);
        }
    }
}

fn inbound_appendage(bytes: &[u8]) -> ouch::Appendage<'_> {
    match ouch::decode_inbound(bytes).unwrap() {
        Inbound::EnterOrder(_, appendage)
        | Inbound::ReplaceOrderRequest(_, appendage)
        | Inbound::CancelOrderRequest(_, appendage)
        | Inbound::ModifyOrderRequest(_, appendage)
        | Inbound::MassCancelRequest(_, appendage)
        | Inbound::DisableOrderEntryRequest(_, appendage)
        | Inbound::EnableOrderEntryRequest(_, appendage)
        | Inbound::AccountQueryRequest(_, appendage) => appendage,
    }
}

fn outbound_appendage(bytes: &[u8]) -> ouch::Appendage<'_> {
    match ouch::decode_outbound(bytes).unwrap() {
        Outbound::SystemEvent(_, appendage)
        | Outbound::OrderAccepted(_, appendage)
        | Outbound::OrderReplaced(_, appendage)
        | Outbound::OrderCanceled(_, appendage)
        | Outbound::AiqCanceled(_, appendage)
        | Outbound::OrderExecuted(_, appendage)
        | Outbound::BrokenTrade(_, appendage)
        | Outbound::Rejected(_, appendage)
        | Outbound::CancelPending(_, appendage)
        | Outbound::CancelReject(_, appendage)
        | Outbound::OrderPriorityUpdate(_, appendage)
        | Outbound::OrderModified(_, appendage)
        | Outbound::OrderRestated(_, appendage)
        | Outbound::MassCancelResponse(_, appendage)
        | Outbound::DisableOrderEntryResponse(_, appendage)
        | Outbound::EnableOrderEntryResponse(_, appendage)
        | Outbound::AccountQueryResponse(_, appendage) => appendage,
    }
}

/// The vector's message, written by our writer from the struct and the tags.
fn rebuild_ouch(vector: &Vector) -> MessageBuffer {
    let mut rebuilt = match ouch::decode_inbound(&vector.bytes) {
        Ok(message) if vector.key.starts_with("in:") => match message {
            Inbound::EnterOrder(fixed, _) => MessageBuffer::with_appendage(fixed),
            Inbound::ReplaceOrderRequest(fixed, _) => MessageBuffer::with_appendage(fixed),
            Inbound::CancelOrderRequest(fixed, _) => MessageBuffer::new(fixed),
            Inbound::ModifyOrderRequest(fixed, _) => MessageBuffer::new(fixed),
            Inbound::MassCancelRequest(fixed, _) => MessageBuffer::with_appendage(fixed),
            Inbound::DisableOrderEntryRequest(fixed, _) => MessageBuffer::with_appendage(fixed),
            Inbound::EnableOrderEntryRequest(fixed, _) => MessageBuffer::with_appendage(fixed),
            Inbound::AccountQueryRequest(fixed, _) => MessageBuffer::new(fixed),
        },
        _ => match ouch::decode_outbound(&vector.bytes).unwrap() {
            Outbound::SystemEvent(fixed, _) => MessageBuffer::new(fixed),
            Outbound::OrderAccepted(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::OrderReplaced(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::OrderCanceled(fixed, _) => MessageBuffer::new(fixed),
            Outbound::AiqCanceled(fixed, _) => MessageBuffer::new(fixed),
            Outbound::OrderExecuted(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::BrokenTrade(fixed, _) => MessageBuffer::new(fixed),
            Outbound::Rejected(fixed, _) => MessageBuffer::new(fixed),
            Outbound::CancelPending(fixed, _) => MessageBuffer::new(fixed),
            Outbound::CancelReject(fixed, _) => MessageBuffer::new(fixed),
            Outbound::OrderPriorityUpdate(fixed, _) => MessageBuffer::new(fixed),
            Outbound::OrderModified(fixed, _) => MessageBuffer::new(fixed),
            Outbound::OrderRestated(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::MassCancelResponse(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::DisableOrderEntryResponse(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::EnableOrderEntryResponse(fixed, _) => MessageBuffer::with_appendage(fixed),
            Outbound::AccountQueryResponse(fixed, _) => MessageBuffer::new(fixed),
        },
    };
    for (code, value) in &vector.tags {
        let tag = Tag::from_code(*code).unwrap();
        rebuilt.tag(tag, &field_bytes(value, tag.len()));
    }
    rebuilt
}

/// Every ITCH vector has its values at the places in our tables, and its struct gives its bytes.
#[test]
fn itch_vectors_hold() {
    let vectors = itch_vectors();
    assert_eq!(vectors.len(), 23);
    for vector in vectors {
        let message = itch::decode(&vector.bytes).unwrap();
        let (_, _, fields) = itch::Message::TABLES
            .iter()
            .find(|(table, ..)| *table == vector.key.as_bytes()[0])
            .unwrap();
        check_fields(&vector, &vector.bytes, fields);
        assert_eq!(message.as_bytes(), vector.bytes, "{}", vector.id);
        assert_eq!(message.timestamp(), 34_200_000_000_123, "{}", vector.id);
    }
}

fn login(session: &str, sequence_number: u64, heartbeat_timeout_ms: Option<u32>) -> LoginRequest {
    LoginRequest {
        session: Text::new(session).unwrap(),
        sequence_number: Some(sequence_number),
        heartbeat_timeout_ms,
        ..LoginRequest::new("USER01", "PASSWORD01").unwrap()
    }
}

/// Our client sends the client's login vectors, and our server reads them.
#[test]
fn soupbintcp_logins_hold() {
    let vectors = soupbintcp_vectors();
    for (id, login) in [
        ("L/first", login("", 1, None)),
        ("L/410", login("", 1, Some(1000))),
        ("L/resume", login("SESSION001", 42, None)),
    ] {
        let bytes = bytes_of(&vectors, id);
        assert_eq!(Client::new(Timers::default(), login, 0).outgoing(), bytes, "{id}");
        let mut server = Server::new(Timers::default(), 0);
        server.receive(&bytes, 0).unwrap();
        assert_eq!(server.next(), Ok(Some(ServerHappening::Login(login))), "{id}");
        assert_eq!(server.next(), Ok(None));
    }
}

/// Our server sends the server's vectors, and our client reads them.
#[test]
fn soupbintcp_server_packets_hold() {
    let vectors = soupbintcp_vectors();
    let vector = |id| bytes_of(&vectors, id);
    let system_event = &vector("S/ouch50-S")[3..];

    let timers = Timers::default();
    let mut server = Server::new(timers, 0);
    server.receive(&vector("L/first"), 0).unwrap();
    assert!(matches!(server.next(), Ok(Some(ServerHappening::Login(_)))));
    server.accept(b"SESSION001", 1, 0);
    server.send_sequenced(system_event, 0);
    server.send_debug("hello", 0);
    server.end_of_session(0);
    let sent = [vector("A"), vector("S/ouch50-S"), vector("+"), vector("Z")].concat();
    assert_eq!(server.outgoing(), sent);
    server.sent(sent.len());
    server.tick(timers.heartbeat_ns).unwrap();
    assert_eq!(server.outgoing(), vector("H"));

    let mut client = Client::new(timers, login("", 1, None), 0);
    client.receive(&[sent, vector("H")].concat(), 0).unwrap();
    let session = Text::new("SESSION001").unwrap();
    for happening in [
        ClientHappening::Accepted { session, next_sequence: 1 },
        ClientHappening::Sequenced(1, system_event),
        ClientHappening::Debug(b"hello"),
        ClientHappening::EndOfSession,
    ] {
        assert_eq!(client.next(), Ok(Some(happening)));
    }
    assert_eq!(client.next(), Ok(None));

    for (id, reason) in
        [("J/A", LoginRejectReason::NotAuthorized), ("J/S", LoginRejectReason::SessionNotAvailable)]
    {
        let mut server = Server::new(timers, 0);
        server.receive(&vector("L/410"), 0).unwrap();
        assert!(matches!(server.next(), Ok(Some(ServerHappening::Login(_)))));
        server.reject(reason, 0);
        assert_eq!(server.outgoing(), vector(id));
        let mut client = Client::new(timers, login("", 1, None), 0);
        client.receive(&vector(id), 0).unwrap();
        assert_eq!(client.next(), Ok(Some(ClientHappening::Rejected(reason))));
    }
}

/// Our client sends the client's other vectors, and our server reads them.
#[test]
fn soupbintcp_client_packets_hold() {
    let vectors = soupbintcp_vectors();
    let vector = |id| bytes_of(&vectors, id);
    let cancel = &vector("U/ouch50-X")[3..];

    let timers = Timers::default();
    let mut client = Client::new(timers, login("", 1, None), 0);
    client.sent(client.outgoing().len());
    client.receive(&vector("A"), 0).unwrap();
    assert!(matches!(client.next(), Ok(Some(ClientHappening::Accepted { .. }))));
    client.send(cancel, 0);
    client.sent(client.outgoing().len());
    client.tick(timers.heartbeat_ns).unwrap();
    client.logout(timers.heartbeat_ns);
    assert_eq!(client.outgoing(), [vector("R"), vector("O")].concat());

    let mut server = Server::new(timers, 0);
    let sent = [vector("L/first"), vector("U/ouch50-X"), vector("R"), vector("O")].concat();
    server.receive(&sent, 0).unwrap();
    assert!(matches!(server.next(), Ok(Some(ServerHappening::Login(_)))));
    assert_eq!(server.next(), Ok(None), "nothing happens until the login is answered");
    server.accept(b"SESSION001", 1, 0);
    assert_eq!(server.next(), Ok(Some(ServerHappening::Message(cancel))));
    assert_eq!(server.next(), Ok(Some(ServerHappening::Taken)));
    assert_eq!(server.next(), Ok(Some(ServerHappening::Logout)));
    assert_eq!(server.next(), Ok(None));

    let session_id = SessionId(1);
    let key = OrderKey { session_id, channel: 0, user_ref_num: 1 };
    let expected = Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO });
    assert_eq!(ouch::command(cancel, session_id, Timestamp::default()), Ok(expected));
}

/// We build and read the MoldUDP64 vectors.
#[test]
fn moldudp64_vectors_hold() {
    let vectors = moldudp64_vectors();
    let vector = |id| bytes_of(&vectors, id);
    let session = *b"SESSION001";
    let itch = itch_vectors();

    let data = vector("data-2");
    let packet = moldudp64::parse(&data).unwrap();
    assert_eq!((packet.session, packet.sequence_number), (session, 1));
    let PacketKind::Data(blocks) = packet.kind else { panic!("{packet:?}") };
    let messages: Vec<_> = blocks.into_iter().collect();
    let expected = [bytes_of(&itch, "S/start-of-messages"), bytes_of(&itch, "A/buy")];
    assert_eq!(messages, expected);

    let mut packetizer = Packetizer::new(session, 1, 1400);
    for message in messages {
        assert!(packetizer.push(message));
    }
    assert_eq!(packetizer.packet(), data);
    packetizer.advance();
    assert_eq!(packetizer.heartbeat(), *vector("heartbeat"));
    assert_eq!(packetizer.packet(), vector("heartbeat"));
    assert_eq!(packetizer.end_of_session(), *vector("eos"));
    assert_eq!(moldudp64::parse(&vector("heartbeat")).unwrap().kind, PacketKind::Heartbeat);
    assert_eq!(moldudp64::parse(&vector("eos")).unwrap().kind, PacketKind::EndOfSession);

    let request = Request { session, sequence_number: 2, count: 10 };
    assert_eq!(request.encode(), *vector("request"));
    assert_eq!(Request::parse(&vector("request")), Ok(request));
}

/// Packets of other implementations, seen on real networks, are read.
#[test]
fn captured_packets_are_understood() {
    let enter = unhex(
        "4f0000007154000000e143564c54202020200000000000099db83059414e4e483846554238495620202020202\
         0000605024c494d45",
    );
    let Ok(Command::Enter(order)) = ouch::command(&enter, SessionId(3), Timestamp::default())
    else {
        panic!("{:?}", ouch::command(&enter, SessionId(3), Timestamp::default()));
    };
    assert_eq!(order.symbol.as_str(), "CVLT");
    assert_eq!({ order.quantity }, Quantity(225));
    assert_eq!({ order.price }.0, 630_200);
    assert_eq!(order.side, market::Side::SellShort);
    assert_eq!(order.attributes.firm.as_str(), "LIME");

    for accepted in [
        "410000284b4d64af8700753a8d42000000284144424520202020000000000048e7483559000000000f56b4f5\
         414e4e4c3736383237303120202020202020000905024d4c524f021230",
        "430000289b4d68131700753a8d0000002855",
    ] {
        ouch::decode_outbound(&unhex(accepted)).unwrap();
    }
}
