//! The files in which Linux shows its settings, under a root that a test may choose.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct SystemFiles {
    root: PathBuf,
}

/// CPU time since boot, over all cores, in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// The total.
    pub all: u64,
    /// Time that the hypervisor gave to other guests.
    pub stolen: u64,
}

impl ProcessorTicks {
    /// The ticks from `before` until these.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    /// The stolen share, in percent.
    #[must_use]
    pub fn stolen_percent(self) -> f64 {
        100.0 * self.stolen as f64 / self.all.max(1) as f64
    }
}

impl SystemFiles {
    /// The files of this machine.
    pub fn of_this_machine() -> Self {
        Self::under(Path::new("/"))
    }

    /// The files in a folder.
    pub fn under(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// The text of a file without surrounding white space; `None` if it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The number in a file.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// The rest of the line that begins with `key`, in a file of many.
    pub fn line(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(rest.trim().to_owned())
    }

    /// The soft limit of a resource of this process; [`u64::MAX`] is none.
    pub fn limit(&self, name: &str) -> Option<u64> {
        self.limits(name)?.next()
    }

    /// The hard limit, up to which the process may raise its soft limit.
    pub fn hard_limit(&self, name: &str) -> Option<u64> {
        self.limits(name)?.nth(1)
    }

    fn limits(&self, name: &str) -> Option<impl Iterator<Item = u64>> {
        let line = self.line("proc/self/limits", name)?;
        let limit = |word: &str| match word {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        };
        let limits: Vec<u64> = line.split_whitespace().map_while(limit).collect();
        Some(limits.into_iter())
    }

    /// A figure of a process's memory in bytes, by its name with the colon, as `VmRSS:`; the process is given by its
    /// number or as `self`.
    pub fn memory(&self, process: &str, name: &str) -> Option<u64> {
        let line = self.line(&format!("proc/{process}/status"), name)?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }

    /// CPU time since boot.
    pub fn processor_ticks(&self) -> Option<ProcessorTicks> {
        let line = self.line("proc/stat", "cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
        Some(ProcessorTicks { all: ticks.iter().take(8).sum(), stolen: *ticks.get(7)? })
    }

    /// A list of cores, as `0-3,8`.
    pub fn cores(&self, path: &str) -> Option<Vec<usize>> {
        cores(&self.text(path)?)
    }

    /// A mask of cores in hexadecimal digits, 32 cores between commas.
    pub fn mask(&self, path: &str) -> Option<Vec<usize>> {
        let digits = self.text(path)?.replace(',', "");
        let digit = |(place, digit): (usize, char)| Some((4 * place, digit.to_digit(16)?));
        let digits: Option<Vec<_>> = digits.chars().rev().enumerate().map(digit).collect();
        let in_digit = |(first, digit): (usize, u32)| {
            (0..4).filter(move |bit| digit & 1 << bit != 0).map(move |bit| first + bit)
        };
        Some(digits?.into_iter().flat_map(in_digit).collect())
    }

    /// The names in a folder, in order; empty if it cannot be read.
    pub fn entries(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else { return Vec::new() };
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// The text of a file of each core that has this file.
    pub fn of_each_core(&self, path: &str) -> Vec<String> {
        (0..4096)
            .map_while(|core| {
                let folder = format!("sys/devices/system/cpu/cpu{core}");
                self.root.join(&folder).is_dir().then(|| self.text(&format!("{folder}/{path}")))
            })
            .flatten()
            .collect()
    }
}

/// Reads a list of cores; an empty text is an empty list.
pub fn cores(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(cores)
}

/// A list of cores, as the system writes it.
pub fn list(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => parts.push((*core, *core)),
        }
    }
    let part = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// A mask of cores, as the system writes it.
pub fn mask(cores: &[usize]) -> String {
    let words = cores.iter().max().map_or(1, |core| core / 32 + 1);
    let word = |index: usize| {
        let of_word = cores.iter().filter(|core| **core / 32 == index);
        of_word.fold(0_u32, |word, core| word | 1 << (core % 32))
    };
    let mut words = (0..words).rev().map(word);
    let first = words.next().map_or_else(String::new, |word| format!("{word:x}"));
    words.fold(first, |text, word| format!("{text},{word:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guest time is counted once, and the share of an interval is that of its ticks.
    #[test]
    fn stolen_time_is_a_share_of_an_interval() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let files = SystemFiles::under(root.path());
        assert_eq!(files.processor_ticks(), None);
        let mut readings =
            ["cpu  100 0 0 700 0 0 0 200 50 0\ncpu0 1\n", "cpu  150 0 0 725 0 0 0 225 90 0\n"]
                .map(|text| {
                    std::fs::write(root.path().join("proc/stat"), text).unwrap();
                    files.processor_ticks().unwrap()
                })
                .into_iter();
        let (before, now) = (readings.next().unwrap(), readings.next().unwrap());
        assert_eq!(before, ProcessorTicks { all: 1_000, stolen: 200 });
        assert_eq!(before.stolen_percent(), 20.0);
        assert_eq!(now.since(before).stolen_percent(), 25.0);
    }

    /// Lists and masks of cores are read as they are written.
    #[test]
    fn lists_and_masks_are_read_as_written() {
        let root = tempfile::tempdir().unwrap();
        let files = SystemFiles::under(root.path());
        for (wanted, as_list, as_mask) in [
            (vec![0, 1, 2, 3, 8], "0-3,8", "10f"),
            (vec![], "", "0"),
            (vec![33, 64], "33,64", "1,00000002,00000000"),
        ] {
            std::fs::write(root.path().join("list"), as_list).unwrap();
            std::fs::write(root.path().join("mask"), as_mask).unwrap();
            assert_eq!(files.cores("list"), Some(wanted.clone()));
            assert_eq!(files.mask("mask"), Some(wanted.clone()));
            assert_eq!((list(&wanted).as_str(), mask(&wanted).as_str()), (as_list, as_mask));
        }
        std::fs::write(root.path().join("list"), "0-x").unwrap();
        assert_eq!((files.cores("list"), files.mask("list")), (None, None));
    }
}
