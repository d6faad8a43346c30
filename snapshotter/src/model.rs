//! What the snapshotter reads of Kubernetes objects: small records instead of the full types.
//!
//! Decisions, cache and tests share these and nothing else; a cluster's 20,000 contents are held as
//! these records. No client, no runtime, no clock in here.
//!
//! | file | object |
//! |---|---|
//! | `content` | VolumeSnapshotContent, VolumeGroupSnapshotContent |
//! | `kind` | which of the two, and what it calls things |
//! | `class` | VolumeSnapshotClass, VolumeGroupSnapshotClass |

mod class;
mod content;
mod kind;

pub use class::Class;
pub use content::{Content, GroupHandles, Member, Members, Source, Status, Topology};
pub use kind::Kind;
pub use sidecar::secret::SecretRef;
pub use sidecar::snapshot::{Policy, SnapshotRef};
pub use sidecar::text::{List, Pairs, Text};
