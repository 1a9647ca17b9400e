//! The reports of a session in a snapshot, and back.
//!
//! Invariant: restored reports give the same bytes for the same events.

use alloc::vec::Vec;

use market::{
    DecodeError,
    bytes::{ByteReader, ByteWriter},
};

use super::{Header, Reports};

impl Reports {
    /// Emits the state in pieces of bytes, for a snapshot.
    pub fn save(&self, emit: &mut dyn FnMut(&[u8])) {
        /// Items in one piece.
        const ITEMS: usize = 1024;
        let mut piece = Piece(Vec::new());
        piece.put(b"H");
        piece.write(&self.session);
        emit(&piece.0);
        let mut items = Items { piece: Piece(Vec::new()), count: 0, emit };
        for (number, order) in &self.orders {
            items.add(ITEMS, |out| {
                out.put(b"O");
                out.write(number);
                out.write(order);
            });
        }
        for id in &self.history {
            items.add(ITEMS, |out| {
                out.put(b"I");
                out.write(id);
                out.write(&self.ids[id]);
            });
        }
        for request in &self.pending {
            items.add(ITEMS, |out| {
                out.put(b"P");
                out.write(request);
            });
        }
        for (trade_id, (price, lots)) in &self.trades {
            items.add(ITEMS, |out| {
                out.put(b"T");
                out.write(trade_id);
                out.write(price);
                out.write(lots);
            });
        }
        items.flush();
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
                (b'P', Some(reports)) => reports.pending.push_back(from.read("request")?),
                (kind, _) => return Err(DecodeError::Kind(kind)),
            }
        }
        Ok(())
    }
}

/// A piece of a saved state.
struct Piece(Vec<u8>);

impl ByteWriter for Piece {
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Items on their way into pieces.
struct Items<'a> {
    piece: Piece,
    count: usize,
    emit: &'a mut dyn FnMut(&[u8]),
}

impl Items<'_> {
    fn add(&mut self, count_max: usize, write: impl FnOnce(&mut Piece)) {
        write(&mut self.piece);
        self.count += 1;
        if self.count == count_max {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.count > 0 {
            (self.emit)(&self.piece.0);
            self.piece.0.clear();
            self.count = 0;
        }
    }
}
