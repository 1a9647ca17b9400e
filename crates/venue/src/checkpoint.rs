//! Checkpoints: event digests in the journal, at a fixed interval of inputs. A replay compares them
//! and stops at the first difference.
//!
//! Invariant: a digest is compared only with one of the same function, and up to the same input.

use std::{collections::VecDeque, sync::OnceLock};

use market::{
    AccountId, AddAccount, AddAsset, AddInstrument, AddSession, AssetId, AssignSession,
    CancelOrder, Command, Deposit, EnterOrder, EventDigest, Input, MoneyClass, MoneyCommand,
    MoneyTerms, OrderKey, Price, Quantity, SelfMatchPrevention, Sequence, SessionId, SetFees,
    SetTerms, Side, Symbol, SystemEvent, Text, Timestamp, Units,
};

use crate::snapshot::VenueState;

/// The event digest up to an input. As bytes: the kind of checkpoint (1), then in little-endian
/// sequence, digest, interval and fingerprint, 8 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DigestRecord {
    pub sequence: u64,
    /// The digest of all events up to that input.
    pub digest: EventDigest,
    /// Inputs between two checkpoints, which are at multiples of it; 0 if no more follow.
    pub every: u64,
    /// The fingerprint of the program that made it, see [`fingerprint`].
    pub fingerprint: u64,
}

impl DigestRecord {
    pub const ENCODED_LEN: usize = 33;
    const KIND: u8 = 1;

    pub fn encode(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [Self::KIND; Self::ENCODED_LEN];
        let numbers = [self.sequence, self.digest.word(), self.every, self.fingerprint];
        for (place, number) in bytes[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Decodes the payload of a checkpoint; `None` if it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::ENCODED_LEN] = bytes.try_into().ok()?;
        let number = |nth: usize| {
            u64::from_le_bytes(*bytes[1 + 8 * nth..].first_chunk().expect("four numbers"))
        };
        (bytes[0] == Self::KIND).then(|| Self {
            sequence: number(0),
            digest: EventDigest::from_word(number(1)),
            every: number(2),
            fingerprint: number(3),
        })
    }
}

/// Identifies the digest function of a program: the digest of the events of one small, fixed run. A digest with another
/// fingerprint is not compared.
///
/// The run has a line of each kind: orders that rest, a trade that is settled, a cancel, single events. It also has amounts on
/// both sides of each bound beyond which events do not share a line. So a program with other fields in the lines, other
/// bounds, or another way to hash them has another fingerprint.
pub fn fingerprint() -> u64 {
    static FINGERPRINT: OnceLock<u64> = OnceLock::new();
    *FINGERPRINT.get_or_init(|| {
        let mut state = VenueState::default();
        for (sequence, command) in (1..).map(Sequence).zip(fixed_run()) {
            state.apply(&Input { sequence, timestamp: Timestamp(1), command }, &mut |_| {});
        }
        state.digest.word()
    })
}

