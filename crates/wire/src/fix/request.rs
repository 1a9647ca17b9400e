//! Requests of a client as notes and commands.
//!
//! Invariant: every message gets a note, so the log has its answer and the number received with it.

use alloc::{collections::VecDeque, vec::Vec};

use market::{
    CancelOrder, Capacity, Command, ConditionChanges, Conditions, Display, EnterOrder,
    Instructions, Lots, MassCancel, OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity,
    ReplaceOrder, ReplaceTerms, SessionId, Side, Symbol, Ticks, TimeInForce, Timestamp,
    parse_decimal,
};

use super::{
    Message, Refusal, Reports, Version,
    note::{ClOrdId, FixNote, QueryNote, RequestNote},
    text::business_reject,
    time::{read_date, read_time},
};
use crate::linear_map::LinearMap;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// Names checked for removal when one is added: more than one, so that answered ones do not pile up.
const LOOKS_PER_NAME: usize = 2;

/// The requests of a client that the log has not answered yet.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    /// Orders and requests by their ClOrdID.
    in_flight: LinearMap<ClOrdId, Named>,
    /// Each name of `in_flight` once: the next one to check is first.
    names: VecDeque<Unanswered>,
    /// Highest UserRefNum assigned.
    number_last: u32,
}

/// The facts about an order that requests by its name need.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    /// UserRefNum; 0 for a request that is not an order.
    number: u32,
    /// The highest UserRefNum before the request.
    after: u32,
    symbol: Symbol,
    side: u8,
    is_plain: bool,
}

/// A request that the log may not have answered yet.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    id: ClOrdId,
    /// As in [`Named`].
    number: u32,
    after: u32,
}

/// The part of a request that is the same for an order and a replacement.
struct Terms {
    order_type: OrderType,
    time_in_force: TimeInForce,
    display: Display,
    quantity: Lots,
    price: Price,
    conditions: Conditions,
    instructions: Instructions,
}

