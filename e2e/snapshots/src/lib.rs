//! `csi-snapshotter` and `snapshot-controller` beside each other.
//!
//! The two never talk to each other: their contract is one object, the VolumeSnapshotContent, and what
//! each proves beside a model of the other is worth only as much as that model. Here both reactors that
//! ship work on one API server.
//!
//! A crate of its own, of tests alone: programs may not import one another, so that each can be shipped
//! and read alone, and neither of these two may come to know the other through its tests. It stands with
//! the other tests of several programs, and `.ci/guards` lets no other crate depend on both.

#[cfg(test)]
mod sim;
