//! Recordings of every form, written, read, damaged and sent again.

use std::net::Ipv4Addr;

use wire::{itch::Message, moldudp64::Packetizer};

use super::*;

const SESSION: Session = *b"0000000007";
const SECOND: u64 = 1_000_000_000;

fn form() -> PacketForm {
    PacketForm {
        from: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 26400),
        to: SocketAddrV4::new(Ipv4Addr::new(239, 10, 10, 10), 26477),
        session: SESSION,
        packet_len_max: 1400,
    }
}

/// A message of each type, with another value in each field; text has quotes, commas and bytes beyond ASCII.
fn of_every_type() -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = &[b"AAPL", b"", b"a,\"b", b"\xffx y", b" z"];
    let mut counter = 0_u64;
    let mut value = |field: &wire::layout::Field| -> Vec<u8> {
        counter += 1;
        if field.kind == "Char" || field.kind.starts_with("Alpha") {
            let mut text = texts[counter as usize % texts.len()].to_vec();
            text.resize(field.len, b' ');
            return text;
        }
        let number = (counter * 0x0123_4567_89ab).to_be_bytes();
        number[8 - field.len..].to_vec()
    };
    let message = |table: &(u8, _, &[wire::layout::Field])| {
        let mut message: Vec<u8> = table.2.iter().flat_map(&mut value).collect();
        message[0] = table.0;
        // The time of day in the order of the messages.
        message[5..11].copy_from_slice(&[0, 0, 0, 1, table.0, 0]);
        message
    };
    Message::TABLES.iter().map(message).collect()
}

fn written(format: Format, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordingWriter::new(&mut bytes, format, form(), b"").unwrap();
    for (number, message) in (1..).zip(messages) {
        let received_ns = Some(1_700_000_000 * SECOND + number / 4);
        writer.write(Recorded { session: None, number, received_ns, message }).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    bytes
}

type Read = (Vec<(u64, Option<u64>, Vec<u8>)>, ReadReport);

fn read(bytes: &[u8]) -> Result<Read, RecordingError> {
    let mut reader = RecordingReader::open(bytes)?;
    let mut messages = Vec::new();
    while reader.next(&mut |recorded| {
        messages.push((recorded.number, recorded.received_ns, recorded.message.to_vec()));
    })? {}
    Ok((messages, reader.report()))
}

fn error_of(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(read) => panic!("{read:?}"),
        Err(error) => {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            format!("{error}{}", source.unwrap_or_default())
        }
    }
}

/// A message of every type comes back from every form: the same bytes, number and, where the form has it, time.
#[test]
fn every_type_comes_back_from_every_form() {
    let messages = of_every_type();
    for format in [Format::BinaryFile, Format::Pcap, Format::Csv] {
        let bytes = written(format, &messages);
        let (read, report) = read(&bytes).unwrap();
        assert_eq!(read.len(), messages.len(), "{format:?}");
        for ((number, received_ns, message), (expected, written)) in
            read.iter().zip((1..).zip(&messages))
        {
            assert_eq!((number, message), (&expected, written), "{format:?}");
            let time = Some(1_700_000_000 * SECOND + expected / 4);
            assert_eq!(*received_ns, time.filter(|_| format != Format::BinaryFile), "{format:?}");
        }
        assert_eq!((report.messages, report.bytes), (24, bytes.len() as u64), "{format:?}");
        assert_eq!((report.missing, report.other_packets), (0, 0), "{format:?}");
    }
}

/// A table of some types has only their columns, and the symbol that the directory gave each instrument.
#[test]
fn a_table_has_the_columns_of_its_types() {
    let mut directory = of_every_type()[1].clone();
    directory[1..3].copy_from_slice(&7_u16.to_be_bytes());
    directory[11..19].copy_from_slice(b"ACME    ");
    let mut cancel = vec![b'X', 0, 7, 0, 0, 0, 0, 0, 0, 1, 0];
    cancel.extend(9_u64.to_be_bytes());
    cancel.extend(100_u32.to_be_bytes());
    let mut bytes = Vec::new();
    let mut table = CsvWriter::new(&mut bytes, b"XD").unwrap();
    for (number, message) in [(0, &directory), (5, &cancel)] {
        table.write(Recorded { session: None, number, received_ns: None, message }).unwrap();
    }
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "number,received_ns,symbol,message_type,stock_locate,tracking_number,timestamp,\
         order_reference_number,canceled_shares\n5,,ACME,X,7,0,256,9,100\n"
    );
}

