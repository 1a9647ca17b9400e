//! Objectives of a run, as `--slo` takes them: `p99<200us,loss==0`.
//!
//! ```text
//! objectives = objective { "," objective }
//! objective  = figure operator value
//! figure     = "p" number | "max" | "loss" | "late" | "rejects" | "sent" | "answered"
//! operator   = "<" | "<=" | ">" | ">=" | "=="
//! value      = a length of time (p, max) | a rate (sent, answered) | a count or a percentage (the others)
//! ```
//!
//! Invariant: text that cannot be parsed is an error with the objective in it; nothing is ignored.

use std::{fmt, str::FromStr};

use venue::config::{Rate, Span};

use super::report::{LoadReport, grouped};
use crate::latency::duration_text;

/// Objectives that a run meets together or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(Vec<Objective>);

/// One of them: a figure and its bound.
#[derive(Clone, Debug, PartialEq)]
struct Objective {
    figure: Figure,
    operator: Operator,
    /// In nanoseconds, things, things a second, or percent of the requests.
    bound: f64,
    is_percent: bool,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// Of this share of the requests, 0 to 1, none took longer.
    Quantile(f64),
    Max,
    /// Requests that were not sent or not answered.
    Loss,
    Late,
    Rejects,
    Sent,
    Answered,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
}

/// The result of an objective.
#[derive(Clone, Debug, PartialEq)]
pub struct SloResult {
    /// As it was asked for.
    pub objective: String,
    /// The figure measured, for people.
    pub measured: String,
    pub passed: bool,
}

impl fmt::Display for SloResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.passed { "✓" } else { "✗" };
        write!(f, "{mark} {}: {}", self.objective, self.measured)
    }
}

impl Slo {
    /// The result of each objective, in their order.
    pub fn results(&self, report: &LoadReport) -> Vec<SloResult> {
        self.0.iter().map(|objective| objective.result(report)).collect()
    }

    /// True if the run met every objective.
    pub fn is_met(&self, report: &LoadReport) -> bool {
        self.results(report).iter().all(|result| result.passed)
    }
}

impl Objective {
    fn result(&self, report: &LoadReport) -> SloResult {
        let counts = &report.counts;
        let latency = report.quoted();
        let (figure, whole) = match self.figure {
            Figure::Quantile(quantile) => (latency.at_quantile(quantile), 0),
            Figure::Max => (latency.percentiles().max_ns, 0),
            Figure::Loss => (counts.unsent + counts.unanswered, report.due()),
            Figure::Late => (counts.late_sends, report.due()),
            Figure::Rejects => (counts.rejected, counts.enters + counts.replaces),
            Figure::Sent => (report.sent_per_second(), 0),
            Figure::Answered => (report.answered_per_second(), 0),
        };
        let value = if self.is_percent {
            figure as f64 * 100.0 / whole.max(1) as f64
        } else {
            figure as f64
        };
        let measured = match self.figure {
            Figure::Quantile(_) | Figure::Max if latency.count() == 0 => {
                "nothing was measured".into()
            }
            Figure::Quantile(_) | Figure::Max => duration_text(figure),
            Figure::Sent | Figure::Answered => format!("{}/s", grouped(figure)),
            _ if self.is_percent => format!("{value:.3} %"),
            _ => grouped(figure),
        };
        let passed = match self.operator {
            Operator::Less => value < self.bound,
            Operator::AtMost => value <= self.bound,
            Operator::More => value > self.bound,
            Operator::AtLeast => value >= self.bound,
            Operator::Equal => value == self.bound,
        };
        // A run without an answer has no latency that could be short enough.
        let passed = passed && latency.count() > 0;
        SloResult { objective: self.text.clone(), measured, passed }
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let operators = [
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("==", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::More),
        ];
        let wrong = |what: &str| format!("{text:?}: {what}");
        let at = text.find(['<', '>', '=']);
        let at = at.ok_or_else(|| wrong("no operator; write one of < <= > >= =="))?;
        let (name, rest) = text.split_at(at);
        let found = operators.iter().find_map(|(sign, operator)| {
            rest.strip_prefix(sign).map(|value| (*operator, value.trim()))
        });
        let (operator, value) =
            found.ok_or_else(|| wrong("= is no operator; write one of < <= > >= =="))?;
        let figure = figure(name.trim()).map_err(|what| wrong(&what))?;
        let (bound, is_percent) = figure.bound(value).map_err(|what| wrong(&what))?;
        Ok(Self { figure, operator, bound, is_percent, text: text.to_owned() })
    }
}

