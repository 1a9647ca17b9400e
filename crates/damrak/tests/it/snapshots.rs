//! From a snapshot and the journal after it to the state, and to every message sent.

use gateway::fake::{FakeDatagram, FakeStream};
use journal::{CrashStorage, Durability, Storage, WriterOptions, snapshot_file_name};
use market::{Command, EnterOrder, OrderKey, Price, Quantity, SessionId, Side, Symbol};
use proof::generator::{CommandFlow, Profile};
use venue::{
    config::Config,
    failure::ExitCode,
    follower::Follower,
    pipeline::{self, Edges, Networks, Venue},
    recovery::{self, Past, Recovery},
    stage::Perturbations,
};
use wire::ouch;

const INPUTS: u64 = 3_000;
const ARCHIVE_BYTES: usize = 16 << 20;
const JOURNAL_ID: u64 = 77;

fn options() -> WriterOptions {
    WriterOptions {
        durability: Durability::Synced,
        segment_bytes: 12 << 10,
        ..WriterOptions::new(JOURNAL_ID, 5)
    }
}

/// Appends inputs up to `count`, generated from the seed.
fn append(storage: &CrashStorage, seed: u64, count: u64) {
    let mut flow = CommandFlow::new(seed, Profile::default());
    let (_, mut writer, report) =
        recovery::recover(Box::new(storage.clone()), &options(), &mut |_| {}).unwrap();
    for sequence in 1..=count {
        let command = flow.next_command();
        if sequence > report.last_sequence {
            let mut payload = [0; Command::ENCODED_LEN_MAX];
            let len = command.encode(&mut payload);
            writer.append(sequence, 1_000 * sequence, &payload[..len]).unwrap();
        }
    }
    writer.commit().unwrap();
}

fn follower_at(storage: &CrashStorage, sequence: u64) -> Follower {
    let mut follower = Follower::from_the_first(storage, Some(ARCHIVE_BYTES));
    while follower.poll(500, sequence, &mut |_| {}).unwrap() > 0 {}
    assert_eq!(follower.engine().sequence().0, sequence);
    follower
}

fn take_snapshot(storage: &CrashStorage, sequence: u64) {
    follower_at(storage, sequence).write(&mut storage.clone(), 9).unwrap();
}

/// A journal with two snapshots, of inputs 1000 and 2000.
fn with_two_snapshots() -> CrashStorage {
    let storage = CrashStorage::new();
    append(&storage, 1, INPUTS);
    take_snapshot(&storage, 1_000);
    take_snapshot(&storage, 2_000);
    storage
}

/// The results of a start: the state, and every message sent; those before the snapshot come from the snapshot.
struct Start {
    recovery: Recovery,
    outputs: u64,
    sections: Vec<(u16, Vec<u8>)>,
}

fn start(storage: &CrashStorage) -> Result<Start, venue::failure::Failure> {
    let mut history = gateway::MessageArchive::new(ARCHIVE_BYTES);
    let mut outputs = 0;
    let recovery = recovery::resume(
        Box::new(storage.clone()),
        &mut storage.clone(),
        &options(),
        ARCHIVE_BYTES,
        &mut |past| match past {
            Past::Messages(before) => {
                assert_eq!(outputs, 0, "it comes first");
                history = before.clone();
            }
            Past::State(_) => {}
            Past::Line(line) => line.each(|output| {
                history.take(output);
                outputs += 1;
            }),
        },
    )?;
    let mut sections = Vec::new();
    history.sections(&mut |code, bytes| sections.push((code, bytes.to_vec())));
    Ok(Start { recovery, outputs, sections })
}

/// The sequence of the snapshot that begins a start, 0 for none; the state is compared with a replay from the first
/// input.
fn begins_with(storage: &CrashStorage) -> (u64, usize) {
    let found = start(storage).unwrap();
    let full = recovery::replay(&mut storage.clone(), &mut |_, _, _| {}, &mut |_| {}).unwrap();
    let state = &found.recovery.state;
    assert_eq!(state.engine.state_hash(), full.state.engine.state_hash());
    assert_eq!(state.digest, full.state.digest, "the chain goes on at the snapshot");
    assert_eq!(found.recovery.writer.last_sequence(), full.report.last_sequence);
    let mut whole = Vec::new();
    follower_at(storage, full.report.last_sequence)
        .archive()
        .unwrap()
        .sections(&mut |code, bytes| whole.push((code, bytes.to_vec())));
    assert!(found.sections == whole, "everything that was said, byte for byte");
    let summary = found.recovery.snapshot;
    (summary.map_or(0, |it| it.header.sequence), found.recovery.passed_over.len())
}

