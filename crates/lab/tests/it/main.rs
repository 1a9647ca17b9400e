//! Order files, the flows that compare engines, and any bytes for all that reads bytes.

mod any_bytes;
mod card_queue;
mod comparison;
mod order_file;
mod targets;
