//! A session's state in pieces of bytes, for a snapshot.
//!
//! Invariant: a record never crosses the end of a piece, so each piece can be read alone.

use alloc::vec::Vec;

use market::bytes::ByteWriter;

/// A piece ends with the record that reaches this length, in bytes.
const PIECE_LEN: usize = 64 * 1024;

/// Gathers records into pieces.
pub(crate) struct Pieces<'a> {
    piece: Piece,
    emit: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Pieces<'a> {
    pub(crate) const fn new(emit: &'a mut dyn FnMut(&[u8])) -> Self {
        Self { piece: Piece(Vec::new()), emit }
    }

    /// Adds a record: its kind, and the bytes that `write` adds.
    pub(crate) fn record(&mut self, kind: u8, write: impl FnOnce(&mut Piece)) {
        self.piece.put(&[kind]);
        write(&mut self.piece);
        if self.piece.0.len() >= PIECE_LEN {
            self.flush();
        }
    }

    /// Emits the last piece.
    pub(crate) fn finish(mut self) {
        if !self.piece.0.is_empty() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        (self.emit)(&self.piece.0);
        self.piece.0.clear();
    }
}

/// The bytes of a piece.
pub(crate) struct Piece(Vec<u8>);

impl ByteWriter for Piece {
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.0.extend_from_slice(bytes);
    }
}
