//! The opening times of sessions: by times of the day and days of the week, at a fixed offset from UTC.
//!
//! Invariant: no clock and no time zone with daylight saving: a window follows from the time that the caller gives, so
//! it has the same length all year.

use core::ops::Range;

use market::{NANOS_PER_DAY, Timestamp};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u32 = 86_400;
const SECONDS_PER_WEEK: u32 = 7 * SECONDS_PER_DAY;
const NANOS_PER_WEEK: u64 = 7 * NANOS_PER_DAY;
/// 1 January 1970 was a Thursday; weeks begin on Monday.
const WEEKDAY_OF_EPOCH: u64 = 3;
/// The most windows of a week: one a day.
pub const WINDOWS_MAX: usize = 7;

/// A time of the week: seconds after Monday 00:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeekTime(u32);

impl WeekTime {
    /// A time by days after Monday and seconds after midnight; `None` beyond the end of the week.
    #[must_use]
    pub const fn new(day: u32, second: u32) -> Option<Self> {
        if day < 7 && second < SECONDS_PER_DAY {
            Some(Self(day * SECONDS_PER_DAY + second))
        } else {
            None
        }
    }
}

/// The windows of a week in which sessions are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSchedule {
    /// The begin and length of each window, in seconds.
    windows: [(u32, u32); WINDOWS_MAX],
    count: usize,
    /// The offset of local time, east of UTC, modulo a week.
    offset_ns: u64,
}

impl SessionSchedule {
    /// Each window is open from its first time up to its second, in the next week if need be; a window of
    /// two equal times is a week. `offset_s` is the offset of the times, in seconds east of UTC. `None` if there is no
    /// window, there are more than [`WINDOWS_MAX`], or the offset is a day or more.
    #[must_use]
    pub fn new(windows: &[(WeekTime, WeekTime)], offset_s: i32) -> Option<Self> {
        let is_offset = offset_s.unsigned_abs() < SECONDS_PER_DAY;
        if windows.is_empty() || windows.len() > WINDOWS_MAX || !is_offset {
            return None;
        }
        let mut of_week = [(0, 0); WINDOWS_MAX];
        for (place, (from, to)) in of_week.iter_mut().zip(windows) {
            let len = (to.0 + SECONDS_PER_WEEK - from.0 - 1) % SECONDS_PER_WEEK + 1;
            *place = (from.0, len);
        }
        let offset_s = i64::from(offset_s).rem_euclid(SECONDS_PER_WEEK.into()) as u64;
        let offset_ns = offset_s * NANOS_PER_SECOND;
        Some(Self { windows: of_week, count: windows.len(), offset_ns })
    }

    /// The window that is open at a time; of several the one that began last.
    #[must_use]
    pub fn window(&self, now: Timestamp) -> Option<Range<Timestamp>> {
        let since = |(start, len): &(u32, u32)| {
            let passed = since_week_time(self.week_ns(now), *start);
            let len = nanos(*len);
            (passed < len).then_some((passed, len))
        };
        let (passed, len) = self.windows[..self.count].iter().filter_map(since).min()?;
        let start = now.0.saturating_sub(passed);
        Some(Timestamp(start)..Timestamp(start + len))
    }

    /// The begin of the next window after a time.
    #[must_use]
    pub fn next_start(&self, now: Timestamp) -> Timestamp {
        let left =
            |(start, _): &(u32, u32)| NANOS_PER_WEEK - since_week_time(self.week_ns(now), *start);
        let windows = self.windows[..self.count].iter();
        Timestamp(now.0 + windows.map(left).min().expect("there is a window"))
    }

    /// Local time since Monday 00:00.
    const fn week_ns(&self, now: Timestamp) -> u64 {
        (now.0 % NANOS_PER_WEEK + WEEKDAY_OF_EPOCH * NANOS_PER_DAY + self.offset_ns)
            % NANOS_PER_WEEK
    }
}

/// The time since a time of the week, in nanoseconds.
const fn since_week_time(week_ns: u64, start_s: u32) -> u64 {
    (week_ns + NANOS_PER_WEEK - nanos(start_s)) % NANOS_PER_WEEK
}

