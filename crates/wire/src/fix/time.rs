//! UTCTimestamp and UTCDate in text.
//!
//! Invariant: a time written with milliseconds reads back as the same time, truncated to milliseconds.

use market::{NANOS_PER_DAY, Timestamp};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Bytes of a time with milliseconds: `YYYYMMDD-HH:MM:SS.sss`.
pub const TIME_LEN: usize = 21;

/// Writes a moment, truncated to milliseconds. Years beyond 9999 are written wrongly.
#[must_use]
pub fn write_time(timestamp: Timestamp) -> [u8; TIME_LEN] {
    let (year, month, day) = civil(timestamp.0 / NANOS_PER_DAY);
    let milliseconds = timestamp.since_midnight() / 1_000_000;
    let mut text = *b"YYYYMMDD-HH:MM:SS.sss";
    let mut put = |start: usize, end: usize, number: u64| {
        let mut rest = number;
        for byte in text[start..end].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    };
    put(0, 4, year);
    put(4, 6, month);
    put(6, 8, day);
    put(9, 11, milliseconds / 3_600_000);
    put(12, 14, milliseconds / 60_000 % 60);
    put(15, 17, milliseconds / 1_000 % 60);
    put(18, 21, milliseconds % 1_000);
    text
}

/// The text of the last moment written: many messages have the same one.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeText {
    milliseconds: u64,
    text: [u8; TIME_LEN],
}

impl Default for TimeText {
    fn default() -> Self {
        Self { milliseconds: 0, text: write_time(Timestamp(0)) }
    }
}

/// The cached text does not affect later output, so it is not compared.
impl PartialEq for TimeText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for TimeText {}

impl TimeText {
    /// As [`write_time`].
    pub(super) fn of(&mut self, timestamp: Timestamp) -> [u8; TIME_LEN] {
        let milliseconds = timestamp.0 / 1_000_000;
        if self.milliseconds != milliseconds {
            *self = Self { milliseconds, text: write_time(timestamp) };
        }
        self.text
    }
}

/// Reads `YYYYMMDD-HH:MM:SS` with 0, 3, 6 or 9 decimals, from 1970 on. A second 60 is read as 59.
#[must_use]
pub fn read_time(text: &[u8]) -> Option<Timestamp> {
    let (date, time) = text.split_first_chunk::<8>()?;
    let midnight = midnight(date)?;
    let ([b'-'], time) = time.split_first_chunk()? else { return None };
    let ([h1, h2, b':', m1, m2, b':', s1, s2], fraction) = time.split_first_chunk()? else {
        return None;
    };
    let [hour, minute, second, _] = pairs(&[*h1, *h2, *m1, *m2, *s1, *s2, b'0', b'0'])?;
    let nanoseconds = match fraction {
        [] => 0,
        [b'.', decimals @ ..] if matches!(decimals.len(), 3 | 6 | 9) => {
            // Nearly all times have milliseconds.
            let unit =
                if decimals.len() == 3 { 1_000_000 } else { 10_u64.pow(9 - decimals.len() as u32) };
            digits(decimals)? * unit
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = hour * 3600 + minute * 60 + second.min(59);
    Some(Timestamp(midnight.0 + seconds * NANOS_PER_SECOND + nanoseconds))
}

/// Reads `YYYYMMDD`, from 1970 on, as its midnight.
#[must_use]
pub fn read_date(text: &[u8]) -> Option<Timestamp> {
    midnight(text.try_into().ok()?)
}

fn midnight(date: &[u8; 8]) -> Option<Timestamp> {
    let [century, year, month, day] = pairs(date)?;
    let year = century * 100 + year;
    if !(1970..=2500).contains(&year) || day == 0 || days_of_month(year, month)? < day {
        return None;
    }
    Some(Timestamp(days_since_epoch(year, month, day) * NANOS_PER_DAY))
}

/// The numbers of four pairs of digits. Reads all eight digits at once.
#[inline]
fn pairs(digits: &[u8; 8]) -> Option<[u64; 4]> {
    const fn each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    let digits = u64::from_le_bytes(*digits);
    // A digit has the first half of `0`, and the same after 6 is added.
    let halves = |bytes: u64| bytes & each(0xF0);
    if halves(digits) != each(b'0') || halves(digits + each(6)) != each(b'0') {
        return None;
    }
    let digits = digits - each(b'0');
    let pairs = digits * 10 + (digits >> 8);
    Some([pairs & 0xFF, pairs >> 16 & 0xFF, pairs >> 32 & 0xFF, pairs >> 48 & 0xFF])
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0_u64, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

/// `None` if there is no such month.
fn days_of_month(year: u64, month: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    Some(match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    })
}

/// Days since the Unix epoch of a date of the Gregorian calendar. Years begin in March here, so that a
/// leap day is the last of its year.
const fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_since_epoch`].
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known moments, every day of 500 years, and texts that are no time.
    #[test]
    fn times_go_both_ways() {
        let at = read_time(b"20261121-14:30:00").unwrap();
        assert_eq!(at.0, 1_795_271_400 * NANOS_PER_SECOND);
        assert_eq!(&write_time(at), b"20261121-14:30:00.000");
        assert_eq!(read_time(b"20261121-14:30:00.123456789").unwrap().0 - at.0, 123_456_789);
        assert_eq!(&write_time(Timestamp(at.0 + 123_456_789)), b"20261121-14:30:00.123");
        for day in 0..365 * 500 {
            let midnight = Timestamp(day * NANOS_PER_DAY);
            assert_eq!(read_time(&write_time(midnight)), Some(midnight));
        }
        let mut last = TimeText::default();
        for ns in [0, 0, 999_999, 1_000_000, 123_456_789, 123_999_999, 5] {
            assert_eq!(last.of(Timestamp(at.0 + ns)), write_time(Timestamp(at.0 + ns)));
            assert_eq!(last.of(Timestamp(ns)), write_time(Timestamp(ns)));
        }
        for text in [
            "20260229-00:00:00",
            "21000229-00:00:00",
            "20260431-00:00:00",
            "20260132-00:00:00",
            "20260001-00:00:00",
            "20261301-00:00:00",
            "20260100-00:00:00",
            "20260101-24:00:00",
            "20260101-00:60:00",
            "20260101-00:00:61",
            "20260101-00:00:00.1",
            "20260101 00:00:00",
            "19691231-00:00:00",
            "2026010a-00:00:00",
            "20260101",
            "",
            "20260101-00:00:00.",
        ] {
            assert_eq!(read_time(text.as_bytes()), None, "{text}");
        }
        assert!(read_date(b"20240229").is_some());
    }
}
