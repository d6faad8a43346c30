//! What the driver knows: volumes, snapshots, nodes, and how topologies compare.
//!
//! Plain values that can be written to the state file. Nothing here performs an effect.

pub mod snapshot;
pub mod state;
pub mod topology;
pub mod volume;