const fn nanos(seconds: u32) -> u64 {
    seconds as u64 * NANOS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fix::read_time;

    fn at(text: &str) -> Timestamp {
        read_time(text.as_bytes()).unwrap()
    }

    fn time(day: u32, hour: u32) -> WeekTime {
        WeekTime::new(day, hour * 3600).unwrap()
    }

    /// From Monday to Friday, 7 to 18 o'clock, an hour east of UTC. 23 November 2026 is a Monday.
    #[test]
    fn days_are_open_from_time_to_time() {
        let days: [_; 5] = core::array::from_fn(|day| (time(day as u32, 7), time(day as u32, 18)));
        let schedule = SessionSchedule::new(&days, 3600).unwrap();
        let monday = at("20261123-06:00:00")..at("20261123-17:00:00");
        for (now, window, next) in [
            ("20261123-05:59:59", None, "20261123-06:00:00"),
            ("20261123-06:00:00", Some(monday.clone()), "20261124-06:00:00"),
            ("20261123-16:59:59", Some(monday.clone()), "20261124-06:00:00"),
            ("20261123-17:00:00", None, "20261124-06:00:00"),
            ("20261127-17:00:00", None, "20261130-06:00:00"),
            ("20261129-12:00:00", None, "20261130-06:00:00"),
        ] {
            assert_eq!(schedule.window(at(now)), window, "{now}");
            assert_eq!(schedule.next_start(at(now)), at(next), "{now}");
        }
    }

    /// A window over midnight belongs to the day of its begin, one over the week's end goes on, one of a whole day
    /// is followed by the next, and a leap day, a year's end or a change of summer time changes nothing.
    #[test]
    fn windows_cross_midnights_and_weeks() {
        let night = SessionSchedule::new(&[(time(6, 22), time(0, 2))], 0).unwrap();
        assert!(night.window(at("20261129-23:00:00")).is_some(), "Sunday");
        assert!(night.window(at("20261130-01:59:59")).is_some(), "Monday");
        assert!(night.window(at("20261130-02:00:00")).is_none());
        assert!(night.window(at("20261128-23:00:00")).is_none(), "Saturday");

        let week = SessionSchedule::new(&[(time(6, 17), time(4, 16))], -5 * 3600).unwrap();
        let window = week.window(at("20270101-12:00:00")).unwrap();
        assert_eq!(window, at("20261227-22:00:00")..at("20270101-21:00:00"));
        assert!(week.window(at("20270101-21:00:00")).is_none());

        let always: [_; 7] =
            core::array::from_fn(|day| (time(day as u32, 17), time((day as u32 + 1) % 7, 17)));
        let always = SessionSchedule::new(&always, 0).unwrap();
        for now in ["20280229-16:59:59", "20280229-17:00:00", "20261025-00:30:00"] {
            let window = always.window(at(now)).unwrap();
            assert!(window.contains(&at(now)), "{now}");
            assert_eq!(window.end.0 - window.start.0, NANOS_PER_DAY, "{now}");
            assert_eq!(always.next_start(at(now)), window.end, "{now}");
        }
        let all = SessionSchedule::new(&[(time(2, 3), time(2, 3))], 0).unwrap();
        let window = all.window(at("20261125-03:00:00")).unwrap();
        assert_eq!(window, at("20261125-03:00:00")..at("20261202-03:00:00"));
    }

    /// Invalid schedules give `None`.
    #[test]
    fn a_schedule_has_its_bounds() {
        let window = (time(0, 1), time(0, 2));
        assert!(SessionSchedule::new(&[], 0).is_none());
        assert!(SessionSchedule::new(&[window; WINDOWS_MAX + 1], 0).is_none());
        assert!(SessionSchedule::new(&[window], 86_400).is_none());
        assert!(SessionSchedule::new(&[window; WINDOWS_MAX], -86_399).is_some());
        assert_eq!((WeekTime::new(7, 0), WeekTime::new(0, 86_400)), (None, None));
    }
}
