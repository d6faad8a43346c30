//! API objects, reduced to the fields that causes are derived from.
//!
//! Absent, `null` and empty are the same. Confidential values (Secrets, parameters of classes,
//! attributes of volumes) have no field here, so no output can contain them.
//!
//! | file | holds |
//! |---|---|
//! | `scalar` | texts, lists, maps and times as API servers and people write them |
//! | `kind` | the kinds, their API groups and versions, the names that users type |
//! | `meta` | metadata, conditions, events, leases |
//! | `pod` | pods, and the workloads that create them |
//! | `volume` | claims, volumes, classes, attachments |
//! | `in_tree` | sources of in-tree plugins |
//! | `node` | nodes, CSINodes, CSIDrivers, capacity |
//! | `snapshot` | snapshots, groups, their classes and contents |

mod in_tree;
mod kind;
mod meta;
mod node;
mod pod;
mod scalar;
mod snapshot;
mod volume;

pub use in_tree::Translated;
pub use kind::{Kind, Ref, SUBJECTS, dumps};
pub use meta::{
    Condition, ConfigMap, Event, Health, Healths, Lease, Meta, ObjectRef, Quota, Secret,
};
pub use node::{AttributesClass, Capacity, CsiNode, Driver, Node, Selector, Taint};
pub use pod::{
    Container, ContainerState, ContainerStatus, DaemonSet, Deployment, Pod, PodSpec, PodVolume,
    StatefulSet, Toleration, Workload,
};
pub use scalar::{Many, Pairs, Text, Time};
pub use snapshot::{
    Content, Crd, GroupClass, GroupContent, GroupSnapshot, Populator, Snapshot, SnapshotClass,
    SnapshotError,
};
pub use volume::{AttachError, Attachment, Claim, Class, SecretRef, Source, Volume};