type Damage = Box<dyn Fn(&mut Vec<u8>)>;

/// The table in docs/snapshot.md: with any fault in the newest snapshot, the older one is used; with faults in both,
/// the journal is replayed from its first input. The state is always the same.
#[test]
fn each_row_of_the_table() {
    let storage = with_two_snapshots();
    assert_eq!(begins_with(&storage), (2_000, 0), "row 1");
    assert!(start(&storage).unwrap().outputs > 0, "something came after it");

    let newest = snapshot_file_name(2_000);
    let older = snapshot_file_name(1_000);
    let change = |storage: &CrashStorage, name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = storage.bytes(name).unwrap();
        change(&mut bytes);
        storage.set_bytes(name, Some(bytes));
    };
    let rewritten = |at: usize| {
        move |bytes: &mut Vec<u8>| {
            bytes[at] ^= 1;
            let checksum = checksum(bytes);
            bytes[12..16].copy_from_slice(&checksum);
        }
    };
    let wrong: Vec<(&str, Damage)> = vec![
        ("row 2: cut short", Box::new(|bytes| bytes.truncate(900))),
        ("row 2: empty", Box::new(Vec::clear)),
        ("row 3: a section is damaged", Box::new(|bytes| bytes[500] ^= 1)),
        ("row 3: the header is damaged", Box::new(|bytes| bytes[50] ^= 1)),
        ("row 4: another version", Box::new(rewritten(8))),
        ("row 5: another journal", Box::new(rewritten(16))),
        ("row 6: another name", Box::new(rewritten(24))),
        ("row 8: another record in the journal", Box::new(rewritten(40))),
    ];
    for (row, damage) in &wrong {
        let storage = with_two_snapshots();
        change(&storage, &newest, damage);
        assert_eq!(begins_with(&storage), (1_000, 1), "{row}");
        change(&storage, &older, damage);
        assert_eq!(begins_with(&storage), (0, 2), "{row}, both");
    }

    // Row 7: the journal ends before the snapshot.
    let storage = with_two_snapshots();
    let longer = storage.bytes(&newest).unwrap();
    let shorter = CrashStorage::new();
    append(&shorter, 1, 1_500);
    take_snapshot(&shorter, 1_000);
    shorter.set_bytes(&newest, Some(longer.clone()));
    assert_eq!(begins_with(&shorter), (1_000, 1), "row 7");
    // Row 8: the journal continues differently, past the snapshot.
    let mut flow = CommandFlow::new(2, Profile::default());
    let (_, mut writer, _) =
        recovery::recover(Box::new(shorter.clone()), &options(), &mut |_| {}).unwrap();
    for sequence in 1_501..=2_500 {
        let mut payload = [0; Command::ENCODED_LEN_MAX];
        let len = flow.next_command().encode(&mut payload);
        writer.append(sequence, 1_000 * sequence, &payload[..len]).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    assert_eq!(begins_with(&shorter), (1_000, 1), "row 8");

    // Row 9: the snapshot was never finished, and its name is not that of a snapshot.
    let storage = with_two_snapshots();
    storage.set_bytes("00000000000000002500.snapshot-unfinished", Some(longer));
    assert_eq!(begins_with(&storage), (2_000, 0), "row 9");
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    // There is no CRC-32C table here: the journal's own function computes the header's checksum.
    let covered = [&bytes[..12], &bytes[16..80]].concat();
    journal::payload_checksum(&covered).to_le_bytes()
}