/// Damage is reported with its place.
#[test]
fn damage_is_named_by_its_place() {
    let messages = of_every_type();
    let whole = written(Format::BinaryFile, &messages);
    assert!(error_of(&whole[..13]).contains("cut short: its last record begins at byte 0"));
    let second = 2 + messages[0].len() as u64;
    let place = format!("begins at byte {second}");
    assert!(error_of(&whole[..second as usize + 1]).contains(&place));
    let mut unknown = whole.clone();
    unknown[second as usize + 2] = b'z';
    let error = error_of(&unknown);
    assert!(error.contains("message 2") && error.contains("type 'z'"), "{error}");
    let mut long = whole.clone();
    long[second as usize..second as usize + 2].copy_from_slice(&60_000_u16.to_be_bytes());
    let error = error_of(&long);
    assert!(error.contains("message 2") && error.contains("instead of 39"), "{error}");
    // A record without bytes is the end.
    let ended = [&whole[..second as usize], &[0, 0], b"anything"].concat();
    assert_eq!(read(&ended).unwrap().0.len(), 1);

    let packets = written(Format::Pcap, &messages);
    assert!(error_of(&packets[..20]).contains("cut short"));
    assert!(error_of(&packets[..60]).contains("last record begins at byte 24"));
    let mut other_link = packets.clone();
    other_link[20] = 105;
    assert!(error_of(&other_link).contains("link type 105"));
    let mut huge = packets.clone();
    huge[32..36].copy_from_slice(&[0xff; 4]);
    assert!(error_of(&huge).contains("byte 24: a packet of 4294967295 bytes"));
    assert!(error_of(b"\x0a\x0d\x0d\x0a....").contains("editcap"));

    let table = String::from_utf8(written(Format::Csv, &messages)).unwrap();
    let cut = &table[..table.len() - 5];
    assert!(error_of(cut.as_bytes()).contains("line 25"), "{}", error_of(cut.as_bytes()));
    for (text, what) in [
        ("number,colour\n", "line 1: no message of ITCH 5.0 has a field \"colour\""),
        ("number,stock\n", "line 1: the column message_type is missing"),
        ("message_type,shares\nA\n", "line 2: 1 cells, but the header names 2"),
        ("message_type,shares\nz,1\n", "line 2: no message has type 'z'"),
        ("message_type,shares\nS,1\n", "line 2: a message 'S' has no shares"),
        ("message_type,shares\nA,4294967296\n", "line 2: shares does not fit 4 bytes"),
        ("message_type,price\nA,1.00001\n", "line 2: price: "),
        ("message_type,stock\nA,TOOLONGNAME\n", "line 2: stock has 11 characters, 8 fit"),
        ("message_type,stock\nA,\"A\n", "line 2: a quote is not closed"),
    ] {
        let error = error_of(text.as_bytes());
        assert!(error.contains(what), "{error}");
    }
}

/// A pcap file, from its header and frames.
fn pcap(magic: [u8; 4], is_big_endian: bool, link: u32, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let number = |number: u32| match is_big_endian {
        true => number.to_be_bytes(),
        false => number.to_le_bytes(),
    };
    let mut bytes = [&magic[..], &[0; 16], &number(link)].concat();
    for (fraction, frame) in frames {
        let len = number(frame.len() as u32);
        for part in [number(3), number(*fraction), len, len] {
            bytes.extend(part);
        }
        bytes.extend(frame);
    }
    bytes
}

/// A UDP datagram over IPv4 or IPv6, after the bytes of a link.
fn datagram(link: &[u8], is_ipv6: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = link.to_vec();
    if is_ipv6 {
        bytes.extend([0x60, 0, 0, 0, 0, 0, 17, 1]);
        bytes.extend([0; 32]);
    } else {
        bytes.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 1, 17]);
        bytes.extend([0; 10]);
    }
    bytes.extend([0x67, 0x20, 0x67, 0x6d]);
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn packet(first: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut packets = Packetizer::new(SESSION, first, 1400);
    messages.iter().for_each(|message| assert!(packets.push(message)));
    packets.packet().to_vec()
}

/// Files of both byte orders, both units of time and all links are read; a padded frame too.
#[test]
fn packets_are_read_from_every_link() {
    let messages = of_every_type();
    let payload = packet(1, &messages[..3]);
    let ethernet = |kind: [u8; 2]| [&[0; 12][..], &kind].concat();
    let vlan = [&ethernet([0x81, 0x00])[..], &[0, 5], &[0x08, 0x00]].concat();
    let mut padded = datagram(&ethernet([0x08, 0]), false, &payload);
    padded.extend([0; 9]);
    let cooked = [&[0; 14][..], &[0x08, 0x00]].concat();
    let cooked_2 = [&[0x86, 0xdd][..], &[0; 18]].concat();
    let frames = [
        (1, datagram(&ethernet([0x08, 0]), false, &payload)),
        (1, datagram(&ethernet([0x86, 0xdd]), true, &payload)),
        (1, datagram(&vlan, false, &payload)),
        (1, padded),
        (113, datagram(&cooked, false, &payload)),
        (276, datagram(&cooked_2, true, &payload)),
        (0, datagram(&[2, 0, 0, 0], false, &payload)),
        (101, datagram(&[], true, &payload)),
    ];
    for (link, frame) in frames {
        for (magic, is_big_endian, ns) in [
            ([0x4d, 0x3c, 0xb2, 0xa1], false, 5),
            ([0xd4, 0xc3, 0xb2, 0xa1], false, 5_000),
            ([0xa1, 0xb2, 0x3c, 0x4d], true, 5),
            ([0xa1, 0xb2, 0xc3, 0xd4], true, 5_000),
        ] {
            let bytes = pcap(magic, is_big_endian, link, &[(5, frame.clone())]);
            let (read, report) = read(&bytes).unwrap();
            assert_eq!(read.len(), 3, "link {link}: {report:?}");
            assert_eq!(read[2], (3, Some(3 * SECOND + ns), messages[2].clone()), "link {link}");
        }
    }
}

