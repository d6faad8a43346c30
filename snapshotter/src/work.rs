//! Executors: what decisions ask for is done here, and nothing is decided.
//!
//! | file | does |
//! |---|---|
//! | `api` | names the kinds of objects |
//! | `record` | reads objects into the records of the model |
//! | `informers` | keeps the caches, and tells the controller of their changes |
//! | `kinds` | looks whether the kinds of groups are there |
//! | `driver` | sees the driver as decisions do |
//! | `executor` | requests, calls, events, log |

pub mod api;
pub mod driver;
pub mod executor;
pub mod informers;
pub mod kinds;
mod record;