impl Intake {
    /// Emits the commands for a message received under its number: a note, the command itself unless it is refused, and
    /// for a request about an existing order, a note of its end.
    pub fn commands(
        &mut self,
        message: &Message<'_>,
        session_id: SessionId,
        received: Timestamp,
        reports: &Reports,
        commands: &mut Vec<Command>,
    ) {
        let counted = message.number(34).unwrap_or(0) as u32;
        let note = |note: FixNote<'_>| Command::Note(note.note(session_id));
        if let Some(query) = query(message, counted) {
            return commands.push(note(FixNote::Query(query)));
        }
        if reports.is_drop_copy() {
            // Not authorized; FIX 4.2 has no code for that.
            let is_42 = message.begin_string() == Version::Fix42.begin_string().as_bytes();
            let reason = if is_42 { b"3" } else { b"6" };
            let words = b"a drop copy takes no orders";
            let text = business_reject(counted, message.msg_type(), reason, words);
            return commands.push(note(FixNote::Session { counted, fields: text.as_bytes() }));
        }
        let id = text::<36>(message.get(11).unwrap_or_default()).unwrap_or(ClOrdId::BLANK);
        let msg_type = message.msg_type().first().copied().unwrap_or(b' ');
        let mut request = RequestNote::new(msg_type, counted, id);
        request.code = one(message, if msg_type == b'q' { 530 } else { 54 });
        request.symbol = text(message.get(55).unwrap_or_default()).unwrap_or(Symbol::BLANK);
        if msg_type == b'H' {
            return commands.push(note(FixNote::Request(request)));
        }
        let quantity = lots(message, 38);
        request.quantity = quantity.unwrap_or_default();
        let number_last = self.number_last.max(reports.number_last());
        if reports.number(&id).is_some() || self.in_flight.contains(&id) {
            // A message sent again under its old name already has its answer.
            if message.is_yes(43) || message.is_yes(97) {
                return commands.push(note(FixNote::End { counted }));
            }
            request.refusal = Refusal::DuplicateId as u8;
        }
        let named = message.get(41).map(|id| self.find(id, reports));
        if let Some(original) = message.get(41) {
            request.original_id = text(original).unwrap_or(ClOrdId::BLANK);
        }
        if let Some(named) = named.flatten() {
            request.original = named.number;
        }
        let number = number_last + 1;
        let key = OrderKey { session_id, channel: 0, user_ref_num: number };
        let command = match (request.refusal, msg_type, named) {
            (0, b'D', _) => enter(message, key, request.symbol, received),
            (0, b'q', _) => mass_cancel(message, key, request.symbol),
            (0, _, None | Some(None)) => Err(Refusal::UnknownOrder),
            (0, b'F', Some(Some(named))) => same_order(message, &named).map(|()| {
                let key = OrderKey { user_ref_num: named.number, ..key };
                Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO })
            }),
            (0, _, Some(Some(named))) => {
                same_order(message, &named).and_then(|()| replace(message, key, &named, received))
            }
            _ => Err(Refusal::DuplicateId),
        };
        let command = match command {
            Ok(command) => command,
            Err(refusal) => {
                request.refusal = refusal as u8;
                return commands.push(note(FixNote::Request(request)));
            }
        };
        let uses_number = !matches!(command, Command::Cancel(_));
        if uses_number {
            self.number_last = number;
            request.number = number;
        }
        let symbol = named.flatten().map_or(request.symbol, |named| named.symbol);
        let is_order = matches!(msg_type, b'D' | b'G');
        self.add(
            id,
            Named {
                number: if is_order { number } else { 0 },
                after: number_last,
                symbol,
                side: request.code,
                // A later request by its name repeats the instructions.
                is_plain: false,
            },
            reports,
        );
        commands.push(note(FixNote::Request(request)));
        commands.push(command);
        if msg_type != b'D' {
            commands.push(note(FixNote::End { counted }));
        }
    }

    fn find(&self, id: &[u8], reports: &Reports) -> Option<Named> {
        let id = text(id)?;
        let known = reports.number(&id).and_then(|number| {
            let order = reports.order(number)?;
            let (symbol, side, is_plain) = (order.symbol(), order.side(), order.is_plain());
            Some(Named { number, after: 0, symbol, side, is_plain })
        });
        known.or_else(|| self.in_flight.get(&id).copied()).filter(|named| named.number > 0)
    }

    /// Adds a name, and drops a few that the log has answered. The work does not grow with the number of waiting
    /// requests.
    fn add(&mut self, id: ClOrdId, named: Named, reports: &Reports) {
        for _ in 0..LOOKS_PER_NAME {
            let Some(oldest) = self.names.pop_front() else { break };
            if oldest.is_answered(reports) {
                self.in_flight.remove(&oldest.id);
            } else {
                self.names.push_back(oldest);
            }
        }
        let Named { number, after, .. } = named;
        if self.in_flight.insert(id, named).is_none() {
            self.names.push_back(Unanswered { id, number, after });
        }
    }
}

impl Unanswered {
    /// True if the log has the order of this name, or its request, and all numbers before.
    fn is_answered(&self, reports: &Reports) -> bool {
        let last = reports.number_last();
        let is_known =
            if self.number > 0 { self.number <= last } else { reports.number(&self.id).is_some() };
        is_known && self.after <= last
    }
}

/// A request for instruments or for the status of the day; `None` for any other message.
fn query(message: &Message<'_>, counted: u32) -> Option<QueryNote> {
    let (msg_type, id, code) = match message.msg_type() {
        b"x" => (b'x', 320, one(message, 559)),
        b"c" => (b'c', 320, one(message, 321)),
        b"e" => (b'e', 324, b'0'),
        b"g" => {
            let is_day = message.get(336).is_none_or(|name| name == b"DAY");
            (b'g', 335, if is_day { b'Y' } else { b'N' })
        }
        _ => return None,
    };
    Some(QueryNote {
        msg_type,
        counted,
        code,
        subscription: message.get(263).map_or(b'0', |_| one(message, 263)),
        symbol: text(message.get(55).unwrap_or_default()).unwrap_or(Symbol::BLANK),
        id: text(message.get(id).unwrap_or_default()).unwrap_or(ClOrdId::BLANK),
    })
}

/// A text of at most `N` printable characters; blanks at its end count.
fn text<const N: usize>(bytes: &[u8]) -> Option<market::Text<N>> {
    market::Text::from_slice(bytes)
}

fn one(message: &Message<'_>, tag: u32) -> u8 {
    match message.get(tag) {
        Some([code]) => *code,
        _ => b'1',
    }
}

/// A whole number of lots; `None` if there is none, or it is beyond 2⁴⁸ − 1.
fn lots(message: &Message<'_>, tag: u32) -> Option<Lots> {
    let lots: u64 = parse_decimal(str::from_utf8(message.get(tag)?).ok()?, 0).ok()?;
    Lots::checked(lots)
}

