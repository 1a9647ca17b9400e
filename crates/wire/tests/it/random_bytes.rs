//! Random bytes, and nearly valid ones, from seeds: the same inputs that the fuzz targets try.

use crate::{
    golden::{itch_vectors, moldudp64_vectors, ouch_vectors, ouch42_vectors, soupbintcp_vectors},
    seeded::{Seeded, for_seeds},
    targets,
};

/// Random bytes, or a sound message that was cut, lengthened or changed in places.
fn nearly(seeded: &mut Seeded, sound: &[Vec<u8>]) -> Vec<u8> {
    if seeded.once_in(4) {
        let len = seeded.below(200);
        return seeded.bytes(len);
    }
    let mut bytes = seeded.pick(sound).clone();
    match seeded.below(4) {
        0 => bytes.truncate(seeded.below(bytes.len() + 1)),
        1 => {
            let len = 1 + seeded.below(12);
            bytes.extend(seeded.bytes(len));
        }
        _ => {}
    }
    for _ in 0..seeded.below(4) {
        if !bytes.is_empty() {
            let at = seeded.below(bytes.len());
            bytes[at] = *seeded.pick(&[0, 1, 2, 27, 28, 0xFF, b'S', b'U', b' ', b'0']);
        }
    }
    bytes
}

/// Several messages, one after the other.
fn stream(seeded: &mut Seeded, sound: &[Vec<u8>]) -> Vec<u8> {
    (0..1 + seeded.below(8)).flat_map(|_| nearly(seeded, sound)).collect()
}

fn bytes(vectors: Vec<crate::golden::Vector>) -> Vec<Vec<u8>> {
    vectors.into_iter().map(|vector| vector.bytes).collect()
}

/// No bytes make the OUCH readers panic or contradict themselves.
#[test]
fn ouch_takes_any_bytes() {
    let sound = bytes(ouch_vectors());
    for_seeds(20_000, |seeded| {
        let bytes = nearly(seeded, &sound);
        targets::decode_ouch_inbound(&bytes);
        targets::decode_ouch_outbound(&bytes);
    });
}

/// No bytes make the OUCH 4.2 reader panic or give one token to two orders.
#[test]
fn ouch42_takes_any_bytes() {
    let sound = bytes(ouch42_vectors());
    for_seeds(20_000, |seeded| targets::decode_ouch42(&nearly(seeded, &sound)));
}

/// No bytes make the ITCH reader panic or contradict itself.
#[test]
fn itch_takes_any_bytes() {
    let sound = bytes(itch_vectors());
    for_seeds(20_000, |seeded| targets::decode_itch(&nearly(seeded, &sound)));
}

/// No bytes make a session panic, and its results never depend on how they were cut.
#[test]
fn soupbintcp_takes_any_bytes() {
    let sound = bytes(soupbintcp_vectors());
    let login = &sound[0];
    let accepted = sound[3].clone();
    for_seeds(2_000, |seeded| {
        let rest = stream(seeded, &sound);
        targets::soupbintcp_server(&rest);
        targets::soupbintcp_server(&[&login[..], &rest].concat());
        targets::soupbintcp_client(&rest);
        targets::soupbintcp_client(&[&accepted[..], &rest].concat());
        targets::soupbintcp_in_time(&rest);
    });
}

/// No bytes make the MoldUDP64 reader or receiver panic or leave its bounds.
#[test]
fn moldudp64_takes_any_bytes() {
    let sound = bytes(moldudp64_vectors());
    for_seeds(4_000, |seeded| {
        targets::moldudp64(&nearly(seeded, &sound));
        let mut packets = Vec::new();
        for _ in 0..1 + seeded.below(12) {
            let mut packet = nearly(seeded, &sound);
            packet.truncate(255);
            if packet.len() > 18 && seeded.once_in(2) {
                packet[10..17].fill(0);
                packet[17] = u8::try_from(seeded.below(12)).unwrap();
            }
            packets.push(u8::try_from(packet.len()).unwrap());
            packets.extend(packet);
        }
        targets::moldudp64(&packets);
    });
}
