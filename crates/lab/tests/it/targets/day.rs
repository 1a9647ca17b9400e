//! Recordings of a feed, and the orders made of them.
//!
//! Invariant: written data is read again.

use std::io::Cursor;

use client::recording::RecordingReader;
use lab::{
    order_file::{InstrumentTable, OrderFile},
    recorded_day::{DayComparison, DayOrders, write_instruments},
};
use market::SessionId;

/// Any bytes are a recording or an error; the orders made of its messages are rows of an order file, and a day is no
/// other than itself.
pub fn recorded_day(bytes: &[u8]) {
    let Ok(mut reader) = RecordingReader::open(bytes) else { return };
    let mut messages: Vec<Vec<u8>> = Vec::new();
    while let Ok(true) = reader.next(&mut |recorded| messages.push(recorded.message.to_vec())) {}
    let mut made = DayOrders::new(Vec::new(), 2).expect("memory takes it");
    let mut comparison = DayComparison::default();
    for (number, message) in (1..).zip(&messages) {
        made.take(number, message).expect("memory takes it");
        comparison.take_day(number, message);
    }
    comparison.end();
    let (rows, symbols) = (made.rows().rows(), made.symbols());
    if symbols.is_empty() {
        assert_eq!(rows, 0);
        return;
    }
    let mut instruments = Vec::new();
    write_instruments(&symbols, &mut instruments).expect("memory takes it");
    let table =
        InstrumentTable::from_reader("i.csv", Cursor::new(instruments)).expect("it is read");
    let orders = Cursor::new(made.into_inner());
    let mut file = OrderFile::from_reader("o.csv", orders, table).expect("it has a header");
    let mut read = 0;
    while file.next_participant().expect("each row is read").is_some() {
        file.time_ns().expect("each row has a time");
        file.command(SessionId(1)).expect("each row is a command");
        read += 1;
    }
    assert_eq!(read, rows);
}
