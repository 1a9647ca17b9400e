//! The structs of the benchmark's header, field for field: `api/matching_engine_api.h`.
//!
//! A name in another spelling than the header's is documented with the header's. Padding is zero in sent
//! structs and ignored in received ones.

/// `new_order_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NewOrder {
    /// The order's name, free again once the order is done.
    pub order_id: u64,
    /// Number of the message.
    pub sequence_number: u64,
    /// Limit in half cents.
    pub price_ticks: i64,
    /// Lots.
    pub quantity: u32,
    /// [`BUY`] or [`SELL`].
    pub side: u8,
    /// 1 for an immediate-or-cancel order.
    pub ioc: u8,
    /// Padding.
    pub reserved: [u8; 2],
}

/// `cancel_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Cancel {
    /// The order.
    pub order_id: u64,
    /// Number of the message.
    pub sequence_number: u64,
}

/// `modify_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Modify {
    /// The order.
    pub order_id: u64,
    /// Number of the message.
    pub sequence_number: u64,
    /// Limit in half cents from now on.
    pub new_price_ticks: i64,
    /// Lots open from now on.
    pub new_quantity: u32,
    /// The order's side.
    pub side: u8,
    /// Padding.
    pub reserved: [u8; 3],
}

/// `me_report_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Report {
    /// One of the codes of `me_report_type_t`, from [`ORDER_ACK`] on; `type` there.
    pub report_type: u8,
    /// Side of the order of the message.
    pub side: u8,
    /// Padding.
    pub reserved: [u8; 6],
    /// Number of the message that caused it.
    pub sequence_number: u64,
    /// The order of the message.
    pub order_id: u64,
    /// Limit of the order in half cents; for a trade, the maker's limit.
    pub price_ticks: i64,
    /// Lots.
    pub quantity: u32,
    /// Padding.
    pub reserved2: u32,
    /// Of a trade.
    pub maker_order_id: u64,
    /// Of a trade.
    pub taker_order_id: u64,
    /// Padding.
    pub reserved3: u64,
}

const _: () = assert!(size_of::<NewOrder>() == 32);
const _: () = assert!(size_of::<Cancel>() == 16);
const _: () = assert!(size_of::<Modify>() == 32);
const _: () = assert!(size_of::<Report>() == 64);

/// The side of an order that buys.
pub const BUY: u8 = 0;
/// The side of an order that sells.
pub const SELL: u8 = 1;

/// `ME_ORDER_ACK`: a new order was accepted.
pub const ORDER_ACK: u8 = 0;
/// `ME_TRADE`: the order of the message traded with a resting one.
pub const TRADE: u8 = 1;
/// `ME_CANCEL_ACK`: an order, or the remainder of an immediate-or-cancel order, was canceled.
pub const CANCEL_ACK: u8 = 2;
/// `ME_MODIFY_ACK`: an order has new terms.
pub const MODIFY_ACK: u8 = 3;
/// `ME_CANCEL_REJECT`: the order to cancel does not rest.
pub const CANCEL_REJECT: u8 = 4;
/// `ME_MODIFY_REJECT`: the order to modify does not rest.
pub const MODIFY_REJECT: u8 = 5;
