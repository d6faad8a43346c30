//! `csi-snapshotter`: creates, looks up and deletes snapshots in the storage system for
//! VolumeSnapshotContents, and group snapshots for VolumeGroupSnapshotContents.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── control, run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | API objects, reduced to the fields that the snapshotter reads |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors of those decisions |
//! | [`permission`] | the RBAC rules that the snapshotter needs |
//! | [`args`] | the command line |
//! | `control` | watches and workers of a leading process |
//! | [`run`] | start-up, leader election, exit |
//!
//! Strings that the snapshot-controller uses too are in [`sidecar::snapshot`].

pub mod args;
mod control;
pub mod model;
pub mod permission;
pub mod plan;
pub mod run;
pub mod work;

#[cfg(test)]
mod testing;