/// A price in ticks, if there is one.
fn price(message: &Message<'_>, tag: u32) -> Result<Option<u32>, Refusal> {
    let Some(value) = message.get(tag) else { return Ok(None) };
    let text = str::from_utf8(value).map_err(|_| Refusal::Price)?;
    parse_decimal(text, 4).map(Some).map_err(|_| Refusal::Price)
}

fn side(code: u8) -> Option<Side> {
    Some(match code {
        b'1' => Side::Buy,
        b'2' => Side::Sell,
        b'5' => Side::SellShort,
        b'6' => Side::SellShortExempt,
        _ => return None,
    })
}

fn enter(
    message: &Message<'_>,
    key: OrderKey,
    symbol: Symbol,
    received: Timestamp,
) -> Result<Command, Refusal> {
    let side = side(one(message, 54)).ok_or(Refusal::NotOffered)?;
    if symbol.is_blank() {
        return Err(Refusal::Symbol);
    }
    let terms = terms(message, received)?;
    let attributes = OrderAttributes { capacity: capacity(message), ..OrderAttributes::default() };
    Ok(Command::Enter(EnterOrder {
        key,
        side,
        order_type: terms.order_type,
        time_in_force: terms.time_in_force,
        display: terms.display,
        quantity: terms.quantity.quantity(),
        price: terms.price,
        symbol,
        attributes,
        conditions: terms.conditions,
        instructions: terms.instructions,
    }))
}

fn replace(
    message: &Message<'_>,
    key: OrderKey,
    named: &Named,
    received: Timestamp,
) -> Result<Command, Refusal> {
    let terms = terms(message, received)?;
    let code = one(message, 54);
    let is_plain = terms.conditions == Conditions::NONE && !terms.instructions.is_some();
    // A plain order that stays plain changes neither: the record is shorter, and the order may stay in place.
    let changes = !(is_plain && named.is_plain);
    let conditions = ConditionChanges {
        post_only: changes.then_some(terms.conditions.post_only),
        minimum_quantity: changes.then_some(terms.conditions.minimum_quantity),
        ..ConditionChanges::NONE
    };
    Ok(Command::Replace(ReplaceOrder {
        original_user_ref_num: named.number,
        key,
        terms: Some(ReplaceTerms {
            side: (code != named.side).then(|| side(code)).flatten(),
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: terms.display,
            quantity: terms.quantity.quantity(),
            price: terms.price,
            client_order_id: market::ClientOrderId::BLANK,
            shares_located: false,
            locate_broker: market::Firm::BLANK,
            conditions,
            instructions: changes.then_some(terms.instructions),
        }),
    }))
}

/// Side and symbol, where a request gives them, are those of the order. A kind of sell may change.
fn same_order(message: &Message<'_>, named: &Named) -> Result<(), Refusal> {
    let is_buy = |code: u8| code == b'1';
    let same_side = is_buy(one(message, 54)) == is_buy(named.side);
    let same_symbol = message.get(55).is_none_or(|symbol| text(symbol) == Some(named.symbol));
    let is_side = side(one(message, 54)).is_some();
    if same_side && same_symbol && is_side { Ok(()) } else { Err(Refusal::OtherOrder) }
}

fn mass_cancel(message: &Message<'_>, key: OrderKey, symbol: Symbol) -> Result<Command, Refusal> {
    let symbol = match message.get(530) {
        Some(b"1") if !symbol.is_blank() => symbol,
        Some(b"1") => return Err(Refusal::Symbol),
        Some(b"7") => Symbol::BLANK,
        _ => return Err(Refusal::NotOffered),
    };
    let side = match message.get(54) {
        None => None,
        Some(_) => Some(side(one(message, 54)).ok_or(Refusal::NotOffered)?),
    };
    let firm = market::Firm::BLANK;
    Ok(Command::MassCancel(MassCancel { key, firm, symbol, side, group_id: None }))
}

fn capacity(message: &Message<'_>) -> Capacity {
    match message.get(528).or_else(|| message.get(47)) {
        Some(b"A") => Capacity::Agency,
        Some(b"P" | b"W") => Capacity::Principal,
        Some(b"R") => Capacity::Riskless,
        _ => Capacity::Other,
    }
}

