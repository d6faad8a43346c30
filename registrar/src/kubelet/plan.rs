//! Decisions of the registration loop.
//!
//! Everything here is a function of values: time, randomness and the contents of files, replies and API objects come in
//! as arguments, so that every rule is a table in a test.

pub mod csinode;
pub mod discover;
pub mod driver;
pub mod exhausted;
pub mod keys;
pub mod node;
pub mod operation;
pub mod pass;
pub mod refresh;
pub mod registration;
pub mod schedule;
pub mod version;
pub mod world;
