//! A session over FIX: the load speaks OUCH to it, and it speaks FIX to the venue.
//!
//! Invariant: each answer of the venue becomes the OUCH message of the same meaning, once; an answer that has none is
//! left out. An answer of FIX alone, that a cancel or a replace came too late, is left out too, so the counts of both
//! protocols mean the same.

use std::{collections::VecDeque, io, net::TcpStream, str};

use client::participant::{ClientError, Connection, FixFrames, FixWriter, fix_replaced};
use market::{
    CancelReason, Command, EnterOrder, Quantity, RejectReason, SessionId, Text, Timestamp,
};
use wire::{
    fix::{CompId, Fields, Message, Version, reject_text},
    layout::Message as _,
    ouch::{
        self, AccountQueryResponse, MessageBuffer, OrderAccepted, OrderCanceled, OrderExecuted,
        OrderReplaced, Rejected,
    },
};
use zerocopy::FromZeros;

use super::{
    FailureReason,
    link::{Arrival, Link},
};

/// The login of a session over FIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixLogin {
    pub version: Version,
    /// SenderCompID: the username.
    pub client: CompId,
    pub password: Text<16>,
    /// TargetCompID: `order_entry_fix.comp_id` of the venue.
    pub venue: CompId,
}

/// Bytes that may wait to be written.
const OUTGOING_MAX: usize = 256 * 1024;
/// Bytes read at a time, and reads in a turn.
const READ_LEN: usize = 64 * 1024;
const READS_PER_POLL: usize = 8;
/// The longest request, in bytes.
const REQUEST_LEN_MAX: usize = 512;

pub(super) struct FixLink<S = TcpStream> {
    stream: S,
    writer: FixWriter,
    frames: FixFrames,
    buffer: Box<[u8]>,
    state: State,
    /// The start of every ClOrdID, so that those of an earlier run differ.
    run: String,
    /// The orders from number `orders_from` on; `None` once they are done.
    orders: VecDeque<Option<EnterOrder>>,
    orders_from: u32,
    cancels: u64,
    answers: u64,
    venue: String,
    /// Bytes that the connection took so far.
    written: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    LoggedOn,
    LoggingOut,
}

/// The request that a ClOrdID of ours names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Order(u32),
    /// A request to cancel this order.
    Cancel(u32),
}

impl<S: Connection> FixLink<S> {
    /// A session over an open, nonblocking connection; queues the Logon, which begins the numbers of both
    /// sides anew.
    pub(super) fn over(stream: S, login: &FixLogin, now_ns: u64) -> Self {
        let mut writer = FixWriter::new(login.version, login.client, login.venue);
        writer.log_on(login.password.as_str(), true, now_ns);
        Self {
            stream,
            writer,
            frames: FixFrames::default(),
            buffer: vec![0; READ_LEN].into_boxed_slice(),
            state: State::Connecting,
            run: format!("{now_ns:x}"),
            orders: VecDeque::new(),
            orders_from: 1,
            cancels: 0,
            answers: 0,
            venue: login.venue.as_str().to_owned(),
            written: 0,
        }
    }

    fn id(&self, number: u32) -> String {
        format!("{}-{number}", self.run)
    }

    fn order(&self, number: u32) -> Option<&EnterOrder> {
        self.orders.get(number.checked_sub(self.orders_from)? as usize)?.as_ref()
    }

    fn next_number(&self) -> u32 {
        self.orders_from + self.orders.len() as u32
    }

    fn forget(&mut self, number: u32) {
        let place = number.checked_sub(self.orders_from).map(|place| place as usize);
        if let Some(order) = place.and_then(|place| self.orders.get_mut(place)) {
            *order = None;
        }
        while let Some(None) = self.orders.front() {
            self.orders.pop_front();
            self.orders_from += 1;
        }
    }

