//! Lots to buy and to sell by price: a binary tree over the bits of prices, with sums.
//!
//! A branch stands for the highest bit in which its prices differ, so a path has at most
//! [`DEPTH_MAX`] nodes, however many prices there are, and in whatever order they came.
//!
//! Invariant: the lots of a branch are those of its two children.

use alloc::{boxed::Box, vec::Vec};

use market::{Price, Side};

/// The most nodes from the root to a price: one for each bit of a price, and the price itself.
#[cfg(test)]
pub(super) const DEPTH_MAX: usize = 32;

/// Nodes in a chunk: 12 KiB. Adding a chunk moves no node.
const CHUNK_LEN: usize = 256;

/// No node.
const NONE: u32 = u32::MAX;

/// The bit of a node that is one price.
const LEAF: u8 = u8::MAX;

/// Lots of both sides; the sum of all orders at a price may exceed 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BothSides {
    pub(super) buy: u128,
    pub(super) sell: u128,
}

impl BothSides {
    pub(super) fn of(side: Side, lots: u128) -> Self {
        if side.is_buy() { Self { buy: lots, sell: 0 } } else { Self { buy: 0, sell: lots } }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.buy += other.buy;
        self.sell += other.sell;
    }

    pub(super) fn remove(&mut self, other: Self) {
        let less = |lots: u128, gone| lots.checked_sub(gone).expect("they were added");
        *self = Self { buy: less(self.buy, other.buy), sell: less(self.sell, other.sell) };
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    lots: BothSides,
    /// A price below this node; of a branch, the lowest that may be.
    price: u32,
    /// By the value of the bit; of an unused node, the first is the next unused one.
    children: [u32; 2],
    /// The highest bit in which the prices differ; [`LEAF`] for one price.
    bit: u8,
}

impl Node {
    fn leaf(price: u32, lots: BothSides) -> Self {
        Self { lots, price, children: [NONE; 2], bit: LEAF }
    }

    /// True if a price is, or would be, below this node.
    fn spans(&self, price: u32) -> bool {
        let differs = self.price ^ price;
        if self.bit == LEAF { differs == 0 } else { differs >> self.bit <= 1 }
    }

    /// The index of the child with a price that this branch spans.
    fn toward(&self, price: u32) -> usize {
        (price >> self.bit & 1) as usize
    }
}

/// Lots by price. Its memory is used again after [`clear`](Self::clear).
#[derive(Debug)]
pub(super) struct LotsByPrice {
    /// Chunks never move.
    chunks: Vec<Box<[Node; CHUNK_LEN]>>,
    /// Nodes ever used since the last [`clear`](Self::clear).
    used: u32,
    /// The first node of the list of released nodes.
    free: u32,
    root: u32,
    /// Nodes that were read or changed.
    #[cfg(test)]
    pub(super) looks: core::cell::Cell<usize>,
}

impl Default for LotsByPrice {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            used: 0,
            free: NONE,
            root: NONE,
            #[cfg(test)]
            looks: core::cell::Cell::default(),
        }
    }
}

impl LotsByPrice {
    /// Removes all prices, in constant time.
    pub(super) fn clear(&mut self) {
        (self.used, self.free, self.root) = (0, NONE, NONE);
    }

    /// Adds lots of a side at a price.
    pub(super) fn add(&mut self, side: Side, price: Price, lots: u128) {
        let price = bits(price);
        let added = BothSides::of(side, lots);
        let (mut at, mut parent) = (self.root, NONE);
        while at != NONE {
            let node = self.node_mut(at);
            if !node.spans(price) {
                break;
            }
            node.lots.add(added);
            if node.bit == LEAF {
                return;
            }
            (at, parent) = (node.children[node.toward(price)], at);
        }
        let leaf = self.make(Node::leaf(price, added));
        let top = if at == NONE { leaf } else { self.join(at, leaf) };
        if parent == NONE {
            self.root = top;
        } else {
            let node = self.node_mut(parent);
            let index = node.toward(price);
            node.children[index] = top;
        }
    }

