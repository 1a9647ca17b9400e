//! Finds a smaller run that still fails: fewer ticks, faults and commands.

use std::collections::BTreeSet;

use super::{Options, Violation, run};

/// The most runs tried to find a smaller one.
const TRIES_MAX: usize = 400;

/// A run that shows a violation with as little as possible.
#[derive(Clone, Debug)]
pub struct Minimised {
    pub options: Options,
    pub violation: Violation,
    pub tries: usize,
}

/// Looks for a smaller run that shows a violation of the same kind: fewer ticks, fewer kinds of faults,
/// fewer commands.
pub fn minimise(options: &Options, violation: Violation) -> Minimised {
    let mut search = Search { best: Minimised { options: options.clone(), violation, tries: 0 } };
    search.shorten();
    for kind in options.faults.iter() {
        search.accepts(Options {
            faults: search.best.options.faults.without(kind),
            ..search.best.options.clone()
        });
    }
    search.shorten();
    search.leave_commands_out();
    search.best
}

struct Search {
    best: Minimised,
}

impl Search {
    /// Tries a run; if it shows the violation, it becomes the best run, and the result is true.
    fn accepts(&mut self, options: Options) -> bool {
        if self.best.tries >= TRIES_MAX {
            return false;
        }
        self.best.tries += 1;
        match run(&options) {
            Ok(_) => false,
            Err(violation) if !is_alike(&violation, &self.best.violation) => false,
            Err(violation) => {
                self.best = Minimised { options, violation, tries: self.best.tries };
                true
            }
        }
    }

    fn shorten(&mut self) {
        let shown = self.best.violation.tick;
        if shown < self.best.options.ticks {
            self.accepts(Options { ticks: shown, ..self.best.options.clone() });
        }
        let mut less = self.best.options.ticks / 2;
        while less > 0 {
            let ticks = self.best.options.ticks - less;
            if !self.accepts(Options { ticks, ..self.best.options.clone() }) {
                less /= 2;
            }
            less = less.min(self.best.options.ticks / 2);
        }
    }

    /// Leaves out each part of the commands that is not needed: first halves, then quarters, then less.
    fn leave_commands_out(&mut self) {
        let options = &self.best.options;
        let mut kept: Vec<u64> = match &options.commands {
            Some(kept) => kept.iter().copied().collect(),
            None => (1..=options.ticks).collect(),
        };
        let mut part = kept.len().div_ceil(2);
        while part > 0 && self.best.tries < TRIES_MAX {
            let mut at = 0;
            while at < kept.len() {
                let end = (at + part).min(kept.len());
                let rest: BTreeSet<u64> = kept[..at].iter().chain(&kept[end..]).copied().collect();
                let tried = Options { commands: Some(rest.clone()), ..self.best.options.clone() };
                if self.accepts(tried) {
                    kept = rest.into_iter().collect();
                } else {
                    at = end;
                }
            }
            part = if part == 1 { 0 } else { part.div_ceil(2) };
        }
    }
}

/// Do both violations concern the same property? Their numbers may differ.
fn is_alike(one: &Violation, other: &Violation) -> bool {
    let words = |violation: &Violation| -> String {
        violation.what.chars().filter(|it| !it.is_numeric()).take(30).collect()
    };
    words(one) == words(other)
}
