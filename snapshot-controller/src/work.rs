//! Acts on decisions, and keeps the caches that they look at. No choice is made here.
//!
//! | file | does |
//! |---|---|
//! | `record` | reads objects of the API server |
//! | `api` | names the kinds of objects |
//! | `informers` | holds the caches, and tells the controller what changes |
//! | `executor` | executes requests, records events, logs |
//! | `metrics` | counts how long things take |
//! | `kinds` | waits for the kinds of the snapshot API at the start |

pub mod api;
pub mod executor;
pub mod informers;
pub mod kinds;
pub mod metrics;
pub mod record;
