//! What the attacher reads of Kubernetes objects: small records instead of the full types.
//!
//! Decisions, cache and tests share these and nothing else; a cluster's 50,000 PersistentVolumes
//! are held as these records. No client, no runtime, no clock in here.
//!
//! | file | object |
//! |---|---|
//! | `attachment` | VolumeAttachment |
//! | `volume` | PersistentVolume, and the volume specification inside it |
//! | `csinode` | CSINode |

mod attachment;
mod csinode;
mod volume;

pub use attachment::{Attachment, VolumeError};
pub use csinode::CsiNode;
pub use sidecar::csi::access_mode::AccessMode;
pub use sidecar::secret::SecretRef;
pub use sidecar::text::{List, Pairs, Text};
pub use volume::{CsiSource, InTree, Source, Volume, VolumeSpec};
