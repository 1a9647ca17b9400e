//! Engine and model agree on seeded commands of every profile.

use std::thread;

use engine::Engine;
use market::{Input, Sequence, Timestamp};
use proof::{agreement, generator::CommandFlow};

/// Commands of each seed of each profile, and how many seeds there are: as many as here, or as the
/// environment says in `DAMRAK_MODEL_COMMANDS` and `DAMRAK_MODEL_SEEDS`. To look at a failure,
/// `DAMRAK_MODEL_PROFILE` names a profile, of which only the last of the seeds is played.
const COMMANDS: u64 = 100_000;
const SEEDS: u64 = 4;

fn setting(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
        Err(_) => usual,
    }
}

/// Over a million random commands the engine does what the model does, event by event, and they
/// meet everything that the engine can say.
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
    assert_eq!(agreement::missing(&coverage), Vec::<&str>::new(), "never seen");
}

/// The fast path gives the same events and the same state as the general path, whatever comes.
#[test]
fn fast_path_does_what_the_general_path_does() {
    const COMMANDS: u64 = 50_000;
    let seeds = setting("DAMRAK_RESTORED_SEEDS", 4);
    for (name, profile) in agreement::profiles(COMMANDS) {
        for seed in 1..=seeds {
            let mut flow = CommandFlow::new(seed, profile.clone());
            let (mut engine, mut general) = (Engine::new(), Engine::new());
            let (mut events, mut others) = (Vec::new(), Vec::new());
            for number in 1..=COMMANDS {
                let input = Input {
                    sequence: Sequence(number),
                    timestamp: Timestamp(number * 1_000_000),
                    command: flow.next_command(),
                };
                events.clear();
                others.clear();
                engine.apply(&input, &mut |event| events.push(event));
                general.apply_on_general_path(&input, &mut |event| others.push(event));
                let place = format!("{name}, seed {seed}, {number}: {:?}", input.command);
                assert_eq!(events, others, "{place}");
                assert_eq!(engine.state_hash(), general.state_hash(), "{place}");
            }
        }
    }
}

/// An engine that was restored from a snapshot goes on as the one that the snapshot is of, whatever
/// comes: nothing that matters later is missing in it.
#[test]
fn restored_engine_goes_on_as_its_origin() {
    const COMMANDS: u64 = 4_000;
    const RESTORED_EVERY: u64 = 40;
    let seeds = setting("DAMRAK_RESTORED_SEEDS", 4);
    for (name, profile) in agreement::profiles(COMMANDS) {
        for seed in 1..=seeds {
            let mut flow = CommandFlow::new(seed, profile.clone());
            let (mut origin, mut restored) = (Engine::new(), Engine::new());
            let (mut events, mut others) = (Vec::new(), Vec::new());
            for number in 1..=COMMANDS {
                let input = Input {
                    sequence: Sequence(number),
                    timestamp: Timestamp(number * 1_000_000),
                    command: flow.next_command(),
                };
                events.clear();
                others.clear();
                origin.apply(&input, &mut |event| events.push(event));
                restored.apply(&input, &mut |event| others.push(event));
                let place = format!("{name}, seed {seed}, {number}: {:?}", input.command);
                assert_eq!(events, others, "{place}");
                assert_eq!(origin.state_hash(), restored.state_hash(), "{place}");
                if number % RESTORED_EVERY == 0 {
                    restored = agreement::restored(&origin, &place).unwrap();
                }
            }
        }
    }
}
