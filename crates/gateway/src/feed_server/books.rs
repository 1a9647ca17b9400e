//! The feed server's copy of the books: the content of a GLIMPSE snapshot, built from the messages of the feed.
//!
//! Invariant: a frozen copy has exactly the messages before its number, and does not change. Freezing costs one pointer
//! for 65,536 order numbers; the live copy then copies each part that it changes, once.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use wire::{
    field::U32,
    glimpse::EndOfSnapshot,
    itch::{
        self, AddOrder, AddOrderAttributed, Message, StockDirectory, StockTradingAction,
        SystemEvent,
    },
    layout::{IntoBytes, Message as _},
};

/// Bits of an order's number below its chunk, and of the number of its chunk below its group.
const BITS: u32 = 8;
const BLANK_FIRM: [u8; 4] = *b"    ";

/// The displayed orders and the states of all instruments after the last message.
///
/// Orders lie by their numbers. At one price the lower number trades first, so this is their priority.
#[derive(Debug)]
pub struct FeedBooks {
    /// Number of the next message.
    next: u64,
    order_count: u64,
    state: Books,
    /// True while the messages of a state come: its orders lie in their chunks as they came.
    is_loading: bool,
    /// The last copy, as long as no message came after it.
    frozen: Option<Arc<FrozenBooks>>,
    /// Copies made so far.
    copies: u64,
}

/// A copy of the books that does not change.
#[derive(Debug)]
pub(super) struct FrozenBooks {
    /// Number of the first message that is not in it.
    pub(super) next: u64,
    state: Books,
}

#[derive(Clone, Debug, Default)]
struct Books {
    system_event: Option<SystemEvent>,
    /// By stock locate, less 1.
    instruments: Arc<Vec<Listing>>,
    groups: BTreeMap<u64, Arc<Group>>,
}

#[derive(Clone, Copy, Debug)]
struct Listing {
    directory: StockDirectory,
    action: Option<StockTradingAction>,
}

/// Chunks of 256 order numbers each, by number; none is empty.
type Group = BTreeMap<u64, Arc<Chunk>>;

/// Displayed orders by number, as they would be added now. An unattributed one has a blank firm. The oldest often leave
/// first, and then no other order moves.
type Chunk = VecDeque<AddOrderAttributed>;

/// Displayed lots that joined a price of a book or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookChange {
    pub stock_locate: u16,
    pub is_bid: bool,
    /// In ticks.
    pub price: u32,
    pub lots: u32,
    pub kind: BookChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookChangeKind {
    /// With an order.
    Added,
    /// Their order stays.
    Reduced,
    /// Their order was removed with them.
    Removed,
}

impl BookChange {
    fn of(order: &AddOrderAttributed, lots: u32, kind: BookChangeKind) -> Self {
        Self {
            stock_locate: order.stock_locate.get(),
            is_bid: order.buy_sell_indicator == b'B',
            price: order.price.get(),
            lots,
            kind,
        }
    }
}

/// The position of a reader in a frozen copy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    part: Part,
    /// The place of the next instrument, or the number of the next order.
    next: u64,
}

/// The parts of a snapshot in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    SystemEvent,
    Directories,
    Actions,
    Orders,
    End,
    Done,
}

impl Default for FeedBooks {
    fn default() -> Self {
        Self::new()
    }
}

impl FeedBooks {
    /// Before the first message.
    #[must_use]
    pub fn new() -> Self {
        let state = Books::default();
        Self { next: 1, order_count: 0, state, is_loading: false, frozen: None, copies: 0 }
    }

    /// Before the messages of a state, which may add orders in any order and take none away: an order costs the same
    /// wherever its number lies. [`begin_at`](Self::begin_at) is to follow them.
    pub(super) fn loading() -> Self {
        Self { is_loading: true, ..Self::new() }
    }

    /// Displayed orders now.
    pub(super) const fn order_count(&self) -> u64 {
        self.order_count
    }

