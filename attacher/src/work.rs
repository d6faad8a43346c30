//! Executors that carry out the decisions of [`plan`](crate::plan) and decide nothing themselves.
//!
//! | file | does |
//! |---|---|
//! | `record` | decodes API objects into [`model`](crate::model) |
//! | `driver` | the driver behind its socket, across restarts |
//! | `kept` | PersistentVolumes in the form the cache stores |
//! | `informers` | the caches, and how their changes reach the controller |
//! | `executor` | the controller's requests and log lines |
//! | `drift` | comparison with the driver's list |
//! | `events` | events on volumes whose attach or detach keeps failing |

pub mod drift;
pub mod driver;
pub mod events;
pub mod executor;
pub mod informers;
pub mod kept;
pub mod record;