/// Rows 10 and 11: segments covered by both snapshots are not needed while one of the snapshots is usable; if none is,
/// the start is refused as corrupt.
#[test]
fn segments_that_snapshots_cover_are_not_needed() {
    let storage = with_two_snapshots();
    let expected = start(&storage).unwrap().recovery.state.engine.state_hash();
    let before = storage.names().len();
    let removed = journal::remove_segments_before(&mut storage.clone(), 1_000).unwrap();
    assert!(removed > 2 && storage.names().len() == before - removed, "{removed}");
    assert_eq!(start(&storage).unwrap().recovery.state.engine.state_hash(), expected);
    // A replay without opening begins with the oldest snapshot.
    let replayed = recovery::replay(&mut storage.clone(), &mut |_, _, _| {}, &mut |_| {}).unwrap();
    assert_eq!(replayed.state.engine.state_hash(), expected);
    assert_eq!(replayed.snapshot.unwrap().header.sequence, 1_000);
    let newest = snapshot_file_name(2_000);
    let bytes = storage.bytes(&newest).unwrap();
    storage.set_bytes(&newest, None);
    let found = start(&storage).unwrap().recovery;
    assert_eq!(found.state.engine.state_hash(), expected, "row 10: by the older one");
    drop(found);
    storage.set_bytes(&newest, Some(bytes[..100].to_vec()));
    storage.set_bytes(&snapshot_file_name(1_000), None);
    let names = storage.names();
    let failure = start(&storage).err().expect("row 11");
    assert_eq!(failure.exit_code, ExitCode::Verification, "{failure}");
    let message = failure.to_string();
    assert!(message.contains("should begin with sequence 1"), "{message}");
    assert!(message.contains("00000000000000002000.snapshot"), "{message}");
    assert_eq!(storage.names(), names, "nothing was changed");
}

/// A snapshot at any sequence leads to the same state and the same messages; so does a snapshot of a state that was
/// restored from another snapshot.
#[test]
fn any_sequence_will_do() {
    let storage = CrashStorage::new();
    append(&storage, 5, 600);
    let mut bytes_before = None;
    for sequence in [1, 2, 5, 20, 150, 151, 152, 399, 599] {
        take_snapshot(&storage, sequence);
        assert_eq!(begins_with(&storage), (sequence, 0));
        let name = snapshot_file_name(sequence);
        let from_the_first = storage.bytes(&name).unwrap();
        // Once more, through the snapshot before.
        storage.set_bytes(&name, None);
        let mut files = storage.clone();
        let mut follower =
            Follower::begin(&storage, &mut files, sequence, Some(ARCHIVE_BYTES)).unwrap();
        assert_eq!(follower.began_with().is_some(), bytes_before.is_some());
        while follower.poll(7, sequence, &mut |_| {}).unwrap() > 0 {}
        follower.write(&mut files, 9).unwrap();
        assert!(storage.bytes(&name).unwrap() == from_the_first, "the same bytes at {sequence}");
        bytes_before = Some(from_the_first);
    }
    take_snapshot(&storage, 600);
    let found = start(&storage).unwrap();
    assert_eq!((found.outputs, found.recovery.state.engine.sequence().0), (0, 600));
}

/// Whichever byte of a snapshot is changed, a start gives the same state and event digest.
#[test]
fn no_damaged_byte_changes_the_state() {
    let storage = CrashStorage::new();
    append(&storage, 8, 120);
    take_snapshot(&storage, 100);
    let name = snapshot_file_name(100);
    let whole = storage.bytes(&name).unwrap();
    let expected = start(&storage).unwrap().recovery.state;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        storage.set_bytes(&name, Some(bytes));
        let found = start(&storage).unwrap().recovery;
        assert_eq!(found.state.engine.state_hash(), expected.engine.state_hash(), "byte {at}");
        assert_eq!(found.state.digest, expected.digest, "byte {at}");
        assert!(found.snapshot.is_none() && found.passed_over.len() == 1, "byte {at}");
    }
    println!("{} damaged snapshots skipped", whole.len());
}

/// Messages before the oldest one in a snapshot are dropped, and their numbers are never reused.
#[test]
fn what_is_not_kept_is_counted() {
    let storage = CrashStorage::new();
    append(&storage, 1, 60_000);
    let few = 1 << 20;
    let mut follower = Follower::from_the_first(&storage, Some(few));
    while follower.poll(5_000, 55_000, &mut |_| {}).unwrap() > 0 {}
    let (count, first) = follower.archive().unwrap().feed_numbers();
    assert!(first > 1, "{first} of {count}");
    follower.write(&mut storage.clone(), 9).unwrap();
    let mut numbers = None;
    recovery::resume(
        Box::new(storage.clone()),
        &mut storage.clone(),
        &options(),
        few,
        &mut |past| {
            if let Past::Messages(history) = past {
                numbers = Some(history.feed_numbers());
            }
        },
    )
    .unwrap();
    assert_eq!(numbers, Some((count, first)));
}

