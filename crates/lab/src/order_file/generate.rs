//! Order files from a seed: the same bytes on every machine.
//!
//! Start at [`FileProfile`], the kind of market, and [`FileProfile::write_orders`].
//! Chance is [`Rng`]; bell curves are sums of twelve even draws, and powers of ten
//! are products of square roots of ten in 60 binary places, so that nothing depends on a float.

use std::io::{self, Write};

use market::{Side, Symbol};

use super::{
    decimal_text,
    instruments::{AssetTerms, InstrumentTable, InstrumentTerms, write_instrument_rows},
};
use crate::zipf::ZipfWeights;
use proof::rng::Rng;

#[derive(Clone, Debug)]
pub struct FileProfile {
    name: &'static str,
    /// The instruments traded; the first most often.
    listings: Vec<Listing>,
    participants: u32,
    /// The opening balance of each participant, in units of each base asset and of each quote asset.
    opening: (u64, u64),
    /// Of a thousand new orders, how many are followed by a cancel, as long as there are no more
    /// than so many in a thousand.
    cancels_per_mille: u64,
    /// Of a thousand orders, how many replace an earlier one.
    replaces_per_mille: u64,
    /// Of a thousand orders, how many are followed by a modify.
    modifies_per_mille: u64,
    /// Of a thousand orders, how many are market orders, immediate-or-cancel, post-only or hidden.
    kinds_per_mille: Option<Kinds>,
    /// Of a thousand orders, how many wait for a trigger, follow the market or show a part.
    contingent_per_mille: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kinds {
    market: u64,
    immediate_or_cancel: u64,
    post_only: u64,
    hidden: u64,
}

#[derive(Clone, Debug)]
struct Listing {
    terms: InstrumentTerms,
    /// The middle of the market, in ticks.
    mid: u64,
    /// The standard deviation of prices, in ticks.
    deviation: u64,
    /// By how much buyers begin below the middle and sellers above it, in ticks.
    reserve: u64,
    /// The least quantity, in lots.
    quantity_min: u64,
    /// How many powers of ten lie between the least and the largest quantity, in thousandths.
    decades_milli: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub rows: u64,
    /// New orders, including those that replace an earlier one.
    pub orders: u64,
    pub cancels: u64,
}

impl FileProfile {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }

