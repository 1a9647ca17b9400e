//! Blocks of the huge-page allocator keep their contents, do not overlap, and are aligned, on any
//! number of threads.

use std::{hint::black_box, thread};

use market::SplitMix64;
use os::{
    memory::{Allocator, keep_ready},
    thread_page_faults,
};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Aligned to a cache line, so that small ones come from the huge pages, too.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; 8]);

/// Fills, grows, shrinks and drops blocks of every length; each keeps the bytes written to it.
fn churn(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut bytes: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut lines: Vec<(u64, Vec<Line>)> = Vec::new();
    for step in 0..20_000_u64 {
        match random.below(6) {
            0 => {
                let (mark, doublings) = (step as u8, random.below(21));
                let len = 1 + random.below(1 << doublings) as usize;
                let piece = vec![0_u8; len];
                assert!(piece.iter().all(|byte| *byte == 0), "step {step}: zeros are asked for");
                drop(piece);
                bytes.push((mark, vec![mark; len]));
            }
            1 => {
                let len = 1 + random.below(700) as usize;
                let piece = vec![Line([step; 8]); len];
                assert_eq!(piece.as_ptr().addr() % 64, 0, "aligned to a cache line");
                lines.push((step, piece));
            }
            2 if !bytes.is_empty() => {
                let at = random.below(bytes.len() as u64) as usize;
                let (mark, piece) = &mut bytes[at];
                let len = 1 + random.below(3 * piece.len() as u64) as usize;
                let kept = len.min(piece.len());
                piece.resize(len, *mark);
                piece.shrink_to_fit();
                assert!(piece[..kept].iter().all(|byte| byte == mark), "step {step}: it was moved");
            }
            3 if !lines.is_empty() => {
                let at = random.below(lines.len() as u64) as usize;
                let (mark, piece) = &mut lines[at];
                let more = random.below(1 + piece.len() as u64) as usize;
                piece.resize(piece.len() + more, Line([*mark; 8]));
            }
            4 if bytes.len() > 40 => {
                let at = random.below(bytes.len() as u64) as usize;
                let (mark, piece) = bytes.swap_remove(at);
                assert!(piece.iter().all(|byte| *byte == mark), "step {step}: it is nobody else's");
            }
            5 if lines.len() > 40 => {
                let at = random.below(lines.len() as u64) as usize;
                let (mark, piece) = lines.swap_remove(at);
                assert!(piece.iter().all(|line| line.0 == [mark; 8]), "step {step}");
            }
            _ => {}
        }
    }
    // Across threads, too.
    thread::spawn(move || drop(black_box((bytes, lines)))).join().unwrap();
}

/// Many threads at a time, with memory written ahead of them: no thread sees the bytes of another.
#[test]
fn each_has_memory_of_its_own() {
    keep_ready().unwrap();
    keep_ready().unwrap();
    let threads: Vec<_> = (1..=4).map(|seed| thread::spawn(move || churn(seed))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Blocks from the system's allocator are kept when all of them are freed: the next ones cause no
/// page fault.
#[cfg(target_env = "gnu")]
#[test]
fn freed_blocks_are_kept() {
    drop(black_box(vec![0_u8; 1 << 20])); // from the range, which is asked for with the first of its blocks
    let fill = || drop(black_box(vec![vec![1_u8; 16 << 10]; 1_000]));
    fill();
    let before = thread_page_faults();
    fill();
    let faults = thread_page_faults() - before;
    assert!(faults < 100, "{faults} page faults for 4,000 pages");
}
