//! The kinds of an order in 16 bits of its slot, and its time in force in three.
//!
//! Invariant: each kind is stored as a place in the list of its values. The lists are ordered so that, for most codes, a
//! few bits of the code are the place.

use market::{Capacity, CustomerType, Display, SelfMatchPrevention, Side, TimeInForce};

/// Two bits.
pub(super) const SIDE_SHIFT: u32 = 0;
/// Two bits.
pub(super) const DISPLAY_SHIFT: u32 = 2;
/// Three bits: a code of [`ForAuction`](super::ForAuction).
pub(super) const AUCTION_SHIFT: u32 = 4;
/// One bit.
pub(super) const POST_ONLY_SHIFT: u32 = 7;
/// Two bits.
pub(super) const CAPACITY_SHIFT: u32 = 8;
/// Two bits.
pub(super) const CUSTOMER_TYPE_SHIFT: u32 = 10;
/// Four bits.
pub(super) const PREVENTION_SHIFT: u32 = 12;

pub(super) const SIDES: [Side; 4] = [Side::SellShort, Side::SellShortExempt, Side::Buy, Side::Sell];
pub(super) const DISPLAYS: [Display; 4] =
    [Display::Hidden, Display::Visible, Display::Attributable, Display::Hidden];
pub(super) const CAPACITIES: [Capacity; 4] =
    [Capacity::Principal, Capacity::Agency, Capacity::Riskless, Capacity::Other];
pub(super) const CUSTOMER_TYPES: [CustomerType; 4] = [
    CustomerType::SessionDefault,
    CustomerType::Retail,
    CustomerType::SessionDefault,
    CustomerType::NotRetail,
];
pub(super) const PREVENTIONS: [SelfMatchPrevention; 16] = {
    use SelfMatchPrevention::*;
    let mut all = [SessionDefault; 16];
    all[1] = Off;
    all[2] = CancelNewest;
    all[3] = CancelOldest;
    all[4] = CancelBoth;
    all[5] = DecrementBoth;
    all[6] = CancelNewestOfSessions;
    all[7] = CancelOldestOfSessions;
    all[8] = CancelBothOfSessions;
    all[9] = DecrementBothOfSessions;
    all
};
pub(super) const TIMES_IN_FORCE: [TimeInForce; 8] = [
    TimeInForce::ImmediateOrCancel,
    TimeInForce::AtTheOpen,
    TimeInForce::GoodTillCancel,
    TimeInForce::Day,
    TimeInForce::AtTheClose,
    TimeInForce::GoodTillTime,
    TimeInForce::GoodForAuction,
    TimeInForce::FillOrKill,
];

/// The place of a side, which is a few bits of its code.
#[inline(always)]
pub(super) const fn place_of_side(side: Side) -> u16 {
    (side.code() & 3) as u16
}

#[inline(always)]
pub(super) const fn place_of_capacity(capacity: Capacity) -> u16 {
    (capacity.code() & 3) as u16
}

#[inline(always)]
pub(super) const fn place_of_customer_type(customer_type: CustomerType) -> u16 {
    (customer_type.code() >> 1 & 3) as u16
}

#[inline(always)]
pub(super) const fn place_of_time_in_force(time_in_force: TimeInForce) -> u16 {
    let code = time_in_force.code();
    ((code ^ code >> 4) & 7) as u16
}

/// The places of all codes in a list of values, for each code its first place.
macro_rules! places {
    ($name:ident, $list:ident) => {
        pub(super) const $name: [u8; 256] = {
            let mut places = [0; 256];
            let mut place = $list.len();
            while place != 0 {
                place -= 1;
                places[$list[place].code() as usize] = place as u8;
            }
            places
        };
    };
}
places!(PLACE_OF_DISPLAY, DISPLAYS);
places!(PLACE_OF_PREVENTION, PREVENTIONS);

/// The place of a code.
#[inline(always)]
pub(super) fn place(places: &[u8; 256], code: u8) -> u16 {
    u16::from(places[usize::from(code)])
}
