//! Order files, and the flows that compare engines.

mod comparison;
mod order_file;
