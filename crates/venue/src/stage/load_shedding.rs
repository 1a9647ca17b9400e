//! Load shedding: rejects new orders while the journal's disk is full or too slow, and holds all commands back before
//! the last room on a full disk is used up.
//!
//! Invariant: cancels are taken while the current segment has room; no input is sequenced without room in it.

use std::sync::Arc;

use journal::{AppendError, Writer};
use market::RejectReason;
use ring::AtomicGauge;
use serde_json::{Value, json};

/// Interval between two tries to allocate the next segment on a full disk, in nanoseconds.
const TRY_INTERVAL_NS: u64 = 1_000_000_000;

/// A flag in the sequencer's gauge: it takes no commands at all. The bits below hold the code of a reason.
pub(super) const HOLDS: u64 = 1 << 8;

/// The state of load shedding: figures for monitoring, and the reason for the sequencer.
#[derive(Debug)]
pub struct JournalFigures {
    /// Code of the reason for rejecting new orders, 0 for none; and [`HOLDS`].
    refusing: Arc<AtomicGauge>,
    pub alarms: AtomicGauge,
    /// The longest wait of an input for the journaler, in nanoseconds.
    pub wait_ns_max: AtomicGauge,
}

impl JournalFigures {
    /// Figures of a venue without events so far; the sequencer reads `refusing`.
    pub fn new(refusing: Arc<AtomicGauge>) -> Self {
        Self { refusing, alarms: AtomicGauge::new(0), wait_ns_max: AtomicGauge::new(0) }
    }

    pub fn reason(&self) -> Option<RejectReason> {
        reason(self.refusing.get())
    }

    /// True while commands wait because the full disk has no room left for one.
    pub fn holds(&self) -> bool {
        self.refusing.get() & HOLDS != 0
    }
}

/// The reason in the gauge of the sequencer.
pub(super) fn reason(code: u64) -> Option<RejectReason> {
    RejectReason::from_code(code as u8)
}

/// The journal's part of the venue's figures and of the admin API.
pub fn journal_status(figures: &JournalFigures) -> Value {
    json!({
        "refusing": figures.reason().map(|reason| format!("{reason:?}")),
        "holding": figures.holds(),
        "alarms": figures.alarms.get(),
        "wait_ns_max": figures.wait_ns_max.get(),
    })
}

/// Decides when the venue rejects new orders because its disk is full or slow, and when it accepts them again.
///
/// The rest of the current segment is kept for the inputs that must be taken: cancels above all. The
/// wait of the oldest input measures the disk, since one commit takes all waiting inputs.
pub struct LoadShedding {
    figures: Arc<JournalFigures>,
    /// A longer wait starts load shedding, in nanoseconds; 0 is never.
    slow_ns: u64,
    /// On a full disk, commands wait once the segment has less room than this, in bytes, or than a quarter of its
    /// length if that is less: enough for all inputs then in the rings.
    last_room: u64,
    try_again_ns: u64,
    /// The time at which commands were last held back, if ever.
    held_ns: Option<u64>,
}

impl LoadShedding {
    /// Puts the reason into `figures`, and its explanation into a notice.
    pub fn new(figures: Arc<JournalFigures>, slow_ns: u64, last_room: u64) -> Self {
        Self { figures, slow_ns, last_room, try_again_ns: 0, held_ns: None }
    }

    /// Call after each turn: `wait_ns` is the wait of the oldest input taken in it, `None` if there was none.
    pub fn look(
        &mut self,
        writer: &mut Writer,
        now_ns: u64,
        wait_ns: Option<u64>,
    ) -> Result<(), AppendError> {
        // A command held back did not wait because of a slow disk.
        let since_ns = self.held_ns.map_or(u64::MAX, |held_ns| now_ns.saturating_sub(held_ns));
        let wait_ns = wait_ns.map(|wait_ns| wait_ns.min(since_ns));
        if let Some(wait_ns) = wait_ns.filter(|wait_ns| *wait_ns > self.figures.wait_ns_max.get()) {
            self.figures.wait_ns_max.set(wait_ns);
        }
        if writer.no_room().is_some() {
            if now_ns >= self.try_again_ns {
                self.try_again_ns = now_ns + TRY_INTERVAL_NS;
                writer.try_room_again();
            }
            if wait_ns.is_none() {
                writer.commit()?; // of nothing, to hear how it went
            }
        }
        let (before, held) = (self.figures.reason(), self.figures.holds());
        let reason = self.reason(writer, before, wait_ns);
        let holds = writer.no_room().is_some() && self.is_last_room(writer);
        if (reason, holds) != (before, held) {
            let code = reason.map_or(0, |reason| u64::from(reason.code()));
            self.figures.refusing.set(code | if holds { HOLDS } else { 0 });
        }
        if holds {
            self.held_ns = Some(now_ns);
        }
        if reason != before {
            self.change(before, reason, writer);
        }
        if holds && !held {
            tracing::error!(
                component = "journal",
                "the journal's disk is still full and its last space is reserved: all commands \
                 wait, also cancels and logons by FIX; free some space"
            );
        }
        Ok(())
    }

    fn is_last_room(&self, writer: &Writer) -> bool {
        let (allocated, left) = writer.room();
        left < self.last_room.min(allocated / 4)
    }

