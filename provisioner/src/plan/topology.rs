//! Topology: in which places of the cluster a volume may be.
//!
//! Only asked for drivers with the plugin capability `VOLUME_ACCESSIBILITY_CONSTRAINTS` while the
//! feature gate `Topology` is on.
//!
//! | file | concept |
//! |---|---|
//! | `term` | labels of a place |
//! | `index` | the places of the cluster, kept in step with its nodes |
//! | `allowed` | the places that a StorageClass allows |
//! | `requirement` | the places for one claim |
//! | `spread` | with which place a claim without a node begins |
//! | `durable` | a requirement as JSON |
//! | `affinity` | what becomes of the driver's answer |
//! | `error` | why there is no place |

mod affinity;
mod allowed;
mod durable;
mod error;
mod index;
mod requirement;
mod spread;
mod term;

pub use affinity::node_affinity;
pub use error::Error;
pub use index::{Entry, TopologyIndex};
pub use requirement::{Input, Requirement, requirement};
pub use term::Term;
