//! Pro rata, as one would explain it: section 38 of the rules.

use market::{Allocation, OrderKey, Price};

use super::{Model, ModelOrder, same_side_of_book};

/// The most orders among which a price is shared. (38.7)
const SHARED_MAX: usize = 256;

/// The orders at a price that an incoming order takes by time in a step. (38.3, 38.7)
pub(super) type ByTime = Option<(Price, Vec<OrderKey>)>;

/// The outcome for an incoming order at a price that is shared out.
pub(super) enum Shared {
    /// It first meets an order of its own participant, at this place. (38.4)
    Own(usize),
    /// Each of these orders gets these lots, the oldest first.
    Out(Vec<(OrderKey, u64)>),
}

impl Model {
    /// The number of times a price was shared out.
    pub fn shared_out(&self) -> u64 {
        self.shared_out
    }

    /// The sharing at the price of the first order to trade with; `None` if that price goes by time.
    pub(super) fn share(
        &mut self,
        order: &ModelOrder,
        first: usize,
        taken: &mut ByTime,
    ) -> Option<Shared> {
        let market = *self.market(order.instrument_id);
        let maker = &self.orders[first];
        let by_time = market.allocation == Allocation::PriceTime || market.time_share == 1_000_000;
        if by_time || maker.is_hidden() {
            return None;
        }
        let lots = order.leaves().0;
        let offer = |places: &[usize]| -> u128 {
            places.iter().map(|place| u128::from(self.orders[*place].offered())).sum()
        };
        let mut level: Vec<usize> = (0..self.orders.len())
            .filter(|&place| {
                let other = &self.orders[place];
                other.instrument_id == order.instrument_id
                    && !same_side_of_book(other.side, order.side)
                    && other.price == maker.price
                    && other.is_displayed()
                    && !other.is_done()
            })
            .collect();
        // 38.7: their lots were enough when the step reached the price.
        if let Some((price, keys)) = taken
            && *price == maker.price
        {
            let mut left = level.clone();
            left.retain(|place| keys.contains(&self.orders[*place].key));
            if offer(&left) <= u128::from(lots) {
                return None;
            }
        }
        level.truncate(SHARED_MAX);
        if let Some(&own) = level.iter().find(|&&place| self.are_own(order, &self.orders[place])) {
            return Some(Shared::Own(own));
        }
        let keys: Vec<OrderKey> = level.iter().map(|&place| self.orders[place].key).collect();
        if offer(&level) <= u128::from(lots) {
            *taken = Some((maker.price, keys));
            return None;
        }
        let offers: Vec<u64> = level.iter().map(|&place| self.orders[place].offered()).collect();
        self.shared_out += 1;
        let shares = shares(lots, market.time_share, &offers);
        Some(Shared::Out(keys.into_iter().zip(shares).filter(|(_, share)| *share > 0).collect()))
    }
}

/// Shares lots out among orders that offer more: the time share to the oldest first, the rest in
/// proportion to the lots that they then still offer, and the lots left by rounding to the oldest first.
fn shares(lots: u64, time_share: u64, offers: &[u64]) -> Vec<u64> {
    let to_the_oldest = |mut lots: u64, room: &[u64]| -> Vec<u64> {
        let mut given = Vec::new();
        for &room in room {
            given.push(lots.min(room));
            lots -= lots.min(room);
        }
        given
    };
    let less = |room: &[u64], given: &[u64]| -> Vec<u64> {
        room.iter().zip(given).map(|(room, given)| room - given).collect()
    };
    let by_time = (u128::from(lots) * u128::from(time_share) / 1_000_000) as u64;
    let first = to_the_oldest(by_time, offers);
    let room = less(offers, &first);
    let offered: u128 = room.iter().map(|it| u128::from(*it)).sum();
    let rest = lots - by_time;
    let second: Vec<u64> =
        room.iter().map(|&room| (u128::from(rest) * u128::from(room) / offered) as u64).collect();
    let room = less(&room, &second);
    let third = to_the_oldest(rest - second.iter().sum::<u64>(), &room);
    (0..offers.len()).map(|index| first[index] + second[index] + third[index]).collect()
}
