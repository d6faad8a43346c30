//! Executes the decisions of [`super::plan`]: directory watch, calls, API writes.

pub mod api;
mod authority;
pub mod driver;
pub mod exhausted;
pub mod metrics;
pub mod node;
pub mod plugin;
pub mod reconciler;
pub mod refresher;
pub mod register;
pub mod registration;
pub mod socket;
pub mod watcher;