    /// Lets the next message have this number. The messages before it are known by their effect.
    ///
    /// # Panics
    /// An order was added twice.
    pub(super) fn begin_at(&mut self, number: u64) {
        self.next = number;
        self.frozen = None;
        if !std::mem::take(&mut self.is_loading) {
            return;
        }
        let groups = self.state.groups.values_mut();
        for chunk in groups.flat_map(|group| Arc::make_mut(group).values_mut()) {
            let number = |order: &AddOrderAttributed| order.order_reference_number.get();
            let orders = Arc::make_mut(chunk).make_contiguous();
            orders.sort_unstable_by_key(number);
            assert!(orders.is_sorted_by(|a, b| number(a) < number(b)), "an order is added once");
        }
    }

    /// Takes the next message of the feed, and calls `each` with its changes of the books.
    ///
    /// # Panics
    /// It is not the next one, or contradicts the books: the feed would be wrong.
    pub fn take(&mut self, number: u64, message: &[u8], each: &mut impl FnMut(BookChange)) {
        assert!(number == self.next, "message {number} comes where {} is next", self.next);
        self.next += 1;
        self.apply(message, each);
    }

    /// Applies a message, and calls `each` with its changes. Its number is not counted.
    ///
    /// # Panics
    /// It contradicts the books.
    pub fn apply(&mut self, message: &[u8], each: &mut impl FnMut(BookChange)) {
        self.frozen = None;
        match itch::decode(message).expect("our own feed has messages of ITCH") {
            Message::SystemEvent(event) => self.state.system_event = Some(*event),
            Message::StockDirectory(directory) => self.list(directory),
            Message::StockTradingAction(action) => {
                let index = usize::from(action.stock_locate.get()) - 1;
                Arc::make_mut(&mut self.state.instruments)[index].action = Some(*action);
            }
            Message::AddOrder(order) => each(self.add(AddOrderAttributed {
                message_type: AddOrderAttributed::TYPE,
                stock_locate: order.stock_locate,
                tracking_number: order.tracking_number,
                timestamp: order.timestamp,
                order_reference_number: order.order_reference_number,
                buy_sell_indicator: order.buy_sell_indicator,
                shares: order.shares,
                stock: order.stock,
                price: order.price,
                attribution: BLANK_FIRM,
            })),
            Message::AddOrderAttributed(order) => each(self.add(*order)),
            Message::OrderExecuted(it) => {
                each(self.reduce(it.order_reference_number.get(), it.executed_shares));
            }
            Message::OrderExecutedWithPrice(it) => {
                each(self.reduce(it.order_reference_number.get(), it.executed_shares));
            }
            Message::OrderCancel(it) => {
                each(self.reduce(it.order_reference_number.get(), it.canceled_shares));
            }
            Message::OrderDelete(it) => {
                let order = self.remove(it.order_reference_number.get());
                each(BookChange::of(&order, order.shares.get(), BookChangeKind::Removed));
            }
            Message::OrderReplace(it) => {
                let original = self.remove(it.original_order_reference_number.get());
                each(BookChange::of(&original, original.shares.get(), BookChangeKind::Removed));
                each(self.add(AddOrderAttributed {
                    timestamp: it.timestamp,
                    order_reference_number: it.new_order_reference_number,
                    shares: it.shares,
                    price: it.price,
                    ..original
                }));
            }
            // No other message changes a book or the state of an instrument.
            _ => {}
        }
    }

    /// The books as they are now, for any number of readers.
    pub(super) fn freeze(&mut self) -> Arc<FrozenBooks> {
        let Self { next, state, frozen, copies, .. } = self;
        let copy = || {
            *copies += 1;
            Arc::new(FrozenBooks { next: *next, state: state.clone() })
        };
        Arc::clone(frozen.get_or_insert_with(copy))
    }

    /// Copies made so far.
    pub(super) const fn copies(&self) -> u64 {
        self.copies
    }

