//! Which of several cores has which instrument, and how much of an opening balance.

use std::collections::BTreeMap;

use crate::order_file::{InstrumentTerms, Instruments};
use market::{AssetId, InstrumentId, ShardId, Symbol};

/// The shards of a run: cores with instruments, a log and balances of their own. All know the same
/// sessions, accounts and assets by the same numbers.
#[derive(Clone, Debug)]
pub struct Shards {
    count: u16,
    instruments: Instruments,
    /// By instrument: its shard, and its number there.
    places: Vec<(usize, InstrumentId)>,
    by_symbol: BTreeMap<Symbol, usize>,
    /// By asset: the shards with an instrument that is, or is paid with, the asset.
    traded_on: BTreeMap<Symbol, Vec<usize>>,
}

impl Shards {
    /// So many, at least 1; `None` if an instrument is to have a shard beyond them.
    #[must_use]
    pub fn new(instruments: Instruments, count: u16) -> Option<Self> {
        let shards = instruments.dealt_out(count)?;
        let mut counts = vec![0; usize::from(count)];
        let mut places = Vec::new();
        let mut by_symbol = BTreeMap::new();
        let mut traded_on: BTreeMap<Symbol, Vec<usize>> = BTreeMap::new();
        for (terms, shard) in instruments.all().iter().zip(shards) {
            let index = usize::from(shard.0) - 1;
            counts[index] += 1;
            places.push((index, InstrumentId(counts[index])));
            by_symbol.insert(terms.symbol, index);
            for asset in [terms.base.name, terms.quote.name] {
                traded_on.entry(asset).or_default().push(index);
            }
        }
        for indices in traded_on.values_mut() {
            indices.sort_unstable();
            indices.dedup();
        }
        Some(Self { count, instruments, places, by_symbol, traded_on })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// All instruments, in the order of the file.
    #[must_use]
    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// Each instrument with the index of its shard and its number there, in the order of the file.
    pub fn places(&self) -> impl Iterator<Item = (&InstrumentTerms, usize, InstrumentId)> {
        let all = self.instruments.all().iter().zip(&self.places);
        all.map(|(terms, (shard, number))| (terms, *shard, *number))
    }

    /// The instruments of one, in the order of their numbers there.
    pub fn instruments_of(&self, index: usize) -> impl Iterator<Item = &InstrumentTerms> {
        self.places().filter(move |(_, shard, _)| *shard == index).map(|(terms, ..)| terms)
    }

    /// The index of the one that has an instrument.
    #[must_use]
    pub fn of_symbol(&self, symbol: &Symbol) -> Option<usize> {
        self.by_symbol.get(symbol).copied()
    }

    /// The index of a shard; `None` if there is no such shard.
    #[must_use]
    pub fn index(&self, shard: ShardId) -> Option<usize> {
        (1..=self.count).contains(&shard.0).then(|| usize::from(shard.0) - 1)
    }

    /// The number of an asset, which is the same everywhere.
    #[must_use]
    pub fn asset_id(&self, name: &Symbol) -> Option<AssetId> {
        let place = self.instruments.assets().iter().position(|asset| asset.name == *name)?;
        u16::try_from(place + 1).ok().map(AssetId)
    }

    /// How an amount of an asset is dealt out: in equal parts among the shards that trade it, what
    /// is left over by one unit each from the first on. Nothing is nobody's part.
    #[must_use]
    pub fn parts(&self, asset: &Symbol, amount: u64) -> Vec<(usize, u64)> {
        let indices = self.traded_on.get(asset).map_or(&[][..], Vec::as_slice);
        let count = indices.len() as u64;
        let parts = indices
            .iter()
            .zip(0..)
            .map(|(index, place)| (*index, amount / count + u64::from(place < amount % count)));
        parts.filter(|(_, part)| *part > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::order_file::AssetTerms;

    use super::*;

    fn name(text: &str) -> Symbol {
        Symbol::new(text).unwrap()
    }

    fn instruments() -> Instruments {
        let asset = |text: &str| AssetTerms { name: name(text), decimals: 4 };
        let terms = |base: &str| InstrumentTerms {
            symbol: name(&format!("{base}-EUR")),
            base: asset(base),
            quote: asset("EUR"),
            price_decimals: 2,
            quantity_decimals: 0,
        };
        Instruments::of(["A", "B", "C", "D", "E"].map(terms).to_vec())
    }

    /// Instruments are dealt out in turn, and numbered on each shard from 1.
    #[test]
    fn instruments_are_dealt_out_in_turn() {
        let shards = Shards::new(instruments(), 2).unwrap();
        let places: Vec<_> =
            shards.places().map(|(terms, shard, number)| (terms.symbol, shard, number.0)).collect();
        let expected = [("A", 0, 1), ("B", 1, 1), ("C", 0, 2), ("D", 1, 2), ("E", 0, 3)];
        assert_eq!(places, expected.map(|(base, at, no)| (name(&format!("{base}-EUR")), at, no)));
        assert_eq!(shards.of_symbol(&name("D-EUR")), Some(1));
        assert_eq!(shards.instruments_of(1).count(), 2);
        assert_eq!(shards.index(ShardId(2)), Some(1));
        assert_eq!((shards.index(ShardId(0)), shards.index(ShardId(3))), (None, None));
    }

    /// No unit is lost when a balance is dealt out, and none goes where nobody trades it.
    #[test]
    fn balances_are_dealt_out_to_the_last_unit() {
        let shards = Shards::new(instruments(), 3).unwrap();
        assert_eq!(shards.parts(&name("EUR"), 11), [(0, 4), (1, 4), (2, 3)]);
        assert_eq!(shards.parts(&name("EUR"), 1), [(0, 1)]);
        assert_eq!(shards.parts(&name("B"), 7), [(1, 7)]);
        assert_eq!(shards.parts(&name("B"), 0), []);
        assert_eq!(shards.parts(&name("X"), 7), []);
    }
}
