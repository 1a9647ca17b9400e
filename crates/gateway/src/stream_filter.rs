//! The messages of the feed that a delta stream carries, and their numbers.
//!
//! Invariant: two filters that learnt the same directory and take the same messages give them the same numbers. So the
//! agent that sends a stream and the feed server, which answers requests for it, agree without communication.

use std::collections::VecDeque;

use wire::{
    field::trimmed,
    itch::{Message, decode},
    moldudp64::Session,
};

/// The instruments of a stream: symbols, or their beginnings before a `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFilter {
    patterns: Vec<Pattern>,
    /// By stock locate: true for the instruments of the stream.
    locates: Vec<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    text: String,
    is_beginning: bool,
}

impl StreamFilter {
    /// # Errors
    /// The list is empty, or a pattern is no symbol.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let read = |pattern: &String| {
            let (text, is_beginning) = match pattern.strip_suffix('*') {
                Some(beginning) => (beginning, true),
                None => (&pattern[..], false),
            };
            let is_symbol = text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_symbol || text.contains('*') || (text.is_empty() && !is_beginning) {
                return Err(format!(
                    "{pattern:?} is neither a symbol nor a prefix of symbols followed by a *"
                ));
            }
            Ok(Pattern { text: text.to_owned(), is_beginning })
        };
        if patterns.is_empty() {
            return Err("instruments is empty; [\"*\"] means all".to_owned());
        }
        let patterns = patterns.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { patterns, locates: Vec::new() })
    }

    /// Notes an instrument of the directory.
    pub fn learn(&mut self, locate: u16, symbol: &[u8]) {
        let is_meant = |pattern: &Pattern| match pattern.is_beginning {
            true => symbol.starts_with(pattern.text.as_bytes()),
            false => symbol == pattern.text.as_bytes(),
        };
        let index = usize::from(locate);
        if self.locates.len() <= index {
            self.locates.resize(index + 1, false);
        }
        self.locates[index] = self.patterns.iter().any(is_meant);
    }

    /// True for a message about an instrument of the stream, or about none. A message of the directory is learnt.
    pub fn takes(&mut self, message: &[u8]) -> bool {
        if message[0] == b'R'
            && let Ok(Message::StockDirectory(directory)) = decode(message)
        {
            self.learn(directory.stock_locate.get(), trimmed(&directory.stock));
        }
        self.has(message)
    }

    /// True for a message about an instrument of the stream, or about none, as far as the directory is learnt.
    pub(crate) fn has(&self, message: &[u8]) -> bool {
        let locate = usize::from(u16::from_be_bytes([message[1], message[2]]));
        locate == 0 || self.locates.get(locate).is_some_and(|is_meant| *is_meant)
    }
}

/// A stream as the feed server knows it.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Name of its session: 10 decimal digits, new at each start.
    pub session: Session,
    /// Its instruments.
    pub filter: StreamFilter,
}

/// The numbers of a stream's messages in the feed, for those that memory still has.
pub(crate) struct StreamIndex {
    pub(crate) session: Session,
    pub(crate) filter: StreamFilter,
    /// Number in the stream of the first message known here.
    first: u64,
    /// Numbers in the feed.
    numbers: VecDeque<u64>,
}

impl StreamIndex {
    pub(crate) fn new(options: StreamOptions) -> Self {
        let StreamOptions { session, filter } = options;
        Self { session, filter, first: 1, numbers: VecDeque::new() }
    }

    /// Takes a message of the feed; memory has the messages from `kept` on.
    pub(crate) fn take(&mut self, number: u64, message: &[u8], kept: u64) {
        if self.filter.takes(message) {
            self.numbers.push_back(number);
        }
        while self.numbers.front().is_some_and(|number| *number < kept) {
            self.numbers.pop_front();
            self.first += 1;
        }
    }

    /// The number in the feed of a message of the stream; `None` if memory does not have it.
    pub(crate) fn in_feed(&self, number: u64) -> Option<u64> {
        let index = number.checked_sub(self.first)?;
        self.numbers.get(usize::try_from(index).ok()?).copied()
    }

    /// The oldest message of the stream in memory.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// The next message of the stream.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.numbers.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(patterns: &[&str]) -> Result<StreamFilter, String> {
        StreamFilter::new(&patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    /// A stream has the messages of the instruments that it names, by symbol or beginning, and those about none.
    #[test]
    fn a_filter_names_instruments() {
        let mut some = filter(&["AAPL", "M*"]).unwrap();
        for (locate, symbol) in [(1, "AAPL"), (2, "AAP"), (3, "MSFT"), (4, "AM"), (900, "M")] {
            some.learn(locate, symbol.as_bytes());
        }
        let message = |locate: u16| [&b"D"[..], &locate.to_be_bytes(), &[0; 16]].concat();
        let taken: Vec<u16> =
            [0, 1, 2, 3, 4, 5, 900, 901].into_iter().filter(|it| some.has(&message(*it))).collect();
        assert_eq!(taken, [0, 1, 3, 900]);
        for wrong in [&[][..], &[""], &["A*B"], &["TOOLONGAA"], &["A B"], &["**"]] {
            assert!(filter(wrong).is_err(), "{wrong:?}");
        }
        assert!(filter(&["*"]).is_ok());
    }

    /// Numbers of a stream lead to numbers of the feed as long as memory has the messages.
    #[test]
    fn numbers_lead_to_the_feed() {
        let mut all = filter(&["B"]).unwrap();
        all.learn(2, b"B");
        let mut index = StreamIndex::new(StreamOptions { session: *b"0000000001", filter: all });
        for number in 1..=100 {
            let locate = (number % 2) as u8 + 1;
            index.take(number, &[b'D', 0, locate], number.saturating_sub(20));
        }
        // The odd ones are of B: 99 is the 50th, and memory has those from 80 on.
        assert_eq!((index.first(), index.next()), (41, 51));
        assert_eq!((index.in_feed(50), index.in_feed(41)), (Some(99), Some(81)));
        assert_eq!((index.in_feed(40), index.in_feed(51), index.in_feed(0)), (None, None, None));
    }
}