/// Packets of two lines, out of order and with a hole, give each message once and in order, and the number missing;
/// packets that are no feed are counted.
#[test]
fn lines_are_merged_and_holes_are_counted() {
    let messages = of_every_type();
    let link = [&[0; 12][..], &[0x08, 0x00]].concat();
    let frame = |payload: &[u8]| (0, datagram(&link, false, payload));
    let mut fragment = datagram(&link, false, &packet(4, &messages[3..4]));
    fragment[14 + 6] = 0x20;
    let frames = [
        frame(&packet(2, &messages[1..3])),
        frame(&packet(5, &messages[4..6])),
        frame(&packet(2, &messages[1..3])),
        frame(&packet(4, &messages[3..5])),
        frame(b"something else"),
        (0, fragment),
        (0, vec![0; 7]),
        frame(&packet(10, &messages[9..11])),
        frame(&packet(15, &[])),
    ];
    let (read, report) = read(&pcap([0x4d, 0x3c, 0xb2, 0xa1], false, 1, &frames)).unwrap();
    let numbers: Vec<u64> = read.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 10, 11]);
    assert!(read.iter().all(|(number, _, message)| *message == messages[*number as usize - 1]));
    // 7 to 9, and 12 to 14, which a heartbeat reports.
    assert_eq!((report.missing, report.duplicates, report.other_packets), (6, 3, 3), "{report:?}");
    let other = Packetizer::new(*b"0000000008", 1, 1400).heartbeat();
    let frames = [frame(&packet(1, &messages[..1])), frame(&other)];
    assert!(error_of(&pcap([0x4d, 0x3c, 0xb2, 0xa1], false, 1, &frames)).contains("tshark -r"));
}

