//! The times at which FIX sessions are open.
//!
//! Invariant: times have a fixed offset from UTC, so that the same configuration means the same all year.

use serde::Deserialize;
use wire::fix::{SessionSchedule, WeekTime};

use super::trading::time_of_day_ns;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// `[order_entry_fix.schedule]`: sessions begin and end on a schedule, and their numbers begin with them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixScheduleConfig {
    /// The time at which sessions begin: `07:00:00`.
    pub start: String,
    /// The time at which they end; on the next day if it is not later than `start`.
    pub end: String,
    /// The days on which they begin. Default every day.
    #[serde(default)]
    pub days: Vec<Weekday>,
    /// With `end_day`: one session a week begins on this day.
    #[serde(default)]
    pub start_day: Option<Weekday>,
    /// The day on which it ends.
    #[serde(default)]
    pub end_day: Option<Weekday>,
    /// The offset of the times from UTC: `+01:00`, `-05:00`. Default `+00:00`.
    #[serde(default)]
    pub utc_offset: Option<String>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Weekday {
    const ALL: [Self; 7] =
        [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];
}

impl FixScheduleConfig {
    /// The schedule in the form that sessions take.
    ///
    /// # Errors
    /// A time cannot be read, a day is given twice, or days and a week are given.
    pub fn schedule(&self) -> Result<SessionSchedule, String> {
        let section = "order_entry_fix.schedule";
        let second = |name: &str, text: &str| {
            let time_ns = time_of_day_ns(&format!("{section}.{name}"), text)?;
            Ok::<u32, String>((time_ns / NANOS_PER_SECOND) as u32)
        };
        let (start, end) = (second("start", &self.start)?, second("end", &self.end)?);
        let at = |day: u32, second| WeekTime::new(day % 7, second).expect("a time of the day");
        let windows: Vec<_> = match (self.start_day, self.end_day) {
            (Some(first), Some(last)) if self.days.is_empty() => {
                vec![(at(first as u32, start), at(last as u32, end))]
            }
            (None, None) => {
                let days = if self.days.is_empty() { &Weekday::ALL[..] } else { &self.days };
                let twice = days.iter().enumerate().find(|(at, day)| days[..*at].contains(day));
                if let Some((_, day)) = twice {
                    return Err(format!("{section}.days has {day:?} twice"));
                }
                let next = u32::from(end <= start);
                let window = |day: &Weekday| (at(*day as u32, start), at(*day as u32 + next, end));
                days.iter().map(window).collect()
            }
            _ => {
                return Err(format!(
                    "{section} has start_day or end_day: a session of a week has both, and no days"
                ));
            }
        };
        let offset_s = self.utc_offset.as_deref().map_or(Ok(0), |text| offset_s(section, text))?;
        SessionSchedule::new(&windows, offset_s).ok_or_else(|| format!("{section} has no window"))
    }
}

fn offset_s(section: &str, text: &str) -> Result<i32, String> {
    let wrong = || format!("{section}.utc_offset = {text:?} is not an offset like \"+01:00\"");
    let (sign, time) = match text.split_at_checked(1) {
        Some(("+", time)) => (1, time),
        Some(("-", time)) => (-1, time),
        _ => return Err(wrong()),
    };
    let time_ns = time_of_day_ns("utc_offset", &format!("{time}:00")).map_err(|_| wrong())?;
    Ok(sign * (time_ns / NANOS_PER_SECOND) as i32)
}

#[cfg(test)]
mod tests {
    use market::Timestamp;
    use wire::fix::read_time;

    use super::*;

    fn schedule(text: &str) -> Result<SessionSchedule, String> {
        toml::from_str::<FixScheduleConfig>(text).map_err(|error| error.to_string())?.schedule()
    }

    fn is_open(schedule: &SessionSchedule, time: &str) -> bool {
        let time: Timestamp = read_time(time.as_bytes()).unwrap();
        schedule.window(time).is_some()
    }

    /// A schedule has days or a week, at an offset; a window that ends before it begins ends on the next day. 27
    /// November 2026 is a Friday.
    #[test]
    fn a_schedule_is_read() {
        let days = schedule(
            "start = \"22:00:00\"\nend = \"06:00:00\"\ndays = [\"fri\"]\nutc_offset = \"+01:30\"",
        );
        let days = days.unwrap();
        for (time, expected) in [
            ("20261127-20:29:59", false),
            ("20261127-20:30:00", true),
            ("20261128-04:29:59", true),
            ("20261128-04:30:00", false),
            ("20261128-21:00:00", false),
        ] {
            assert_eq!(is_open(&days, time), expected, "{time}");
        }
        let week = schedule(
            "start = \"17:00:00\"\nend = \"16:00:00\"\nstart_day = \"sun\"\nend_day = \"fri\"",
        );
        let week = week.unwrap();
        assert!(is_open(&week, "20261125-03:00:00") && !is_open(&week, "20261128-03:00:00"));
        let always = schedule("start = \"00:00:00\"\nend = \"00:00:00\"").unwrap();
        assert!(is_open(&always, "20261125-00:00:00") && is_open(&always, "20261128-23:59:59"));
    }

    /// An invalid setting is an error that names it.
    #[test]
    fn a_wrong_schedule_is_an_error() {
        let times = "start = \"07:00:00\"\nend = \"18:00:00\"\n";
        for (text, expected) in [
            ("start = \"7\"\nend = \"18:00:00\"".to_owned(), "schedule.start = \"7\""),
            (format!("{times}days = [\"mon\", \"mon\"]"), "Mon twice"),
            (format!("{times}start_day = \"mon\""), "has both"),
            (
                format!("{times}start_day = \"mon\"\nend_day = \"tue\"\ndays = [\"wed\"]"),
                "has both",
            ),
            (format!("{times}utc_offset = \"CET\""), "utc_offset = \"CET\""),
            (format!("{times}days = [\"monday\"]"), "unknown variant"),
        ] {
            let error = schedule(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
