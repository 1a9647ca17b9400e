//! The event digest: one number for all output lines of a run so far. Equal digests after the same
//! input mean that the runs had the same events, up to here.
//!
//! Invariants: each line counts, with all its fields, its input and its place. A line is hashed alone and then joins
//! the chain by one multiplication, so that the processor works on several lines at a time. An outcome of several
//! events is one line, and has another digest than those events one by one: the engine groups events by its state
//! alone, so runs with equal inputs have equal lines.

use core::hash::{Hash, Hasher};

use crate::{
    Event, Fill, Outcome, Sequence, Timestamp, Traded,
    mix::{fold, fold_pair},
    outcome::key_word,
};

/// A chain hash over all output lines, in order. The same inputs give the same digest, so two runs can be
/// compared in O(1) after any input.
///
/// Equal states that were reached by different inputs have different digests; compare state hashes for those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EventDigest(u64);

// The kinds of lines: those that most orders have are packed into words by hand.
const EVENT: u64 = 1;
const ENTERED: u64 = 2;
const WITHDRAWN: u64 = 3;
const SETTLED: u64 = 4;
const TRADED: u64 = 5;

/// The distance between the places of two pairs of a line: odd and otherwise random.
const PLACE: u64 = 0xA24B_AED4_963E_E407;

impl EventDigest {
    /// The digest that [`word`](Self::word) gave.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The digest as a number, for records and for comparison.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Adds the next line: an outcome of the input `cause`, whose time is `timestamp`.
    #[inline]
    pub fn add(&mut self, cause: Sequence, timestamp: Timestamp, outcome: &Outcome) {
        let at = fold_pair(cause.0, timestamp.0);
        let line = match outcome {
            Outcome::Entered(entered) => line(ENTERED, at, entered.pairs()),
            Outcome::Withdrawn(withdrawn) => line(WITHDRAWN, at, withdrawn.pairs()),
            Outcome::Settled(settled) => line(SETTLED, at, settled.pairs()),
            Outcome::Event(Event::Traded(traded @ Traded { auction: None, .. })) => {
                line(TRADED, at, traded_pairs(traded))
            }
            Outcome::Event(event) => event_line(at, event),
        };
        self.0 = fold_pair(self.0, line);
    }
}

/// The hash of a line of a known kind, of the input with the hash `at`. No pair waits for another.
#[inline(always)]
fn line<const N: usize>(kind: u64, at: u64, pairs: [[u64; 2]; N]) -> u64 {
    let mut line = at.wrapping_add(kind);
    let mut place = 0_u64;
    for [one, other] in pairs {
        place = place.wrapping_add(PLACE);
        line = line.wrapping_add(fold_pair(one ^ place, other));
    }
    line
}

/// The hash of a line with any one event.
#[inline(never)]
fn event_line(at: u64, event: &Event) -> u64 {
    let mut line = WordHasher(at.wrapping_add(EVENT));
    event.hash(&mut line);
    line.finish()
}

/// All fields of a trade, but for the auction.
#[inline(always)]
fn traded_pairs(traded: &Traded) -> [[u64; 2]; 6] {
    let Traded {
        trade_id,
        instrument_id,
        taker_side,
        price,
        quantity,
        maker_shown,
        maker,
        taker,
        auction: _,
    } = *traded;
    let Fill { key: maker_key, order_id: maker_order_id, leaves: maker_leaves } = maker;
    let Fill { key: taker_key, order_id: taker_order_id, leaves: taker_leaves } = taker;
    [
        [trade_id.0, price.0],
        [quantity.0, maker_shown.0],
        [maker_order_id.0, taker_order_id.0],
        [maker_leaves.0, taker_leaves.0],
        [key_word(maker_key), key_word(taker_key)],
        [u64::from(instrument_id.0) << 8 | u64::from(taker_side.code()), 0],
    ]
}

