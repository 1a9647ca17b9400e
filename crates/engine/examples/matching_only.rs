//! The matcher alone, without an exchange: `cargo run -p damrak-engine --example matching_only`

use engine::matcher::{Matcher, NewOrder};
use market::{Price, Quantity, Side};

fn main() {
    let mut matcher = Matcher::new();
    let book = matcher.add_book();
    let order = |side, limit, quantity, payload| NewOrder {
        side,
        limit: Price(limit),
        quantity: Quantity(quantity),
        rests: true,
        payload,
    };
    let ask = matcher.enter(book, &order(Side::Sell, 101, 5, "ask"), |_| {});
    let bid = matcher.enter(book, &order(Side::Buy, 102, 3, "bid"), |trade| println!("{trade:?}"));
    println!("{bid:?}");
    println!("{:?}", matcher.cancel(ask.expect("it is in bounds").handle.expect("it rests")));
}
