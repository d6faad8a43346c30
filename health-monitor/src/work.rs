//! Executors that carry out the decisions of [`plan`](crate::plan) and decide nothing themselves.
//!
//! | file | does |
//! |---|---|
//! | `record` | decodes API objects into [`model`](crate::model) |
//! | `driver` | the driver behind its socket, across restarts |
//! | `informers` | the caches, and how their changes reach the controller |
//! | `executor` | the controller's requests and log lines |
//! | `metrics` | the program's own metrics |

pub mod driver;
pub mod executor;
pub mod informers;
pub mod metrics;
pub mod record;
