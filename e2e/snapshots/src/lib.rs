//! `csi-snapshotter` and `snapshot-controller` side by side.
//!
//! The two never call each other: their contract is one object, the VolumeSnapshotContent, and tests of one against
//! a model of the other prove only as much as that model is worth. Here the reactors of both programs, as
//! shipped, work on one API server.
//!
//! A crate of its own, with tests only: programs must not import one another, so that each can be shipped
//! and read alone, and neither of these two may learn about the other through its tests. It lies with the
//! other tests of several programs, and `.ci/guards` lets no other crate depend on both.

#[cfg(test)]
mod sim;
