//! The fields of Kubernetes objects that the health monitor reads, as small records instead of the full types.
//!
//! This module uses no client, no runtime and no clock.
//!
//! | file | object |
//! |---|---|
//! | `claim` | PersistentVolumeClaim |
//! | `condition` | an entry of its `status.healthStatus.healthConditions` |
//! | `volume` | PersistentVolume |

mod claim;
mod condition;
mod volume;

pub use claim::Claim;
pub use condition::{Condition, Conditions, Status, are_same};
pub use sidecar::text::Text;
pub use sidecar::uid::Uid;
pub use volume::Volume;