    pub fn all() -> Vec<Self> {
        vec![Self::origin(), Self::calm(), Self::many(), Self::contingent()]
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn instruments(&self) -> InstrumentTable {
        InstrumentTable::of(self.listings.iter().map(|listing| listing.terms.clone()).collect())
    }

    /// Limit orders on the default instrument around 85,000.00, one cancel for ten of them.
    fn limit_orders(name: &'static str, deviation: u64, reserve: u64, decades_milli: u64) -> Self {
        let terms = InstrumentTable::default().all()[0].clone();
        let (mid, quantity_min) = (8_500_000, 1_000);
        Self {
            name,
            listings: vec![Listing { terms, mid, deviation, reserve, quantity_min, decades_milli }],
            participants: 20,
            opening: (10_000_000_000_000, 10_000_000_000_000_000),
            cancels_per_mille: 100,
            replaces_per_mille: 0,
            modifies_per_mille: 0,
            kinds_per_mille: None,
            contingent_per_mille: 0,
        }
    }

    /// One instrument, a hundred participants, a wide bell of prices and quantities over four
    /// powers of ten; three cancels for ten orders, most of which are too late. The book grows
    /// deep: a million orders leave some hundred thousand prices.
    fn origin() -> Self {
        Self {
            participants: 100,
            opening: (10_000_000_000, 10_000_000_000_000),
            cancels_per_mille: 300,
            ..Self::limit_orders("origin", 42_500, 8_500, 4_000)
        }
    }

    /// One instrument, a narrow book, small orders, sufficient balances.
    fn calm() -> Self {
        Self::limit_orders("calm", 100, 50, 1_000)
    }

    /// A hundred instruments with units of their own, and everything that can be asked for.
    fn many() -> Self {
        let quote = AssetTerms { name: symbol("EUR"), decimals: 4 };
        let listing = |number: u64| {
            let quantity_decimals = [0, 2, 4][(number % 3) as usize];
            let price_decimals = [2, 3, 1][(number % 3) as usize];
            let base = AssetTerms {
                name: symbol(&format!("A{number:03}")),
                decimals: quantity_decimals + (number % 2) as u8,
            };
            let mid = 10_000 + 700 * number;
            Listing {
                terms: InstrumentTerms {
                    symbol: symbol(&format!("A{number:03}-EUR")),
                    base,
                    quote: quote.clone(),
                    price_decimals,
                    quantity_decimals,
                },
                mid,
                deviation: mid / 200,
                reserve: mid / 500,
                quantity_min: 1,
                decades_milli: 3_000,
            }
        };
        Self {
            name: "many",
            listings: (1..=100).map(listing).collect(),
            participants: 200,
            opening: (1_000_000_000, 1_000_000_000_000),
            cancels_per_mille: 300,
            replaces_per_mille: 100,
            modifies_per_mille: 50,
            kinds_per_mille: Some(Kinds {
                market: 30,
                immediate_or_cancel: 70,
                post_only: 50,
                hidden: 20,
            }),
            contingent_per_mille: 0,
        }
    }

    /// A few instruments whose orders wait, follow the market and show a part.
    fn contingent() -> Self {
        let many = Self::many();
        Self {
            name: "contingent",
            listings: many.listings[..10].to_vec(),
            participants: 40,
            contingent_per_mille: 300,
            ..many
        }
    }

    /// Writes this many new orders, and the cancels and modifies between them.
    pub fn write_orders(
        &self,
        seed: u64,
        orders: u64,
        out: &mut impl Write,
    ) -> io::Result<Written> {
        let mut writer = Writer::new(self, seed, out);
        writer.write_header()?;
        for _ in 0..orders {
            writer.write_order()?;
            while writer.written.cancels * 1000 < orders * self.cancels_per_mille
                && writer.chance(self.cancels_per_mille)
                && writer.write_cancel()?
            {}
            if writer.chance(self.modifies_per_mille) {
                writer.write_modify()?;
            }
        }
        Ok(writer.written)
    }

    pub fn write_balances(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "user_id,asset_id,avail,frozen,version")?;
        let instruments = self.instruments();
        let is_base = |asset: &AssetTerms| {
            instruments.all().iter().any(|terms| terms.base.name == asset.name)
        };
        for participant in 0..self.participants {
            for asset in instruments.assets() {
                let units = if is_base(&asset) { self.opening.0 } else { self.opening.1 };
                writeln!(out, "{participant},{},{units},0,0", asset.name)?;
            }
        }
        Ok(())
    }

    pub fn write_instruments(&self, out: &mut impl Write) -> io::Result<()> {
        write_instrument_rows(self.listings.iter().map(|listing| &listing.terms), out)
    }
}

fn symbol(text: &str) -> Symbol {
    Symbol::new(text).expect("at most eight characters")
}

#[derive(Clone, Copy)]
struct Live {
    order_id: u64,
    instrument: usize,
    side: Side,
    quantity: u64,
}

struct ContingentFields {
    fields: String,
    has_limit: bool,
    is_hidden: bool,
    /// `None` is as any other order.
    post_only: Option<bool>,
}

