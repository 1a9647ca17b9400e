//! The engine against the model: two programs that share no code must emit the same events for any commands.
//!
//! Start at [`play_all`]: seeds of every profile, over all cores. [`play`] plays one of them, and
//! [`missing`] returns the expected kinds of answers that they did not meet.

mod markets;
mod coverage;

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use engine::{BookView, Engine, RestingOrder, WaitsFor};
use market::{AssetId, Event, Input, InstrumentId, Quantity, Sequence, Ticks, Timestamp};

pub use coverage::{Coverage, missing};
pub use markets::profiles;

use crate::{
    engine_checks::{LedgerBalances, check, same},
    generator::{CommandFlow, Profile},
    model::{Model, ModelOrder, Place},
};

/// Nanoseconds between two commands, as the profiles assume.
const COMMAND_INTERVAL_NS: u64 = 10_000_000;

/// Commands between two comparisons of the books, order by order, and of the hash from scratch.
const LOOK_EVERY: u64 = 1_000;

/// Plays the given number of commands for each seed of every profile, on as many threads; returns
/// the coverage. The result is the same on any number of threads.
///
/// # Errors
/// Engine and model differ; the error is of the first run that shows it, in the order of profiles and seeds.
///
/// # Panics
/// `threads` is 0, or an invariant of the engine does not hold.
pub fn play_all(
    seeds: RangeInclusive<u64>,
    commands: u64,
    threads: usize,
) -> Result<Coverage, String> {
    assert!(threads > 0, "there must be a thread to play on");
    let runs: Vec<_> = profiles(commands)
        .into_iter()
        .flat_map(|(name, profile)| seeds.clone().map(move |seed| (name, profile.clone(), seed)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut played = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, profile, seed)) = runs.get(number) else { break };
            let outcome = play(name, profile.clone(), *seed, commands);
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            played.push((number, outcome));
        }
        played
    };
    let mut played: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter();
        ended.flat_map(|thread| thread.join().expect("a run that panics says why")).collect()
    });
    played.sort_by_key(|(number, _)| *number);
    let mut total = Coverage::new();
    for (_, outcome) in played {
        for (name, times) in outcome? {
            coverage::count(&mut total, name, times);
        }
    }
    Ok(total)
}

/// Plays one seed of one profile, for `commands` commands.
///
/// # Errors
/// Engine and model differ.
///
/// # Panics
/// An invariant of the engine does not hold.
pub fn play(name: &str, profile: Profile, seed: u64, commands: u64) -> Result<Coverage, String> {
    let mut coverage = Coverage::new();
    let mut flow = CommandFlow::new(seed, profile);
    let mut engine = Engine::new();
    let mut model = Model::default();
    let mut events = Vec::new();
    let mut ledger = LedgerBalances::default();
    for number in 1..=commands {
        let input = Input {
            sequence: Sequence(number),
            timestamp: Timestamp(number / 2 * 2 * COMMAND_INTERVAL_NS),
            command: flow.next_command(),
        };
        let place = |why: String| {
            format!("profile {name}, seed {seed}, command {number}, {:?}: {why}", input.command)
        };
        events.clear();
        engine.apply(&input, &mut |event| events.push(event));
        same_events(&events, &model.apply(&input)).map_err(place)?;
        coverage::cover(&mut coverage, &engine, &input.command, &events);
        events.iter().for_each(|event| ledger.enter(event));
        if number % LOOK_EVERY == 0 {
            compare(&engine, &model).map_err(place)?;
            engine = check(&engine, &ledger).map_err(place)?;
        }
    }
    coverage::count(&mut coverage, "A price is shared out", model.shared_out());
    for (step, times) in model.auction_steps() {
        coverage::count(&mut coverage, format!("Auction decided by {step:?}"), *times);
    }
    Ok(coverage)
}

/// Compares two lists of events; the error names the first event that differs.
pub fn same_events(ours: &[Event], theirs: &[Event]) -> Result<(), String> {
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    match (ours.get(at), theirs.get(at)) {
        (None, None) => Ok(()),
        (ours, theirs) => {
            Err(format!("event {at}: the engine says {ours:?}, the model {theirs:?}"))
        }
    }
}

