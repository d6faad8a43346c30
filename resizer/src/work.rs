//! Executors: they carry out the decisions of [`plan`](crate::plan), and nothing else.
//!
//! | file | does |
//! |---|---|
//! | `record` | parses objects of the API server into [`model`](crate::model) |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `informers` | caches, which report their changes to the controller |
//! | `executor` | executes the controller's requests |

pub mod driver;
pub mod executor;
pub mod informers;
pub mod record;
