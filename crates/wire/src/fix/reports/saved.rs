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
        for (number, order) in &self.orders {
            pieces.record(b'O', |out| {
                out.write(number);
                out.write(order);
            });
        }
        for id in &self.history {
            pieces.record(b'I', |out| {
                out.write(id);
                out.write(&self.ids[id]);
            });
        }
        for request in &self.pending {
            pieces.record(b'P', |out| out.write(request));
        }
        for (trade_id, (price, lots)) in &self.trades {
            pieces.record(b'T', |out| {
                out.write(trade_id);
                out.write(price);
                out.write(lots);
            });
        }
        if let Some(Listing { query, next }) = &self.listing {
            pieces.record(b'L', |out| {
                out.write(query);
                out.write(next);
            });
        }
        pieces.finish();
    }

    /// Takes a piece of a saved state: the first makes the session, the others are added to it.
    ///
    /// # Errors
    /// The bytes are not such a piece, or come in another order.
    pub fn restore(session: &mut Option<Self>, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut from = ByteReader::new(bytes);
        while !from.is_empty() {
            let [kind] = from.take()?;
            match (kind, &mut *session) {
                (b'H', place @ None) => {
                    let header: Header = from.read("header")?;
                    *place = Some(Self { session: header, ..Self::new(&header.logon) });
                }
                (b'O', Some(reports)) => {
                    let (number, order) = (from.read("number")?, from.read("order")?);
                    reports.orders.insert(number, order);
                }
                (b'I', Some(reports)) => {
                    let id = from.read("id")?;
                    reports.history.push_back(id);
                    reports.ids.insert(id, from.read("number")?);
                }
                (b'T', Some(reports)) => {
                    let trade_id = from.read("trade")?;
                    let trade = (from.read("price")?, from.read("lots")?);
                    reports.trades.insert(trade_id, trade);
                }
                (b'L', Some(reports)) => {
                    let (query, next) = (from.read("query")?, from.read("next")?);
                    reports.listing = Some(Listing { query, next });
                }
                (b'P', Some(reports)) => reports.pending.push_back(from.read("request")?),
                (kind, _) => return Err(DecodeError::Kind(kind)),
            }
        }
        Ok(())
    }
}
