//! The program that the kernel runs for each frame of an interface: it selects the frames that leave the network stack.
//!
//! Invariant: it redirects only frames in which a whole UDP datagram over IPv4, without IP options, goes to the one address
//! and port. Fields are where RFC 768, RFC 791 and Ethernet II have them.

use std::{
    net::SocketAddrV4,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The places of the fields of a frame.
const ETHER_TYPE: i16 = 12;
const IP_VERSION: i16 = 14;
const IP_FRAGMENT: i16 = 20;
const IP_PROTOCOL: i16 = 23;
const IP_DESTINATION: i16 = 30;
const UDP_DESTINATION: i16 = 36;
/// Bytes of the three headers.
const HEADERS: i32 = 42;

/// The places of a frame's first byte, its end and its queue in the kernel's description (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// Codes of the instructions used (Documentation/bpf/standardization in the kernel's sources).
mod code {
    pub(super) const LOAD_BYTE: u8 = 0x71;
    pub(super) const LOAD_HALF: u8 = 0x69;
    pub(super) const LOAD_WORD: u8 = 0x61;
    pub(super) const LOAD_WIDE_IMMEDIATE: u8 = 0x18;
    pub(super) const MOVE: u8 = 0xbf;
    pub(super) const MOVE_IMMEDIATE: u8 = 0xb7;
    pub(super) const ADD_IMMEDIATE: u8 = 0x07;
    pub(super) const AND_IMMEDIATE: u8 = 0x57;
    pub(super) const JUMP_IF_GREATER: u8 = 0x2d;
    pub(super) const JUMP_IF_AT_MOST: u8 = 0xbd;
    pub(super) const JUMP_UNLESS_EQUAL: u8 = 0x56;
    pub(super) const CALL: u8 = 0x85;
    pub(super) const EXIT: u8 = 0x95;
}

/// `bpf_redirect_map`: sends the frame to the socket that a map has for a key.
const REDIRECT: i32 = 51;
/// The action on a frame that is not redirected: `XDP_PASS`.
const PASS: i32 = 2;
/// A wide immediate is the descriptor of a map.
const IS_MAP: u8 = 1;

/// The registers that are used. Calls take their arguments in the first three.
#[derive(Clone, Copy)]
enum Register {
    Result = 0,
    First = 1,
    Second = 2,
    Third = 3,
    Start = 6,
    End = 7,
    Scratch = 8,
    Context = 9,
}

/// An instruction as the kernel takes it (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// The destination in the low four bits, the source in the high ones.
    registers: u8,
    /// The offset of a field that is loaded; of a jump, the number of instructions to skip.
    offset: i16,
    immediate: i32,
}

// The registers lie the other way round where the first byte of a number is its highest.
const _: () = assert!(cfg!(target_endian = "little"), "AF_XDP needs a little-endian machine");

impl Instruction {
    const fn new(code: u8, to: Register, from: Register, offset: i16, immediate: i32) -> Self {
        Self { code, registers: to as u8 | (from as u8) << 4, offset, immediate }
    }

    const fn load(code: u8, to: Register, from: Register, offset: i16) -> Self {
        Self::new(code, to, from, offset, 0)
    }

    const fn with_number(code: u8, to: Register, number: i32) -> Self {
        Self::new(code, to, Register::Result, 0, number)
    }

    const fn move_to(to: Register, from: Register) -> Self {
        Self::new(code::MOVE, to, from, 0, 0)
    }

    /// Compares `left` with `right` and goes to the end of the program if the condition holds.
    const fn end_if(code: u8, left: Register, right: Register) -> Self {
        Self::new(code, left, right, TO_END, 0)
    }

    /// Goes to the end of the program unless the scratch register has these low 32 bits.
    const fn end_unless(number: i32) -> Self {
        Self::new(code::JUMP_UNLESS_EQUAL, Register::Scratch, Register::Result, TO_END, number)
    }
}

/// Stands for the offset of a jump to the end until that is known.
const TO_END: i16 = i16::MAX;

/// The program for datagrams to this address in frames of at most this many bytes, for the sockets of this map.
pub(super) fn instructions(
    sockets: BorrowedFd<'_>,
    address: SocketAddrV4,
    frame_bytes_max: usize,
) -> Vec<Instruction> {
    use Register::{Context, End, First, Result, Scratch, Second, Start, Third};
    let half = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
    let field = |code, offset| Instruction::load(code, Scratch, Start, offset);
    let mut program = vec![
        Instruction::move_to(Context, First),
        Instruction::load(code::LOAD_WORD, Start, Context, DATA),
        Instruction::load(code::LOAD_WORD, End, Context, DATA_END),
        // All three headers are there.
        Instruction::move_to(Scratch, Start),
        Instruction::with_number(code::ADD_IMMEDIATE, Scratch, HEADERS),
        Instruction::end_if(code::JUMP_IF_GREATER, Scratch, End),
        // The frame has room in the shared memory.
        Instruction::move_to(Scratch, Start),
        Instruction::with_number(code::ADD_IMMEDIATE, Scratch, frame_bytes_max as i32 + 1),
        Instruction::end_if(code::JUMP_IF_AT_MOST, Scratch, End),
        // IPv4 with the shortest header.
        field(code::LOAD_HALF, ETHER_TYPE),
        Instruction::end_unless(half([0x08, 0x00])),
        field(code::LOAD_BYTE, IP_VERSION),
        Instruction::end_unless(0x45),
        // Neither "more fragments" nor a place among them.
        field(code::LOAD_HALF, IP_FRAGMENT),
        Instruction::with_number(code::AND_IMMEDIATE, Scratch, half([0x3f, 0xff])),
        Instruction::end_unless(0),
        field(code::LOAD_BYTE, IP_PROTOCOL),
        Instruction::end_unless(libc::IPPROTO_UDP),
        field(code::LOAD_WORD, IP_DESTINATION),
        Instruction::end_unless(i32::from_ne_bytes(address.ip().octets())),
        field(code::LOAD_HALF, UDP_DESTINATION),
        Instruction::end_unless(half(address.port().to_be_bytes())),
        // To the socket of the queue or, without one, on to the network stack.
        Instruction {
            code: code::LOAD_WIDE_IMMEDIATE,
            registers: First as u8 | IS_MAP << 4,
            offset: 0,
            immediate: sockets.as_raw_fd(),
        },
        // The high half of the wide immediate.
        Instruction::with_number(0, Result, 0),
        Instruction::load(code::LOAD_WORD, Second, Context, QUEUE),
        Instruction::with_number(code::MOVE_IMMEDIATE, Third, PASS),
        Instruction::with_number(code::CALL, Result, REDIRECT),
        Instruction::with_number(code::EXIT, Result, 0),
    ];
    let end = program.len();
    for (place, instruction) in program.iter_mut().enumerate() {
        if instruction.offset == TO_END {
            instruction.offset = (end - place - 1) as i16;
        }
    }
    program.extend([
        Instruction::with_number(code::MOVE_IMMEDIATE, Result, PASS),
        Instruction::with_number(code::EXIT, Result, 0),
    ]);
    program
}
