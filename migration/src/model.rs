//! What is known of the plugins, as data.

pub mod class;
pub mod driver;
pub mod drivers;
pub mod error;
pub mod keys;