    fn reason(
        &self,
        writer: &Writer,
        before: Option<RejectReason>,
        wait_ns: Option<u64>,
    ) -> Option<RejectReason> {
        if writer.no_room().is_some() {
            return Some(RejectReason::NoRoom);
        }
        // Hysteresis: load shedding ends only when the wait is at most half the limit.
        let was_slow = before == Some(RejectReason::TooSlow);
        let slow_ns = if was_slow { self.slow_ns / 2 } else { self.slow_ns };
        let is_slow = self.slow_ns > 0 && wait_ns.is_some_and(|wait_ns| wait_ns > slow_ns);
        is_slow.then_some(RejectReason::TooSlow)
    }

    fn change(
        &mut self,
        before: Option<RejectReason>,
        reason: Option<RejectReason>,
        writer: &Writer,
    ) {
        let Some(reason) = reason else {
            return tracing::info!(component = "journal", "the journal takes orders again");
        };
        if before.is_none() {
            self.figures.alarms.set(self.figures.alarms.get() + 1);
        }
        let why = match writer.no_room() {
            Some(error) => format!(
                "the journal's disk has no room for the next segment ({error}); free some space"
            ),
            None => format!(
                "commands wait more than {} ms for the journal; check the disk",
                self.slow_ns / 1_000_000
            ),
        };
        tracing::error!(
            component = "journal",
            "{why}. Until then new orders and replaces are rejected ({reason:?}); cancels are taken"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use journal::{CrashStorage, Durability, WriterOptions};

    use super::*;

    const S: u64 = 1_000_000_000;
    const LAST_ROOM: u64 = 2_000;

    fn world(storage: &CrashStorage) -> (Writer, LoadShedding, Arc<JournalFigures>) {
        let options = WriterOptions {
            durability: Durability::Written,
            segment_bytes: 16 << 10,
            ..WriterOptions::new(1, 1)
        };
        let (writer, _) =
            journal::open(Box::new(storage.clone()), &options, &mut |_| Ok::<_, Infallible>(()))
                .unwrap();
        let figures = Arc::new(JournalFigures::new(Arc::new(AtomicGauge::new(0))));
        (writer, LoadShedding::new(Arc::clone(&figures), 2 * S, LAST_ROOM), figures)
    }

    /// Orders are rejected without room for the next segment, and accepted once it is allocated, even if nothing is
    /// written in the meantime.
    #[test]
    fn a_full_disk_refuses_until_there_is_room() {
        let storage = CrashStorage::new();
        let (mut writer, mut load_shedding, figures) = world(&storage);
        load_shedding.look(&mut writer, 0, Some(0)).unwrap();
        assert_eq!(figures.reason(), None);
        storage.set_capacity(Some(30_000));
        writer.append(1, 1, &[0; 5_000]).unwrap();
        for _ in 0..9 {
            writer.commit().unwrap();
            load_shedding.look(&mut writer, 0, Some(0)).unwrap();
        }
        assert_eq!(figures.reason(), Some(RejectReason::NoRoom));
        for now_s in 1..5 {
            load_shedding.look(&mut writer, now_s * S, None).unwrap();
            assert_eq!(figures.reason(), Some(RejectReason::NoRoom), "{now_s}");
        }
        storage.set_capacity(None);
        load_shedding.look(&mut writer, 9 * S, None).unwrap();
        for _ in 0..9 {
            load_shedding.look(&mut writer, 9 * S, None).unwrap();
        }
        assert_eq!((figures.reason(), figures.alarms.get()), (None, 1));
    }

    /// Without room for the next segment, all commands wait before the current segment is full, and go on once there is
    /// room.
    #[test]
    fn a_disk_that_stays_full_holds_commands_back() {
        let storage = CrashStorage::new();
        let (mut writer, mut load_shedding, figures) = world(&storage);
        storage.set_capacity(Some(30_000));
        let mut sequence = 0;
        while !figures.holds() {
            sequence += 1;
            writer.append(sequence, 1, &[0; 500]).unwrap();
            writer.commit().unwrap();
            load_shedding.look(&mut writer, 0, Some(0)).unwrap();
            assert!(sequence < 16, "the segment has its length");
        }
        assert_eq!(figures.reason(), Some(RejectReason::NoRoom));
        let (_, left) = writer.room();
        assert!((LAST_ROOM / 2..LAST_ROOM).contains(&left), "{left}");
        load_shedding.look(&mut writer, 60 * S, None).unwrap();
        storage.set_capacity(None);
        for _ in 0..9 {
            load_shedding.look(&mut writer, 62 * S, None).unwrap();
        }
        assert_eq!((figures.reason(), figures.holds(), figures.alarms.get()), (None, false, 1));
        // A command that arrived during the hold waited a minute, but only this second because of the disk.
        load_shedding.look(&mut writer, 63 * S, Some(61 * S)).unwrap();
        assert_eq!((figures.reason(), figures.wait_ns_max.get()), (None, S));
    }

    /// A wait above the limit starts load shedding; it ends at half the limit, or when no command waits.
    #[test]
    fn a_slow_disk_refuses_until_it_is_not() {
        let storage = CrashStorage::new();
        let (mut writer, mut load_shedding, figures) = world(&storage);
        let slow = Some(RejectReason::TooSlow);
        let waits = [(2 * S, None), (2 * S + 1, slow), (S + 1, slow), (S, None), (3 * S, slow)];
        for (wait_ns, expected) in waits {
            load_shedding.look(&mut writer, 0, Some(wait_ns)).unwrap();
            assert_eq!(figures.reason(), expected, "{wait_ns}");
        }
        load_shedding.look(&mut writer, 0, None).unwrap();
        assert_eq!((figures.reason(), figures.alarms.get()), (None, 2));
        assert_eq!(figures.wait_ns_max.get(), 3 * S);
    }
}
