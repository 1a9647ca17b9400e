//! Messages over a network that loses, duplicates and reorders packets.

use std::collections::VecDeque;

use wire::moldudp64::{
    Malformed, PacketKind, Packetizer, ReceiveError, Receiver, ReceiverLimits, Request, Session,
    parse,
};

use crate::seeded::for_seeds;

const SESSION: Session = *b"0000000001";
const SECOND: u64 = 1_000_000_000;

/// A packet of messages with these contents, the first of which has this number.
fn packet(sequence_number: u64, messages: &[&[u8]]) -> Vec<u8> {
    let mut packetizer = Packetizer::new(SESSION, sequence_number, 1400);
    for message in messages {
        assert!(packetizer.push(message));
    }
    packetizer.packet().to_vec()
}

fn end_of_session(sequence_number: u64) -> Vec<u8> {
    Packetizer::new(SESSION, sequence_number, 1400).end_of_session().to_vec()
}

/// Hands a packet over and returns the numbers delivered.
fn deliver(receiver: &mut Receiver, packet: &[u8], now_ns: u64) -> Result<Vec<u64>, ReceiveError> {
    let mut numbers = Vec::new();
    receiver.receive(packet, now_ns, &mut |number, _| numbers.push(number))?;
    Ok(numbers)
}

fn request(sequence_number: u64, count: u16) -> Option<Request> {
    Some(Request { session: SESSION, sequence_number, count })
}

/// A packet is filled up to its length and no further; numbers go on in the next.
#[test]
fn packets_are_filled_to_their_length() {
    let mut packetizer = Packetizer::new(SESSION, 1, 20 + 2 * (2 + 10));
    assert!(packetizer.is_empty());
    assert!(packetizer.push(&[1; 10]) && packetizer.push(&[2; 10]));
    assert!(!packetizer.push(&[]), "not even an empty message fits");
    assert_eq!((packetizer.packet().len(), packetizer.count()), (44, 2));
    assert_eq!(parse(&packetizer.heartbeat()).unwrap().sequence_number, 1, "none was sent yet");
    packetizer.advance();
    assert_eq!(packetizer.next_sequence(), 3);
    assert!(packetizer.push(&[]));
    let third = parse(packetizer.packet()).unwrap();
    assert_eq!(third.sequence_number, 3);
    let PacketKind::Data(blocks) = third.kind else { panic!() };
    assert_eq!(blocks.into_iter().collect::<Vec<_>>(), [&[] as &[u8]]);
    packetizer.restart(2);
    assert!(packetizer.is_empty() && packetizer.next_sequence() == 2);
}

/// A packet is read whole or not at all.
#[test]
fn packets_are_whole() {
    let whole = packet(1, &[b"hello", b"", b"world"]);
    for len in 0..whole.len() {
        assert_eq!(parse(&whole[..len]), Err(Malformed::Short), "{len}");
    }
    assert_eq!(parse(&[&whole[..], &[0]].concat()), Err(Malformed::Long));
    assert_eq!(parse(&[&end_of_session(1)[..], &[0]].concat()), Err(Malformed::Long));
    assert_eq!(parse(&packet(u64::MAX - 1, &[b"a"])).unwrap().sequence_number, u64::MAX - 1);
    let mut beyond = packet(1, &[b"a"]);
    beyond[10..18].fill(0xFF);
    assert_eq!(parse(&beyond), Err(Malformed::Numbers));
    assert_eq!(Request::parse(&whole[..19]), Err(Malformed::Short));
    assert_eq!(Request::parse(&whole[..21]), Err(Malformed::Long));
}

/// Each hole has a separate delay, from when it appeared: one that opens behind an older hole is not requested as soon
/// as that is filled.
#[test]
fn patience_is_from_when_a_hole_appeared() {
    let limits = ReceiverLimits { request_delay_ns: SECOND, ..ReceiverLimits::default() };
    let mut receiver = Receiver::new(1, limits);
    deliver(&mut receiver, &packet(2, &[b"b"]), 0).unwrap();
    deliver(&mut receiver, &packet(4, &[b"d"]), SECOND / 2).unwrap();
    assert_eq!(receiver.next_request(SECOND), request(1, 1));
    assert_eq!(deliver(&mut receiver, &packet(1, &[b"a"]), SECOND).unwrap(), [1, 2]);
    assert_eq!(receiver.next_request(SECOND), None, "3 has been missing for half a second");
    deliver(&mut receiver, &packet(6, &[b"f"]), SECOND).unwrap();
    assert_eq!(receiver.next_request(SECOND + SECOND / 2), request(3, 1));
    assert_eq!(deliver(&mut receiver, &packet(3, &[b"c"]), 2 * SECOND).unwrap(), [3, 4]);
    assert_eq!(receiver.next_request(2 * SECOND - 1), None);
    assert_eq!(receiver.next_request(2 * SECOND), request(5, 1));
}

