//! Checkpoints: state hashes in the journal, at a fixed interval of inputs. A replay compares them and
//! stops at the first difference.

use std::{collections::VecDeque, sync::OnceLock};

use engine::Engine;
use market::{
    AddInstrument, AddSession, Command, Input, Price, Quantity, SelfMatchPrevention, Sequence,
    Symbol, SystemEvent, Text, Timestamp,
};

/// The state hash after an input. As bytes: the kind of checkpoint (1), then in little-endian sequence,
/// state hash, interval and fingerprint, 8 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StateHash {
    pub sequence: u64,
    pub state_hash: u64,
    /// The next ones come at multiples of it, in inputs; 0 if there are none.
    pub every: u64,
    /// Of the program that made it, see [`fingerprint`].
    pub fingerprint: u64,
}

impl StateHash {
    pub const ENCODED_LEN: usize = 33;
    const KIND: u8 = 1;

    pub fn encode(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [Self::KIND; Self::ENCODED_LEN];
        let numbers = [self.sequence, self.state_hash, self.every, self.fingerprint];
        for (place, number) in bytes[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From the payload of a checkpoint; `None` if it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::ENCODED_LEN] = bytes.try_into().ok()?;
        let number = |nth: usize| {
            u64::from_le_bytes(*bytes[1 + 8 * nth..].first_chunk().expect("four numbers"))
        };
        (bytes[0] == Self::KIND).then(|| Self {
            sequence: number(0),
            state_hash: number(1),
            every: number(2),
            fingerprint: number(3),
        })
    }
}

/// Identifies the hash function of a program: the hash of one small, fixed state. A hash with another
/// fingerprint is not compared.
pub fn fingerprint() -> u64 {
    static FINGERPRINT: OnceLock<u64> = OnceLock::new();
    *FINGERPRINT.get_or_init(|| {
        let commands = [
            Command::System(SystemEvent::StartOfMessages),
            Command::AddInstrument(AddInstrument {
                symbol: Symbol::new("DAMRAK").expect("six letters"),
                price_increment: Price(100),
                round_lot: Quantity(100),
            }),
            Command::AddSession(AddSession {
                username: Text::new("USER01").expect("six letters"),
                firm: Text::new("FIRM").expect("four letters"),
                live_orders_max: 1,
                self_match_prevention: SelfMatchPrevention::Off,
            }),
            Command::System(SystemEvent::StartOfSystemHours),
        ];
        let mut engine = Engine::new();
        for (sequence, command) in (1..).map(Sequence).zip(commands) {
            engine.apply(&Input { sequence, timestamp: Timestamp(1), command }, &mut |_| {});
        }
        engine.state_hash()
    })
}

/// The state of a replay differs from the state that the venue recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// After this input; all hashes before it are equal.
    pub sequence: u64,
    pub recorded: u64,
    pub replayed: u64,
}

/// Compares a replay with the hashes in its journal.
#[derive(Debug, Default)]
pub struct HashCheck {
    /// The interval of the expected checkpoints, in inputs; 0 is none.
    every: u64,
    /// Hashes of the replay whose checkpoints have not been read yet.
    kept: VecDeque<(u64, u64)>,
    /// Checkpoints that were compared and are equal.
    pub equal_count: u64,
    /// Checkpoints that could not be compared: of another kind of program, or of a state that was not replayed.
    pub unknown_count: u64,
}

impl HashCheck {
    /// An input was applied.
    pub fn applied(&mut self, engine: &Engine) {
        let sequence = engine.sequence().0;
        if self.every > 0 && sequence.is_multiple_of(self.every) {
            self.kept.push_back((sequence, engine.state_hash()));
        }
    }

    /// Compares a checkpoint that was read with the replayed state.
    pub fn compare(&mut self, checkpoint: &StateHash, engine: &Engine) -> Result<(), Difference> {
        if checkpoint.fingerprint != fingerprint() {
            self.unknown_count += 1;
            return Ok(());
        }
        self.every = checkpoint.every;
        while self.kept.front().is_some_and(|(sequence, _)| *sequence < checkpoint.sequence) {
            self.kept.pop_front();
        }
        let replayed = match self.kept.front() {
            Some((sequence, hash)) if *sequence == checkpoint.sequence => Some(*hash),
            _ if checkpoint.sequence == engine.sequence().0 => Some(engine.state_hash()),
            _ => None,
        };
        match replayed {
            None => self.unknown_count += 1,
            Some(replayed) if replayed == checkpoint.state_hash => self.equal_count += 1,
            Some(replayed) => {
                let (sequence, recorded) = (checkpoint.sequence, checkpoint.state_hash);
                return Err(Difference { sequence, recorded, replayed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_at(sequence: u64) -> Engine {
        let mut engine = Engine::new();
        for sequence in (1..=sequence).map(Sequence) {
            let command = Command::System(SystemEvent::StartOfMessages);
            let timestamp = Timestamp(sequence.0);
            engine.apply(&Input { sequence, timestamp, command }, &mut |_| {});
        }
        engine
    }

    fn checkpoint_of(engine: &Engine, every: u64) -> StateHash {
        let (sequence, state_hash) = (engine.sequence().0, engine.state_hash());
        StateHash { sequence, state_hash, every, fingerprint: fingerprint() }
    }

    /// A checkpoint reads as it was written, and nothing else reads as one.
    #[test]
    fn notes_read_as_written() {
        let checkpoint = StateHash { sequence: 1, state_hash: 2, every: 3, fingerprint: 4 };
        assert_eq!(StateHash::decode(&checkpoint.encode()), Some(checkpoint));
        assert_eq!(StateHash::decode(&[1; 32]), None);
        assert_eq!(StateHash::decode(&[2; 33]), None);
    }

    /// A hash is compared with that of its own sequence, also when it comes later; the first difference
    /// is reported with its sequence.
    #[test]
    fn the_first_difference_is_reported() {
        let mut check = HashCheck::default();
        check.compare(&checkpoint_of(&engine_at(1), 2), &engine_at(1)).unwrap();
        for sequence in 2..=9 {
            check.applied(&engine_at(sequence));
        }
        check.compare(&checkpoint_of(&engine_at(4), 2), &engine_at(9)).unwrap();
        assert_eq!((check.equal_count, check.unknown_count), (2, 0));
        let wrong = StateHash { state_hash: 7, ..checkpoint_of(&engine_at(6), 2) };
        let difference = check.compare(&wrong, &engine_at(9)).unwrap_err();
        assert_eq!((difference.sequence, difference.recorded), (6, 7));
        assert_eq!(difference.replayed, engine_at(6).state_hash());
    }

    /// A checkpoint with another fingerprint is counted, and not compared.
    #[test]
    fn other_programs_are_not_compared() {
        let mut check = HashCheck::default();
        let checkpoint =
            StateHash { fingerprint: 1, state_hash: 9, ..checkpoint_of(&engine_at(1), 2) };
        check.compare(&checkpoint, &engine_at(1)).unwrap();
        assert_eq!((check.equal_count, check.unknown_count), (0, 1));
    }
}
