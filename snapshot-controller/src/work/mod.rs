//! Acts on decisions, and keeps the caches that they look at. No choice is made here.

pub mod record;
