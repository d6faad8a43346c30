//! Looking: at a cluster, or into files.
//!
//! | file | holds |
//! |---|---|
//! | `cluster` | requests to the API server |
//! | `config` | which API server, as whom |
//! | `offline` | objects out of files |

mod cluster;
mod config;
mod offline;

pub use cluster::{Cluster, LookError};
pub use config::{Access, connect};
pub use offline::{OfflineError, read};
