//! Several controllers of a driver in one process.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | decisions: pure functions |

pub mod plan;

#[cfg(test)]
mod sim;