/// Compares every balance of every account, and every order of every book, in priority.
///
/// # Errors
/// They differ.
pub fn compare(engine: &Engine, model: &Model) -> Result<(), String> {
    for asset in engine.assets() {
        for account in engine.accounts() {
            let (id, asset_id) = (account.account_id, asset.asset_id);
            let balance = engine.balance(id, asset_id).ok_or("an account has no balance")?;
            let ours = (balance.available, balance.reserved.cast_signed());
            same("balance", ours, model.balance(id, asset_id))?;
            // The profiles allow short positions in the fourth asset only.
            let may_be_short = 0 < balance.short_max || asset_id == AssetId(4);
            same("no debt", 0 <= ours.0 || may_be_short, true)?;
        }
    }
    same("instruments", engine.instruments().eq(model.instruments()), true)?;
    for instrument in model.instruments() {
        let id = instrument.instrument_id;
        let book = engine.book(id).ok_or("an instrument has no book")?;
        compare_book(engine, &book, model, id)
            .map_err(|why| format!("{}: {why}", instrument.symbol))?;
    }
    same("live orders", engine.counters().orders_live as usize, model.live_count())
}

fn compare_book(
    engine: &Engine,
    book: &BookView<'_>,
    model: &Model,
    id: InstrumentId,
) -> Result<(), String> {
    same("phase", engine.phase(id), model.phase(id))?;
    let [bids, asks] = [model.bids(id), model.asks(id)];
    same("best bid", book.best_bid(), bids.first().map(|order| order.price))?;
    same("best ask", book.best_ask(), asks.first().map(|order| order.price))?;
    let mut for_auction: Vec<_> = book.auction_orders().collect();
    for_auction.sort_by_key(|order| order.order_id);
    let held = model.held(id);
    for (list, ours, theirs) in [
        ("bids", book.bids().collect(), bids),
        ("asks", book.asks().collect(), asks),
        ("stop book", book.waiting().collect(), model.stop_book(id)),
        ("pegged", book.pegged().collect(), model.pegged(id)),
        ("held", held.iter().filter_map(|it| engine.order(it.key)).collect(), held),
        ("minimum", book.waiting_for_quantity().collect(), model.waiting_for_quantity(id)),
        ("for an auction", for_auction, model.auction_orders(id)),
    ] {
        let keys = |orders: &[RestingOrder]| orders.iter().map(|it| it.key).collect::<Vec<_>>();
        same(list, keys(&ours), theirs.iter().map(|it| it.key).collect())?;
        for (ours, theirs) in ours.into_iter().zip(&theirs) {
            same(list, ours, resting(model, theirs, ours))?;
        }
    }
    Ok(())
}

/// An order of the model as the engine shows it; fields that the model does not know are the engine's.
fn resting(model: &Model, order: &ModelOrder, ours: RestingOrder) -> RestingOrder {
    // The engine shows the present trigger; without a trade no price reaches it.
    let mut instructions = order.instructions;
    if order.place == Place::Trigger {
        let furthest = if order.side.is_buy() { u32::MAX } else { 0 };
        instructions.trigger = Ticks(order.trigger().map_or(furthest, |trigger| trigger as u32));
    }
    RestingOrder {
        order_id: order.order_id,
        key: order.key,
        instrument_id: order.instrument_id,
        side: order.side,
        price: order.price,
        limit: order.bound,
        quantity: Quantity(order.quantity),
        leaves: order.leaves(),
        executed: Quantity(order.executed),
        canceled: Quantity(order.canceled),
        prevented: Quantity(order.prevented),
        display: order.display,
        firm: model.firm_meant(order.key.session_id, order.attributes.firm),
        capacity: order.attributes.capacity,
        customer_type: order.attributes.customer_type,
        group_id: order.attributes.group_id,
        self_match_prevention: order.conditions.self_match_prevention,
        self_match_group: order.conditions.self_match_group,
        post_only: order.conditions.post_only,
        shown: order.on_the_feed(),
        time_in_force: order.time_in_force,
        instructions,
        waits_for: match order.place {
            Place::Book | Place::Line => None,
            Place::Parent => Some(WaitsFor::Parent),
            Place::Trigger => Some(WaitsFor::Trigger),
            Place::Reference => Some(WaitsFor::Reference),
            Place::Quantity => Some(WaitsFor::Quantity),
            Place::Auction => Some(WaitsFor::Auction),
            Place::Turn => Some(WaitsFor::Turn),
        },
        attribution: ours.attribution,
        auction: ours.auction,
    }
}