    /// Removes lots that were added; a price without lots is gone.
    pub(super) fn remove(&mut self, side: Side, price: Price, lots: u128) {
        let price = bits(price);
        let removed = BothSides::of(side, lots);
        let (mut at, mut parent, mut above) = (self.root, NONE, NONE);
        let is_gone = loop {
            let node = self.node_mut(at);
            node.lots.remove(removed);
            if node.bit == LEAF {
                assert!(node.price == price, "its lots were added");
                break node.lots.is_none();
            }
            (above, parent, at) = (parent, at, node.children[node.toward(price)]);
        };
        if !is_gone {
            return;
        }
        self.discard(at);
        let mut top = NONE;
        if parent != NONE {
            // The other child takes the place of their parent.
            let node = self.node(parent);
            top = node.children[1 - node.toward(price)];
            self.discard(parent);
        }
        if above == NONE {
            self.root = top;
        } else {
            let node = self.node_mut(above);
            let index = node.toward(price);
            node.children[index] = top;
        }
    }

    /// The branch of a node and a price beside it.
    fn join(&mut self, at: u32, leaf: u32) -> u32 {
        let (node, new) = (*self.node(at), *self.node(leaf));
        let bit = (node.price ^ new.price).ilog2() as u8;
        let mut lots = node.lots;
        lots.add(new.lots);
        let mut branch = Node { lots, price: new.price >> bit >> 1 << bit << 1, bit, ..new };
        branch.children[branch.toward(node.price)] = at;
        branch.children[branch.toward(new.price)] = leaf;
        self.make(branch)
    }

    /// Lots to buy at a price or above it, and to sell at it or below.
    pub(super) fn at(&self, price: Price) -> BothSides {
        let price = bits(price);
        let mut sum = BothSides::default();
        let mut at = self.root;
        while at != NONE {
            let node = self.node(at);
            let is_here = node.spans(price);
            if !is_here || node.bit == LEAF {
                sum.buy += if is_here || price < node.price { node.lots.buy } else { 0 };
                sum.sell += if is_here || node.price < price { node.lots.sell } else { 0 };
                break;
            }
            let [below, above] = node.children;
            if node.toward(price) == 0 {
                sum.buy += self.node(above).lots.buy;
                at = below;
            } else {
                sum.sell += self.node(below).lots.sell;
                at = above;
            }
        }
        sum
    }

    /// The lowest price at which the lots to buy *above* it are fewer than the lots to sell at it or below;
    /// `any_price` has the lots that buy and sell at any price.
    pub(super) fn turn(&self, any_price: BothSides) -> Option<Price> {
        let BothSides { buy: mut buys_above, sell: mut sells_below } = any_price;
        let mut at = self.root;
        loop {
            let node = self.checked(at)?;
            if node.bit == LEAF {
                let turns = buys_above < sells_below + node.lots.sell;
                return turns.then(|| Price(node.price.into()));
            }
            let [below, above] = node.children.map(|child| (child, self.node(child).lots));
            if buys_above + above.1.buy < sells_below + below.1.sell {
                buys_above += above.1.buy;
                at = below.0;
            } else {
                sells_below += below.1.sell;
                at = above.0;
            }
        }
    }

    /// The lowest price above another.
    pub(super) fn next(&self, price: Price) -> Option<Price> {
        self.beside(bits(price), 1)
    }

    /// The highest price below another.
    pub(super) fn last_before(&self, price: Price) -> Option<Price> {
        self.beside(bits(price), 0)
    }

    /// The highest price.
    pub(super) fn highest(&self) -> Option<Price> {
        self.outermost(self.root, 1)
    }

    /// The nearest price above another (1) or below it (0).
    fn beside(&self, price: u32, direction: usize) -> Option<Price> {
        let mut at = self.root;
        // The last branch off the path on that side.
        let mut beside = NONE;
        while let Some(node) = self.checked(at) {
            if !node.spans(price) {
                if (price < node.price) == (direction == 1) {
                    beside = at;
                }
                break;
            }
            if node.bit == LEAF {
                break;
            }
            let toward = node.toward(price);
            if toward != direction {
                beside = node.children[direction];
            }
            at = node.children[toward];
        }
        self.outermost(beside, 1 - direction)
    }

    /// The highest (1) or lowest (0) price below a node.
    fn outermost(&self, mut at: u32, direction: usize) -> Option<Price> {
        loop {
            let node = self.checked(at)?;
            if node.bit == LEAF {
                return Some(Price(node.price.into()));
            }
            at = node.children[direction];
        }
    }

    fn checked(&self, at: u32) -> Option<&Node> {
        (at != NONE).then(|| self.node(at))
    }

