//! The mix of requests: adds, cancels, replaces and crossing orders around a wandering price.

use market::{Price, Quantity, Side, TimeInForce};
use wire::{
    layout::Message,
    ouch::{CancelOrderRequest, EnterOrder, Inbound, ReplaceOrderRequest, decode_inbound},
};

use super::{
    LoadCounts, LoadSymbol,
    replay::ReplayAsk,
    tracker::{Times, Tracker},
};
use client::participant;
use proof::rng::Rng;

/// A profile of order flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadMix {
    #[default]
    Balanced,
    /// Nearly every order is canceled.
    CancelHeavy,
    /// Two of five requests trade.
    MatchHeavy,
    /// Orders rest at thousands of prices, and few leave.
    DeepBook,
    /// The shares of origin A's generator: 40 % cancels, 30 % orders, 30 % replaces, at 4,096 prices.
    OriginA,
}

impl LoadMix {
    pub const ALL: [Self; 5] =
        [Self::Balanced, Self::CancelHeavy, Self::MatchHeavy, Self::DeepBook, Self::OriginA];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::CancelHeavy => "cancel-heavy",
            Self::MatchHeavy => "match-heavy",
            Self::DeepBook => "deep-book",
            Self::OriginA => "origin-a",
        }
    }

    /// Live orders of a session at most.
    pub const fn live_orders_max(self) -> usize {
        match self {
            Self::DeepBook => 50_000,
            _ => 1_000,
        }
    }

    const fn shares(self) -> Shares {
        let (adds, cancels, replaces, far_one_in, far_max) = match self {
            Self::Balanced => (55, 35, 5, 10, 400),
            Self::CancelHeavy => (49, 47, 2, 10, 400),
            Self::MatchHeavy => (45, 10, 5, 10, 400),
            Self::DeepBook => (85, 10, 3, 1, 4_000),
            Self::OriginA => (30, 40, 30, 1, 2_048),
        };
        Shares { adds, cancels, replaces, far_one_in, far_max }
    }
}

/// Of 100 requests so many enter an order that should rest, cancel one, or replace one; the others enter an order that
/// should trade, half of those immediate or cancel.
#[derive(Clone, Copy, Debug)]
struct Shares {
    adds: u64,
    cancels: u64,
    replaces: u64,
    /// One resting order in this many is far from the mid: up to so many increments, each as likely.
    far_one_in: u64,
    far_max: u64,
}

/// The mid of a symbol stays within so many increments of where it began.
const MID_DRIFT_MAX: i64 = 64;

/// Decides on the next request: a realistic mix, the same from the same seed and answers.
#[derive(Debug)]
pub(super) struct Mix {
    rng: Rng,
    shares: Shares,
    walks: Vec<Walk>,
    /// A cancel and a replace, as the client writes them.
    cancel: CancelOrderRequest,
    replace: ReplaceOrderRequest,
    /// From this many live orders on, a session cancels instead of adding.
    live_orders_max: usize,
}

#[derive(Debug)]
struct Walk {
    /// An order in the symbol, as the client writes it. The fields that change from order to order are put in.
    order: EnterOrder,
    increment: u64,
    anchor: u64,
    /// The distance from the anchor now, in increments.
    drift: i64,
}

/// The content of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Enter {
        symbol: usize,
        is_buy: bool,
        quantity: u64,
    },
    Replace {
        original: u32,
        open: u64,
    },
    Cancel {
        user_ref_num: u32,
    },
    /// A request of a recorded flow.
    Recorded(ReplayAsk),
}

