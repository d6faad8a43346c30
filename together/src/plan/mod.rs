//! Decisions.

pub mod holder;
pub mod order;
