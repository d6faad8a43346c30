//! Kubernetes objects, as far as the resizer reads them: small records instead of the full types.
//!
//! Decisions, caches and tests share only these records; the caches hold a cluster's 50,000 claims
//! and volumes in this form. Nothing here uses a client, a runtime or a clock.
//!
//! | file | object |
//! |---|---|
//! | `claim` | PersistentVolumeClaim |
//! | `status` | the claim's status of expansion and modification |
//! | `volume` | PersistentVolume |
//! | `pod` | Pod: the claims that it uses |
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
