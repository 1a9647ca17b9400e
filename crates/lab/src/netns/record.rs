//! The records of pairs of namespaces: a file each, with the maker of the pair and whether all of it is there.
//!
//! Invariant: a record appears and changes in whole. A process is known by its number and the time of its start, so that
//! another one with its number is not taken for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use os::SystemFiles;
use serde::{Deserialize, Serialize};
use venue::failure::Failure;

use super::{PairName, PairSide, VethPair};
use crate::crash_trial::unusable;

/// The cores of each side and of softirqs; an empty list restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    pub load: Vec<usize>,
    pub venue: Vec<usize>,
    /// Those that take arriving packets (RPS); without any, the sending core takes them.
    pub softirqs: Vec<usize>,
}

impl Cores {
    /// A core for each side, where this process may use two or more, and softirqs left to the core that sends.
    pub fn one_each() -> Self {
        match os::allowed_cores().unwrap_or_default()[..] {
            [venue, load, ..] => Self { load: vec![load], venue: vec![venue], softirqs: vec![] },
            _ => Self::default(),
        }
    }

    /// The cores for the programs of a side.
    pub fn of(&self, side: PairSide) -> &[usize] {
        match side {
            PairSide::Load => &self.load,
            PairSide::Venue => &self.venue,
        }
    }
}

/// A pair, and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) pair: VethPair,
    maker: Maker,
    /// True if it is to be removed once its maker is gone.
    is_temporary: bool,
    /// True if all of it is there.
    pub(super) is_up: bool,
}

/// A process of this machine, since its last start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Maker {
    process: u32,
    /// As the system counts it, from its own start.
    started: u64,
}

/// A [`Record`] as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    maker: Maker,
    is_temporary: bool,
    is_up: bool,
    cores: Cores,
}

impl Maker {
    /// The process with this number, if there is one.
    fn of(process: u32) -> Option<Self> {
        let stat = SystemFiles::of_this_machine().text(&format!("proc/{process}/stat"))?;
        // The name of the program is in parentheses, and may have others in it; the start is the 20th value after it.
        let (_, values) = stat.rsplit_once(')')?;
        let started = values.split_whitespace().nth(19)?.parse().ok()?;
        Some(Self { process, started })
    }
}

impl Record {
    pub(super) fn new(pair: &VethPair, is_temporary: bool) -> Self {
        let maker = Maker::of(process::id()).expect("a process has its own files in /proc");
        Self { pair: pair.clone(), maker, is_temporary, is_up: false }
    }

    /// True if its maker is gone, and did not finish.
    pub(super) fn is_left_over(&self) -> bool {
        (self.is_temporary || !self.is_up) && Maker::of(self.maker.process) != Some(self.maker)
    }
}

/// The records of a folder, which is made when the first is added.
pub(super) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, name: &PairName) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    pub(super) fn has(&self, name: &PairName) -> bool {
        self.path(name).exists()
    }

    /// Adds a record of a new name: of several processes that try, one succeeds.
    pub(super) fn add(&self, record: &Record) -> Result<(), Failure> {
        let name = &record.pair.name;
        fs::create_dir_all(&self.folder).map_err(|error| unusable(&self.folder, &error))?;
        let draft = self.draft(record)?;
        let linked = fs::hard_link(&draft, self.path(name));
        let removed = fs::remove_file(&draft);
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::runtime(format!("the pair {name} exists already"))
                    .hint(format!("take it down, `damrak lab netns down {name}`, or use it")))
            }
            other => other.and(removed).map_err(|error| unusable(&draft, &error)),
        }
    }

    /// Replaces the record of the same name.
    pub(super) fn replace(&self, record: &Record) -> Result<(), Failure> {
        let draft = self.draft(record)?;
        let path = self.path(&record.pair.name);
        fs::rename(&draft, &path).map_err(|error| unusable(&path, &error))
    }

    fn draft(&self, record: &Record) -> Result<PathBuf, Failure> {
        let Record { pair, maker, is_temporary, is_up } = record.clone();
        let written = Written { maker, is_temporary, is_up, cores: pair.cores };
        let text = serde_json::to_string(&written).expect("numbers have a form in JSON");
        let draft = self.folder.join(format!("{}.{}.draft", pair.name, process::id()));
        fs::write(&draft, text).map_err(|error| unusable(&draft, &error))?;
        Ok(draft)
    }

    /// The turn to take pairs down, of one process at a time. It ends with the file, so also with a killed process.
    pub(super) fn turn(&self) -> Result<fs::File, Failure> {
        let path = self.folder.join("turn");
        let turn = fs::File::create(&path).and_then(|file| file.lock().map(|()| file));
        turn.map_err(|error| unusable(&path, &error))
    }

    pub(super) fn remove(&self, name: &PairName) -> Result<(), Failure> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(|error| unusable(&path, &error))
    }

    pub(super) fn find(&self, name: &PairName) -> Result<Option<Record>, Failure> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => parse(&path, name.clone(), &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// All records, by name.
    pub(super) fn all(&self) -> Result<Vec<Record>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(&self.folder, &error)),
        };
        let name = |entry: fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(".json")?.parse::<PairName>().ok()
        };
        let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
        names.sort_unstable_by_key(PairName::to_string);
        // A record may be gone since the folder was read.
        names.iter().filter_map(|name| self.find(name).transpose()).collect()
    }
}

fn parse(path: &Path, name: PairName, text: &str) -> Result<Record, Failure> {
    let written: Written = serde_json::from_str(text).map_err(|error| {
        Failure::runtime(format!("{} is no record of a pair: {error}", path.display()))
            .hint("remove the namespaces that it names with `ip netns del`, then the file")
    })?;
    let Written { maker, is_temporary, is_up, cores } = written;
    Ok(Record { pair: VethPair { name, cores }, maker, is_temporary, is_up })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, is_temporary: bool) -> Record {
        let cores = Cores { load: vec![1], venue: vec![0, 2], softirqs: vec![] };
        Record::new(&VethPair { name: name.parse().unwrap(), cores }, is_temporary)
    }

    /// A record comes back as it was added; a second of its name is refused; one that is no record is named.
    #[test]
    fn records_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().join("new"));
        assert!(records.all().unwrap().is_empty());
        let mut one = record("one", false);
        records.add(&one).unwrap();
        assert!(records.add(&one).unwrap_err().to_string().contains("the pair one exists already"));
        one.is_up = true;
        records.replace(&one).unwrap();
        records.add(&record("another", true)).unwrap();
        let all = records.all().unwrap();
        let names: Vec<_> = all.iter().map(|record| record.pair.name.to_string()).collect();
        assert_eq!(names, ["another", "one"]);
        assert!(all[0].is_temporary && all[1].is_up && !all[1].is_temporary);
        assert_eq!(all[1].pair.cores, one.pair.cores);
        records.remove(&one.pair.name).unwrap();
        assert!(!records.has(&one.pair.name) && records.find(&one.pair.name).unwrap().is_none());
        fs::write(folder.path().join("new/torn.json"), "{").unwrap();
        let failure = records.all().unwrap_err().to_string();
        assert!(failure.contains("torn.json"), "{failure}");
    }

    /// A pair is left over once its maker is gone, if it was for the time of a call or is not whole. Another process with the
    /// number of its maker is not its maker.
    #[test]
    fn a_pair_is_left_over_once_its_maker_is_gone() {
        for (is_temporary, is_up) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut record = record("x", is_temporary);
            record.is_up = is_up;
            assert!(!record.is_left_over(), "its maker is this process");
            record.maker.started += 1;
            assert_eq!(record.is_left_over(), is_temporary || !is_up);
        }
    }
}