impl Wish {
    /// The wish was sent: from now on its answer is awaited.
    pub(super) fn sent(self, tracker: &mut Tracker, counts: &mut LoadCounts, times: Times) {
        match self {
            Self::Enter { symbol, is_buy, quantity } => {
                counts.enters += 1;
                tracker.entered(symbol as u32, is_buy, quantity, times);
            }
            Self::Replace { original, open } => {
                counts.replaces += 1;
                tracker.replace_asked(original, open, times);
            }
            Self::Cancel { user_ref_num } => {
                counts.cancels += 1;
                tracker.cancel_asked(user_ref_num, times);
            }
            Self::Recorded(ask) => {
                *match ask {
                    ReplayAsk::Enter { .. } => &mut counts.enters,
                    ReplayAsk::Replace { .. } => &mut counts.replaces,
                    ReplayAsk::Cancel { .. } => &mut counts.cancels,
                } += 1;
                tracker.replay_asked(ask, times);
            }
        }
    }
}

impl Mix {
    pub(super) fn new(
        symbols: &[LoadSymbol],
        mix: LoadMix,
        live_orders_max: usize,
        seed: u64,
    ) -> Self {
        let walks = symbols
            .iter()
            .map(|symbol| Walk {
                order: template(symbol),
                increment: symbol.price_increment.0,
                anchor: symbol.mid.0 / symbol.price_increment.0,
                drift: 0,
            })
            .collect();
        let cancel = participant::cancel(1, Quantity::ZERO);
        let replace = participant::replace(1, 2, Quantity(1), Some(Price(1)), TimeInForce::Day);
        let Ok(Inbound::CancelOrderRequest(cancel, _)) = decode_inbound(&cancel) else {
            panic!("the client's cancel is no cancel: {cancel:?}")
        };
        let Ok(Inbound::ReplaceOrderRequest(replace, _)) = decode_inbound(&replace) else {
            panic!("the client's replace is no replace: {replace:?}")
        };
        let (cancel, replace) = (*cancel, *replace);
        let shares = mix.shares();
        Self { rng: Rng::new(seed), shares, walks, cancel, replace, live_orders_max }
    }

    /// A session's next request, with its message in `message`; `None` once its numbers are used up.
    pub(super) fn next(&mut self, tracker: &Tracker, message: &mut Vec<u8>) -> Option<Wish> {
        message.clear();
        let next_user_ref_num = tracker.next_user_ref_num()?;
        let live_count = tracker.live_count();
        let roll = self.rng.below(100);
        let Shares { adds, cancels, replaces, .. } = self.shares;
        let is_full = live_count >= self.live_orders_max;
        Some(if live_count > 0 && (is_full || (adds..adds + cancels).contains(&roll)) {
            self.cancel(tracker, message)
        } else if live_count > 0 && (adds + cancels..adds + cancels + replaces).contains(&roll) {
            self.replace(tracker, next_user_ref_num, message)
        } else if roll >= adds + cancels + replaces {
            self.cross(next_user_ref_num, message)
        } else {
            self.add(next_user_ref_num, message)
        })
    }

    fn cancel(&mut self, tracker: &Tracker, message: &mut Vec<u8>) -> Wish {
        let (user_ref_num, _) = self.pick(tracker);
        let cancel = CancelOrderRequest { user_ref_num: user_ref_num.into(), ..self.cancel };
        put(&cancel, message);
        Wish::Cancel { user_ref_num }
    }

    fn replace(&mut self, tracker: &Tracker, user_ref_num: u32, message: &mut Vec<u8>) -> Wish {
        let (original, place) = self.pick(tracker);
        let order = *tracker.live_at(place).1;
        let price = self.resting_price(order.symbol as usize, order.is_buy);
        let open = 1 + self.rng.below(100);
        // The chain's quantity includes its executed shares, and has a limit of its own.
        let quantity = (order.executed + open).min(999_999);
        let replace = ReplaceOrderRequest {
            orig_user_ref_num: original.into(),
            user_ref_num: user_ref_num.into(),
            quantity: (quantity as u32).into(),
            price: price.0.into(),
            ..self.replace
        };
        put_with_appendage(&replace, message);
        Wish::Replace { original, open }
    }

    fn add(&mut self, user_ref_num: u32, message: &mut Vec<u8>) -> Wish {
        let (symbol, is_buy) = self.wander();
        let price = self.resting_price(symbol, is_buy);
        let quantity = 1 + self.rng.below(100);
        let life = TimeInForce::Day;
        self.enter(user_ref_num, symbol, is_buy, quantity, price, life, message)
    }

