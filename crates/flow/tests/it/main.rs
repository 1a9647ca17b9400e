//! The parts of `flow` against each other and against the engine.

mod model;
mod orders;
mod origin;
mod wlf;
