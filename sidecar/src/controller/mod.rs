//! What every controller sidecar does around its work: it meets its driver and follows it through
//! restarts, shows its metrics, and leads.
//!
//! Shell only: what is worked on, and whether a driver that came back is still the one to work
//! with, is the program's.

pub mod base;
pub mod driver;
pub mod engine;
pub mod flags;
pub mod lead;
pub mod reactor;
pub mod serve;

pub use base::{Base, Program};
pub use driver::{Capabilities, Driver, DriverLink, Met};
pub use flags::{Election, Http};