/// A message that only came late is never requested, whatever hole was open before.
#[test]
fn a_filled_hole_takes_its_age_along() {
    let limits = ReceiverLimits { request_delay_ns: SECOND, ..ReceiverLimits::default() };
    let mut receiver = Receiver::new(1, limits);
    deliver(&mut receiver, &packet(2, &[b"b"]), 0).unwrap();
    assert_eq!(deliver(&mut receiver, &packet(1, &[b"a"]), 1).unwrap(), [1, 2]);
    deliver(&mut receiver, &packet(4, &[b"d"]), SECOND).unwrap();
    assert_eq!(receiver.next_request(SECOND + 1), None);
    assert_eq!(receiver.next_request(2 * SECOND), request(3, 1));
}

/// A hole is requested at once, up to the messages after it, and again each second.
#[test]
fn holes_are_asked_for_until_filled() {
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    assert_eq!(receiver.next_request(0), None);
    assert_eq!(deliver(&mut receiver, &packet(1, &[b"1"]), 0), Ok(vec![1]));
    assert_eq!(deliver(&mut receiver, &packet(5, &[b"5", b"6"]), 0), Ok(vec![]));
    assert_eq!(receiver.next_request(0), request(2, 3));
    assert_eq!(receiver.next_request(SECOND - 1), None);
    assert_eq!(receiver.next_request(SECOND), request(2, 3));
    assert_eq!(deliver(&mut receiver, &packet(2, &[b"2"]), SECOND), Ok(vec![2]));
    assert_eq!(receiver.next_request(SECOND), request(3, 2), "part of an answer: ask for the rest");
    assert_eq!(
        deliver(&mut receiver, &packet(3, &[b"3", b"4", b"5"]), SECOND),
        Ok(vec![3, 4, 5, 6])
    );
    assert_eq!(receiver.next_request(9 * SECOND), None);
    let statistics = receiver.statistics();
    assert_eq!((statistics.gaps, statistics.missed, statistics.requests), (1, 3, 3));
    assert_eq!((statistics.delivered, statistics.duplicates, statistics.pending), (6, 1, 0));
}

/// A receiver may be configured to wait before it requests, for networks that reorder packets.
#[test]
fn patience_waits_before_asking() {
    let limits = ReceiverLimits { request_delay_ns: 10, ..ReceiverLimits::default() };
    let mut receiver = Receiver::new(1, limits);
    deliver(&mut receiver, &packet(1, &[b"1"]), 90).unwrap();
    deliver(&mut receiver, &packet(3, &[b"3"]), 100).unwrap();
    assert_eq!(receiver.next_request(109), None);
    assert_eq!(receiver.next_request(110), request(2, 1));
}

/// Heartbeats and the end give the progress of the session, so they open holes as well.
#[test]
fn heartbeats_and_the_end_open_holes() {
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    assert_eq!(deliver(&mut receiver, &packet(3, &[]), 0), Ok(vec![]));
    assert_eq!(receiver.next_request(0), request(1, 2));
    assert_eq!(deliver(&mut receiver, &end_of_session(4), 0), Ok(vec![]));
    assert!(!receiver.is_ended() && receiver.has_gap());
    assert_eq!(deliver(&mut receiver, &packet(1, &[b"1", b"2"]), 0), Ok(vec![1, 2]));
    assert_eq!(receiver.next_request(0), request(3, 1));
    assert_eq!(deliver(&mut receiver, &packet(3, &[b"3"]), 0), Ok(vec![3]));
    assert!(receiver.is_ended() && !receiver.has_gap());
    assert_eq!(deliver(&mut receiver, &end_of_session(4), 0), Ok(vec![]), "it is said often");
    let after_end = Err(ReceiveError::AfterEnd { session_end: 4 });
    assert_eq!(deliver(&mut receiver, &packet(4, &[b"4"]), 0), after_end);
    assert_eq!(deliver(&mut receiver, &end_of_session(5), 0), after_end);
}

/// A session does not end before messages that were seen.
#[test]
fn end_before_known_messages_is_an_error() {
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    deliver(&mut receiver, &packet(1, &[b"1", b"2"]), 0).unwrap();
    let error = Err(ReceiveError::AfterEnd { session_end: 2 });
    assert_eq!(deliver(&mut receiver, &end_of_session(2), 0), error);
    assert!(!receiver.is_ended());
}

