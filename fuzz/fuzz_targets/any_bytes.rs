//! One program for all targets: the variable `FUZZ_TARGET` names the target to run.

#![no_main]

use std::{env, sync::LazyLock};

use damrak_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let wanted = env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is {wanted:?}: set it to one of {names:?}")).1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET(bytes));
