//! The event digest: one number for all events of a run so far. Equal digests after the same input
//! mean that the runs had the same events, up to here.
//!
//! Invariants: each event counts, with all its fields, its input and its place. Whether events come one
//! by one or at once, as an [`Outcome`], makes no difference: an engine that goes on from a snapshot
//! may group them otherwise. An event is hashed by itself and then joins the chain by one
//! multiplication, so that the processor works on several events at a time.

use core::hash::{Hash, Hasher};

use crate::{
    Accepted, Booked, Canceled, Conditions, Event, Firm, LedgerEntry, LedgerPlace, OrderAttributes,
    OrderKey, Outcome, Sequence, Shown, Timestamp, TradeSettled,
    mix::{fold, fold_pair},
};

/// A chain over all events, in order. The same inputs give the same digest; so two runs compare
/// what they did, in O(1), at any input.
///
/// It says nothing of a state that was reached by other inputs: the state hash does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EventDigest(u64);

// The kinds of events that are packed into words by hand, since most orders have them, and all others.
const OTHER: u64 = 1;
const ACCEPTED: u64 = 2;
const BOOKED: u64 = 3;
const CANCELED: u64 = 4;
const LEDGER: u64 = 5;

/// The distance between the places of two pairs of an event: odd and otherwise random.
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

    /// Adds the next events: an outcome of the input `cause`, whose time is `timestamp`.
    #[inline]
    pub fn add(&mut self, cause: Sequence, timestamp: Timestamp, outcome: &Outcome) {
        let at = fold_pair(cause.0, timestamp.0);
        match outcome {
            Outcome::Entered(_) | Outcome::Withdrawn(_) => {
                outcome.each(|event| self.join(hash(at, &event)));
            }
            Outcome::Settled(settled) => self.add_settled(at, settled),
            Outcome::Event(event) => self.add_event(at, event),
        }
    }

    #[inline(never)]
    fn add_settled(&mut self, at: u64, settled: &TradeSettled) {
        settled.settlement().each_entry(&mut |entry| self.join(ledger(at, &entry)));
    }

    #[inline(never)]
    fn add_event(&mut self, at: u64, event: &Event) {
        self.join(hash(at, event));
    }

    /// Adds an event to the chain.
    #[inline(always)]
    fn join(&mut self, event: u64) {
        self.0 = fold_pair(self.0, event);
    }
}

/// The hash of an event of the input with this hash.
#[inline(always)]
fn hash(at: u64, event: &Event) -> u64 {
    match event {
        Event::Accepted(event) => accepted(at, event),
        Event::Booked(event) => booked(at, event),
        Event::Canceled(event) => canceled(at, event),
        Event::Ledger(entry) => ledger(at, entry),
        event => {
            let mut hasher = WordHasher(at.wrapping_add(OTHER));
            event.hash(&mut hasher);
            hasher.finish()
        }
    }
}

/// The hash of all words of an event. No pair waits for another.
#[inline(always)]
fn pairs<const N: usize>(kind: u64, at: u64, pairs: [[u64; 2]; N]) -> u64 {
    let mut sum = at.wrapping_add(kind);
    let mut place = 0_u64;
    for [one, other] in pairs {
        place = place.wrapping_add(PLACE);
        sum = sum.wrapping_add(fold_pair(one ^ place, other));
    }
    sum
}

#[inline(always)]
fn accepted(at: u64, event: &Accepted) -> u64 {
    let Accepted {
        key,
        order_id,
        instrument_id,
        side,
        order_type,
        time_in_force,
        display,
        quantity,
        price,
        attributes,
        conditions,
        instructions,
    } = *event;
    let OrderAttributes {
        client_order_id,
        firm: entered_for,
        capacity,
        customer_type,
        group_id,
        shares_located,
        locate_broker,
    } = attributes;
    let Conditions { self_match_prevention, self_match_group, post_only, minimum_quantity } =
        conditions;
    let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13] = *client_order_id.as_bytes();
    let [id_low, id_high] = group_id.to_le_bytes();
    let words = pairs(
        ACCEPTED,
        at,
        [
            [order_id.0, name(key)],
            [
                u64::from(price.0) << 32
                    | u64::from(instrument_id.0) << 16
                    | u64::from(u16::from_le_bytes(*self_match_group.as_bytes())),
                quantity.get() << 16
                    | u64::from(side.code()) << 8
                    | u64::from(time_in_force.code()),
            ],
            [
                u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
                u64::from_le_bytes([c8, c9, c10, c11, c12, c13, id_low, id_high]),
            ],
            [
                firm(entered_for) << 32 | firm(locate_broker),
                u64::from_le_bytes([
                    capacity.code(),
                    customer_type.code(),
                    u8::from(shares_located),
                    self_match_prevention.code(),
                    order_type.code(),
                    display.code(),
                    u8::from(post_only),
                    0,
                ]),
            ],
        ],
    );
    if minimum_quantity.is_zero() && !instructions.is_some() {
        return words;
    }
    // Most orders have neither.
    let mut hasher = WordHasher(words);
    (minimum_quantity, instructions).hash(&mut hasher);
    hasher.finish()
}