    /// Writes a request of the load in the words of FIX.
    fn write_request(&mut self, request: &Command, now_ns: u64) -> Result<(), String> {
        match request {
            Command::Enter(order) => {
                self.writer.enter(&self.id(order.key.user_ref_num), order, now_ns)?;
                self.orders.push_back(Some(*order));
            }
            Command::Replace(replace) => {
                let original = replace.original_user_ref_num;
                let order = self.order(original).and_then(|order| fix_replaced(order, replace));
                let order = order.ok_or("there is no order to replace")?;
                let (id, original_id) = (self.id(replace.key.user_ref_num), self.id(original));
                self.writer.replace(&id, &original_id, &order, now_ns)?;
                self.orders.push_back(Some(order));
            }
            Command::Cancel(cancel) if cancel.quantity == Quantity::ZERO => {
                let number = cancel.key.user_ref_num;
                let order = self.order(number).ok_or("there is no order to cancel")?;
                let (symbol, side, original_id) = (order.symbol, order.side, self.id(number));
                self.cancels += 1;
                let id = format!("{original_id}-X{}", self.cancels);
                self.writer.cancel(&id, &original_id, symbol, side, now_ns);
            }
            // Its answer has the number that was next when it was asked.
            Command::QueryAccount(_) => {
                let text = self.next_number().to_string();
                self.writer.put("1", now_ns, |builder| {
                    builder.text(112, &text);
                });
            }
            _ => return Err("the load has no such request".into()),
        }
        Ok(())
    }

    fn name(&self, id: Option<&[u8]>) -> Option<Name> {
        let id = str::from_utf8(id?).ok()?.strip_prefix(&*self.run)?.strip_prefix('-')?;
        Some(match id.split_once("-X") {
            Some((number, _)) => Name::Cancel(number.parse().ok()?),
            None => Name::Order(id.parse().ok()?),
        })
    }

    /// The OUCH message of the same meaning, if there is one.
    fn answer(&mut self, message: &Message<'_>) -> Result<Option<MessageBuffer>, FailureReason> {
        let name = self.name(message.get(11));
        Ok(match (message.msg_type(), name) {
            (b"A", _) => {
                self.state = State::LoggedOn;
                None
            }
            (b"5", _) => return Err(FailureReason::Ended),
            (b"2" | b"3" | b"j", _) => {
                let text = message.bytes().escape_ascii().to_string();
                return Err(FailureReason::Fix(text));
            }
            (b"0", _) => {
                let text = message.get(112).and_then(|text| str::from_utf8(text).ok());
                text.and_then(|text| text.parse().ok()).map(next_number)
            }
            (b"8", Some(name)) => self.report(message, name),
            (b"9", Some(Name::Order(number))) => {
                let is_too_late = matches!(message.get(102), Some(b"0" | b"1"));
                self.forget(number);
                (!is_too_late).then(|| rejected(number, message.get(58)))
            }
            _ => None,
        })
    }

    /// The OUCH message of an execution report.
    fn report(&mut self, message: &Message<'_>, name: Name) -> Option<MessageBuffer> {
        let lots = |tag| u32::try_from(message.number(tag).unwrap_or(0)).unwrap_or(u32::MAX);
        let (Name::Order(number) | Name::Cancel(number)) = name;
        let original = match self.name(message.get(41)) {
            Some(Name::Order(original)) => Some(original),
            _ => None,
        };
        let is_done = matches!(message.get(39), Some(b"2" | b"3" | b"4" | b"8" | b"C"));
        let answer = match *message.get(150)? {
            [b'0'] => MessageBuffer::with_appendage(&OrderAccepted {
                message_type: OrderAccepted::TYPE,
                user_ref_num: number.into(),
                order_state: b'L',
                ..OrderAccepted::new_zeroed()
            }),
            [b'F' | b'1' | b'2'] => MessageBuffer::with_appendage(&OrderExecuted {
                message_type: OrderExecuted::TYPE,
                user_ref_num: number.into(),
                quantity: lots(32).into(),
                ..OrderExecuted::new_zeroed()
            }),
            [b'5'] => {
                let original = original?;
                self.forget(original);
                MessageBuffer::with_appendage(&OrderReplaced {
                    message_type: OrderReplaced::TYPE,
                    orig_user_ref_num: original.into(),
                    user_ref_num: number.into(),
                    quantity: lots(151).into(),
                    order_state: b'L',
                    ..OrderReplaced::new_zeroed()
                })
            }
            [b'8'] => rejected(number, message.get(58)),
            // Asked for if it names another order: by a cancel, or by a replace with terms that the engine refuses.
            [b'4' | b'C' | b'3'] => {
                let reason = if original.is_some() { CancelReason::User.code() } else { b'I' };
                self.forget(number);
                canceled(original.unwrap_or(number), reason)
            }
            _ => return None,
        };
        if is_done {
            self.forget(original.unwrap_or(number));
        }
        Some(answer)
    }
}

fn canceled(number: u32, reason: u8) -> MessageBuffer {
    MessageBuffer::new(&OrderCanceled {
        message_type: OrderCanceled::TYPE,
        user_ref_num: number.into(),
        // All open shares; FIX reports the open quantity, which is now zero.
        quantity: u32::MAX.into(),
        reason,
        ..OrderCanceled::new_zeroed()
    })
}