/// Takes the fields of an event, a word each.
///
/// By default signed numbers are hashed as unsigned ones, and these by the machine's byte order and word
/// size. So each unsigned type has its own method here, and no value depends on the machine.
struct WordHasher(u64);

impl WordHasher {
    #[inline]
    fn take(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word);
    }
}

impl Hasher for WordHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.take(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.take(value.into());
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.take(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.take(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.take(value);
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.take(value as u64);
        self.take((value >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.take(value as u64);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{collections::BTreeSet, vec::Vec};

    use super::*;
    use crate::{
        AccountId, AssetId, AuctionTrade, Bucket, CancelReason, Canceled, Capacity, ClientOrderId,
        CommandKind, CustomerType, Display, Firm, InstrumentId, LedgerKind, OrderAttributes,
        OrderEntered, OrderId, OrderKey, OrderType, OrderWithdrawn, OwnMovement, Phase, Price,
        Quantity, RejectReason, Rejected, SelfMatchGroup, SelfMatchPrevention, SessionId,
        Settlement, Shown, Side, SystemEvent, Ticks, TimeInForce, TradeId, TradeSettled, Units,
    };

    fn digest_of(lines: &[(u64, u64, Outcome)]) -> EventDigest {
        let mut digest = EventDigest::default();
        for (cause, timestamp, outcome) in lines {
            digest.add(Sequence(*cause), Timestamp(*timestamp), outcome);
        }
        digest
    }

    /// A movement of these numbers.
    fn movement(amount: u64, version: u64, account: u32, asset: u16) -> OwnMovement {
        OwnMovement::new(AccountId(account), AssetId(asset), amount, version)
    }

    fn key() -> OrderKey {
        OrderKey { session_id: SessionId(3), channel: 1, user_ref_num: 4 }
    }

    fn entered() -> OrderEntered {
        OrderEntered {
            order_id: OrderId(9),
            key: key(),
            price: Ticks(100),
            instrument_id: InstrumentId(1),
            quantity: Quantity(5).lots(),
            attributes: OrderAttributes::default(),
            side: Side::Buy,
            time_in_force: TimeInForce::Day,
            self_match_prevention: SelfMatchPrevention::Off,
            rests: false,
            self_match_group: SelfMatchGroup::BLANK,
            reserved: movement(500, 7, 2, 1),
        }
    }

    fn withdrawn() -> OrderWithdrawn {
        OrderWithdrawn {
            order_id: OrderId(9),
            key: key(),
            released: movement(500, 7, 2, 1),
            instrument_id: InstrumentId(1),
            quantity: Quantity(5).lots(),
            is_shown: false,
        }
    }

    fn settlement() -> Settlement {
        Settlement { taker_is_buy: false, ..Settlement::small() }
    }

    /// The value, and as many that each differ from it in one field.
    fn with_changes<T: Copy>(value: T, changes: &[fn(&mut T)]) -> Vec<T> {
        let mut all = Vec::from([value]);
        for change in changes {
            let mut changed = value;
            change(&mut changed);
            all.push(changed);
        }
        all
    }

    /// Every value gives another digest, and the same one each time.
    fn all_differ(outcomes: impl IntoIterator<Item = Outcome>) {
        let (mut count, mut digests) = (0, BTreeSet::new());
        for outcome in outcomes {
            let digest = digest_of(&[(1, 2, outcome)]);
            assert_eq!(digest, digest_of(&[(1, 2, outcome)]), "{outcome:?}");
            assert!(digests.insert(digest.word()), "{outcome:?} has the digest of another");
            count += 1;
        }
        assert_eq!(digests.len(), count);
    }

    /// Each field of an accepted order counts: also its highest bit, where it is a number.
    #[test]
    fn every_field_of_an_entered_order_counts() {
        let all = with_changes(
            entered(),
            &[
                |it| it.order_id.0 ^= 1 << 63,
                |it| it.key.session_id.0 ^= 1 << 15,
                |it| it.key.channel ^= 1 << 7,
                |it| it.key.user_ref_num ^= 1 << 31,
                |it| it.price.0 ^= 1 << 31,
                |it| it.instrument_id.0 ^= 1 << 15,
                |it| it.quantity = Quantity(5 | 1 << 47).lots(),
                |it| it.side = Side::Sell,
                |it| it.time_in_force = TimeInForce::GoodTillCancel,
                |it| it.self_match_prevention = SelfMatchPrevention::CancelNewest,
                |it| it.rests = true,
                |it| it.self_match_group = SelfMatchGroup::new(" A").unwrap(),
                |it| it.self_match_group = SelfMatchGroup::new("A").unwrap(),
                |it| it.attributes.client_order_id = ClientOrderId::new("A").unwrap(),
                |it| it.attributes.client_order_id = ClientOrderId::new("             A").unwrap(),
                |it| it.attributes.firm = Firm::new("   A").unwrap(),
                |it| it.attributes.capacity = Capacity::Agency,
                |it| it.attributes.customer_type = CustomerType::Retail,
                |it| it.attributes.group_id = 1 << 15,
                |it| it.attributes.shares_located = true,
                |it| it.attributes.locate_broker = Firm::new("   A").unwrap(),
                |it| it.reserved = movement(500 | 1 << 62, 7, 2, 1),
                |it| it.reserved = movement(500, 7 | 1 << 62, 2, 1),
                |it| it.reserved = movement(500, 7, 2 | 1 << 31, 1),
                |it| it.reserved = movement(500, 7, 2, 1 | 1 << 15),
            ],
        );
        all_differ(all.into_iter().map(Outcome::Entered));
    }

    /// Each field of a canceled order counts.
    #[test]
    fn every_field_of_a_withdrawn_order_counts() {
        let all = with_changes(
            withdrawn(),
            &[
                |it| it.order_id.0 ^= 1 << 63,
                |it| it.key.session_id.0 ^= 1 << 15,
                |it| it.key.channel ^= 1 << 7,
                |it| it.key.user_ref_num ^= 1 << 31,
                |it| it.instrument_id.0 ^= 1 << 15,
                |it| it.quantity = Quantity(5 | 1 << 47).lots(),
                |it| it.is_shown = true,
                |it| it.released = movement(500 | 1 << 62, 7, 2, 1),
                |it| it.released = movement(500, 7 | 1 << 62, 2, 1),
                |it| it.released = movement(500, 7, 2 | 1 << 31, 1),
                |it| it.released = movement(500, 7, 2, 1 | 1 << 15),
            ],
        );
        all_differ(all.into_iter().map(Outcome::Withdrawn));
    }

    /// Each field of a settled trade counts.
    #[test]
    fn every_field_of_a_settled_trade_counts() {
        let mut all = with_changes(
            settlement(),
            &[
                |it| it.trade_id.0 ^= 1 << 63,
                |it| it.orders[0].0 ^= 1 << 63,
                |it| it.orders[1].0 ^= 1 << 63,
                |it| it.orders.reverse(),
                |it| it.accounts[0].0 ^= 1 << 31,
                |it| it.accounts[1].0 ^= 1 << 31,
                |it| it.assets[0].0 ^= 1 << 15,
                |it| it.assets[1].0 ^= 1 << 15,
                |it| it.taker_is_buy = true,
                |it| it.paid ^= 1 << 61,
                |it| it.freed ^= 1 << 61,
                |it| it.delivered ^= 1 << 61,
                |it| it.taker_fee ^= 1 << 61,
                |it| (it.rebate, it.maker_fee) = (2, 0),
                |it| it.maker_fee ^= 1 << 61,
            ],
        );
        for (asset, party) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
            for bit in [0, 31, 32, 39] {
                let mut changed = settlement();
                changed.versions[asset][party] ^= 1 << bit;
                all.push(changed);
            }
        }
        let settled = |it: &Settlement| Outcome::Settled(TradeSettled::of(it).expect("it fits"));
        all_differ(all.iter().map(settled));
    }

    /// Another event, and another field of one, gives another digest.
    #[test]
    fn events_count() {
        let rejected = Rejected {
            key: key(),
            reason: RejectReason::ALL[0],
            client_order_id: ClientOrderId::BLANK,
            cause: CommandKind::Enter,
        };
        let mut events = with_changes(
            Event::Rejected(rejected),
            &[
                |it| *it = Event::System(SystemEvent::StartOfMessages),
                |it| *it = Event::System(SystemEvent::EndOfMessages),
            ],
        );
        let mut other = rejected;
        other.reason = RejectReason::ALL[1];
        events.push(Event::Rejected(other));
        other = rejected;
        other.key.channel ^= 1;
        events.push(Event::Rejected(other));
        other = rejected;
        other.client_order_id = ClientOrderId::new("             A").unwrap();
        events.push(Event::Rejected(other));
        all_differ(events.into_iter().map(Outcome::Event));
    }

    /// Each field of the frequent events counts, also where they come by themselves.
    #[test]
    fn every_field_of_a_frequent_event_counts() {
        let mut found = Vec::new();
        Outcome::Entered(OrderEntered { rests: true, ..entered() }).each(|it| found.push(it));
        Outcome::Withdrawn(withdrawn()).each(|it| found.push(it));
        let [
            Event::Accepted(accepted),
            Event::Ledger(reserved),
            Event::Booked(booked),
            Event::Canceled(canceled),
            Event::Ledger(_),
        ] = found[..]
        else {
            panic!("{found:?}")
        };
        let one = Quantity(1);
        let accepted = with_changes(
            accepted,
            &[
                |it| it.order_type = OrderType::Market,
                |it| it.display = Display::Hidden,
                |it| it.conditions.post_only = true,
                |it| it.conditions.minimum_quantity = Quantity(1).lots(),
                |it| it.instructions.trigger = Ticks(1),
                |it| it.instructions.offset = -1,
                |it| it.instructions.shown_quantity = Quantity(1).lots(),
                |it| it.instructions.shown_range = 1,
                |it| it.instructions.expires_s = 1,
                |it| it.instructions.parent = 1,
                |it| it.instructions.partner = 1,
            ],
        );
        let reserved = with_changes(
            reserved,
            &[
                |it| it.kind = LedgerKind::Release,
                |it| it.asset_id.0 ^= 1 << 15,
                |it| it.amount = Units::new(it.amount.get() | 1 << 63),
                |it| it.amount = Units::new(it.amount.get() | 1 << 64),
                |it| it.from.account_id.0 ^= 1 << 31,
                |it| it.from.bucket = Bucket::Outside,
                |it| it.from.version ^= 1 << 63,
                |it| it.to.account_id.0 ^= 1 << 31,
                |it| it.to.bucket = Bucket::Outside,
                |it| it.to.version ^= 1 << 63,
                |it| it.order_id.0 ^= 1 << 63,
                |it| it.trade_id.0 ^= 1 << 63,
            ],
        );
        let booked = with_changes(
            booked,
            &[
                |it| it.order_id.0 ^= 1 << 63,
                |it| it.instrument_id.0 ^= 1 << 15,
                |it| it.side = Side::Sell,
                |it| it.price.0 ^= 1 << 63,
                |it| it.leaves.0 ^= 1 << 63,
                |it| it.shown.0 ^= 1 << 63,
                |it| it.attribution = Firm::new("   A").unwrap(),
            ],
        );
        let mut canceled = with_changes(
            canceled,
            &[
                |it| it.key.session_id.0 ^= 1 << 15,
                |it| it.order_id.0 ^= 1 << 63,
                |it| it.instrument_id.0 ^= 1 << 15,
                |it| it.quantity.0 ^= 1 << 63,
                |it| it.leaves.0 ^= 1 << 63,
                |it| it.booked = false,
                |it| it.shown.before.0 ^= 1 << 63,
                |it| it.reason = CancelReason::ImmediateOrCancel,
                |it| it.cause = CommandKind::Enter,
            ],
        );
        canceled.push(Canceled { shown: Shown { after: one, ..canceled[0].shown }, ..canceled[0] });
        let all = accepted.into_iter().map(Event::Accepted);
        let all = all.chain(reserved.into_iter().map(Event::Ledger));
        let all = all.chain(booked.into_iter().map(Event::Booked));
        let all = all.chain(canceled.into_iter().map(Event::Canceled));
        all_differ(all.map(Outcome::Event));
    }

    /// Each field of a trade counts, and so does an auction.
    #[test]
    fn every_field_of_a_trade_counts() {
        let fill = |order_id| Fill { key: key(), order_id, leaves: Quantity(3) };
        let traded = Traded {
            trade_id: TradeId(5),
            instrument_id: InstrumentId(1),
            taker_side: Side::Buy,
            price: Price(100),
            quantity: Quantity(5),
            maker_shown: Quantity(8),
            maker: fill(OrderId(7)),
            taker: fill(OrderId(9)),
            auction: None,
        };
        let auction = AuctionTrade { phase: Phase::Continuous, taker_shown: Quantity(0) };
        let mut all = with_changes(
            traded,
            &[
                |it| it.trade_id.0 ^= 1 << 63,
                |it| it.instrument_id.0 ^= 1 << 15,
                |it| it.taker_side = Side::Sell,
                |it| it.price.0 ^= 1 << 63,
                |it| it.quantity.0 ^= 1 << 63,
                |it| it.maker_shown.0 ^= 1 << 63,
                |it| core::mem::swap(&mut it.maker, &mut it.taker),
                |it| it.maker.order_id.0 ^= 1 << 63,
                |it| it.maker.leaves.0 ^= 1 << 63,
                |it| it.maker.key.user_ref_num ^= 1 << 31,
                |it| it.maker.key.session_id.0 ^= 1 << 15,
                |it| it.maker.key.channel ^= 1 << 7,
                |it| it.taker.order_id.0 ^= 1 << 63,
                |it| it.taker.leaves.0 ^= 1 << 63,
                |it| it.taker.key.user_ref_num ^= 1 << 31,
                |it| it.taker.key.session_id.0 ^= 1 << 15,
                |it| it.taker.key.channel ^= 1 << 7,
            ],
        );
        all.push(Traded { auction: Some(auction), ..traded });
        let other = AuctionTrade { taker_shown: Quantity(1), ..auction };
        all.push(Traded { auction: Some(other), ..traded });
        all_differ(all.into_iter().map(|it| Outcome::Event(Event::Traded(it))));
    }

    /// The order of the lines counts, and so do the input and the time of each; a digest continues from its stored
    /// number.
    #[test]
    fn place_and_input_of_a_line_count() {
        let event = Outcome::Event(Event::System(SystemEvent::StartOfMessages));
        for outcome in [
            Outcome::Entered(entered()),
            Outcome::Withdrawn(withdrawn()),
            Outcome::Settled(TradeSettled::of(&settlement()).expect("it fits")),
            event,
        ] {
            let (line, other) = ((1, 2, outcome), (1, 2, Outcome::Withdrawn(withdrawn())));
            let base = digest_of(&[line]);
            assert_ne!(base, EventDigest::default());
            assert_ne!(base, digest_of(&[(2, 2, outcome)]), "the input");
            assert_ne!(base, digest_of(&[(1, 3, outcome)]), "the time");
            assert_ne!(base, digest_of(&[(2, 1, outcome)]), "both");
            assert_ne!(base, digest_of(&[line, line]), "the number");
            if outcome != other.2 {
                assert_ne!(digest_of(&[line, other]), digest_of(&[other, line]), "the order");
            }
            let mut gone_on = EventDigest::from_word(base.word());
            gone_on.add(Sequence(1), Timestamp(2), &other.2);
            assert_eq!(gone_on, digest_of(&[line, other]));
        }
    }
}
