//! Executes the decisions of [`super::plan`]: driver calls, files, API requests, the loop.

pub mod act;
mod calls;
pub mod disk;
pub mod metrics;
mod mounts;
mod ownership;
pub mod pods;
pub mod reconciler;
pub mod resolve;
pub mod watch;