/// Snapshots may be in another storage than the journal: a copy of it on another machine.
#[test]
fn snapshots_may_lie_elsewhere() {
    let storage = with_two_snapshots();
    let elsewhere = CrashStorage::new();
    follower_at(&storage, 2_500).write(&mut elsewhere.clone(), 1).unwrap();
    let mut files: Box<dyn Storage> = elsewhere.second();
    let found = recovery::resume(
        Box::new(storage.clone()),
        &mut *files,
        &options(),
        ARCHIVE_BYTES,
        &mut |_| {},
    );
    assert_eq!(found.unwrap().snapshot.unwrap().header.sequence, 2_500);
}

/// A follower whose events differ from those of the journal stops with the sequence: the event digests in the journal
/// are compared, and a changed one is found.
#[test]
fn the_first_difference_stops_with_its_sequence() {
    use market::EventDigest;
    use venue::checkpoint::{self, DigestRecord};
    let storage = CrashStorage::new();
    append(&storage, 3, 200);
    let digest = follower_at(&storage, 200).digest().word();
    let note = |wrong: u64| DigestRecord {
        sequence: 200,
        digest: EventDigest::from_word(digest ^ wrong),
        every: 0,
        fingerprint: checkpoint::fingerprint(),
    };
    let write = |note: DigestRecord| {
        let (_, mut writer, _) =
            recovery::recover(Box::new(storage.clone()), &options(), &mut |_| {}).unwrap();
        writer.checkpoint(&note.encode()).unwrap();
        writer.commit().unwrap();
    };
    let follow = || {
        let mut follower = Follower::from_the_first(&storage, Some(ARCHIVE_BYTES));
        loop {
            match follower.poll(50, u64::MAX, &mut |_| {}) {
                Ok(0) => return Ok(follower.digests().equal_count),
                Ok(_) => {}
                Err(failure) => return Err(failure),
            }
        }
    };
    write(note(0));
    assert_eq!(follow().unwrap(), 1);
    write(note(1));
    let failure = follow().unwrap_err();
    assert_eq!(failure.exit_code, ExitCode::Verification);
    assert!(failure.to_string().contains("up to sequence 200"), "{failure}");
}

/// A venue over networks in memory, on this disk.
fn assembled(storage: &CrashStorage, network: &FakeDatagram) -> Venue {
    let networks = Networks {
        order_entry_udp: network.clone(),
        ..Networks::<FakeStream, FakeDatagram>::default()
    };
    let config = Config::default();
    let edges = Edges {
        feed_destination: config.market_data.line_a().fallback,
        operator_events: |_| None,
        start_id: 1,
        perturbations: Perturbations::default(),
    };
    let disk = || Box::new(storage.clone());
    pipeline::assemble(&config, networks, &edges, disk(), disk(), JOURNAL_ID, 1).unwrap()
}

/// A start from a snapshot knows the numbers used before it: a retransmission is ignored before the journal.
#[test]
fn a_start_from_a_snapshot_knows_the_used_numbers() {
    let storage = CrashStorage::new();
    let network = FakeDatagram::new();
    let address = Config::default().participants.iter().find_map(|it| it.udp).unwrap();
    let (aapl, session_id) = (Symbol::new("AAPL").unwrap(), SessionId(0));
    let key = OrderKey { session_id, channel: 0, user_ref_num: 7 };
    let order = EnterOrder::limit(key, Side::Buy, aapl, Quantity(100), Price(10_000));
    let order = ouch::request(&Command::Enter(order)).unwrap();
    let enter_and_count = |venue: &mut Venue, now_ns| {
        network.deliver(address, &order);
        for _ in 0..10 {
            for agent in venue.agents.values_mut() {
                agent.do_work(now_ns).unwrap();
            }
        }
        let count = venue.gauges.order_entry_udp.read();
        (count.submitted, count.duplicates)
    };
    let mut venue = assembled(&storage, &network);
    assert_eq!(enter_and_count(&mut venue, 1_000), (1, 0));
    let last = venue.gauges.durable().0;
    drop(venue);
    take_snapshot(&storage, last);
    let mut venue = assembled(&storage, &network);
    let snapshot = venue.recovered.snapshot.expect("the start is from it");
    assert_eq!(snapshot.header.sequence, last, "nothing is replayed");
    assert_eq!(enter_and_count(&mut venue, 2_000), (0, 1));
}