/// Packets keep their session when they are written again.
#[test]
fn packets_keep_their_session() {
    let messages = of_every_type();
    let mut bytes = Vec::new();
    let mut writer = RecordingWriter::new(&mut bytes, Format::Pcap, form(), b"").unwrap();
    for (number, message) in (1..).zip(&messages) {
        let session = Some(*b"0000000099");
        writer.write(Recorded { session, number, received_ns: None, message }).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    let mut reader = RecordingReader::open(&bytes[..]).unwrap();
    let mut count = 0;
    while reader
        .next(&mut |recorded| {
            assert_eq!(recorded.session, Some(*b"0000000099"));
            count += 1;
        })
        .unwrap()
    {}
    assert_eq!(count, 24);
}

/// A hole does not hold up a long recording: after 8,192 messages the missing ones are given up.
#[test]
fn a_hole_is_given_up() {
    let cancel = vec![b'D', 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let link = [&[0; 12][..], &[0x08, 0x00]].concat();
    let frame = |first| (0, datagram(&link, false, &packet(first, &vec![cancel.clone(); 50])));
    let frames: Vec<_> =
        (0..400).filter(|index| *index != 3).map(|it| frame(it * 50 + 1)).collect();
    let bytes = pcap([0x4d, 0x3c, 0xb2, 0xa1], false, 1, &frames);
    let mut reader = RecordingReader::open(&bytes[..]).unwrap();
    let mut at_once_max = 0;
    loop {
        let mut count = 0;
        if !reader.next(&mut |_| count += 1).unwrap() {
            break;
        }
        at_once_max = at_once_max.max(count);
    }
    assert_eq!(reader.report().messages, 399 * 50);
    assert_eq!(reader.report().missing, 50);
    assert!((8_192..8_300).contains(&at_once_max), "{at_once_max}");
}

/// A message of a day, at this time.
fn at(timestamp_ns: u64) -> Vec<u8> {
    let mut message = vec![b'S', 0, 0, 0, 0];
    message.extend(&timestamp_ns.to_be_bytes()[2..]);
    message.push(b'O');
    message
}

/// Replays with a clock that jumps to the next moment: the packets sent, with the time after the beginning.
fn replayed(bytes: &[u8], speed: Speed) -> (Vec<(u64, Vec<u8>)>, ReplayReport) {
    let options = ReplayOptions { speed, session: SESSION, packet_len_max: 1400 };
    let mut replay = FeedReplay::new(RecordingReader::open(bytes).unwrap(), options);
    let (mut now_ns, mut sent, mut is_full) = (SECOND, Vec::new(), false);
    loop {
        // Every other packet finds the network full at first.
        let turn = replay.turn(now_ns, &mut |packet| {
            is_full = !is_full;
            if !is_full {
                sent.push((now_ns - SECOND, packet.to_vec()));
            }
            Ok(!is_full)
        });
        match turn.unwrap() {
            ReplayTurn::Busy => {}
            ReplayTurn::Waits(ns) => now_ns += ns,
            ReplayTurn::Over => return (sent, replay.report()),
        }
    }
}

/// A day is sent at its speed, at a multiple, and at full speed: the same messages with the same numbers, those of one
/// moment in one packet; a heartbeat in each second of silence, and finally the end of the session.
#[test]
fn a_day_is_sent_in_its_own_time() {
    let times = [0, 0, 500_000_000, 3_000_000_000, 3_000_000_001];
    let messages: Vec<Vec<u8>> = times.iter().map(|time| at(34_200 * SECOND + time)).collect();
    let bytes = written(Format::BinaryFile, &messages);
    for (speed, expected) in [
        (
            Speed::Times(1.0),
            vec![(0, 1, 2), (500_000_000, 3, 1), (3_000_000_000, 4, 1), (3_000_000_001, 5, 1)],
        ),
        (Speed::Times(2.0), vec![(0, 1, 2), (250_000_000, 3, 1), (1_500_000_000, 4, 2)]),
        (Speed::Unlimited, vec![(0, 1, 5)]),
    ] {
        let (sent, report) = replayed(&bytes, speed);
        let parsed = |packet: &[u8]| {
            let packet = moldudp64::parse(packet).unwrap();
            let count = match packet.kind {
                moldudp64::PacketKind::Data(blocks) => blocks.count(),
                _ => 0,
            };
            (packet.sequence_number, count)
        };
        let data: Vec<_> = sent
            .iter()
            .map(|(time, packet)| (*time, parsed(packet)))
            .filter(|(_, (_, count))| *count > 0)
            .map(|(time, (number, count))| (time, number, count))
            .collect();
        assert_eq!(data, expected, "{speed:?}");
        let heartbeats = sent.iter().filter(|(_, packet)| packet[18..] == [0, 0]).count();
        assert_eq!(
            heartbeats,
            match speed {
                Speed::Times(1.0) => 2,
                Speed::Times(_) => 1,
                Speed::Unlimited => 0,
            }
        );
        let ends = sent.iter().rev().take_while(|(_, packet)| packet[18..] == [0xff, 0xff]).count();
        assert_eq!((ends, report.messages, report.packets), (4, 5, sent.len() as u64));
        let mut receiver = Receiver::new(1, ReceiverLimits::default());
        let mut received = Vec::new();
        for (time, packet) in &sent {
            receiver.receive(packet, *time, &mut |_, it| received.push(it.to_vec())).unwrap();
        }
        assert_eq!((received == messages, receiver.is_ended()), (true, true));
    }
}

/// Recorded packets are sent unchanged, with their session, numbers, losses and times; then the end of the session.
#[test]
fn packets_are_sent_as_they_are() {
    let messages = of_every_type();
    let link = [&[0; 12][..], &[0x08, 0x00]].concat();
    let packets =
        [packet(5, &messages[..3]), packet(9, &messages[3..4]), packet(5, &messages[..3])];
    let mut frames: Vec<_> =
        (0..).zip(&packets).map(|(time, it)| (1_000 * time, datagram(&link, false, it))).collect();
    frames.insert(1, (500, datagram(&link, false, b"something else")));
    let bytes = pcap([0x4d, 0x3c, 0xb2, 0xa1], false, 1, &frames);
    let (sent, report) = replayed(&bytes, Speed::Times(0.5));
    let expected: Vec<_> = (0..).zip(packets).map(|(time, it)| (2_000 * time, it)).collect();
    assert_eq!(sent[..3], expected);
    let end = Packetizer::new(SESSION, 10, 1400).end_of_session();
    assert!(sent[3..].iter().all(|(_, packet)| packet == &end));
    assert_eq!((report.packets, sent.len()), (7, 7));
    // A recording that already has the end gets no second one.
    frames.push((9_000, datagram(&link, false, &end)));
    let bytes = pcap([0x4d, 0x3c, 0xb2, 0xa1], false, 1, &frames);
    assert_eq!(replayed(&bytes, Speed::Unlimited).1.packets, 4);
}
