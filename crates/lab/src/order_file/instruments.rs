//! Instruments of an order file: their assets and decimals, from a file or the default.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::Path,
};

use engine::QUANTITY_LIMIT;
use market::{AssetId, MoneyClass, MoneyTerms, Quantity, Symbol};

use super::{
    DECIMALS_MAX,
    error::FileError,
    table::{Column, Table},
};

/// The largest quantity of an order in a file, in lots, unless a lot is so many units that it must be less.
pub const QUANTITY_MAX: Quantity = QUANTITY_LIMIT;

/// An asset, and the units in which files count it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AssetTerms {
    /// As balance files name it: 1 to 8 characters.
    pub name: Symbol,
    /// 10 to this power of the units that balance files count make one.
    pub decimals: u8,
}

/// An instrument, and the units in which files count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentTerms {
    pub symbol: Symbol,
    pub base: AssetTerms,
    pub quote: AssetTerms,
    /// A tick is 10 to this power less of the quote asset.
    pub price_decimals: u8,
    /// A lot is 10 to this power less of the base asset; at most the decimals of that.
    pub quantity_decimals: u8,
}

impl InstrumentTerms {
    /// The units of the base asset that make one lot.
    pub fn base_units_per_lot(&self) -> u64 {
        10_u64.pow(u32::from(self.base.decimals - self.quantity_decimals))
    }

    /// The value of ticks × lots in units of the quote asset, as a fraction: multiply by the first number,
    /// divide by the second.
    pub fn quote_units_per_tick_lot(&self) -> (u64, u64) {
        let units = u32::from(self.quote.decimals);
        let ticks_and_lots = u32::from(self.price_decimals + self.quantity_decimals);
        if units >= ticks_and_lots {
            (10_u64.pow(units - ticks_and_lots), 1)
        } else {
            (1, 10_u64.pow(ticks_and_lots - units))
        }
    }
}

/// The instruments of a run, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct InstrumentTable {
    terms: Vec<InstrumentTerms>,
    by_symbol: BTreeMap<Symbol, usize>,
}

impl Default for InstrumentTable {
    /// The one instrument that a file without a column `symbol` is about: `BTC_USDT`, prices with
    /// two decimals, quantities with six, asset `1` in units of 10⁻⁸ for asset `2` in units of 10⁻².
    fn default() -> Self {
        let asset = |name, decimals| AssetTerms { name: symbol(name), decimals };
        Self::of(vec![InstrumentTerms {
            symbol: symbol("BTC_USDT"),
            base: asset("1", 8),
            quote: asset("2", 2),
            price_decimals: 2,
            quantity_decimals: 6,
        }])
    }
}

fn symbol(text: &str) -> Symbol {
    Symbol::new(text).expect("at most eight characters")
}

const SYMBOL: usize = 0;
const BASE: usize = 1;
const QUOTE: usize = 2;
const PRICE_DECIMALS: usize = 3;
const QUANTITY_DECIMALS: usize = 4;
const BASE_DECIMALS: usize = 5;
const QUOTE_DECIMALS: usize = 6;

static COLUMNS: [Column; 7] = [
    Column::required("symbol", &[]),
    Column::required("base", &["base_asset"]),
    Column::required("quote", &["quote_asset"]),
    Column::required("price_decimals", &[]),
    Column::required("quantity_decimals", &["qty_decimals"]),
    Column::required("base_decimals", &[]),
    Column::required("quote_decimals", &[]),
];

/// Writes a file that [`InstrumentTable::read`] reads.
///
/// # Errors
/// The file cannot be written.
pub fn write_instrument_rows<'a>(
    terms: impl IntoIterator<Item = &'a InstrumentTerms>,
    out: &mut impl Write,
) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    for InstrumentTerms { symbol, base, quote, price_decimals, quantity_decimals } in terms {
        writeln!(
            out,
            "{symbol},{},{},{price_decimals},{quantity_decimals},{},{}",
            base.name, quote.name, base.decimals, quote.decimals
        )?;
    }
    Ok(())
}

impl InstrumentTable {
    pub fn of(terms: Vec<InstrumentTerms>) -> Self {
        let by_symbol: BTreeMap<_, _> =
            terms.iter().enumerate().map(|(place, terms)| (terms.symbol, place)).collect();
        assert!(!terms.is_empty() && by_symbol.len() == terms.len(), "symbols are different");
        Self { terms, by_symbol }
    }