fn terms(message: &Message<'_>, received: Timestamp) -> Result<Terms, Refusal> {
    if message.get(21).is_some_and(|value| value != b"1") {
        return Err(Refusal::NotOffered);
    }
    let quantity = lots(message, 38).ok_or(Refusal::Quantity)?;
    let (limit, stop) = (price(message, 44)?, price(message, 99)?);
    let mut instructions = Instructions::NONE;
    let mut conditions = Conditions::NONE;
    let mut peg = None;
    for inst in message.get(18).unwrap_or_default().split(|byte| *byte == b' ') {
        match inst {
            b"" => {}
            b"6" => conditions.post_only = true,
            b"G" => instructions.handling = instructions.handling.with_all_or_none(),
            b"R" => peg = Some(Pricing::PrimaryPeg),
            b"P" => peg = Some(Pricing::MarketPeg),
            b"M" => peg = Some(Pricing::MidpointPeg),
            _ => return Err(Refusal::NotOffered),
        }
    }
    let code = one(message, 40);
    let (order_type, pricing) = match (code, limit) {
        (b'1', None) => (OrderType::Market, Pricing::Limit),
        (b'2', Some(_)) => (OrderType::Limit, Pricing::Limit),
        (b'3', None) => (OrderType::Market, Pricing::Stop),
        (b'4', Some(_)) => (OrderType::Limit, Pricing::Stop),
        (b'J', None) => (OrderType::Market, Pricing::TakeProfit),
        (b'J', Some(_)) => (OrderType::Limit, Pricing::TakeProfit),
        (b'K', None) => (OrderType::MarketToLimit, Pricing::Limit),
        (b'P', None) => (OrderType::Market, peg.ok_or(Refusal::NotOffered)?),
        (b'P', Some(_)) => (OrderType::Limit, peg.ok_or(Refusal::NotOffered)?),
        (b'1' | b'2' | b'3' | b'4' | b'K', _) => return Err(Refusal::Price),
        _ => return Err(Refusal::NotOffered),
    };
    if peg.is_some() != pricing.is_pegged() {
        return Err(Refusal::NotOffered);
    }
    if stop.is_some() != pricing.is_triggered() {
        return Err(Refusal::Price);
    }
    instructions.pricing = pricing;
    instructions.trigger = Ticks(stop.unwrap_or(0));
    instructions.offset = offset(message, pricing)?;
    conditions.minimum_quantity = match message.get(110) {
        None => Lots::ZERO,
        Some(_) => lots(message, 110).ok_or(Refusal::Quantity)?,
    };
    let mut display = if pricing.is_pegged() { Display::Hidden } else { Display::Visible };
    if message.get(111).is_some() {
        match lots(message, 111).ok_or(Refusal::Quantity)? {
            floor if floor.is_zero() => display = Display::Hidden,
            floor if floor < quantity => instructions.shown_quantity = floor,
            _ => {}
        }
    }
    let time_in_force = match message.get(59) {
        None | Some(b"0") => TimeInForce::Day,
        Some(b"1") => TimeInForce::GoodTillCancel,
        Some(b"2") => TimeInForce::AtTheOpen,
        Some(b"3") => TimeInForce::ImmediateOrCancel,
        Some(b"4") => TimeInForce::FillOrKill,
        Some(b"6") => TimeInForce::GoodTillTime,
        Some(b"7") => TimeInForce::AtTheClose,
        Some(_) => return Err(Refusal::NotOffered),
    };
    instructions.expires_s = expiry(message, time_in_force, received)?;
    let price = Price(limit.unwrap_or(0).into());
    Ok(Terms { order_type, time_in_force, display, quantity, price, conditions, instructions })
}

fn offset(message: &Message<'_>, pricing: Pricing) -> Result<i32, Refusal> {
    let Some(value) = message.get(211) else { return Ok(0) };
    let (sign, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, value),
    };
    let text = str::from_utf8(digits).map_err(|_| Refusal::Price)?;
    let ticks: u32 = parse_decimal(text, 4).map_err(|_| Refusal::Price)?;
    let ticks = i32::try_from(ticks).map_err(|_| Refusal::Price)?;
    if ticks != 0 && !pricing.is_pegged() { Err(Refusal::Price) } else { Ok(sign * ticks) }
}

