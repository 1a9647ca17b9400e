//! Messages of a day by chance: the mix of a real ITCH day, as a BinaryFILE in memory.
//!
//! Invariant: the same seed gives the same bytes, and a sound book takes all of them.

use proof::rng::Rng;

/// Of a hundred messages, so many add an order, delete one, replace one, execute one; the others cancel a part.
const ADDS: u64 = 45;
const DELETES: u64 = 41;
const REPLACES: u64 = 8;
const EXECUTIONS: u64 = 4;
/// The approximate number of live orders of each instrument.
const ORDERS: usize = 1_000;
const MID: u32 = 1_500_000;
const TICK: u32 = 100;

/// Writes messages about some instruments.
pub(super) struct FeedFlow {
    rng: Rng,
    bytes: Vec<u8>,
    instruments: Vec<Vec<Order>>,
    time_ns: u64,
    last_reference: u64,
    match_number: u64,
}

#[derive(Clone, Copy)]
struct Order {
    reference: u64,
    is_bid: bool,
    shares: u32,
}

impl FeedFlow {
    pub(super) fn new(seed: u64, symbols: u16) -> Self {
        let instruments = vec![Vec::with_capacity(2 * ORDERS); usize::from(symbols.max(1))];
        let (bytes, rng) = (Vec::new(), Rng::new(seed));
        Self { rng, bytes, instruments, time_ns: 0, last_reference: 0, match_number: 0 }
    }

    /// The directory, then messages, `messages` in all.
    pub(super) fn take(mut self, messages: usize) -> Vec<u8> {
        self.bytes.reserve(messages * 32);
        let symbols = self.instruments.len();
        for locate in 1..=symbols.min(messages) {
            let symbol = format!("S{locate:<7}");
            let rest = *b"QN\0\0\0\x64NCZ PNN1N\0\0\0\0N";
            self.write(b'R', locate, &[symbol.as_bytes(), &rest]);
        }
        for _ in symbols..messages {
            self.next();
        }
        self.bytes
    }

    fn next(&mut self) {
        let instrument = self.rng.below(self.instruments.len() as u64) as usize;
        let live = self.instruments[instrument].len();
        let roll = self.rng.below(100);
        // The number of live orders stays near the target.
        if live < ORDERS / 2 || (roll < ADDS && live < 2 * ORDERS) {
            return self.add(instrument);
        }
        let place = self.rng.below(live as u64) as usize;
        let locate = instrument + 1;
        let order = self.instruments[instrument][place];
        let reference = order.reference.to_be_bytes();
        let part = 1 + self.rng.below(u64::from(order.shares)) as u32;
        if roll < ADDS + DELETES {
            self.instruments[instrument].swap_remove(place);
            self.write(b'D', locate, &[&reference]);
        } else if roll < ADDS + DELETES + REPLACES {
            self.last_reference += 1;
            let shares = 1 + self.rng.below(1_000) as u32;
            let new = Order { reference: self.last_reference, shares, ..order };
            self.instruments[instrument][place] = new;
            let price = self.price(order.is_bid);
            let new = new.reference.to_be_bytes();
            self.write(
                b'U',
                locate,
                &[&reference, &new, &shares.to_be_bytes(), &price.to_be_bytes()],
            );
        } else if roll < ADDS + DELETES + REPLACES + EXECUTIONS {
            self.match_number += 1;
            let matched = self.match_number.to_be_bytes();
            self.reduce(instrument, place, part);
            self.write(b'E', locate, &[&reference, &part.to_be_bytes(), &matched]);
        } else {
            self.reduce(instrument, place, part);
            self.write(b'X', locate, &[&reference, &part.to_be_bytes()]);
        }
    }

    fn add(&mut self, instrument: usize) {
        self.last_reference += 1;
        let is_bid = self.rng.below(2) == 0;
        let shares = 1 + self.rng.below(1_000) as u32;
        let order = Order { reference: self.last_reference, is_bid, shares };
        self.instruments[instrument].push(order);
        let price = self.price(is_bid);
        let symbol = format!("S{:<7}", instrument + 1);
        let side = if is_bid { b"B" } else { b"S" };
        let (reference, shares) = (order.reference.to_be_bytes(), shares.to_be_bytes());
        let fields: [&[u8]; 5] =
            [&reference, side, &shares, symbol.as_bytes(), &price.to_be_bytes()];
        self.write(b'A', instrument + 1, &fields);
    }

    /// A price on its side of the middle: each tick further away is 15/16 as likely.
    fn price(&mut self, is_bid: bool) -> u32 {
        let mut ticks = 1;
        while ticks < 400 && self.rng.below(16) != 0 {
            ticks += 1;
        }
        if is_bid { MID - ticks * TICK } else { MID + ticks * TICK }
    }

    fn reduce(&mut self, instrument: usize, place: usize, shares: u32) {
        let orders = &mut self.instruments[instrument];
        orders[place].shares -= shares;
        if orders[place].shares == 0 {
            orders.swap_remove(place);
        }
    }

    fn write(&mut self, kind: u8, locate: usize, fields: &[&[u8]]) {
        self.time_ns += 1 + self.rng.below(2_000);
        let len = 11 + fields.iter().map(|field| field.len()).sum::<usize>();
        self.bytes.extend((len as u16).to_be_bytes());
        self.bytes.push(kind);
        self.bytes.extend((locate as u16).to_be_bytes());
        self.bytes.extend([0; 2]);
        self.bytes.extend(&self.time_ns.to_be_bytes()[2..]);
        fields.iter().for_each(|field| self.bytes.extend_from_slice(field));
    }
}