    fn cross(&mut self, user_ref_num: u32, message: &mut Vec<u8>) -> Wish {
        let (symbol, is_buy) = self.wander();
        let distance = 20 + self.rng.below(20);
        let price = self.walks[symbol].price(is_buy, distance);
        let quantity = 1 + self.rng.below(400);
        let life =
            if self.rng.below(2) == 0 { TimeInForce::ImmediateOrCancel } else { TimeInForce::Day };
        self.enter(user_ref_num, symbol, is_buy, quantity, price, life, message)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of an order that change")]
    fn enter(
        &self,
        user_ref_num: u32,
        symbol: usize,
        is_buy: bool,
        quantity: u64,
        price: Price,
        time_in_force: TimeInForce,
        message: &mut Vec<u8>,
    ) -> Wish {
        let side = if is_buy { Side::Buy } else { Side::Sell };
        let order = EnterOrder {
            user_ref_num: user_ref_num.into(),
            side: side.code(),
            quantity: (quantity as u32).into(),
            price: price.0.into(),
            time_in_force: time_in_force.code(),
            ..self.walks[symbol].order
        };
        put_with_appendage(&order, message);
        Wish::Enter { symbol, is_buy, quantity }
    }

    /// Any live order: its number and its place.
    fn pick(&mut self, tracker: &Tracker) -> (u32, usize) {
        let place = self.rng.below(tracker.live_count() as u64) as usize;
        (tracker.live_at(place).0, place)
    }

    /// Any symbol, whose mid may move by one increment, back to its anchor rather than away; and
    /// any side.
    fn wander(&mut self) -> (usize, bool) {
        let symbol = self.rng.below(self.walks.len() as u64) as usize;
        let walk = &mut self.walks[symbol];
        if self.rng.below(8) == 0 {
            let up = self.rng.below(2 * MID_DRIFT_MAX as u64) as i64 >= MID_DRIFT_MAX + walk.drift;
            walk.drift += if up { 1 } else { -1 };
        }
        (symbol, self.rng.below(2) == 0)
    }

    /// A price behind the mid: mostly near it, one in ten far away.
    fn resting_price(&mut self, symbol: usize, is_buy: bool) -> Price {
        let Shares { far_one_in, far_max, .. } = self.shares;
        let is_far = self.rng.below(far_one_in) == 0;
        let distance = if is_far { 1 + self.rng.below(far_max) } else { self.geometric() };
        self.walks[symbol].price(!is_buy, distance)
    }

    /// 1 to 64; each is 7/8 as likely as the one before.
    fn geometric(&mut self) -> u64 {
        /// The lowest bits of the 21 groups of three in a number.
        const GROUPS: u64 = 0x1249_2492_4924_9249;
        let mut distance = 1;
        loop {
            let drawn = self.rng.next_u64();
            // One group in eight has no bit: the first of those is where it ends.
            let empty = !(drawn | drawn >> 1 | drawn >> 2) & GROUPS;
            let groups = if empty == 0 { 21 } else { u64::from(empty.trailing_zeros()) / 3 };
            distance += groups;
            if empty != 0 || distance >= 64 {
                return distance.min(64);
            }
        }
    }
}

/// The fixed part and an empty appendage.
fn put_with_appendage(fixed: &impl Message, message: &mut Vec<u8>) {
    put(fixed, message);
    message.extend_from_slice(&[0, 0]);
}

fn put(fixed: &impl Message, message: &mut Vec<u8>) {
    message.extend_from_slice(fixed.as_bytes());
}

fn template(symbol: &LoadSymbol) -> EnterOrder {
    let life = TimeInForce::Day;
    let message =
        participant::enter(1, Side::Buy, symbol.symbol, Quantity(1), Some(symbol.mid), life);
    let Ok(Inbound::EnterOrder(order, _)) = decode_inbound(&message) else {
        panic!("the client's order is no order: {message:?}")
    };
    *order
}

impl Walk {
    /// A price `distance` increments above or below the mid, never below one increment.
    fn price(&self, is_above: bool, distance: u64) -> Price {
        let mid = self.anchor.saturating_add_signed(self.drift).max(1);
        let steps = if is_above {
            mid + distance
        } else {
            // A cheap symbol has no room for far prices: they gather at half of its mid.
            mid.saturating_sub(distance).max(mid.div_ceil(2))
        };
        Price(steps * self.increment)
    }
}

#[cfg(test)]
mod tests {
    use market::Symbol;

