//! The WLF1 flows: their composition, their trades, and their form on disk.

use lab::comparison::{ComparisonFlow, FlowName, OperationKind, Tally, file::FlowFileError};

/// Trades, quantity, notional and hash of seed 1, as published with the format: whole and a tenth.
const PUBLISHED: [(FlowName, u64, Tally); 6] = [
    (FlowName::A, 1, tally(532_132, 20_368_852, 1_022_099_182_156, 0xb9a3_6258_69d9_d0ff)),
    (FlowName::B, 1, tally(536_755, 13_705_080, 685_328_036_323, 0xe292_035f_c345_f75e)),
    (FlowName::C, 1, tally(450_920, 18_243_131, 912_312_427_910, 0xc896_b213_7eb6_2f62)),
    (FlowName::A, 10, tally(56_575, 2_127_217, 106_396_532_788, 0x58fa_7c98_bc1e_5693)),
    (FlowName::B, 10, tally(51_469, 1_320_155, 66_026_595_958, 0x88b7_0d71_7c32_3cec)),
    (FlowName::C, 10, tally(57_984, 2_159_154, 107_957_687_014, 0x6504_6f3e_d053_d35e)),
];

const fn tally(trades: u64, quantity: u64, notional: u64, hash: u64) -> Tally {
    Tally { trades, quantity, notional, hash }
}

/// A flow of seed 1 is the published one, to the last trade.
#[test]
fn flows_are_the_published_ones() {
    for (name, divisor, expected) in PUBLISHED {
        let (flow, tally) = ComparisonFlow::generate(name, 1, divisor);
        assert_eq!(tally, expected, "{name:?} divided by {divisor}");
        let (prefill, measured) = flow.split();
        let operations = if name == FlowName::B { 1_300_000 } else { 2_000_000 };
        assert_eq!(measured.len() as u64, operations / divisor);
        assert!(prefill.iter().all(|operation| operation.kind == OperationKind::New));
    }
}

/// Another seed is another flow.
#[test]
fn seed_decides_the_flow() {
    let [one, two] = [1, 2].map(|seed| ComparisonFlow::generate(FlowName::A, seed, 1_000));
    assert_ne!(one.1.hash, two.1.hash);
    assert_ne!(one.0.operations, two.0.operations);
}

/// A written flow is read back, and a byte of it is where the format says.
#[test]
fn file_is_read_back() {
    for name in FlowName::ALL {
        let (flow, _) = ComparisonFlow::generate(name, 3, 500);
        let mut bytes = Vec::new();
        flow.write(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 64 + 32 * flow.operations.len());
        assert_eq!(bytes[..8], *b"WLF1\x01\0\0\0");
        assert_eq!(bytes[64..72], flow.operations[0].order_id.to_le_bytes());
        assert_eq!(ComparisonFlow::read(&mut bytes.as_slice()).unwrap(), flow);
    }
}

/// An invalid file is refused with the fault and its place.
#[test]
fn broken_files_are_refused() {
    let (flow, _) = ComparisonFlow::generate(FlowName::A, 1, 100_000);
    let mut whole = Vec::new();
    flow.write(&mut whole).unwrap();
    let read = |bytes: &[u8]| ComparisonFlow::read(&mut &bytes[..]).unwrap_err().to_string();
    let changed = |offset: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[offset] = value;
        read(&bytes)
    };
    assert_eq!(read(b""), FlowFileError::Magic.to_string());
    assert_eq!(changed(0, b'X'), "not a flow file: it does not begin with WLF1");
    assert_eq!(changed(4, 9), "unknown format version 9; this program reads version 1");
    assert!(read(&whole[..40]).contains("the header says length = 40"));
    assert_eq!(
        read(&whole[..whole.len() - 1]),
        "the file ends within operation 10019; the header promises 10020"
    );
    assert_eq!(
        read(&[whole.as_slice(), &[0]].concat()),
        "the file goes on after its 10020 operations"
    );
    assert_eq!(changed(15, 1), "the header says operations = 20, which is not valid");
    assert_eq!(changed(64 + 32 + 27, 2), "operation 1 at byte 96: side = 2 is not valid");
    assert_eq!(changed(64 + 26, 7), "operation 0 at byte 64: operation = 7 is not valid");
    assert!(changed(64 + 15, 0x80).contains("operation 0 at byte 64: price = -"));
}
