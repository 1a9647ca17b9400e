//! Engine and model agree on seeded commands of every profile, and so do two engines.

use std::thread;

use engine::{Emit, Engine};
use market::{Event, EventDigest, Input, Outcome, Sequence, Timestamp};
use proof::{agreement, generator::CommandFlow};

/// Commands of each seed of each profile, and the number of seeds, unless the environment sets
/// `DAMRAK_MODEL_COMMANDS` and `DAMRAK_MODEL_SEEDS`. To examine a failure, `DAMRAK_MODEL_PROFILE` names
/// a profile, of which only the last seed is played.
const COMMANDS: u64 = 100_000;
const SEEDS: u64 = 4;

fn setting(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
        Err(_) => usual,
    }
}

/// Over a million random commands the engine agrees with the model, event by event, and the commands
/// meet every kind of answer of the engine.
#[test]
fn engine_agrees_with_the_model() {
    let commands = setting("DAMRAK_MODEL_COMMANDS", COMMANDS);
    let seeds = setting("DAMRAK_MODEL_SEEDS", SEEDS);
    let total = agreement::profiles(commands).len() as u64 * seeds * commands;
    assert!(total >= 1_000_000, "{total} commands are too few to meet everything");

    if let Ok(only) = std::env::var("DAMRAK_MODEL_PROFILE") {
        let profiles = agreement::profiles(commands);
        let found = profiles.into_iter().find(|(name, _)| *name == only);
        let (name, profile) = found.unwrap_or_else(|| panic!("{only:?} is no profile"));
        let outcome = agreement::play(name, profile, seeds, commands);
        return println!("{:#?}", outcome.unwrap_or_else(|difference| panic!("{difference}")));
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let coverage = match agreement::play_all(1..=seeds, commands, threads) {
        Ok(coverage) => coverage,
        Err(difference) => panic!("{difference}"),
    };
    println!("{total} commands\n{coverage:#?}");
    assert_eq!(agreement::missing(&coverage), Vec::<String>::new(), "never seen");
}

/// The events of an input, and their digest.
struct Said {
    cause: Sequence,
    timestamp: Timestamp,
    events: Vec<Event>,
    digest: EventDigest,
}

impl Said {
    fn of(input: &Input) -> Self {
        let (cause, timestamp) = (input.sequence, input.timestamp);
        Self { cause, timestamp, events: Vec::new(), digest: EventDigest::default() }
    }
}

impl Emit for Said {
    fn emit(&mut self, event: Event) {
        self.emit_at_once(Outcome::Event(event));
    }

    fn emit_at_once(&mut self, outcome: Outcome) {
        self.digest.add(self.cause, self.timestamp, &outcome);
        outcome.each(|event| self.events.push(event));
    }
}

/// Gives the commands of every profile to an engine, and to another one through `other`; their events and
/// state hashes are equal, and so are their event digests where `has_equal_lines`.
fn two_engines_agree(
    commands: u64,
    has_equal_lines: bool,
    other: fn(&Engine, &mut Engine, &Input, &mut Said),
) {
    let seeds = setting("DAMRAK_RESTORED_SEEDS", 4);
    for (name, profile) in agreement::profiles(commands) {
        for seed in 1..=seeds {
            let mut flow = CommandFlow::new(seed, profile.clone());
            let (mut first, mut second) = (Engine::new(), Engine::new());
            for number in 1..=commands {
                let input = Input {
                    sequence: Sequence(number),
                    timestamp: Timestamp(number * 1_000_000),
                    command: flow.next_command(),
                };
                let (mut said, mut others) = (Said::of(&input), Said::of(&input));
                other(&first, &mut second, &input, &mut others);
                first.apply_to(&input, &mut said);
                let place = || format!("{name}, seed {seed}, {number}: {:?}", input.command);
                assert_eq!(said.events, others.events, "{}", place());
                if has_equal_lines {
                    assert_eq!(said.digest, others.digest, "{}", place());
                }
                // A hash walks over the whole state: each is compared while the state is small, then 200 over the run.
                if number <= 1_000 || number.is_multiple_of(commands / 200) {
                    assert_eq!(first.state_hash(), second.state_hash(), "{}", place());
                }
            }
        }
    }
}

/// Inputs that are looked up together emit the same lines as one by one, for any commands: in batches of 1 to 17
/// inputs, in which settings change too.
#[test]
fn lookups_of_a_batch_have_no_effect() {
    let commands = 50_000;
    for (name, profile) in agreement::profiles(commands) {
        let mut flow = CommandFlow::new(1, profile.clone());
        let mut inputs = (1..=commands).map(|number| Input {
            sequence: Sequence(number),
            timestamp: Timestamp(number * 1_000_000),
            command: flow.next_command(),
        });
        let (mut first, mut second) = (Engine::new(), Engine::new());
        for len in (1..=17).cycle() {
            let batch: Vec<Input> = inputs.by_ref().take(len).collect();
            if batch.is_empty() {
                break;
            }
            let mut looked_up = second.batch(&batch, 0, ring::fetch);
            for input in &batch {
                let (mut said, mut others) = (Said::of(input), Said::of(input));
                first.apply_to(input, &mut said);
                looked_up.next_input().expect("as many come out").apply_to(&mut others);
                assert_eq!(said.digest, others.digest, "{name}, {input:?}");
            }
            assert!(looked_up.next_input().is_none(), "no more come out");
        }
        assert_eq!(first.state_hash(), second.state_hash(), "{name}");
    }
}

/// The mark of plain orders changes neither events nor the state, for any commands.
#[test]
fn the_mark_of_plain_orders_has_no_effect() {
    two_engines_agree(50_000, false, |_, unmarked, input, said| {
        unmarked.apply_unmarked(input, &mut |event| said.emit(event));
    });
}

/// An engine restored from a snapshot continues as the engine of the snapshot, for any commands, line by
/// line: the snapshot lacks nothing that matters later, and the event digest continues.
#[test]
fn restored_engine_goes_on_as_its_origin() {
    two_engines_agree(4_000, true, |origin, restored, input, said| {
        if input.sequence.0.is_multiple_of(40) {
            *restored = proof::restored(origin).unwrap();
        }
        restored.apply_to(input, said);
    });
}
