//! Executes decisions, and keeps the caches that they read. No choice is made here.
//!
//! | file | does |
//! |---|---|
//! | `record` | reads objects of the API server |
//! | `api` | names the kinds of objects |
//! | `informers` | holds the caches, and reports changes to the controller |
//! | `executor` | executes requests, records events, logs |
//! | `metrics` | exposes how long operations take |
//! | `kinds` | waits for the kinds of the snapshot API at the start |

pub mod api;
pub mod executor;
pub mod informers;
pub mod kinds;
pub mod metrics;
pub mod record;
