//! The corpus of the fuzzer, and bytes made from it: every target holds on them.

use std::{fs, path::PathBuf};

use proof::rng::Rng;

use crate::targets::TARGETS;

/// The inputs of a target: those that the fuzzer kept, and those that led to a finding.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(name);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{} has no corpus: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is read").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("it is read")).collect()
}

/// Each target holds on its corpus, which is small.
#[test]
fn every_target_holds_on_its_corpus() {
    let mut total = 0;
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name} has no input");
        for input in inputs {
            assert!(input.len() < 4096, "{name}: an input of {} bytes", input.len());
            total += input.len();
            target(&input);
        }
    }
    assert!(total < 300 * 1024, "the corpus has {total} bytes");
}

/// Each target holds on inputs that were cut, lengthened, joined and changed in places.
#[test]
fn every_target_holds_on_changed_inputs() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        for seed in 0..200 {
            target(&changed(&inputs, &mut Rng::new(seed)));
        }
    }
}

fn changed(inputs: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let pick = |rng: &mut Rng| inputs[rng.below(inputs.len() as u64) as usize].clone();
    let mut bytes = pick(rng);
    match rng.below(4) {
        0 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
        1 => bytes.extend(pick(rng)),
        _ => {}
    }
    for _ in 0..rng.below(5) {
        if !bytes.is_empty() {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
    }
    bytes
}