/// The commands of the run that gives the fingerprint.
fn fixed_run() -> Vec<Command> {
    let [symbol, large, tiny] =
        ["DAMRAK", "LARGE", "TINY"].map(|name| Symbol::new(name).expect("up to eight letters"));
    let (base, quote, much) = (AssetId(1), AssetId(2), AssetId(3));
    let accounts = [(1, "MAKER"), (2, "TAKER")];
    let key = |session, user_ref_num| OrderKey {
        session_id: SessionId(session),
        channel: 0,
        user_ref_num,
    };
    let enter_in = |symbol, key, side, lots, price| {
        Command::Enter(EnterOrder::limit(key, side, symbol, Quantity(lots), Price(price)))
    };
    let enter = |key, side, lots, price| enter_in(symbol, key, side, lots, price);
    let asset = |name| {
        let name = Text::new(name).expect("it is short");
        Command::Money(MoneyCommand::AddAsset(AddAsset { name, decimals: 2 }))
    };
    let add = |symbol| {
        let (price_increment, round_lot) = (Price(100), Quantity(100));
        Command::AddInstrument(AddInstrument { symbol, price_increment, round_lot })
    };
    let paid = |symbol, quote, quote_numerator, quote_denominator| {
        let terms = MoneyTerms {
            class: MoneyClass::Cash,
            base,
            quote,
            base_units: 1,
            quote_numerator,
            quote_denominator,
            quantity_max: Quantity(1_000),
        };
        Command::Money(MoneyCommand::SetTerms(SetTerms { symbol, terms }))
    };
    let mut run = vec![
        Command::System(SystemEvent::StartOfMessages),
        add(symbol),
        add(large),
        add(tiny),
        asset("SHARE"),
        asset("EURO"),
        asset("MUCH"),
        paid(symbol, quote, 1, 1),
        paid(large, much, 1 << 40, 1),
        paid(tiny, quote, 1, 1 << 40),
        Command::Money(MoneyCommand::SetFees(SetFees { tier: 0, maker_ppm: -100, taker_ppm: 300 })),
    ];
    for (number, name) in accounts {
        let name = Text::new(name).expect("five letters");
        run.push(Command::AddSession(AddSession {
            username: Text::new(&format!("USER0{number}")).expect("six letters"),
            firm: Text::new("FIRM").expect("four letters"),
            live_orders_max: 10,
            self_match_prevention: SelfMatchPrevention::Off,
        }));
        let (account_id, session_id) = (AccountId(number), SessionId(number as u16));
        let (money, amount) = (MoneyCommand::AddAccount, Units::new(1_000_000_000));
        run.extend(
            [
                money(AddAccount { name }),
                MoneyCommand::AssignSession(AssignSession { session_id, account_id }),
                MoneyCommand::Deposit(Deposit { account_id, asset_id: base, amount }),
                MoneyCommand::Deposit(Deposit { account_id, asset_id: quote, amount }),
                MoneyCommand::Deposit(Deposit {
                    account_id,
                    asset_id: much,
                    amount: Units::new(1 << 70),
                }),
            ]
            .map(Command::Money),
        );
    }
    run.extend([
        Command::System(SystemEvent::StartOfSystemHours),
        Command::System(SystemEvent::StartOfMarketHours),
        enter(key(1, 1), Side::Buy, 300, 10_000),
        enter(key(2, 1), Side::Sell, 200, 9_900),
        enter(key(1, 2), Side::Buy, 100, 9_800),
        Command::Cancel(CancelOrder { key: key(1, 2), quantity: Quantity::ZERO }),
        enter(key(2, 2), Side::Sell, 500, 20_000),
        // A trade for an amount of 0.
        enter_in(tiny, key(1, 3), Side::Buy, 1, 100),
        enter_in(tiny, key(2, 3), Side::Sell, 1, 100),
    ]);
    // A trade on each side of 2⁶², and reservations on each side of 2⁶³ and 2⁶⁴.
    for (number, lots) in (4..).zip([400, 440, 820, 860]) {
        run.push(enter_in(large, key(1, number), Side::Buy, lots, 10_000));
        run.push(enter_in(large, key(2, number), Side::Sell, lots, 10_000));
    }
    let beyond_64_bits = enter_in(large, key(1, 8), Side::Buy, 1_000, 20_000);
    run.push(beyond_64_bits);
    run
}

/// A replay does not give the events that the venue recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The first input whose digest differs; all digests before it are equal.
    pub sequence: u64,
    pub recorded: EventDigest,
    pub replayed: EventDigest,
}

/// Compares a replay with the digests in its journal.
#[derive(Debug, Default)]
pub struct DigestCheck {
    /// The interval of the expected checkpoints, in inputs; 0 is none.
    every: u64,
    /// Digests of the replay whose checkpoints have not been read yet.
    kept: VecDeque<(u64, EventDigest)>,
    /// Checkpoints compared and equal.
    pub equal_count: u64,
    /// Checkpoints that could not be compared: of another kind of program, or up to an input that was not replayed.
    pub unknown_count: u64,
}

impl DigestCheck {
    /// Notes that an input was applied.
    pub fn applied(&mut self, Sequence(sequence): Sequence, digest: EventDigest) {
        if self.every > 0 && sequence.is_multiple_of(self.every) {
            self.kept.push_back((sequence, digest));
        }
    }

