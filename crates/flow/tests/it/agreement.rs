use std::thread;

use flow::agreement;

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
