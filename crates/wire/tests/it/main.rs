//! The wire formats against their golden bytes, their tables, and random bytes.

mod seeded;
mod targets;
mod golden;
mod tables;
mod ouch_command;
mod ouch_encoder;
mod ouch42;
mod itch_encoder;
mod venue;
mod soupbintcp;
mod moldudp64;
mod sluice;
mod fix;
mod fix_world;
mod fix_session;
mod fix_instruments;
mod fix_drop_copy;
mod random_bytes;
