//! Looking: at a cluster, or into files.
//!
//! | file | holds |
//! |---|---|
//! | `cluster` | requests to the API server |
//! | `config` | which API server, as whom |
//! | `driver` | calls of a driver, for an audit |
//! | `offline` | objects out of files |
//! | `pages` | lists of a driver, page by page |
//! | `preflight` | the program that answers `kubectl csi preflight` |

mod cluster;
mod config;
mod driver;
mod offline;
mod pages;
mod preflight;

pub use cluster::{Cluster, LookError};
pub use config::{Access, connect};
pub use driver::{Driver, DriverError};
pub use offline::{OfflineError, read};
pub use preflight::preflight;
