//! Executors: they carry out the steps that [`plan`](crate::plan) decides, and nothing else.
//!
//! | file | does |
//! |---|---|
//! | `record` | reads objects of the API server into [`model`](crate::model) |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `kept` | PersistentVolumes as the cache keeps them |
//! | `informers` | caches, and what their changes are to the controller |
//! | `executor` | the controller's steps |
//! | `drift` | comparison with the driver's list |
//! | `events` | events on volumes whose attach or detach keeps failing |

pub mod drift;
pub mod driver;
pub mod events;
pub mod executor;
pub mod informers;
pub mod kept;
pub mod record;