    /// Reads a file of instruments.
    ///
    /// # Errors
    /// It cannot be read, or says something that makes no sense; the error says where.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::of_table(Table::open(path, &COLUMNS)?)
    }

    /// As [`read`](Self::read), from any reader; `name` names it in errors.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Self, FileError> {
        Self::of_table(Table::read(name.to_owned(), reader, 0, &COLUMNS)?)
    }

    fn of_table(mut table: Table) -> Result<Self, FileError> {
        let mut terms: Vec<InstrumentTerms> = Vec::new();
        let mut decimals: BTreeMap<Symbol, u8> = BTreeMap::new();
        while table.next_row()? {
            let text = |column| table.text(column, "1 to 8 characters");
            let number = |column| {
                table.whole(column, 0..=DECIMALS_MAX.into(), "").map(|decimals| decimals as u8)
            };
            let row = InstrumentTerms {
                symbol: text(SYMBOL)?,
                base: AssetTerms { name: text(BASE)?, decimals: number(BASE_DECIMALS)? },
                quote: AssetTerms { name: text(QUOTE)?, decimals: number(QUOTE_DECIMALS)? },
                price_decimals: number(PRICE_DECIMALS)?,
                quantity_decimals: number(QUANTITY_DECIMALS)?,
            };
            if terms.iter().any(|other| other.symbol == row.symbol) {
                return Err(table.wrong(SYMBOL, "each symbol once"));
            }
            if row.base.name == row.quote.name {
                return Err(table.wrong(QUOTE, "another asset than the base"));
            }
            if row.base.decimals < row.quantity_decimals {
                let decimals = row.base.decimals;
                return Err(
                    table.wrong(QUANTITY_DECIMALS, format!("at most {decimals}, of the base"))
                );
            }
            for (column, asset) in [(BASE_DECIMALS, &row.base), (QUOTE_DECIMALS, &row.quote)] {
                let known = *decimals.entry(asset.name).or_insert(asset.decimals);
                if known != asset.decimals {
                    let expected = format!("{known}, as {} had before", asset.name);
                    return Err(table.wrong(column, expected));
                }
            }
            terms.push(row);
        }
        if terms.is_empty() {
            return Err(table.wrong(SYMBOL, "at least one instrument"));
        }
        if terms.len() > usize::from(u16::MAX) {
            return Err(table.wrong(SYMBOL, format!("at most {} instruments", u16::MAX)));
        }
        Ok(Self::of(terms))
    }

    pub fn all(&self) -> &[InstrumentTerms] {
        &self.terms
    }

    pub fn find(&self, symbol: &Symbol) -> Option<&InstrumentTerms> {
        self.by_symbol.get(symbol).map(|place| &self.terms[*place])
    }

    pub fn only(&self) -> Option<&InstrumentTerms> {
        match self.terms.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// How each instrument is paid for, in the order of their numbers.
    pub fn money_terms(&self) -> Vec<MoneyTerms> {
        let asset = |name| self.asset_id(name).expect("an instrument's assets are known");
        let terms = self.terms.iter().map(|terms| {
            let (quote_numerator, quote_denominator) = terms.quote_units_per_tick_lot();
            let base_units = terms.base_units_per_lot();
            let bound = MoneyTerms::BOUND / u128::from(base_units.max(quote_numerator));
            MoneyTerms {
                class: MoneyClass::Cash,
                base: asset(&terms.base.name),
                quote: asset(&terms.quote.name),
                base_units,
                quote_numerator,
                quote_denominator,
                quantity_max: u64::try_from(bound)
                    .map_or(QUANTITY_MAX, |bound| QUANTITY_MAX.min(Quantity(bound))),
            }
        });
        terms.collect()
    }

    pub fn assets(&self) -> Vec<AssetTerms> {
        let assets = self.terms.iter().flat_map(|terms| [terms.base.clone(), terms.quote.clone()]);
        let by_name: BTreeMap<_, _> = assets.map(|asset| (asset.name, asset)).collect();
        by_name.into_values().collect()
    }

    /// The number of an asset: its place in [`assets`](Self::assets), from 1.
    pub fn asset_id(&self, name: &Symbol) -> Option<AssetId> {
        let place = self.assets().iter().position(|asset| asset.name == *name)?;
        u16::try_from(place + 1).ok().map(AssetId)
    }
}
