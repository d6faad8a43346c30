//! Kubernetes objects, as far as the snapshotter reads them: small records instead of the full
//! types.
//!
//! Decisions, caches and tests share only these records; the caches hold a cluster's 20,000
//! contents in this form. Nothing here uses a client, a runtime or a clock.
//!
//! | file | object |
//! |---|---|
//! | `content` | VolumeSnapshotContent, VolumeGroupSnapshotContent |
//! | `kind` | which of the two, and the names of its fields and annotations |
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