#[inline(always)]
fn booked(at: u64, event: &Booked) -> u64 {
    let Booked { order_id, instrument_id, side, price, leaves, shown, attribution } = *event;
    pairs(
        BOOKED,
        at,
        [
            [order_id.0, price.0],
            [leaves.0, shown.0],
            [u64::from(instrument_id.0) << 8 | u64::from(side.code()), firm(attribution)],
        ],
    )
}

#[inline(always)]
fn canceled(at: u64, event: &Canceled) -> u64 {
    let Canceled { key, order_id, instrument_id, quantity, leaves, booked, shown, reason, cause } =
        *event;
    let Shown { before, after } = shown;
    let [low, high] = instrument_id.0.to_le_bytes();
    let marks = [low, high, u8::from(booked), reason.code(), cause as u8, 0, 0, 0];
    pairs(
        CANCELED,
        at,
        [
            [order_id.0, name(key)],
            [quantity.0, leaves.0],
            [before.0, after.0],
            [u64::from_le_bytes(marks), 0],
        ],
    )
}

#[inline(always)]
fn ledger(at: u64, entry: &LedgerEntry) -> u64 {
    let LedgerEntry { kind, asset_id, amount, from, to, order_id, trade_id } = *entry;
    let LedgerPlace { account_id: giver, bucket: given, version: giver_version } = from;
    let LedgerPlace { account_id: receiver, bucket: received, version: receiver_version } = to;
    let [low, high] = asset_id.0.to_le_bytes();
    let marks = [low, high, kind.code(), given.code(), received.code(), 0, 0, 0];
    let amount = amount.get();
    pairs(
        LEDGER,
        at,
        [
            [order_id.0, trade_id.0],
            [giver_version, receiver_version],
            [u64::from(giver.0) << 32 | u64::from(receiver.0), amount as u64],
            [u64::from_le_bytes(marks), (amount >> 64) as u64],
        ],
    )
}

/// All of an order's name, in 56 bits.
#[inline(always)]
fn name(OrderKey { session_id, channel, user_ref_num }: OrderKey) -> u64 {
    u64::from(user_ref_num) << 24 | u64::from(session_id.0) << 8 | u64::from(channel)
}

#[inline(always)]
fn firm(firm: Firm) -> u64 {
    u32::from_le_bytes(*firm.as_bytes()).into()
}

/// Takes the fields of an event, a word each.
///
/// By default signed numbers go the way of unsigned ones, and these through the machine's byte order and
/// word size; so each of the latter is here, and no value depends on the machine.
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
        AccountId, AssetId, Bucket, CancelReason, Capacity, ClientOrderId, CommandKind,
        CustomerType, Display, Firm, InstrumentId, LedgerEntry, LedgerKind, LedgerPlace,
        OrderAttributes, OrderEntered, OrderId, OrderKey, OrderType, OrderWithdrawn, OwnMovement,
        Quantity, RejectReason, Rejected, SelfMatchGroup, SelfMatchPrevention, SessionId,
        Settlement, Side, SystemEvent, Ticks, TimeInForce, TradeId, TradeSettled, Units,
    };

    fn digest_of(lines: &[(u64, u64, Outcome)]) -> EventDigest {
        let mut digest = EventDigest::default();
        for (cause, timestamp, outcome) in lines {
            digest.add(Sequence(*cause), Timestamp(*timestamp), outcome);
        }
        digest
    }

    /// A movement of these numbers.
    fn movement(amount: u128, version: u64, account: u32, asset: u16) -> OwnMovement {
        let place = |bucket| LedgerPlace { account_id: AccountId(account), bucket, version };
        OwnMovement::of(&LedgerEntry {
            kind: LedgerKind::Reserve,
            asset_id: AssetId(asset),
            amount: Units::new(amount),
            from: place(Bucket::Available),
            to: place(Bucket::Reserved),
            order_id: OrderId(0),
            trade_id: TradeId(0),
        })
        .expect("the amount is small")
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
                |it| it.paid ^= 1 << 62,
                |it| it.freed ^= 1 << 62,
                |it| it.delivered ^= 1 << 62,
                |it| it.taker_fee ^= 1 << 62,
                |it| (it.rebate, it.maker_fee) = (2, 0),
                |it| it.maker_fee ^= 1 << 62,
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

    /// Events that come at once have the digest of the same events one by one.
    #[test]
    fn grouping_makes_no_difference() {
        let charged = Settlement { taker_is_buy: true, rebate: 3, maker_fee: 0, ..settlement() };
        for outcome in [
            Outcome::Entered(entered()),
            Outcome::Entered(OrderEntered { rests: true, ..entered() }),
            Outcome::Entered(OrderEntered { reserved: OwnMovement::NONE, ..entered() }),
            Outcome::Withdrawn(withdrawn()),
            Outcome::Withdrawn(OrderWithdrawn { is_shown: true, ..withdrawn() }),
            Outcome::Settled(TradeSettled::of(&settlement()).expect("it fits")),
            Outcome::Settled(TradeSettled::of(&charged).expect("it fits")),
        ] {
            let mut events = Vec::new();
            outcome.each(|event| events.push((1, 2, Outcome::Event(event))));
            assert_eq!(digest_of(&[(1, 2, outcome)]), digest_of(&events), "{outcome:?}");
        }
    }

    /// The order of the outcomes counts, and so do the input and the time of each; a digest goes on where its
    /// number was kept.
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
