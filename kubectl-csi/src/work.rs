//! Reads objects from a cluster or from files, and volumes from a driver.
//!
//! | file | holds |
//! |---|---|
//! | `cluster` | requests to the API server |
//! | `config` | selects the API server and the credentials |
//! | `driver` | calls to a driver, for an audit |
//! | `forward` | questions to controllers in pods |
//! | `offline` | objects from files |
//! | `pages` | a driver's lists, page by page |
//! | `preflight` | the program that answers `kubectl csi preflight` |

mod cluster;
mod config;
mod driver;
mod forward;
mod offline;
mod pages;
mod preflight;

pub use cluster::{Cluster, LookError};
pub use config::{Access, connect};
pub use driver::{Driver, DriverError};
pub use forward::ask as ask_pod;
pub use offline::{OfflineError, read};
pub use preflight::preflight;