    use super::*;

    const AT_ONCE: Times = Times { scheduled_ns: 0, sent_ns: 0, sent_bytes: 0 };

    fn symbols() -> Vec<LoadSymbol> {
        [("AAA", 1_000_000, 100), ("BBB", 500, 100)]
            .map(|(symbol, mid, price_increment)| LoadSymbol {
                symbol: Symbol::new(symbol).unwrap(),
                mid: Price(mid),
                price_increment: Price(price_increment),
            })
            .to_vec()
    }

    /// Over many requests the mix has its stated shares, prices are multiples of the increment and never 0, quantities
    /// are within OUCH's range.
    #[test]
    fn mix_has_its_shares() {
        const COUNT: u64 = 100_000;
        let mut mix = Mix::new(&symbols(), LoadMix::Balanced, usize::MAX, 7);
        let mut counts = LoadCounts::default();
        let mut tracker = Tracker::new(1);
        let (mut adds, mut crosses) = (0, 0);
        let mut message = Vec::new();
        for _ in 0..COUNT {
            let wish = mix.next(&tracker, &mut message).unwrap();
            wish.sent(&mut tracker, &mut counts, AT_ONCE);
            match decode_inbound(&message).unwrap() {
                Inbound::EnterOrder(order, _) => {
                    assert!((1..=999_999).contains(&order.quantity.get()));
                    assert!(order.price.get() > 0 && order.price.get() % 100 == 0);
                    if order.quantity.get() > 100 {
                        crosses += 1
                    } else {
                        adds += 1
                    }
                    tracker.accept_for_test(order.user_ref_num.get(), &mut counts);
                }
                Inbound::ReplaceOrderRequest(replace, _) => {
                    assert!(replace.price.get() > 0 && replace.price.get() % 100 == 0);
                }
                Inbound::CancelOrderRequest(cancel, _) => assert_eq!(cancel.quantity.get(), 0),
                other => panic!("not part of the mix: {other:?}"),
            }
        }
        let share = |count: u64| count as f64 / COUNT as f64;
        assert!((0.34..0.36).contains(&share(counts.cancels)), "{counts:?}");
        assert!((0.045..0.055).contains(&share(counts.replaces)), "{counts:?}");
        assert!((0.03..0.045).contains(&share(crosses)), "{crosses}");
        assert!((0.55..0.58).contains(&share(adds)), "{adds}");
    }

    /// Each profile has its shares, as far as there are orders to cancel and replace.
    #[test]
    fn profiles_have_their_shares() {
        const COUNT: u64 = 20_000;
        let shares = |mix: LoadMix| {
            let mut mix = Mix::new(&symbols(), mix, usize::MAX, 7);
            let (mut counts, mut tracker) = (LoadCounts::default(), Tracker::new(1));
            let mut message = Vec::new();
            for _ in 0..COUNT {
                let wish = mix.next(&tracker, &mut message).unwrap();
                wish.sent(&mut tracker, &mut counts, AT_ONCE);
                if let Ok(Inbound::EnterOrder(order, _)) = decode_inbound(&message) {
                    tracker.accept_for_test(order.user_ref_num.get(), &mut counts);
                }
            }
            [counts.enters, counts.cancels, counts.replaces].map(|count| 100 * count / COUNT)
        };
        let [enters, cancels, replaces] = shares(LoadMix::OriginA);
        // A replaced order is not live here, since nothing answers: there are fewer to choose from, so more are entered.
        assert!(enters >= 29 && cancels + replaces >= 50, "{enters} {cancels} {replaces}");
        let [enters, cancels, _] = shares(LoadMix::CancelHeavy);
        assert!((49..=53).contains(&enters) && (45..=48).contains(&cancels), "{enters} {cancels}");
        let [enters, cancels, _] = shares(LoadMix::MatchHeavy);
        assert!((83..=87).contains(&enters) && (8..=11).contains(&cancels), "{enters} {cancels}");
        let [enters, ..] = shares(LoadMix::DeepBook);
        assert!((85..=89).contains(&enters), "{enters}");
    }

