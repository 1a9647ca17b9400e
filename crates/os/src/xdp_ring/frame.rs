//! The datagram in a frame, as the network stack would find it: Ethernet II, IPv4 (RFC 791), UDP (RFC 768).
//!
//! Invariant: the bytes returned lie in the frame, and its checksums are right.

use std::net::{Ipv4Addr, SocketAddrV4};

const ETHERNET_LEN: usize = 14;
const IP_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// Version 4, and a header of five words.
const IP_VERSION: u8 = 0x45;
const IPPROTO_UDP: u8 = libc::IPPROTO_UDP as u8;
/// The sum over bytes with a right checksum.
const RIGHT: u16 = 0xffff;

/// The sender of the datagram, and its bytes; `None` if the frame holds no datagram, or a damaged one.
///
/// Only the program in the kernel has checked the frame before, and it checks no sums.
pub(super) fn datagram(frame: &[u8]) -> Option<(SocketAddrV4, &[u8])> {
    let packet = frame.get(ETHERNET_LEN..)?;
    let ip: &[u8; IP_LEN] = packet.first_chunk()?;
    if ip[0] != IP_VERSION || ip[9] != IPPROTO_UDP || folded(sum(ip)) != RIGHT {
        return None;
    }
    // A short frame is padded, so the packet may end before it.
    let segment = packet.get(IP_LEN..usize::from(half(ip, 2)))?;
    let udp: &[u8; UDP_LEN] = segment.first_chunk()?;
    let len = half(udp, 4);
    let segment = segment.get(..usize::from(len))?;
    let bytes = segment.get(UDP_LEN..)?;
    let pseudo = sum(&ip[12..]) + u32::from(IPPROTO_UDP) + u32::from(len);
    let is_right = match half(udp, 6) {
        // The sender computed no checksum.
        0 => true,
        // Or left it to a card that it never passed, and put in the sum of the pseudo header, as the kernel does
        // between two ends of a veth pair.
        checksum => folded(pseudo + sum(segment)) == RIGHT || checksum == folded(pseudo),
    };
    let from = SocketAddrV4::new(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]), half(udp, 0));
    is_right.then_some((from, bytes))
}

/// The big-endian number of two bytes at `offset`.
const fn half(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes([bytes[offset], bytes[offset + 1]])
}

/// The sum of all numbers of two bytes, the last padded with a zero (RFC 1071), before it is folded: at most 64 KiB of them.
fn sum(bytes: &[u8]) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let pairs: u32 = pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    pairs + rest.first().map_or(0, |last| u32::from(*last) << 8)
}

/// A sum in 16 bits, with the overflow added again.
const fn folded(sum: u32) -> u16 {
    let once = (sum >> 16) + (sum & 0xffff);
    ((once >> 16) + (once & 0xffff)) as u16
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 50_123);

    /// A frame with a datagram to this address, whose checksums are right.
    pub(in super::super) fn frame_of(to: SocketAddrV4, bytes: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; ETHERNET_LEN - 2];
        frame.extend([0x08, 0x00]);
        frame.extend([IP_VERSION, 0]);
        frame.extend(((IP_LEN + UDP_LEN + bytes.len()) as u16).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, IPPROTO_UDP, 0, 0]);
        frame.extend(FROM.ip().octets());
        frame.extend(to.ip().octets());
        frame.extend(FROM.port().to_be_bytes());
        frame.extend(to.port().to_be_bytes());
        frame.extend(((UDP_LEN + bytes.len()) as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(bytes);
        seal(&mut frame);
        frame
    }

    /// The frame with other bytes at a place, and new right checksums.
    pub(in super::super) fn sealed(frame: &[u8], place: usize, bytes: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[place..place + bytes.len()].copy_from_slice(bytes);
        seal(&mut frame);
        frame
    }

    /// Writes both checksums, computed number by number.
    fn seal(frame: &mut [u8]) {
        let complement = |parts: &[&[u8]]| {
            let mut total = 0_u64;
            for part in parts {
                for pair in part.chunks(2) {
                    total += u64::from(pair[0]) * 256 + u64::from(*pair.get(1).unwrap_or(&0));
                }
            }
            let rest = (total % 0xffff) as u16;
            if rest == 0 { 0xffff } else { !rest }
        };
        frame[24..26].fill(0);
        let checksum = complement(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame[40..42].fill(0);
        let len = ((frame.len() - 34) as u16).to_be_bytes();
        let checksum = complement(&[&frame[26..34], &[0, IPPROTO_UDP], &len, &frame[34..]]);
        frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    }

    fn to() -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 26_400)
    }

    /// A datagram of any length comes out of its frame, also out of one that is padded, or whose checksum was left out or left
    /// to a card.
    #[test]
    fn a_datagram_comes_out_of_its_frame() {
        for len in 0..300 {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            let frame = frame_of(to(), &bytes);
            assert_eq!(datagram(&frame), Some((FROM, &bytes[..])), "{len}");
            let padded = [&frame[..], &[0xee; 19]].concat();
            assert_eq!(datagram(&padded), Some((FROM, &bytes[..])), "{len}");
            let mut without = frame.clone();
            without[40..42].fill(0);
            assert_eq!(datagram(&without), Some((FROM, &bytes[..])), "{len}");
            let pseudo: u32 = [0x0a4d, 1, 0x0a4d, 2, 17, 8 + len as u32].iter().sum();
            without[40..42].copy_from_slice(&(pseudo as u16).to_be_bytes());
            assert_eq!(datagram(&without), Some((FROM, &bytes[..])), "{len}");
        }
    }

    /// A frame in which one bit of the IP header or of the datagram was changed holds no datagram; nor does one that was cut.
    #[test]
    fn a_damaged_frame_holds_no_datagram() {
        let frame = frame_of(to(), b"an order of 20 bytes");
        for place in ETHERNET_LEN..frame.len() {
            for bit in 0..8 {
                let mut damaged = frame.clone();
                damaged[place] ^= 1 << bit;
                assert_eq!(datagram(&damaged), None, "bit {bit} of byte {place}");
            }
        }
        for len in 0..frame.len() {
            assert_eq!(datagram(&frame[..len]), None, "{len} bytes of it");
        }
        // Lengths that do not fit together, with checksums that fit them.
        for (place, len) in [(16, 27_u16), (16, 47), (16, 49), (38, 7), (38, 29)] {
            let mut wrong = sealed(&frame, place, &len.to_be_bytes());
            wrong[40..42].fill(0);
            assert_eq!(datagram(&wrong), None, "length {len} at byte {place}");
        }
    }
}
