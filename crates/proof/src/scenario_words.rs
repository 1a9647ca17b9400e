//! The words of the scenario language: functions that read them, and tables of the value of each word.

use std::{fmt::Debug, str::FromStr};

use market::{
    BustReason, Display, Lots, OrderType, Price, Pricing, SelfMatchPrevention, Side, Text,
    TimeInForce,
};

/// A value read from a scenario, or the error in the scenario.
pub(super) type Read<T> = Result<T, String>;

/// A word for each value; the empty word is for the usual value.
pub(super) type Table<T> = [(&'static str, T)];

pub(super) const SIDES: &Table<Side> = &[
    ("buy", Side::Buy),
    ("sell", Side::Sell),
    ("short", Side::SellShort),
    ("exempt", Side::SellShortExempt),
];

pub(super) const LIVES: &Table<TimeInForce> = &[
    ("", TimeInForce::Day),
    ("ioc", TimeInForce::ImmediateOrCancel),
    ("fok", TimeInForce::FillOrKill),
    ("gtc", TimeInForce::GoodTillCancel),
    ("good-till-time", TimeInForce::GoodTillTime),
    ("at-the-open", TimeInForce::AtTheOpen),
    ("at-the-close", TimeInForce::AtTheClose),
    ("for-auction", TimeInForce::GoodForAuction),
];

pub(super) const DISPLAYS: &Table<Display> =
    &[("", Display::Visible), ("attributable", Display::Attributable), ("hidden", Display::Hidden)];

pub(super) const PEGS: &Table<Pricing> = &[
    ("primary", Pricing::PrimaryPeg),
    ("market", Pricing::MarketPeg),
    ("midpoint", Pricing::MidpointPeg),
];

pub(super) fn value<T: Copy>(table: &Table<T>, word: &str) -> Read<T> {
    let row = table.iter().find(|(name, _)| *name == word);
    Ok(row.ok_or_else(|| unknown(word))?.1)
}

pub(super) fn word<T: PartialEq>(table: &Table<T>, value: T) -> &'static str {
    table.iter().find(|(_, it)| *it == value).expect("each value has a word").0
}

/// The word of a value with a space before it.
pub(super) fn spaced<T: PartialEq>(table: &Table<T>, value: T) -> String {
    match word(table, value) {
        "" => String::new(),
        word => format!(" {word}"),
    }
}

/// The name of a value in kebab case: `StartOfMessages` as `start-of-messages`.
pub(super) fn kebab(value: &impl Debug) -> String {
    let mut word = String::new();
    for letter in format!("{value:?}").chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// The value with this name in kebab case.
pub(super) fn named<T: Copy + Debug>(all: &[T], word: &str) -> Read<T> {
    all.iter().copied().find(|it| kebab(it) == word).ok_or_else(|| unknown(word))
}

/// The value with this name as the code writes it.
pub(super) fn exactly<T: Copy + Debug>(all: &[T], word: &str) -> Read<T> {
    all.iter().copied().find(|it| format!("{it:?}") == word).ok_or_else(|| unknown(word))
}

pub(super) fn unknown(word: &str) -> String {
    format!("{word:?} is not a word of the language here")
}

/// Reads a text; `-` is the blank text.
pub(super) fn text<const N: usize>(word: &str) -> Read<Text<N>> {
    match word {
        "-" => Ok(Text::BLANK),
        word => Text::new(word).ok_or_else(|| format!("{word:?} is longer than {N} characters")),
    }
}

/// A label and a text; nothing for a blank text.
pub(super) fn optional<const N: usize>(label: &str, text: &Text<N>) -> String {
    if text.is_blank() { String::new() } else { format!(" {label}{text}") }
}

/// A label and a number; nothing for 0.
pub(super) fn unless_zero(label: &str, number: u64) -> String {
    if number == 0 { String::new() } else { format!(" {label} {number}") }
}

pub(super) fn channel(place: &str) -> Read<(&str, u8)> {
    let Some((session, channel)) = place.split_once('/') else { return Ok((place, 0)) };
    let channel = channel.parse().map_err(|_| format!("{channel:?} is not a channel"))?;
    Ok((session, channel))
}

/// The words of a line that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a [&'a str]);

impl<'a> Words<'a> {
    /// The next word, if there is one.
    pub(super) fn more(&mut self) -> Option<&'a str> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn next(&mut self) -> Read<&'a str> {
        Ok(self.more().ok_or("a word is missing at the end")?)
    }

    /// Reads the next word if it is this one.
    pub(super) fn skip(&mut self, word: &str) -> bool {
        let is_next = self.0.first() == Some(&word);
        if is_next {
            self.more();
        }
        is_next
    }

    pub(super) fn end(&self) -> Read<()> {
        match self.0.first() {
            None => Ok(()),
            Some(word) => Err(format!("{word:?} is a word too many")),
        }
    }

    pub(super) fn expect(&mut self, word: &str) -> Read<()> {
        match self.next()? {
            found if found == word => Ok(()),
            found => Err(format!("found {found:?}, expected {word:?}")),
        }
    }

    pub(super) fn parse<T: FromStr>(&mut self, what: &str) -> Read<T> {
        let word = self.next()?;
        word.parse().map_err(|_| format!("found {word:?}, expected {what}"))
    }

    pub(super) fn number<T: FromStr>(&mut self) -> Read<T> {
        self.parse("a number in its range")
    }

    pub(super) fn lots(&mut self) -> Read<Lots> {
        let expected = "a number of lots up to 281474976710655";
        Lots::checked(self.parse(expected)?).ok_or_else(|| expected.into())
    }

    pub(super) fn text<const N: usize>(&mut self) -> Read<Text<N>> {
        text(self.next()?)
    }

    pub(super) fn side(&mut self) -> Read<Side> {
        value(SIDES, self.next()?)
    }

    /// A value by the letter of its code.
    pub(super) fn letter<T>(&mut self, of: fn(u8) -> Option<T>, what: &str) -> Read<T> {
        let word = self.next()?;
        of(word.as_bytes()[0]).ok_or_else(|| format!("{word:?} is not the letter of {what}"))
    }

    pub(super) fn bust_reason(&mut self) -> Read<BustReason> {
        self.letter(BustReason::from_code, "a reason")
    }

    pub(super) fn prevention(&mut self) -> Read<SelfMatchPrevention> {
        self.letter(SelfMatchPrevention::from_code, "a self-match prevention")
    }

    /// Reads a price: `@ 100`, `@ market` or `@ market-to-limit`.
    pub(super) fn price(&mut self) -> Read<(OrderType, Price)> {
        self.expect("@")?;
        if self.skip("market") {
            return Ok((OrderType::Market, Price::ZERO));
        }
        if self.skip("market-to-limit") {
            return Ok((OrderType::MarketToLimit, Price::ZERO));
        }
        Ok((OrderType::Limit, Price(self.number()?)))
    }
}
