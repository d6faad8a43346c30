//! `snapshot-controller`: binds VolumeSnapshots to their contents, once per cluster.

fn main() {}
