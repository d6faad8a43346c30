//! The driver's state: volumes, snapshots, nodes, and the comparison of topologies.
//!
//! Plain values for the state file. Nothing here has an effect.

pub mod snapshot;
pub mod state;
pub mod topology;
pub mod volume;