    /// Compares a checkpoint from the journal with the replay.
    pub fn compare(
        &mut self,
        checkpoint: &DigestRecord,
        state: &VenueState,
    ) -> Result<(), Difference> {
        if checkpoint.fingerprint != fingerprint() {
            self.unknown_count += 1;
            return Ok(());
        }
        self.every = checkpoint.every;
        while self.kept.front().is_some_and(|(sequence, _)| *sequence < checkpoint.sequence) {
            self.kept.pop_front();
        }
        let replayed = match self.kept.front() {
            Some((sequence, digest)) if *sequence == checkpoint.sequence => Some(*digest),
            _ if checkpoint.sequence == state.engine.sequence().0 => Some(state.digest),
            _ => None,
        };
        match replayed {
            None => self.unknown_count += 1,
            Some(replayed) if replayed == checkpoint.digest => self.equal_count += 1,
            Some(replayed) => {
                let (sequence, recorded) = (checkpoint.sequence, checkpoint.digest);
                return Err(Difference { sequence, recorded, replayed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use market::Outcome;

    use super::*;

    fn state_at(sequence: u64) -> VenueState {
        let mut state = VenueState::default();
        for sequence in (1..=sequence).map(Sequence) {
            let command = Command::System(SystemEvent::StartOfMessages);
            let timestamp = Timestamp(sequence.0);
            state.apply(&Input { sequence, timestamp, command }, &mut |_| {});
        }
        state
    }

    fn checkpoint_of(state: &VenueState, every: u64) -> DigestRecord {
        let (sequence, digest) = (state.engine.sequence().0, state.digest);
        DigestRecord { sequence, digest, every, fingerprint: fingerprint() }
    }

    /// A checkpoint decodes as it was encoded, and no other bytes decode as one.
    #[test]
    fn notes_read_as_written() {
        let digest = EventDigest::from_word(2);
        let checkpoint = DigestRecord { sequence: 1, digest, every: 3, fingerprint: 4 };
        assert_eq!(DigestRecord::decode(&checkpoint.encode()), Some(checkpoint));
        assert_eq!(DigestRecord::decode(&[1; 32]), None);
        assert_eq!(DigestRecord::decode(&[2; 33]), None);
    }

    /// A digest is compared with the digest of its own sequence, also if it comes later; the first difference is
    /// reported with its sequence.
    #[test]
    fn the_first_difference_is_reported() {
        let mut check = DigestCheck::default();
        check.compare(&checkpoint_of(&state_at(1), 2), &state_at(1)).unwrap();
        for sequence in 2..=9 {
            check.applied(Sequence(sequence), state_at(sequence).digest);
        }
        check.compare(&checkpoint_of(&state_at(4), 2), &state_at(9)).unwrap();
        assert_eq!((check.equal_count, check.unknown_count), (2, 0));
        let seven = EventDigest::from_word(7);
        let wrong = DigestRecord { digest: seven, ..checkpoint_of(&state_at(6), 2) };
        let difference = check.compare(&wrong, &state_at(9)).unwrap_err();
        assert_eq!((difference.sequence, difference.recorded), (6, seven));
        assert_eq!(difference.replayed, state_at(6).digest);
    }

    /// A checkpoint with another fingerprint is counted, and not compared.
    #[test]
    fn other_programs_are_not_compared() {
        let mut check = DigestCheck::default();
        let digest = EventDigest::from_word(9);
        let checkpoint = DigestRecord { fingerprint: 1, digest, ..checkpoint_of(&state_at(1), 2) };
        check.compare(&checkpoint, &state_at(1)).unwrap();
        assert_eq!((check.equal_count, check.unknown_count), (0, 1));
    }

    /// The run of the fingerprint has a line of every kind.
    #[test]
    fn the_fingerprint_has_every_kind_of_line() {
        struct Kinds([u32; 4]);
        impl engine::Emit for Kinds {
            fn emit(&mut self, event: market::Event) {
                self.emit_at_once(Outcome::Event(event));
            }

            fn emit_at_once(&mut self, outcome: Outcome) {
                self.0[match outcome {
                    Outcome::Event(_) => 0,
                    Outcome::Entered(_) => 1,
                    Outcome::Withdrawn(_) => 2,
                    Outcome::Settled(_) => 3,
                }] += 1;
            }
        }
        let (mut engine, mut kinds) = (engine::Engine::new(), Kinds([0; 4]));
        for (sequence, command) in (1..).map(Sequence).zip(fixed_run()) {
            engine.apply_to(&Input { sequence, timestamp: Timestamp(1), command }, &mut kinds);
        }
        let Kinds([events, rest @ ..]) = kinds;
        assert!(events > 10, "{events}");
        // Of 15 orders, three have events of their own: their cost is 0, or takes more than 63 bits. Of six trades, two
        // are in a line: the amounts of the others are 0, or take more than 62 bits.
        assert_eq!(rest, [12, 1, 2]);
    }
}
