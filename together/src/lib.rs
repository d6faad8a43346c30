//! Several controllers of a driver in one process.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | decisions: pure functions |
//! | [`programs`] | what can be in a process, with the flags and gates of each |

pub mod plan;
pub mod programs;

#[cfg(test)]
mod sim;
