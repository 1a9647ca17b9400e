//! Order files, the flows that compare engines, and the reference rounding.

mod comparison;
mod order_file;
mod origin;
