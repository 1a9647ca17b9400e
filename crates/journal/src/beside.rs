//! Reading on a thread of its own, beside the one that takes up what was read: what a journal comes to is
//! then there as soon as the slower of the two is done, and not after both.
//!
//! Nothing else is different. Records are taken up in their order, each after it has verified and before
//! any that comes after it, and of two things that are wrong the first is told.

use std::{
    io::ErrorKind,
    mem, panic,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use crate::{
    error::ReadError,
    mark,
    record::{Kind, Record},
    recovery::{End, Range, Report, read_here},
    storage::Storage,
};

/// For fewer records a thread is not worth its while.
pub(crate) const BESIDE_RECORDS_MIN: u64 = 1 << 14;

/// So many records are handed over at a time, or fewer with so many bytes.
const PARCEL_RECORDS: usize = 1024;
const PARCEL_BYTES: usize = 256 << 10;

/// So many parcels may wait, so that memory is bounded.
const PARCELS_WAITING: usize = 8;

/// A record that has verified, and where it lies.
pub(crate) struct Shown<'a> {
    pub(crate) path: &'a Path,
    pub(crate) offset: u64,
    pub(crate) record: Record<'a>,
}

/// Records of one segment on their way to the thread that takes them up.
#[derive(Default)]
struct Parcel {
    path: PathBuf,
    places: Vec<Place>,
    payloads: Vec<u8>,
}

struct Place {
    offset: u64,
    kind: Kind,
    sequence: u64,
    timestamp: u64,
    payload_len: usize,
}

impl Parcel {
    fn takes(&self, shown: &Shown<'_>) -> bool {
        self.places.is_empty()
            || (self.places.len() < PARCEL_RECORDS
                && self.payloads.len() < PARCEL_BYTES
                && self.path == shown.path)
    }

    fn add(&mut self, Shown { path, offset, record }: Shown<'_>) {
        if self.places.is_empty() {
            path.clone_into(&mut self.path);
            self.places.reserve(PARCEL_RECORDS);
            self.payloads.reserve(PARCEL_BYTES);
        }
        let Record { kind, sequence, timestamp, payload } = record;
        let payload_len = payload.len();
        self.places.push(Place { offset, kind, sequence, timestamp, payload_len });
        self.payloads.extend_from_slice(payload);
    }

    fn show(
        &self,
        show: &mut dyn FnMut(Shown<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut payloads = self.payloads.as_slice();
        for &Place { offset, kind, sequence, timestamp, payload_len } in &self.places {
            let payload;
            (payload, payloads) = payloads.split_at(payload_len);
            let record = Record { kind, sequence, timestamp, payload };
            show(Shown { path: &self.path, offset, record })?;
        }
        Ok(())
    }
}

/// As [`read_here`], but all that is read is so on a thread that lives as long as this.
pub(crate) fn read_beside(
    storage: &mut dyn Storage,
    segments: &[u64],
    mark: mark::Found,
    range: Range,
    show: &mut dyn FnMut(Shown<'_>) -> Result<(), ReadError>,
) -> Result<(Report, Option<End>), ReadError> {
    let (sender, receiver) = mpsc::sync_channel::<Parcel>(PARCELS_WAITING);
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut parcel = Parcel::default();
            let read = read_here(storage, segments, mark, range, &mut |shown| {
                if !parcel.takes(&shown) {
                    let stopped = |_| ReadError::Storage {
                        doing: "go on with",
                        path: shown.path.to_owned(),
                        source: ErrorKind::BrokenPipe.into(),
                    };
                    sender.send(mem::take(&mut parcel)).map_err(stopped)?;
                }
                parcel.add(shown);
                Ok(())
            });
            // What comes before something that is wrong is taken up all the same. Who does not take
            // it up has something to say that comes before that.
            let _ = sender.send(parcel);
            read
        });
        // The receiver ends with the loop, so that a reader which is not wanted any more stops.
        let shown = receiver.into_iter().try_for_each(|parcel| parcel.show(show));
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        shown.and(read)
    })
}
