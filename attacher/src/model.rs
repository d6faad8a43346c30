//! Kubernetes objects as far as the attacher reads them: small records instead of the full types.
//!
//! Decisions, caches and tests share only these records; the cache holds a cluster's 50,000
//! PersistentVolumes in this form. This module uses no client, no runtime and no clock.
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
