//! Executors: they carry out the steps that [`plan`](crate::plan) decides, and nothing else.
//!
//! | file | does |
//! |---|---|
//! | `record` | reads objects of the API server into [`model`](crate::model) |
//! | `api` | the kinds of objects, and what failures of requests mean |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `cluster` | caches, queue and books, and what events put into the queue |
//! | `attempt` | attempts, from the queue and back to it |
//! | `step` | the single step of an attempt |

pub mod api;
mod attempt;
pub mod cluster;
pub mod driver;
pub mod record;
mod step;

pub use attempt::Resizer;
