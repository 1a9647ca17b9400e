//! Passes the compiler's version to the program, for the figures that it prints.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env::var_os("RUSTC")
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .map_or_else(String::new, |output| String::from_utf8_lossy(&output.stdout).into_owned());
    println!("cargo::rustc-env=DAMRAK_RUSTC={}", version.trim());
}
