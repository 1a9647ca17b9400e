//! The encoding of messages: headers, execution reports, rejects of orders and cancels, mass cancel reports.
//!
//! Invariant: each message takes the next MsgSeqNum, and its fields follow the order of the dictionary.

use market::{Timestamp, TradeId};

use super::{Reports, SendMessage};
use crate::fix::{
    BUILDER_LEN_MAX, Builder, TIME_LEN, Version,
    note::{ClOrdId, RequestNote},
    time::write_time,
};

/// The fields of an execution report in addition to the state of its order.
pub(super) struct Report<'a> {
    /// ExecType (150) in FIX 4.4.
    pub(super) kind: u8,
    pub(super) original: Option<ClOrdId>,
    pub(super) trade: Option<(TradeId, u64, u64)>,
    /// ExecRefID (19).
    pub(super) reference: Option<TradeId>,
    /// OrdRejReason (103).
    pub(super) reject: Option<u64>,
    /// ExecRestatementReason (378).
    pub(super) restated: Option<u64>,
    pub(super) text: &'a str,
}

impl Report<'_> {
    pub(super) const fn of(kind: u8) -> Self {
        Self {
            kind,
            original: None,
            trade: None,
            reference: None,
            reject: None,
            restated: None,
            text: "",
        }
    }
}

