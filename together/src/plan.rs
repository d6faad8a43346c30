//! Decisions.

pub mod holder;
pub mod order;
pub mod split;