/// A rejection, with the code of the reason that has this text.
fn rejected(number: u32, text: Option<&[u8]>) -> MessageBuffer {
    let reasons = (0..=u8::MAX).filter_map(RejectReason::from_code);
    let reason = reasons.into_iter().find(|reason| Some(reject_text(*reason).as_bytes()) == text);
    MessageBuffer::new(&Rejected {
        message_type: Rejected::TYPE,
        user_ref_num: number.into(),
        reason: reason.map_or(0, ouch::reject_code).into(),
        ..Rejected::new_zeroed()
    })
}

fn next_number(next_user_ref_num: u32) -> MessageBuffer {
    MessageBuffer::new(&AccountQueryResponse {
        message_type: AccountQueryResponse::TYPE,
        next_user_ref_num: next_user_ref_num.into(),
        ..AccountQueryResponse::new_zeroed()
    })
}

impl<S: Connection + Send> Link for FixLink<S> {
    fn poll(
        &mut self,
        _now_ns: u64,
        on_message: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<usize, FailureReason> {
        self.flush()?;
        let mut delivered = 0;
        for _ in 0..READS_PER_POLL {
            let len = match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(FailureReason::Ended),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ClientError::Receive(error).into()),
            };
            let mut frames = std::mem::take(&mut self.frames);
            frames.receive(&self.buffer[..len]);
            while let Some(bytes) =
                frames.take().map_err(|error| FailureReason::Fix(error.to_string()))?
            {
                if let Some(answer) = self.answer(&Fields::default().read(bytes))? {
                    self.answers += 1;
                    on_message(Arrival {
                        stream_sequence: self.answers,
                        message: &answer,
                        packet_ns: self.stream.arrived_ns(),
                    });
                    delivered += 1;
                }
            }
            self.frames = frames;
            if len < self.buffer.len() {
                break;
            }
        }
        Ok(delivered)
    }

    fn send(&mut self, message: &[u8], now_ns: u64) -> Result<(), FailureReason> {
        if self.state != State::LoggedOn {
            return Err(ClientError::NotLoggedIn.into());
        }
        let request = ouch::command(message, SessionId::default(), Timestamp(now_ns))?;
        self.write_request(&request, now_ns).map_err(FailureReason::Fix)
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        while !self.writer.outgoing().is_empty() {
            match self.stream.write(self.writer.outgoing()) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(written) => {
                    self.writer.sent(written);
                    self.written += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ClientError::Send(error)),
            }
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.state == State::LoggedOn
    }

    fn has_room(&self, _len: usize) -> bool {
        self.writer.outgoing().len() + REQUEST_LEN_MAX <= OUTGOING_MAX
    }

    fn is_history(&self, _stream_sequence: u64) -> bool {
        false
    }

    fn stream_name(&self) -> Option<String> {
        Some(self.venue.clone())
    }

    fn lost_replies(&self) -> u64 {
        0
    }

    fn bytes_sent(&self) -> u64 {
        self.written + self.writer.outgoing().len() as u64
    }

    fn packet_left_ns(&mut self, bytes: u64) -> Option<u64> {
        self.stream.left_ns(bytes)
    }

    fn log_out(&mut self, now_ns: u64) -> bool {
        self.state = State::LoggingOut;
        self.writer.put("5", now_ns, |_| {});
        self.flush().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use market::{Price, Side, Symbol, TimeInForce};
    use wire::fix::{BUILDER_LEN_MAX, Builder};

    use client::participant;

    use super::*;

    /// A connection that takes all bytes and returns none.
    struct Sink;

    impl Connection for Sink {}

    impl Read for Sink {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A session that is logged on and has asked for three orders.
    fn link() -> FixLink<Sink> {
        let name = |text: &str| Text::new(text).unwrap();
        let (client, venue) = (name("ALICE"), name("DAMRAK"));
        let password = Text::new("alice").unwrap();
        let login = FixLogin { version: Version::Fix44, client, password, venue };
        let mut link = FixLink::over(Sink, &login, 0xabc);
        assert!(matches!(link.send(b"Q", 0), Err(FailureReason::Client(_))));
        link.state = State::LoggedOn;
        let symbol = Symbol::new("AAA").unwrap();
        for number in 1..=3 {
            let (quantity, price) = (Quantity(100), Some(Price(10_000)));
            let order =
                participant::enter(number, Side::Buy, symbol, quantity, price, TimeInForce::Day);
            link.send(&order, 0).unwrap();
        }
        link
    }

    /// The OUCH message that the load receives for a FIX message with these fields; empty if there is none.
    fn heard(link: &mut FixLink<Sink>, msg_type: &str, fields: &[(u32, &str)]) -> Vec<u8> {
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type);
        for (tag, value) in fields {
            builder.text(*tag, value);
        }
        let bytes = builder.finish(Version::Fix44);
        let answer = link.answer(&Fields::default().read(bytes)).unwrap();
        answer.map_or_else(Vec::new, |answer| answer.to_vec())
    }

    /// Type and order of an OUCH message.
    fn kind_and_number(message: &[u8]) -> (u8, u32) {
        (message[0], u32::from_be_bytes(message[9..13].try_into().unwrap()))
    }

    /// Each report becomes the OUCH message of the same meaning, and an order that is done is forgotten.
    #[test]
    fn reports_become_answers() {
        let mut link = link();
        let accepted = heard(&mut link, "8", &[(150, "0"), (39, "0"), (11, "abc-1")]);
        assert_eq!(kind_and_number(&accepted), (b'A', 1));
        let executed = [(150, "F"), (39, "2"), (11, "abc-1"), (32, "100")];
        assert_eq!(kind_and_number(&heard(&mut link, "8", &executed)), (b'E', 1));
        assert_eq!(link.orders_from, 2);
        let text = reject_text(RejectReason::InvalidQuantity);
        let rejected = heard(&mut link, "8", &[(150, "8"), (39, "8"), (11, "abc-2"), (58, text)]);
        assert_eq!(kind_and_number(&rejected), (b'J', 2));
        assert_eq!(
            rejected[13..15],
            ouch::reject_code(RejectReason::InvalidQuantity).to_be_bytes()
        );
        assert_eq!(link.orders_from, 3);
        let replace =
            participant::replace(3, 4, Quantity(50), Some(Price(9_900)), TimeInForce::Day);
        link.send(&replace, 0).unwrap();
        let replaced = heard(
            &mut link,
            "8",
            &[(150, "5"), (39, "0"), (11, "abc-4"), (41, "abc-3"), (151, "50")],
        );
        assert_eq!((replaced[0], &replaced[9..17]), (b'U', &[0, 0, 0, 3, 0, 0, 0, 4][..]));
        assert!(link.order(3).is_none() && link.order(4).is_some());
        link.send(&participant::cancel(4, Quantity::ZERO), 0).unwrap();
        let canceled =
            heard(&mut link, "8", &[(150, "4"), (39, "4"), (11, "abc-4-X1"), (41, "abc-4")]);
        assert_eq!((kind_and_number(&canceled), canceled.last()), ((b'C', 4), Some(&b'U')));
        assert!(link.orders.is_empty());
        let asked = heard(&mut link, "0", &[(112, "5")]);
        assert_eq!((asked[0], &asked[9..13]), (b'Q', &[0, 0, 0, 5][..]));
    }

    /// An order that the venue ends, a replacement whose terms are refused, and requests that came too late.
    #[test]
    fn ends_that_nobody_asked_for_have_no_user() {
        let mut link = link();
        let expired = heard(&mut link, "8", &[(150, "4"), (39, "4"), (11, "abc-1")]);
        assert_eq!((kind_and_number(&expired), expired.last()), ((b'C', 1), Some(&b'I')));
        link.send(&participant::replace(2, 4, Quantity(50), Some(Price(1)), TimeInForce::Day), 0)
            .unwrap();
        let refused = heard(&mut link, "8", &[(150, "4"), (39, "4"), (11, "abc-4"), (41, "abc-2")]);
        assert_eq!((kind_and_number(&refused), refused.last()), ((b'C', 2), Some(&b'U')));
        assert!(link.order(2).is_none() && link.order(4).is_none());
        let late = [(11, "abc-3-X9"), (41, "abc-3"), (434, "1"), (102, "0")];
        assert!(heard(&mut link, "9", &late).is_empty());
        assert!(link.order(3).is_some());
        assert!(heard(&mut link, "8", &[(150, "0"), (39, "0"), (11, "else-1")]).is_empty());
    }

    /// A message that the venue refuses ends the session, with its bytes in the reason.
    #[test]
    fn refused_message_ends_the_session() {
        let mut link = link();
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, "3").text(58, "no such tag");
        let bytes = builder.finish(Version::Fix44);
        let error = link.answer(&Fields::default().read(bytes)).unwrap_err();
        assert!(error.to_string().contains("no such tag"), "{error}");
    }
}
