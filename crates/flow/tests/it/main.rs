//! The parts of `flow` against each other and against the engine.

mod agreement;
mod orders;
mod origin;
mod wlf;
