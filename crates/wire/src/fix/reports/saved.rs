//! The reports of a session in a snapshot, and back.
//!
//! Invariant: restored reports give the same bytes for the same events.

use market::{
    DecodeError,
    bytes::{ByteReader, ByteWriter},
};

use super::{Header, Reports, instruments::Listing};
use crate::pieces::Pieces;

impl Reports {
    /// Emits the state in pieces of bytes, for a snapshot.
    pub fn save(&self, emit: &mut dyn FnMut(&[u8])) {
        let mut pieces = Pieces::new(emit);
        pieces.record(b'H', |out| out.write(&self.session));
        if self.begun_ns > 0 {
            pieces.record(b'B', |out| out.write(&self.begun_ns));
        }
        self.save_orders(&mut pieces);
        if let Some(Listing { query, next }) = &self.listing {
            pieces.record(b'L', |out| {
                out.write(query);
                out.write(next);
            });
        }
        if self.is_drop_copy {
            pieces.record(b'D', |_| {});
        }
        for (session_id, username) in &self.sources {
            pieces.record(b'S', |out| {
                out.write(session_id);
                out.write(username);
            });
        }
        // The name of a copied session is followed by its orders.
        for ((session_id, channel), copy) in &self.copies {
            pieces.record(b'C', |out| {
                out.write(session_id);
                out.write(channel);
                out.write(&copy.copied.unwrap_or_default());
                out.write(&copy.session);
            });
            copy.save_orders(&mut pieces);
        }
        pieces.finish();
    }

    fn save_orders(&self, pieces: &mut Pieces<'_>) {
        for number in self.orders.sorted_keys() {
            pieces.record(b'O', |out| {
                out.write(&number);
                out.write(self.orders.get(&number).expect("it is one of its keys"));
            });
        }
        for id in &self.history {
            pieces.record(b'I', |out| {
                out.write(id);
                out.write(self.ids.get(id).expect("the history has ids that are kept"));
            });
        }
        for request in &self.pending {
            pieces.record(b'P', |out| out.write(request));
        }
        for trade in self.trades.iter() {
            pieces.record(b'T', |out| out.write(trade));
        }
    }

    /// Takes a piece of a saved state: the first one creates the session, the rest are added to it.
    ///
    /// # Errors
    /// The bytes are not such a piece, or the pieces are in a wrong order.
    pub fn restore(session: &mut Option<Self>, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut from = ByteReader::new(bytes);
        while !from.is_empty() {
            let [kind] = from.take()?;
            match (kind, &mut *session) {
                (b'H', place @ None) => {
                    let header: Header = from.read("header")?;
                    *place = Some(Self { session: header, ..Self::new(&header.logon) });
                }
                (kind, Some(reports)) => reports.restore_record(kind, &mut from)?,
                (kind, None) => return Err(DecodeError::Kind(kind)),
            }
        }
        Ok(())
    }

    fn restore_record(&mut self, kind: u8, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        match kind {
            b'L' => {
                let (query, next) = (from.read("query")?, from.read("next")?);
                self.listing = Some(Listing { query, next });
            }
            b'B' => self.begun_ns = from.read("begun")?,
            b'D' => self.is_drop_copy = true,
            b'S' => self.sources.push((from.read("source")?, from.read("username")?)),
            b'C' => {
                let source = (from.read("source")?, from.read("channel")?);
                let username = from.read("username")?;
                let session: Header = from.read("header")?;
                let copy = Self { session, ..Self::of_source(username, &session.logon) };
                self.copies.insert(source, copy);
            }
            kind => {
                // They were saved in the order of the map.
                let copy = self.copies.values_mut().next_back();
                return match copy {
                    Some(copy) => copy.restore_order(kind, from),
                    None => self.restore_order(kind, from),
                };
            }
        }
        Ok(())
    }

    fn restore_order(&mut self, kind: u8, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        match kind {
            b'O' => {
                let (number, order) = (from.read("number")?, from.read("order")?);
                self.orders.insert(number, order);
            }
            b'I' => {
                let id = from.read("id")?;
                self.history.push_back(id);
                self.ids.insert(id, from.read("number")?);
            }
            b'T' => {
                if !self.trades.restore(from.read("trade")?) {
                    return Err(DecodeError::Field("trade"));
                }
            }
            b'P' => self.pending.push_back(from.read("request")?),
            kind => return Err(DecodeError::Kind(kind)),
        }
        Ok(())
    }
}
