//! `snapshot-controller`: binds VolumeSnapshots to their contents, once per cluster.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── control, run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`keys`] | strings of ours |
//! | [`model`] | what is read of API objects |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors of those decisions |
//! | [`args`] | the command line |

pub mod args;
pub mod keys;
pub mod model;
pub mod plan;
pub mod work;

#[cfg(test)]
mod testing;