struct Writer<'a, W> {
    profile: &'a FileProfile,
    rng: Rng,
    powers: PowersOfTen,
    weights: ZipfWeights,
    order_id_last: u64,
    /// By participant.
    live: Vec<Vec<Live>>,
    /// The participants that have a live order, in no order that means anything.
    active: Vec<usize>,
    written: Written,
    out: &'a mut W,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(profile: &'a FileProfile, seed: u64, out: &'a mut W) -> Self {
        Self {
            profile,
            rng: Rng::new(seed),
            powers: PowersOfTen::new(),
            weights: ZipfWeights::new(profile.listings.len()),
            order_id_last: 0,
            live: vec![Vec::new(); profile.participants as usize],
            active: Vec::new(),
            written: Written::default(),
            out,
        }
    }

    /// True if the rows have more columns than the first layout, which has one instrument and only limit orders.
    fn is_rich(&self) -> bool {
        self.profile.kinds_per_mille.is_some()
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.rng.chance(per_mille, 1000)
    }

    fn write_header(&mut self) -> io::Result<()> {
        let header = if self.is_rich() {
            "order_id,user_id,action,symbol,side,type,time_in_force,display,price,qty,post_only,new_order_id"
        } else {
            "order_id,user_id,action,side,price,qty"
        };
        let more = match self.is_contingent() {
            true => {
                ",pricing,trigger_price,offset,shown_quantity,all_or_none,slide,minimum_quantity"
            }
            false => "",
        };
        writeln!(self.out, "{header}{more}")
    }

    /// The columns of instructions, blank.
    fn blank_fields(&self) -> &'static str {
        if self.is_contingent() { ",,,,,,," } else { "" }
    }

    /// True if the rows have columns for instructions.
    fn is_contingent(&self) -> bool {
        self.profile.contingent_per_mille != 0
    }

    /// Draws an order's instructions, if any: the fields of the last columns, whether it has a limit, and
    /// whether it is hidden.
    fn contingent_fields(
        &mut self,
        listing: &Listing,
        side: Side,
        quantity: u64,
    ) -> Option<ContingentFields> {
        if !self.is_contingent() || !self.chance(self.profile.contingent_per_mille) {
            return None;
        }
        let is_buy = side.is_buy();
        let away = self.rng.below(2 * listing.deviation);
        let near = |rises: bool| {
            let price = if rises { listing.mid + away } else { listing.mid - away };
            decimal_text(price, listing.terms.price_decimals)
        };
        let offset = |ticks: u64| decimal_text(ticks, listing.terms.price_decimals);
        let has_limit = self.rng.chance(1, 2);
        let plain = ContingentFields {
            fields: String::new(),
            has_limit,
            is_hidden: false,
            post_only: None,
        };
        let contingent = match self.rng.below(11) {
            0 => ContingentFields { fields: format!("stop,{},,,,,", near(is_buy)), ..plain },
            1 => {
                ContingentFields { fields: format!("take-profit,{},,,,,", near(!is_buy)), ..plain }
            }
            2 => {
                let fields = format!("trailing-stop,,{},,,,", offset(1 + away));
                ContingentFields { fields, has_limit: false, ..plain }
            }
            3 | 4 => {
                let shown = 1 + quantity / (1 + self.rng.below(20));
                let shown = decimal_text(shown, listing.terms.quantity_decimals);
                ContingentFields { fields: format!(",,,{shown},,,"), has_limit: true, ..plain }
            }
            5 => {
                let fields = ",,,,true,,".to_owned();
                ContingentFields { fields, has_limit: true, post_only: Some(false), ..plain }
            }
            6 => {
                let least = quantity.div_ceil(1 + self.rng.below(20));
                let least = decimal_text(least, listing.terms.quantity_decimals);
                let fields = format!(",,,,,,{least}");
                ContingentFields { fields, has_limit: true, post_only: Some(false), ..plain }
            }
            7 => {
                let fields = ",,,,,true,".to_owned();
                ContingentFields { fields, has_limit: true, post_only: Some(true), ..plain }
            }
            peg => {
                let followed = ["primary-peg", "market-peg", "midpoint-peg"][peg as usize - 8];
                let sign = if self.rng.chance(1, 2) { "-" } else { "" };
                let ticks = self.rng.below(listing.reserve.max(1));
                let fields = format!("{followed},,{sign}{},,,,", offset(ticks));
                ContingentFields { fields, is_hidden: true, ..plain }
            }
        };
        Some(contingent)
    }

    fn write_order(&mut self) -> io::Result<()> {
        let replaced = match self.chance(self.profile.replaces_per_mille) {
            true => self.take_any_live(),
            false => None,
        };
        let (participant, instrument, side) = match replaced {
            Some((participant, live)) => (participant, live.instrument, live.side),
            None => {
                let participant = self.rng.below(u64::from(self.profile.participants)) as usize;
                let instrument = self.any_instrument();
                let side = if self.rng.chance(1, 2) { Side::Buy } else { Side::Sell };
                (participant, instrument, side)
            }
        };
        let profile = self.profile;
        let listing = &profile.listings[instrument];
        let price = price(&mut self.rng, listing, side);
        let quantity = self.powers.quantity(&mut self.rng, listing);
        self.order_id_last += 1;
        let order_id = self.order_id_last;
        self.written.rows += 1;
        self.written.orders += 1;

        let side_text = if side.is_buy() { "buy" } else { "sell" };
        let mut price = decimal_text(price, listing.terms.price_decimals);
        let quantity_text = decimal_text(quantity, listing.terms.quantity_decimals);
        let Some(kinds) = self.profile.kinds_per_mille else {
            writeln!(
                self.out,
                "{order_id},{participant},place,{side_text},{price},{quantity_text}"
            )?;
            self.add_live(participant, Live { order_id, instrument, side, quantity });
            return Ok(());
        };
        let chance = self.rng.below(1000);
        let mut is_market = chance < kinds.market;
        let mut is_immediate = !is_market && chance < kinds.market + kinds.immediate_or_cancel;
        let mut post_only = !is_market && !is_immediate && self.chance(kinds.post_only);
        let mut is_hidden = self.chance(kinds.hidden);
        let contingent = self.contingent_fields(listing, side, quantity);
        let may_rest = contingent.is_some() || !is_market && !is_immediate;
        let mut fields = self.blank_fields().to_owned();
        if let Some(contingent) = contingent {
            (is_market, is_immediate) = (!contingent.has_limit, false);
            is_hidden = contingent.is_hidden;
            post_only = contingent.post_only.unwrap_or(post_only);
            fields = format!(",{}", contingent.fields);
        }
        if is_market {
            price.clear();
        }
        let (named, action, new_order_id) = match replaced {
            Some((_, live)) => (live.order_id, "replace", order_id.to_string()),
            None => (order_id, "place", String::new()),
        };
        writeln!(
            self.out,
            "{named},{participant},{action},{},{side_text},{},{},{},{price},{quantity_text},{},{new_order_id}{fields}",
            listing.terms.symbol,
            if is_market { "market" } else { "limit" },
            if is_immediate { "ioc" } else { "day" },
            if is_hidden { "hidden" } else { "visible" },
            if post_only { "true" } else { "" },
        )?;
        if may_rest {
            self.add_live(participant, Live { order_id, instrument, side, quantity });
        }
        Ok(())
    }

    /// False if there is no order to cancel.
    fn write_cancel(&mut self) -> io::Result<bool> {
        let Some((participant, live)) = self.take_any_live() else { return Ok(false) };
        self.written.rows += 1;
        self.written.cancels += 1;
        let blanks = if self.is_rich() { ",,,,,,,," } else { ",," };
        let more = self.blank_fields();
        writeln!(self.out, "{},{participant},cancel,{blanks}{more}", live.order_id)?;
        Ok(true)
    }

    fn write_modify(&mut self) -> io::Result<()> {
        let Some((participant, mut live)) = self.take_any_live() else { return Ok(()) };
        self.written.rows += 1;
        live.quantity = 1 + self.rng.below(live.quantity);
        let terms = &self.profile.listings[live.instrument].terms;
        let quantity = decimal_text(live.quantity, terms.quantity_decimals);
        let side = if live.side.is_buy() { "buy" } else { "sell" };
        let more = self.blank_fields();
        writeln!(
            self.out,
            "{},{participant},modify,{},{side},,,,,{quantity},,{more}",
            live.order_id, terms.symbol
        )?;
        self.add_live(participant, live);
        Ok(())
    }

    fn any_instrument(&mut self) -> usize {
        // The draw of a single instrument is left out: files of a seed stay as they are.
        if self.weights.len() == 1 { 0 } else { self.weights.pick(|bound| self.rng.below(bound)) }
    }

    fn add_live(&mut self, participant: usize, live: Live) {
        if self.live[participant].is_empty() {
            self.active.push(participant);
        }
        self.live[participant].push(live);
    }

    /// An order of any of the participants that have one; it is live no more.
    fn take_any_live(&mut self) -> Option<(usize, Live)> {
        if self.active.is_empty() {
            return None;
        }
        let place = self.rng.below(self.active.len() as u64) as usize;
        let participant = self.active[place];
        let orders = &mut self.live[participant];
        let live = orders.swap_remove(self.rng.below(orders.len() as u64) as usize);
        if orders.is_empty() {
            self.active.swap_remove(place);
        }
        Some((participant, live))
    }
}