    fn list(&mut self, directory: &StockDirectory) {
        let instruments = Arc::make_mut(&mut self.state.instruments);
        let index = usize::from(directory.stock_locate.get()) - 1;
        match instruments.get_mut(index) {
            Some(listing) => listing.directory = *directory,
            None => {
                assert!(index == instruments.len(), "locates count from 1: {directory:?}");
                instruments.push(Listing { directory: *directory, action: None });
            }
        }
    }

    fn add(&mut self, order: AddOrderAttributed) -> BookChange {
        let number = order.order_reference_number.get();
        let is_loading = self.is_loading;
        let chunk = self.chunk(number);
        if is_loading {
            chunk.push_back(order);
        } else {
            let place = place(chunk, number).expect_err("an order is added once");
            chunk.insert(place, order);
        }
        self.order_count += 1;
        BookChange::of(&order, order.shares.get(), BookChangeKind::Added)
    }

    fn reduce(&mut self, number: u64, shares: U32) -> BookChange {
        assert!(!self.is_loading, "a state takes nothing from an order");
        let chunk = self.chunk(number);
        let place = place(chunk, number).expect("only a displayed order is reduced");
        let left = chunk[place].shares.get().checked_sub(shares.get());
        let (order, kind) = match left.expect("an order never has fewer shares than it loses") {
            0 => (self.remove(number), BookChangeKind::Removed),
            left => {
                chunk[place].shares = left.into();
                (chunk[place], BookChangeKind::Reduced)
            }
        };
        BookChange::of(&order, shares.get(), kind)
    }

    fn remove(&mut self, number: u64) -> AddOrderAttributed {
        assert!(!self.is_loading, "a state takes no order away");
        let chunk = self.chunk(number);
        let place = place(chunk, number).expect("only a displayed order is removed");
        let order = chunk.remove(place).expect("it was found there");
        if chunk.is_empty() {
            let (group_number, chunk_number) = (number >> (2 * BITS), number >> BITS);
            let group = self.state.groups.get_mut(&group_number).expect("the order was in it");
            let chunks = Arc::make_mut(group);
            chunks.remove(&chunk_number);
            if chunks.is_empty() {
                self.state.groups.remove(&group_number);
            }
        }
        self.order_count -= 1;
        order
    }

    /// The chunk of an order number, to be changed.
    fn chunk(&mut self, number: u64) -> &mut Chunk {
        let group = self.state.groups.entry(number >> (2 * BITS)).or_default();
        Arc::make_mut(Arc::make_mut(group).entry(number >> BITS).or_default())
    }
}

fn place(chunk: &Chunk, number: u64) -> Result<usize, usize> {
    // Most changes are of the newest orders.
    match chunk.back() {
        Some(last) if last.order_reference_number.get() < number => Err(chunk.len()),
        _ => chunk.binary_search_by_key(&number, |order| order.order_reference_number.get()),
    }
}

impl FrozenBooks {
    /// Emits the next messages of the snapshot and moves on, until `emit` refuses one. Returns true at the
    /// end.
    pub(super) fn read(&self, place: &mut Place, mut emit: impl FnMut(&[u8]) -> bool) -> bool {
        loop {
            let is_through = match place.part {
                Part::SystemEvent => {
                    self.state.system_event.is_none_or(|event| emit(event.as_bytes()))
                }
                Part::Directories => {
                    self.instruments(place, |listing| emit(listing.directory.as_bytes()))
                }
                Part::Actions => self.instruments(place, |listing| {
                    listing.action.is_none_or(|action| emit(action.as_bytes()))
                }),
                Part::Orders => self.orders(place, &mut emit),
                Part::End => emit(EndOfSnapshot::new(self.next).as_bytes()),
                Part::Done => return true,
            };
            if !is_through {
                return false;
            }
            *place = Place { part: place.part.next(), next: 0 };
        }
    }

    fn instruments(&self, place: &mut Place, mut emit: impl FnMut(&Listing) -> bool) -> bool {
        for listing in &self.state.instruments[place.next as usize..] {
            if !emit(listing) {
                return false;
            }
            place.next += 1;
        }
        true
    }

