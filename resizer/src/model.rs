//! What the resizer reads of Kubernetes objects: small records instead of the full types.
//!
//! Decisions, cache and tests share these and nothing else; a cluster's 50,000 claims and volumes
//! are held as these records. No client, no runtime, no clock in here.
//!
//! | file | object |
//! |---|---|
//! | `claim` | PersistentVolumeClaim |
//! | `status` | what its status says about expansion and modification |
//! | `volume` | PersistentVolume |
//! | `pod` | which claims a Pod uses |
//! | `class` | VolumeAttributesClass |

mod claim;
mod class;
mod pod;
mod status;
mod volume;

pub use claim::{Claim, ClaimDetail, ClaimPhase, Quiet, Signs};
pub use class::AttributesClass;
pub use pod::Pod;
pub use sidecar::quantity::Quantity;
pub use sidecar::secret::SecretRef;
pub use sidecar::text::{List, Pairs, Text};
pub use sidecar::uid::Uid;
pub use status::{Condition, Modify, ModifyPhase, ResizeStatus};
pub use volume::{ClaimRef, CsiSource, InTree, PreResize, Source, Volume, VolumeKind};