/// A price around the middle: buyers a little below, sellers a little above.
fn price(rng: &mut Rng, listing: &Listing, side: Side) -> u64 {
    // Twelve even draws of 32 bits have a variance of one, and a mean of six.
    let sum: i128 = (0..12).map(|_| i128::from(rng.next_u64() >> 32)).sum();
    let offset = ((sum - (6 << 32)) * i128::from(listing.deviation) + (1 << 31)) >> 32;
    let reserve = i128::from(listing.reserve);
    let reserve = if side.is_buy() { -reserve } else { reserve };
    u64::try_from(i128::from(listing.mid) + offset + reserve).map_or(1, |price| price.max(1))
}

/// 10^(1/2), 10^(1/4), 10^(1/8) and so on, in 60 binary places.
struct PowersOfTen([u64; 32]);

const PLACES: u32 = 60;

impl PowersOfTen {
    fn new() -> Self {
        let mut root = 10_u128 << PLACES;
        Self([(); 32].map(|()| {
            root = (root << PLACES).isqrt();
            u64::try_from(root).expect("no more than the root of ten")
        }))
    }

    /// 10 to the power of `exponent` / 2³², for an exponent below one, in 60 binary places.
    fn fraction(&self, exponent: u32) -> u64 {
        let bits = (0..32).filter(|place| exponent & (1 << (31 - place)) != 0);
        let product = bits.fold(1_u128 << PLACES, |product, place| {
            (product * u128::from(self.0[place as usize])) >> PLACES
        });
        u64::try_from(product).expect("less than ten")
    }

    /// A quantity; each of its powers of ten is as likely as the next.
    fn quantity(&self, rng: &mut Rng, listing: &Listing) -> u64 {
        let exponent = (rng.next_u64() >> 32) * listing.decades_milli / 1000;
        let whole = 10_u128.pow((exponent >> 32) as u32) * u128::from(listing.quantity_min);
        let rounded = whole * u128::from(self.fraction(exponent as u32)) + (1 << (PLACES - 1));
        ((rounded >> PLACES) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of ten are right to some eighteen digits.
    #[test]
    fn powers_of_ten_are_exact_enough() {
        let powers = PowersOfTen::new();
        assert_eq!(powers.fraction(0), 1 << PLACES);
        // 10^0.5 = 3.16227766016837933199889…
        let root = (u128::from(powers.fraction(1 << 31)) * 1_000_000_000_000_000) >> PLACES;
        assert_eq!(root, 3_162_277_660_168_379);
        // 10^0.75 = 5.62341325190349080394951…
        let root = (u128::from(powers.fraction(3 << 30)) * 1_000_000_000_000_000) >> PLACES;
        assert_eq!(root, 5_623_413_251_903_490);
        assert!(powers.fraction(u32::MAX) < 10 << PLACES);
    }
}
