//! The model against the engine, and the whole venue from seeds.

mod agreement;
mod derived_data;
mod lossy_feed;
mod large_quantities;
mod many_orders;
mod ouch42;
mod scenarios_over;
mod simulation;