    fn orders(&self, place: &mut Place, emit: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let groups = self.state.groups.range(place.next >> (2 * BITS)..);
        for chunks in groups.map(|(_, chunks)| chunks) {
            for chunk in chunks.range(place.next >> BITS..).map(|(_, chunk)| chunk) {
                let from = self::place(chunk, place.next).unwrap_or_else(|place| place);
                for order in chunk.range(from..) {
                    let is_taken = match order.attribution == BLANK_FIRM {
                        true => emit(unattributed(order).as_bytes()),
                        false => emit(order.as_bytes()),
                    };
                    if !is_taken {
                        return false;
                    }
                    place.next = order.order_reference_number.get() + 1;
                }
            }
        }
        true
    }
}

impl Part {
    const fn next(self) -> Self {
        match self {
            Self::SystemEvent => Self::Directories,
            Self::Directories => Self::Actions,
            Self::Actions => Self::Orders,
            Self::Orders => Self::End,
            Self::End | Self::Done => Self::Done,
        }
    }
}

fn unattributed(order: &AddOrderAttributed) -> AddOrder {
    AddOrder {
        message_type: AddOrder::TYPE,
        stock_locate: order.stock_locate,
        tracking_number: order.tracking_number,
        timestamp: order.timestamp,
        order_reference_number: order.order_reference_number,
        buy_sell_indicator: order.buy_sell_indicator,
        shares: order.shares,
        stock: order.stock,
        price: order.price,
    }
}

#[cfg(test)]
mod tests {
    use wire::{
        field::U48,
        itch::{OrderDelete, OrderExecuted, OrderReplace},
    };

    use super::*;

    const STOCK: [u8; 8] = *b"AAA     ";

    fn add(number: u64, shares: u32, attribution: [u8; 4]) -> AddOrderAttributed {
        AddOrderAttributed {
            message_type: AddOrderAttributed::TYPE,
            stock_locate: 1.into(),
            tracking_number: 0.into(),
            timestamp: U48::new(7),
            order_reference_number: number.into(),
            buy_sell_indicator: b'B',
            shares: shares.into(),
            stock: STOCK,
            price: 100.into(),
            attribution,
        }
    }

    fn directory() -> StockDirectory {
        StockDirectory {
            message_type: StockDirectory::TYPE,
            stock_locate: 1.into(),
            tracking_number: 0.into(),
            timestamp: U48::new(7),
            stock: STOCK,
            market_category: b' ',
            financial_status_indicator: b' ',
            round_lot_size: 100.into(),
            round_lots_only: b'N',
            issue_classification: b'C',
            issue_sub_type: *b"Z ",
            authenticity: b'P',
            short_sale_threshold_indicator: b' ',
            ipo_flag: b' ',
            luld_reference_price_tier: b' ',
            etp_flag: b' ',
            etp_leverage_factor: 0.into(),
            inverse_indicator: b'N',
        }
    }

    /// Loaded books have the same content whatever the order of the orders was, and go on in the same way.
    #[test]
    fn orders_are_loaded_in_any_order() {
        let orders: Vec<_> = (1..=2_000).map(|number| add(number * 97, 10, *b"FIRM")).collect();
        let mut taken = FeedBooks::new();
        taken.begin_at(7);
        orders.iter().for_each(|order| taken.apply(order.as_bytes(), &mut |_| {}));
        let mut loaded = FeedBooks::loading();
        for nth in 0..orders.len() {
            let order = &orders[nth * 1_009 % orders.len()];
            loaded.apply(order.as_bytes(), &mut |_| {});
        }
        loaded.begin_at(7);
        assert_eq!(loaded.order_count(), taken.order_count());
        let newest = add(5 * 97 + 1, 10, BLANK_FIRM);
        for books in [&mut taken, &mut loaded] {
            books.take(7, newest.as_bytes(), &mut |_| {});
        }
        assert_eq!(said(&loaded.freeze(), usize::MAX), said(&taken.freeze(), usize::MAX));
    }

