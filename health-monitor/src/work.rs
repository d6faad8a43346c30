//! Executors: they carry out the steps that [`plan`](crate::plan) decides, and nothing else.
//!
//! | file | does |
//! |---|---|
//! | `record` | reads objects of the API server into [`model`](crate::model) |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `informers` | caches, and what their changes are to the controller |
//! | `executor` | the controller's requests and log lines |
//! | `metrics` | what is counted |

pub mod driver;
pub mod executor;
pub mod informers;
pub mod metrics;
pub mod record;