    /// An order of the mix has the bytes that the client writes for it.
    #[test]
    fn orders_are_the_clients() {
        let symbols = symbols();
        let mix = Mix::new(&symbols, LoadMix::Balanced, usize::MAX, 7);
        for (is_buy, life) in [(true, TimeInForce::Day), (false, TimeInForce::ImmediateOrCancel)] {
            let side = if is_buy { Side::Buy } else { Side::Sell };
            let (price, symbol) = (Price(12_300), symbols[1].symbol);
            let mut message = Vec::new();
            mix.enter(77, 1, is_buy, 400, price, life, &mut message);
            let order = participant::enter(77, side, symbol, Quantity(400), Some(price), life);
            assert_eq!(message[..], order[..]);
        }
    }

    /// Cancels and replaces of the mix have the bytes that the client writes for them.
    #[test]
    fn cancels_and_replaces_are_the_clients() {
        let mut mix = Mix::new(&symbols(), LoadMix::Balanced, usize::MAX, 7);
        let (mut counts, mut tracker) = (LoadCounts::default(), Tracker::new(1));
        let mut message = Vec::new();
        mix.add(1, &mut message).sent(&mut tracker, &mut counts, AT_ONCE);
        tracker.accept_for_test(1, &mut counts);
        message.clear();
        mix.cancel(&tracker, &mut message);
        assert_eq!(message[..], participant::cancel(1, Quantity::ZERO)[..]);
        message.clear();
        mix.replace(&tracker, 2, &mut message);
        let Ok(Inbound::ReplaceOrderRequest(replace, _)) = decode_inbound(&message) else {
            panic!("no replace: {message:?}")
        };
        let (quantity, price) =
            (Quantity(replace.quantity.get().into()), Price(replace.price.get()));
        let theirs = participant::replace(1, 2, quantity, Some(price), TimeInForce::Day);
        assert_eq!(message[..], theirs[..]);
    }

    /// Distances are 1 to 64, and each is 7/8 as likely as the one before.
    #[test]
    fn distances_are_geometric() {
        const COUNT: usize = 200_000;
        let mut mix = Mix::new(&symbols(), LoadMix::Balanced, usize::MAX, 7);
        let mut seen = [0_u32; 65];
        (0..COUNT).for_each(|_| seen[mix.geometric() as usize] += 1);
        assert_eq!(seen[0], 0);
        for distance in 1..30 {
            let expected = COUNT as f64 / 8.0 * (7.0_f64 / 8.0).powi(distance - 1);
            let found = f64::from(seen[distance as usize]);
            let bound = 6.0 * expected.sqrt();
            assert!((found - expected).abs() < bound, "{distance}: {found} for {expected}");
        }
    }

    /// A session with as many live orders as it may have cancels.
    #[test]
    fn full_session_cancels() {
        let mut mix = Mix::new(&symbols(), LoadMix::Balanced, 1, 7);
        let mut counts = LoadCounts::default();
        let mut tracker = Tracker::new(1);
        let mut message = Vec::new();
        mix.add(1, &mut message).sent(&mut tracker, &mut counts, AT_ONCE);
        tracker.accept_for_test(1, &mut counts);
        for _ in 0..100 {
            mix.next(&tracker, &mut message).unwrap();
            assert_eq!(message[0], b'X');
        }
    }
}