    /// An order that a state has twice is found.
    #[test]
    #[should_panic(expected = "an order is added once")]
    fn an_order_is_loaded_once() {
        let mut loaded = FeedBooks::loading();
        for number in [5, 3, 5] {
            loaded.apply(add(number, 10, BLANK_FIRM).as_bytes(), &mut |_| {});
        }
        loaded.begin_at(1);
    }

    /// All messages of a copy, read in parts of `part` messages.
    fn said(books: &FrozenBooks, part: usize) -> Vec<Vec<u8>> {
        let (mut all, mut place) = (Vec::new(), Place::default());
        loop {
            let mut room = part;
            let is_done = books.read(&mut place, |message| {
                if room == 0 {
                    return false;
                }
                room -= 1;
                all.push(message.to_vec());
                true
            });
            if is_done {
                return all;
            }
        }
    }

    /// A copy has the orders displayed when it was made, whatever happens later and however it is read; copies of one
    /// moment are the same copy.
    #[test]
    fn a_frozen_copy_does_not_change() {
        let mut books = FeedBooks::new();
        books.take(1, directory().as_bytes(), &mut |_| {});
        for number in 1..=2000 {
            let firm = if number % 3 == 0 { *b"FIRM" } else { BLANK_FIRM };
            let order = add(number * 301, 10, firm);
            match firm == BLANK_FIRM {
                true => books.take(number + 1, unattributed(&order).as_bytes(), &mut |_| {}),
                false => books.take(number + 1, order.as_bytes(), &mut |_| {}),
            }
        }
        let first = books.freeze();
        assert!(Arc::ptr_eq(&first, &books.freeze()));
        let before = said(&first, usize::MAX);
        assert_eq!(before.len(), 1 + 2000 + 1);
        assert_eq!(EndOfSnapshot::read(&before[2001]), Some(2002));
        assert_eq!((before[1][0], before[3][0]), (b'A', b'F'));

        let (head, tracking) = (1.into(), 0.into());
        let executed = |number: u64, shares: u32| OrderExecuted {
            message_type: OrderExecuted::TYPE,
            stock_locate: head,
            tracking_number: tracking,
            timestamp: U48::new(8),
            order_reference_number: number.into(),
            executed_shares: shares.into(),
            match_number: 1.into(),
        };
        let delete = OrderDelete {
            message_type: OrderDelete::TYPE,
            stock_locate: head,
            tracking_number: tracking,
            timestamp: U48::new(8),
            order_reference_number: (2 * 301).into(),
        };
        let replace = OrderReplace {
            message_type: OrderReplace::TYPE,
            stock_locate: head,
            tracking_number: tracking,
            timestamp: U48::new(8),
            original_order_reference_number: (3 * 301).into(),
            new_order_reference_number: 1_000_000.into(),
            shares: 4.into(),
            price: 101.into(),
        };
        books.take(2002, executed(301, 4).as_bytes(), &mut |_| {});
        books.take(2003, delete.as_bytes(), &mut |_| {});
        books.take(2004, replace.as_bytes(), &mut |_| {});
        books.take(2005, executed(4 * 301, 10).as_bytes(), &mut |_| {});
        assert_eq!(books.order_count(), 1998);

        assert_eq!(said(&first, 7), before, "the first copy is as it was");
        let after = said(&books.freeze(), 1);
        assert_eq!(after.len(), 1 + 1998 + 1);
        let open = AddOrder { shares: 6.into(), ..unattributed(&add(301, 10, BLANK_FIRM)) };
        assert_eq!(after[1], open.as_bytes());
        let replaced = AddOrderAttributed {
            price: 101.into(),
            timestamp: U48::new(8),
            ..add(1_000_000, 4, *b"FIRM")
        };
        assert_eq!(after[1998], replaced.as_bytes(), "it keeps its side and its firm");
        assert_eq!(EndOfSnapshot::read(&after[1999]), Some(2006));
    }
}
