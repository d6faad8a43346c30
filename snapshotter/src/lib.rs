//! `csi-snapshotter`: takes, finds and deletes snapshots in the storage system for
//! VolumeSnapshotContents.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | what is read of API objects |
//! | [`plan`] | decisions: pure functions |
//! | [`args`] | the command line |
//!
//! Strings that the snapshot-controller must spell alike are in [`sidecar::snapshot`].

pub mod args;
pub mod model;
pub mod plan;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod testing;