fn figure(name: &str) -> Result<Figure, String> {
    const FIGURES: &str = "p99 (any percentile), max, loss, late, rejects, sent, answered";
    if let Some(number) = name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok()) {
        let is_percentile = 0.0 < number && number < 100.0;
        let figure = Figure::Quantile(number / 100.0);
        return is_percentile.then_some(figure).ok_or("a percentile is between 0 and 100".into());
    }
    Ok(match name {
        "max" => Figure::Max,
        "loss" => Figure::Loss,
        "late" => Figure::Late,
        "rejects" => Figure::Rejects,
        "sent" => Figure::Sent,
        "answered" => Figure::Answered,
        "" => return Err(format!("no figure before the operator; there are {FIGURES}")),
        _ => return Err(format!("no figure {name:?}; there are {FIGURES}")),
    })
}

impl Figure {
    /// The bound of this figure, and whether it is a percentage.
    fn bound(self, value: &str) -> Result<(f64, bool), String> {
        if value.is_empty() {
            return Err("no value after the operator".into());
        }
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            let number = number.filter(|number| number.is_finite() && *number >= 0.0);
            number
                .ok_or_else(|| format!("{value:?} is not a count like 0 or a percentage like 0.1%"))
        };
        match self {
            Self::Quantile(_) | Self::Max => {
                let span = value.parse::<Span>();
                let what = format!("{value:?} is not a length of time like 200us or 5ms");
                Ok((span.map_err(|_| what)?.0.as_nanos() as f64, false))
            }
            Self::Sent | Self::Answered => {
                let what = format!("{value:?} is not a rate like 50k/s");
                Ok((value.parse::<Rate>().map_err(|_| what)?.0 as f64, false))
            }
            Self::Loss | Self::Late | Self::Rejects => match value.strip_suffix('%') {
                Some(share) => Ok((number(share)?, true)),
                None => Ok((number(value)?, false)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LoadCounts;

    /// 1,000 requests in a second, of which 10 were lost and 20 rejected, with latencies of 1 to 990 µs.
    fn report() -> LoadReport {
        let mut report = LoadReport {
            duration_ns: 1_000_000_000,
            counts: LoadCounts {
                enters: 1_000,
                replies: 990,
                unanswered: 10,
                rejected: 20,
                ..LoadCounts::default()
            },
            ..LoadReport::default()
        };
        (1..=990).for_each(|step| report.scheduled.record(step * 1_000));
        report
    }

    /// Each figure is compared in its own unit, by each operator.
    #[test]
    fn objectives_are_judged() {
        let table = [
            ("p50<500us", true),
            ("p50<490us", false),
            ("p99.9<=1ms", true),
            ("max>=990us", true),
            ("max > 1ms", false),
            ("loss==10", true),
            ("loss==0", false),
            ("loss<=1%", true),
            ("loss<1%", false),
            ("late==0", true),
            ("rejects<=2%", true),
            ("sent>=1k/s", true),
            ("answered>990/s", false),
            ("p50<500us, loss==0", false),
        ];
        for (text, passes) in table {
            assert_eq!(text.parse::<Slo>().unwrap().is_met(&report()), passes, "{text}");
        }
        let results = "p99<200us,loss==10".parse::<Slo>().unwrap().results(&report());
        let lines: Vec<String> = results.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["✗ p99<200us: 982µs", "✓ loss==10: 10"]);
        let empty = LoadReport::default();
        assert!(!"p99<200us".parse::<Slo>().unwrap().is_met(&empty), "nothing was measured");
    }

    /// A mistake is named with the objective and the way to write it.
    #[test]
    fn mistakes_are_named() {
        let table = [
            ("p99", r#""p99": no operator; write one of < <= > >= =="#),
            ("p99=5ms", r#""p99=5ms": = is no operator; write one of < <= > >= =="#),
            ("p99<200", r#""p99<200": "200" is not a length of time like 200us or 5ms"#),
            ("p100<1ms", r#""p100<1ms": a percentile is between 0 and 100"#),
            (
                "loss==none",
                r#""loss==none": "none" is not a count like 0 or a percentage like 0.1%"#,
            ),
            ("sent>50", r#""sent>50": "50" is not a rate like 50k/s"#),
            ("loss==", r#""loss==": no value after the operator"#),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<Slo>().unwrap_err(), error);
        }
        for text in ["", "<5ms", "mean<5ms", "p99<200us,"] {
            assert!(text.parse::<Slo>().is_err(), "{text}");
        }
    }
}
