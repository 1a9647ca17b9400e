//! The model against the engine, and the whole venue from seeds.

mod agreement;
mod lossy_feed;
mod ouch42;
mod scenarios_over;
mod simulation;
