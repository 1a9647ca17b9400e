use std::sync::Arc;

use journal::{AppendError, Writer};
use market::RejectReason;
use ring::AtomicGauge;

/// How often room for the journal's next segment is looked for, where there was none.
const TRY_INTERVAL_NS: u64 = 1_000_000_000;

/// What can be read of the journal's troubles, and what the sequencer goes by.
#[derive(Debug)]
pub struct JournalFigures {
    /// Code of the reason for which new orders are refused; 0 is none.
    pub refusing: Arc<AtomicGauge>,
    /// How often refusing began.
    pub alarms: AtomicGauge,
    /// The longest that an input has waited until the journaler took it, in nanoseconds.
    pub wait_ns_max: AtomicGauge,
}

impl Default for JournalFigures {
    fn default() -> Self {
        Self {
            refusing: Arc::new(AtomicGauge::new(0)),
            alarms: AtomicGauge::new(0),
            wait_ns_max: AtomicGauge::new(0),
        }
    }
}

impl JournalFigures {
    /// The reason for which new orders are refused, if they are.
    #[must_use]
    pub fn reason(&self) -> Option<RejectReason> {
        u8::try_from(self.refusing.get()).ok().and_then(RejectReason::from_code)
    }
}

/// Decides when the venue takes no new orders, since its disk is full or slow, and when it does again.
///
/// What is left of the current segment is kept for what must be taken: cancels above all. How long
/// inputs waited says how slow the disk is, since one commit takes all that wait.
pub struct Relief {
    figures: Arc<JournalFigures>,
    /// Inputs that waited longer are too many; 0 is never.
    slow_ns: u64,
    try_again_ns: u64,
    alarm: fn(&str),
}

impl Relief {
    /// Tells `figures` what to refuse, and `alarm` why.
    #[must_use]
    pub fn new(figures: Arc<JournalFigures>, slow_ns: u64, alarm: fn(&str)) -> Self {
        Self { figures, slow_ns, try_again_ns: 0, alarm }
    }

    /// After each turn: `wait_ns` is how long the oldest input waited that was taken in it, if one was.
    ///
    /// # Errors
    /// The journal has failed.
    pub fn look(
        &mut self,
        writer: &mut Writer,
        now_ns: u64,
        wait_ns: Option<u64>,
    ) -> Result<(), AppendError> {
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
        let before = self.figures.reason();
        let reason = self.reason(writer, before, wait_ns);
        if reason != before {
            self.change(before, reason, writer);
        }
        Ok(())
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
        // Once it was too slow, it must be twice as fast to be fast enough.
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
        self.figures.refusing.set(reason.map_or(0, |reason| u64::from(reason.code())));
        let Some(reason) = reason else {
            return (self.alarm)("note: the journal takes orders again");
        };
        if before.is_none() {
            self.figures.alarms.set(self.figures.alarms.get() + 1);
        }
        let why = match writer.no_room() {
            Some(error) => format!(
                "there is no room for the next segment of the journal ({error}); free some space"
            ),
            None => format!(
                "commands wait more than {} ms for the journal; look after its disk",
                self.slow_ns / 1_000_000
            ),
        };
        (self.alarm)(&format!(
            "alarm: {why}. New orders and replaces are rejected ({reason:?}) until then, cancels are \
             taken"
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use journal::{CrashStorage, Durability, Options};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn world(storage: &CrashStorage) -> (Writer, Relief, Arc<JournalFigures>) {
        let options = Options {
            durability: Durability::Written,
            segment_bytes: 16 << 10,
            ..Options::new(1, 1)
        };
        let (writer, _) =
            journal::open(Box::new(storage.clone()), &options, &mut |_| Ok::<_, Infallible>(()))
                .unwrap();
        let figures = Arc::new(JournalFigures::default());
        (writer, Relief::new(Arc::clone(&figures), 2 * S, |_| {}), figures)
    }

    /// Without room for the next segment orders are refused, and are not once it was made, though
    /// nothing is written meanwhile.
    #[test]
    fn a_full_disk_refuses_until_there_is_room() {
        let storage = CrashStorage::new();
        let (mut writer, mut relief, figures) = world(&storage);
        relief.look(&mut writer, 0, Some(0)).unwrap();
        assert_eq!(figures.reason(), None);
        storage.set_capacity(Some(30_000));
        writer.append(1, 1, &[0; 5_000]).unwrap();
        for _ in 0..9 {
            writer.commit().unwrap();
            relief.look(&mut writer, 0, Some(0)).unwrap();
        }
        assert_eq!(figures.reason(), Some(RejectReason::NoRoom));
        for now_s in 1..5 {
            relief.look(&mut writer, now_s * S, None).unwrap();
            assert_eq!(figures.reason(), Some(RejectReason::NoRoom), "{now_s}");
        }
        storage.set_capacity(None);
        relief.look(&mut writer, 9 * S, None).unwrap();
        for _ in 0..9 {
            relief.look(&mut writer, 9 * S, None).unwrap();
        }
        assert_eq!((figures.reason(), figures.alarms.get()), (None, 1));
    }

    /// Commands that waited too long have new orders refused, until they wait for half of it at most,
    /// or none waits.
    #[test]
    fn a_slow_disk_refuses_until_it_is_not() {
        let storage = CrashStorage::new();
        let (mut writer, mut relief, figures) = world(&storage);
        let slow = Some(RejectReason::TooSlow);
        let waits = [(2 * S, None), (2 * S + 1, slow), (S + 1, slow), (S, None), (3 * S, slow)];
        for (wait_ns, expected) in waits {
            relief.look(&mut writer, 0, Some(wait_ns)).unwrap();
            assert_eq!(figures.reason(), expected, "{wait_ns}");
        }
        relief.look(&mut writer, 0, None).unwrap();
        assert_eq!((figures.reason(), figures.alarms.get()), (None, 2));
        assert_eq!(figures.wait_ns_max.get(), 3 * S);
    }
}