/// Another session's packets are an error each time, and change nothing.
#[test]
fn session_change_is_reported() {
    let other = *b"0000000002";
    let theirs = Packetizer::new(other, 9, 1400).heartbeat();
    let changed = Err(ReceiveError::SessionChanged { expected: SESSION, received: other });
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    deliver(&mut receiver, &packet(1, &[b"1"]), 0).unwrap();
    assert_eq!(deliver(&mut receiver, &theirs, 0), changed);
    assert_eq!(receiver.next_request(0), None);
    assert_eq!(deliver(&mut receiver, &packet(2, &[b"2"]), 0), Ok(vec![2]));
    let mut receiver = Receiver::for_session(SESSION, 1, ReceiverLimits::default());
    assert_eq!(deliver(&mut receiver, &theirs, 0), changed);
}

/// Early messages are kept within bounds; dropped ones are requested again.
#[test]
fn early_messages_are_kept_within_bounds() {
    let limits = ReceiverLimits {
        pending_messages_max: 3,
        pending_bytes_max: 5,
        ..ReceiverLimits::default()
    };
    let mut receiver = Receiver::new(1, limits);
    deliver(&mut receiver, &packet(2, &[b"22", b"33", b"44", b"5", b"6"]), 0).unwrap();
    let statistics = receiver.statistics();
    assert_eq!((statistics.pending, statistics.dropped), (3, 2), "44 and 6 found no room");
    assert_eq!(deliver(&mut receiver, &packet(1, &[b"1"]), 0), Ok(vec![1, 2, 3]));
    assert_eq!(receiver.next_request(0), request(4, 1));
    assert_eq!(deliver(&mut receiver, &packet(4, &[b"44"]), 0), Ok(vec![4, 5]));
    assert_eq!(receiver.next_request(0), request(6, 1));
}

/// On any network, every message is delivered exactly once, in order and unchanged.
#[test]
fn every_message_is_delivered_once_in_order() {
    for_seeds(150, |seeded| {
        let message_count = 1 + seeded.below(400);
        let messages: Vec<Vec<u8>> = (0..message_count)
            .map(|_| {
                let len = seeded.below(40);
                seeded.bytes(len)
            })
            .collect();
        let packet_len_max = 64 + seeded.below(200);
        let loss = 2 + seeded.below(20);
        let limits = ReceiverLimits {
            pending_messages_max: 1 + seeded.below(64),
            pending_bytes_max: 40 + seeded.below(2000),
            request_delay_ns: u64::try_from(seeded.below(3)).unwrap(),
            request_timeout_ns: 20,
        };

        // The publisher sends everything; the network keeps some packets for later.
        let mut packetizer = Packetizer::new(SESSION, 1, packet_len_max);
        let mut network: VecDeque<Vec<u8>> = VecDeque::new();
        for message in &messages {
            if !packetizer.push(message) {
                network.push_back(packetizer.packet().to_vec());
                packetizer.advance();
                assert!(packetizer.push(message));
            }
        }
        network.push_back(packetizer.packet().to_vec());
        packetizer.advance();
        let end = packetizer.end_of_session();

        let mut receiver = Receiver::new(1, limits);
        let mut answers = Packetizer::new(SESSION, 1, packet_len_max);
        let mut delivered: Vec<Vec<u8>> = Vec::new();
        let mut now_ns = 0;
        while !receiver.is_ended() {
            now_ns += 1;
            assert!(now_ns < 1_000_000, "it gets there");
            if network.is_empty() {
                network.push_back(end.to_vec());
            }
            let at = seeded.below(network.len().min(4));
            let arriving = network.remove(at).expect("it is there");
            if seeded.once_in(8) {
                network.push_back(arriving.clone());
            }
            if !seeded.once_in(loss) {
                receiver
                    .receive(&arriving, now_ns, &mut |number, message| {
                        delivered.push(message.to_vec());
                        assert_eq!(number, u64::try_from(delivered.len()).unwrap());
                    })
                    .unwrap();
            }
            let pending = receiver.statistics().pending;
            assert!(pending <= limits.pending_messages_max);
            if let Some(request) = receiver.next_request(now_ns) {
                answers.restart(request.sequence_number);
                let first = usize::try_from(request.sequence_number).unwrap() - 1;
                let wanted = messages[first..].iter().take(usize::from(request.count));
                for message in wanted {
                    if !answers.push(message) {
                        break;
                    }
                }
                network.push_back(answers.packet().to_vec());
            }
        }
        assert_eq!(delivered, messages);
        assert_eq!(receiver.statistics().delivered, u64::try_from(message_count).unwrap());
    });
}
