//! Decisions: pure functions.

pub mod ends;
pub mod holder;
pub mod order;
pub mod paths;
pub mod split;
pub mod startup_taint;
