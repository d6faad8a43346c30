//! The plugins and their rules, as data.

pub mod class;
pub mod driver;
pub mod drivers;
pub mod error;
pub mod keys;
