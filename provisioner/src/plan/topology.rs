//! Topology: the segments of the cluster where a volume may be.
//!
//! Counts only for drivers with the plugin capability `VOLUME_ACCESSIBILITY_CONSTRAINTS` while the feature gate
//! `Topology` is on.
//!
//! | file | concept |
//! |---|---|
//! | `term` | the labels of a topology segment |
//! | `index` | the segments of the cluster, kept up to date with its nodes |
//! | `allowed` | the topologies that a StorageClass allows |
//! | `requirement` | the requisite and preferred topologies of one claim |
//! | `spread` | the first preferred topology of a claim without selected node |
//! | `durable` | a requirement as JSON |
//! | `affinity` | the node affinity from the driver's response |
//! | `error` | why no requirement can be made |

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