impl Reports {
    pub(super) fn begin<'a>(
        &self,
        buffer: &'a mut [u8],
        msg_type: &[u8],
        time: Timestamp,
    ) -> Builder<'a> {
        self.begin_at(buffer, msg_type, &write_time(time))
    }

    fn begin_at<'a>(
        &self,
        buffer: &'a mut [u8],
        msg_type: &[u8],
        time: &[u8; TIME_LEN],
    ) -> Builder<'a> {
        let logon = &self.session.logon;
        let mut builder = Builder::new(buffer);
        builder
            .bytes(35, msg_type)
            .number(34, self.session.next)
            .bytes(49, logon.venue.trimmed())
            .bytes(52, time)
            .bytes(56, logon.client.trimmed());
        if let Some(copied) = &self.copied {
            builder.bytes(115, copied.trimmed());
        }
        builder
    }

    pub(super) fn finish(&mut self, builder: Builder<'_>, send: SendMessage<'_>) {
        self.session.next += 1;
        send(builder.finish(self.session.logon.version));
    }

    /// An execution report about an order, as it is now.
    pub(super) fn report(
        &mut self,
        number: u32,
        report: &Report<'_>,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let Some(order) = self.orders.get(&number).copied() else { return };
        self.session.report_count += 1;
        let version = self.session.logon.version;
        let status = if report.kind == b'6' { b'6' } else { order.status(version) };
        let mut buffer = [0; BUILDER_LEN_MAX];
        let time = self.time.of(time);
        let mut builder = self.begin_at(&mut buffer, b"8", &time);
        builder.number(37, order.order_id);
        let mut text = [0; 24];
        let side = if matches!(order.side, b'1') { b'B' } else { b'S' };
        match report.trade {
            Some((trade_id, ..)) => {
                builder.bytes(17, numbered(&mut text, b'T', trade_id.0, Some(side)));
            }
            None if report.kind == b'I' && version == Version::Fix42 => {
                builder.char(17, b'0');
            }
            None => {
                let count = self.session.report_count;
                builder.bytes(17, numbered(&mut text, b'E', count, None));
            }
        }
        if let Some(reference) = report.reference {
            builder.bytes(19, numbered(&mut text, b'T', reference.0, Some(side)));
        }
        match version {
            Version::Fix42 => {
                let (transaction, kind) = match report.kind {
                    b'F' => (b'0', status),
                    b'H' => (b'1', status),
                    b'G' => (b'2', status),
                    b'I' => (b'3', status),
                    kind => (b'0', kind),
                };
                builder.char(20, transaction).char(150, kind);
            }
            Version::Fix44 | Version::Fix50Sp1 => {
                builder.char(150, report.kind);
            }
        }
        builder.char(39, status).bytes(11, order.id.trimmed());
        if let Some(original) = report.original {
            builder.bytes(41, original.trimmed());
        }
        builder.bytes(55, order.symbol.trimmed()).char(54, order.side);
        builder.number(38, order.quantity);
        // An order that was live before its session was copied has neither.
        if order.order_type > 0 {
            builder.char(40, order.order_type);
        }
        for (tag, ticks) in [(44, order.price), (99, order.stop)] {
            if ticks > 0 {
                builder.decimal(tag, ticks.into(), 4);
            }
        }
        if order.time_in_force > 0 {
            builder.char(59, order.time_in_force);
        }
        if let Some((_, price, quantity)) = report.trade {
            builder.number(32, quantity).decimal(31, price.into(), 4);
        }
        builder.number(151, order.leaves).number(14, order.executed);
        builder.decimal(6, average(order.notional, order.executed), 8).bytes(60, &time);
        if let Some(reject) = report.reject {
            builder.number(103, reject);
        }
        if let Some(restated) = report.restated {
            builder.number(378, restated);
        }
        if !report.text.is_empty() {
            builder.text(58, report.text);
        }
        self.finish(builder, send);
    }

    /// An execution report that rejects a new order, which has no OrderID.
    pub(super) fn reject_order(
        &mut self,
        request: &RequestNote,
        code: u64,
        text: &str,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        if self.copied.is_some() {
            return;
        }
        self.session.report_count += 1;
        let version = self.session.logon.version;
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut exec_id = [0; 24];
        let mut builder = self.begin(&mut buffer, b"8", time);
        builder.text(37, "NONE");
        builder.bytes(17, numbered(&mut exec_id, b'E', self.session.report_count, None));
        if version == Version::Fix42 {
            builder.char(20, b'0');
        }
        builder.char(150, b'8').char(39, b'8').text(11, request.id.as_str());
        // A symbol that is too long for the venue is not repeated.
        let symbol = if request.symbol.is_blank() { "?" } else { request.symbol.as_str() };
        builder.text(55, symbol).char(54, request.code);
        builder.number(38, request.quantity.get()).number(151, 0).number(14, 0).number(6, 0);
        builder.time(60, time).number(103, code).text(58, text);
        self.finish(builder, send);
    }

    /// An order cancel reject: the order stays as it is.
    pub(super) fn reject_cancel(
        &mut self,
        request: &RequestNote,
        code: u64,
        text: &str,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        if self.copied.is_some() {
            return;
        }
        let version = self.session.logon.version;
        let order = self.orders.get(&request.original);
        let status = order.map_or(b'8', |order| match order.end {
            // The order's replacement has taken its place.
            b'5' => b'4',
            _ => order.status(version),
        });
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin(&mut buffer, b"9", time);
        match order {
            Some(order) => builder.number(37, order.order_id),
            None => builder.text(37, "NONE"),
        };
        builder.text(11, request.id.as_str()).text(41, request.original_id.as_str());
        builder.char(39, status).char(434, if request.msg_type == b'G' { b'2' } else { b'1' });
        builder.number(102, code).text(58, text).time(60, time);
        self.finish(builder, send);
    }

    /// The answer to an order status request.
    pub(super) fn status(&mut self, request: &RequestNote, time: Timestamp, send: SendMessage<'_>) {
        let number = self.ids.get(&request.id).copied().unwrap_or(0);
        if self.orders.contains(&number) {
            self.report(number, &Report::of(b'I'), time, send);
        } else {
            self.reject_order(request, 5, "unknown order", time, send);
        }
    }

    pub(super) fn mass_cancel_report(
        &mut self,
        request: &RequestNote,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        if self.copied.is_some() {
            return;
        }
        self.session.report_count += 1;
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut id = [0; 24];
        let mut builder = self.begin(&mut buffer, b"r", time);
        builder.text(11, request.id.as_str());
        let id = numbered(&mut id, b'M', self.session.report_count, None);
        builder.bytes(37, id);
        if self.session.logon.version == Version::Fix50Sp1 {
            builder.bytes(1369, id);
        }
        builder.char(530, request.code);
        if self.session.mass_accepted {
            builder.char(531, request.code).number(533, self.session.mass_count.into());
        } else {
            builder.char(531, b'0').number(532, 99);
        }
        builder.time(60, time);
        self.finish(builder, send);
    }
}

/// The average price in units of 10^-8, rounded half up; 0 if nothing was executed.
fn average(notional: u128, executed: u64) -> u128 {
    if executed == 0 {
        return 0;
    }
    let executed = u128::from(executed);
    (notional * 10_000 + executed / 2) / executed
}

/// A letter, a number, and perhaps another letter.
pub(super) fn numbered(buffer: &mut [u8; 24], letter: u8, number: u64, last: Option<u8>) -> &[u8] {
    let mut at = buffer.len();
    let mut put = |byte| {
        at -= 1;
        buffer[at] = byte;
    };
    if let Some(last) = last {
        put(last);
    }
    let mut rest = number;
    loop {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    put(letter);
    &buffer[at..]
}
