//! What the snapshotter reads of Kubernetes objects: small records instead of the full types.
//!
//! Decisions, cache and tests share these and nothing else; a cluster's 20,000 contents are held as
//! these records. No client, no runtime, no clock in here.
//!
//! | file | object |
//! |---|---|
//! | `content` | VolumeSnapshotContent |
//! | `class` | VolumeSnapshotClass |
//! | `secret` | which Secret a call carries |

mod class;
mod content;
mod secret;

pub use class::Class;
pub use content::{Content, Policy, SnapshotRef, Source, Status};
pub use secret::SecretRef;
pub use sidecar::text::{List, Pairs, Text};