    fn node(&self, at: u32) -> &Node {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        &self.chunks[at as usize / CHUNK_LEN][at as usize % CHUNK_LEN]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.chunks[at as usize / CHUNK_LEN][at as usize % CHUNK_LEN]
    }

    fn make(&mut self, node: Node) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.free = self.node(at).children[0];
            *self.node_mut(at) = node;
            return at;
        }
        let at = self.used;
        if at as usize == self.chunks.len() * CHUNK_LEN {
            self.chunks.push(Box::new([node; CHUNK_LEN]));
        }
        self.used += 1;
        *self.node_mut(at) = node;
        at
    }

    fn discard(&mut self, at: u32) {
        let free = self.free;
        self.node_mut(at).children[0] = free;
        self.free = at;
    }

    /// Each price with its lots, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Price, BothSides)> + use<'_> {
        let mut last = None;
        core::iter::from_fn(move || {
            let price = match last {
                Some(last) => self.next(last),
                None => self.outermost(self.root, 0),
            }?;
            last = Some(price);
            let mut at = self.root;
            loop {
                let node = self.node(at);
                if node.bit == LEAF {
                    return Some((price, node.lots));
                }
                at = node.children[node.toward(bits(price))];
            }
        })
    }
}

fn bits(price: Price) -> u32 {
    u32::try_from(price.0).expect("prices have 31 bits")
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    /// Sums and neighbors are those of a sorted map that is gone through, and no path is longer than
    /// a price has bits.
    #[test]
    fn sums_are_those_of_a_sorted_map() {
        let mut random = market::SplitMix64::new(11);
        let mut tree = LotsByPrice::default();
        for round in 0..400 {
            tree.clear();
            let mut map: BTreeMap<u64, BothSides> = BTreeMap::new();
            let span = [4, 40, 4_000, 1_999_999_900][round % 4];
            for _ in 0..random.below(90) {
                let side = [Side::Buy, Side::Sell][random.below(2) as usize];
                if random.below(3) == 0 {
                    // Remove some or all lots of a price.
                    let nth = random.below(1 + map.len() as u64) as usize;
                    let Some((price, lots)) = map.iter_mut().nth(nth) else { continue };
                    let (price, before) = (*price, *lots);
                    let all = if side.is_buy() { before.buy } else { before.sell };
                    let gone = all - all / [1, 2, 1000][random.below(3) as usize];
                    let gone = if gone == 0 { all } else { gone };
                    if gone != 0 {
                        tree.remove(side, Price(price), gone);
                        lots.remove(BothSides::of(side, gone));
                    }
                    map.retain(|_, lots| !lots.is_none());
                    continue;
                }
                let (price, lots) = (random.below(span), 1 + u128::from(random.below(9)));
                tree.add(side, Price(price), lots);
                map.entry(price).or_default().add(BothSides::of(side, lots));
            }
            let all: Vec<_> = map.iter().map(|(price, lots)| (Price(*price), *lots)).collect();
            assert!(tree.iter().eq(all), "{map:?}");
            let any_price = BothSides { buy: random.below(9).into(), sell: random.below(9).into() };
            let sums = |price: u64, buys_from: u64| BothSides {
                buy: map.range(buys_from..).map(|(_, lots)| lots.buy).sum(),
                sell: map.range(..=price).map(|(_, lots)| lots.sell).sum(),
            };
            let turns = |price: u64| {
                let BothSides { buy, sell } = sums(price, price + 1);
                any_price.buy + buy < any_price.sell + sell
            };
            let turn = map.keys().copied().find(|price| turns(*price)).map(Price);
            assert_eq!(tree.turn(any_price), turn, "{map:?} {any_price:?}");
            let highest = map.keys().next_back().copied().map(Price);
            assert_eq!(tree.highest(), highest, "{map:?}");
            let mut prices: Vec<u64> = map.keys().copied().collect();
            prices.push(random.below(span));
            for price in prices {
                let last = map.range(..price).next_back().map(|(price, _)| Price(*price));
                let next = map.range(price + 1..).next().map(|(price, _)| Price(*price));
                tree.looks.set(0);
                assert_eq!(tree.at(Price(price)), sums(price, price), "{price} of {map:?}");
                assert!(tree.looks.get() <= 2 * DEPTH_MAX);
                assert_eq!(tree.last_before(Price(price)), last, "{price} of {map:?}");
                assert_eq!(tree.next(Price(price)), next, "{price} of {map:?}");
            }
        }
    }
}