/// The expiry in seconds since the Unix epoch: ExpireTime, rounded up, or the end of ExpireDate in UTC.
fn expiry(
    message: &Message<'_>,
    time_in_force: TimeInForce,
    received: Timestamp,
) -> Result<u32, Refusal> {
    let seconds = match (message.get(126), message.get(432)) {
        (None, None) if time_in_force == TimeInForce::GoodTillTime => return Err(Refusal::Expiry),
        (None, None) => return Ok(0),
        (Some(time), _) => read_time(time).ok_or(Refusal::Expiry)?.0.div_ceil(NANOS_PER_SECOND),
        (None, Some(date)) => {
            read_date(date).ok_or(Refusal::Expiry)?.0 / NANOS_PER_SECOND + SECONDS_PER_DAY
        }
    };
    if time_in_force != TimeInForce::GoodTillTime || seconds * NANOS_PER_SECOND <= received.0 {
        return Err(Refusal::Expiry);
    }
    u32::try_from(seconds).map_err(|_| Refusal::Expiry)
}

#[cfg(test)]
mod tests {
    use market::{AccountQueried, Event, Output, Sequence};

    use super::{
        super::{Builder, CompId, Directory, Fields, note::LogonNote},
        *,
    };

    const SESSION: SessionId = SessionId(1);

    fn order(intake: &mut Intake, reports: &Reports, number: u32) {
        let commands = commands(intake, reports, number, "100");
        assert!(matches!(commands[..], [Command::Note(_), Command::Enter(_)]), "{commands:?}");
    }

    /// The commands for an order of this many lots.
    fn commands(
        intake: &mut Intake,
        reports: &Reports,
        number: u32,
        quantity: &str,
    ) -> Vec<Command> {
        let mut buffer = [0; 256];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, "D").number(34, number.into()).display(11, &number);
        builder.text(55, "AAPL").number(54, 1).text(38, quantity).number(40, 2).number(44, 10);
        let mut fields = Fields::default();
        let message = fields.read(builder.finish(Version::Fix44));
        let mut commands = Vec::new();
        intake.commands(&message, SESSION, Timestamp(0), reports, &mut commands);
        commands
    }

    fn first_reports() -> Reports {
        let venue = CompId::new("V").unwrap();
        let version = Version::Fix44;
        let logon =
            LogonNote { version, reset: true, counted: 1, heartbeat_s: 30, venue, client: venue };
        Reports::new(&logon)
    }

    /// Marks all numbers up to this one as taken by the log.
    fn answer(reports: &mut Reports, last: u32) {
        let queried =
            AccountQueried { session_id: SESSION, channel: 0, next_user_ref_num: last + 1 };
        let event = Event::AccountQueried(queried);
        let output = Output { cause: Sequence(1), timestamp: Timestamp(0), event };
        reports.take(&output, &Directory::default(), |_| true, &mut |_| {});
    }

    /// Names stay while the log has not answered; afterwards each new name drops two old ones, so that a thousand
    /// outstanding requests cost the next one no more than one does, and no permanent memory.
    #[test]
    fn answered_names_are_forgotten_two_at_a_time() {
        let (mut reports, mut intake) = (first_reports(), Intake::default());
        for number in 1..=1_000 {
            order(&mut intake, &reports, number);
        }
        assert_eq!(intake.in_flight.len(), 1_000, "nothing is answered");
        answer(&mut reports, 1_000);
        order(&mut intake, &reports, 1_001);
        assert_eq!(intake.in_flight.len(), 999);
        for number in 1_002..=2_100 {
            answer(&mut reports, number - 1);
            order(&mut intake, &reports, number);
        }
        assert_eq!(intake.in_flight.len(), 1);
        assert_eq!(intake.names.len(), 1);
    }

    /// An order may be for 2^48 - 1 lots; one more is refused with a reason, and so is a value that is no number.
    #[test]
    fn more_lots_than_48_bits_are_refused() {
        let (reports, mut intake) = (first_reports(), Intake::default());
        let most = commands(&mut intake, &reports, 1, "281474976710655");
        let [_, Command::Enter(enter)] = most[..] else { panic!("{most:?}") };
        assert_eq!({ enter.quantity }, Quantity((1 << 48) - 1));
        for (number, quantity) in [(2, "281474976710656"), (3, "18446744073709551616"), (4, "-1")] {
            let refused = commands(&mut intake, &reports, number, quantity);
            let [Command::Note(note)] = &refused[..] else { panic!("{refused:?}") };
            let Some(FixNote::Request(request)) = FixNote::read(note.bytes()) else { panic!() };
            assert_eq!(request.refusal, Refusal::Quantity as u8, "{quantity}");
        }
    }
}
