//! The attacks: participants that misuse their session, and strangers at each socket.
//!
//! Each module has the attacks on one door or of one idea, a row each, and the code that its rows share.
//!
//! Invariant: an attack sends only messages that a client may send over a socket; none knows more than a participant.

mod datagrams;
mod feed;
mod fix;
mod operators;
mod ouch42;
mod sluice;
mod sessions;
mod strangers;
mod work;

use std::time::Duration;

use wire::{moldudp64, soupbintcp};

use super::target::{Attacker, PATIENT, Target};

/// An attack.
pub struct Attack {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// Its actions, in words.
    pub does: &'static str,
    /// The bound that has to hold, in words.
    pub bound: &'static str,
    means: Means,
}

/// How an attacker goes about it.
enum Means {
    /// A participant's session: `prepare` once, then `turn` until the attack is over.
    Flood { prepare: fn(&mut Attacker<'_>), turn: fn(&mut Attacker<'_>) },
    /// Anything else, from its beginning to its end.
    Free(fn(&Target)),
}

impl Attack {
    pub(super) fn run(&self, target: &Target) {
        match self.means {
            Means::Flood { prepare, turn } => target.flood(prepare, turn),
            Means::Free(run) => run(target),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// All attacks, door by door.
pub fn attacks() -> impl Iterator<Item = &'static Attack> {
    let doors = [
        work::ROWS,
        sessions::ROWS,
        strangers::ROWS,
        datagrams::ROWS,
        fix::ROWS,
        ouch42::ROWS,
        sluice::ROWS,
        feed::ROWS,
        operators::ROWS,
    ];
    doors.into_iter().flatten()
}

const fn flood(
    name: &'static str,
    does: &'static str,
    bound: &'static str,
    prepare: fn(&mut Attacker<'_>),
    turn: fn(&mut Attacker<'_>),
) -> Attack {
    Attack { name, does, bound, means: Means::Flood { prepare, turn } }
}

const fn free(
    name: &'static str,
    does: &'static str,
    bound: &'static str,
    run: fn(&Target),
) -> Attack {
    Attack { name, does, bound, means: Means::Free(run) }
}

/// No preparation, for a flood that needs none.
fn nothing(_: &mut Attacker<'_>) {}

/// A login packet.
fn login_bytes(user: &str, password: &str) -> Vec<u8> {
    let login = soupbintcp::LoginRequest::new(user, password).expect("they fit their fields");
    soupbintcp::Client::new(PATIENT, login, 0).outgoing().to_vec()
}

/// A request for as many messages as a request may name.
fn request(target: &Target, sequence_number: u64) -> Vec<u8> {
    let count = moldudp64::MESSAGE_COUNT_MAX;
    moldudp64::Request { session: target.session, sequence_number, count }.encode().to_vec()
}

fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut random = market::SplitMix64::new(seed);
    (0..count).map(|_| random.below(256) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are for the command line and for folders; each attack has one of its own, and texts.
    #[test]
    fn every_attack_is_described() {
        let attacks: Vec<_> = attacks().collect();
        assert!(attacks.len() >= 80);
        for (index, attack) in attacks.iter().enumerate() {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(attack.name.chars().all(is_plain), "{}", attack.name);
            assert!(!attack.does.is_empty() && !attack.bound.is_empty(), "{}", attack.name);
            let same = attacks[..index].iter().find(|other| other.name == attack.name);
            assert!(same.is_none(), "{}", attack.name);
        }
    }
}
