//! Executors: they carry out the decisions of [`plan`](crate::plan), and decide nothing.
//!
//! | file | does |
//! |---|---|
//! | `api` | the API kinds |
//! | `record` | parses objects into the records of the model |
//! | `informers` | caches, which report their changes to the controller |
//! | `kinds` | checks whether the group kinds exist |
//! | `driver` | the driver as decisions see it |
//! | `executor` | requests, calls, events, log |

pub mod api;
pub mod driver;
pub mod executor;
pub mod informers;
pub mod kinds;
mod record;
