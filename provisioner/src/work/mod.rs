//! Executors of what [`plan`](crate::plan) decides, and how API objects are read.
//!
//! Separate from the decisions, because everything here waits for somebody else.
//!
//! | file | contents |
//! |---|---|
//! | `record` | records of [`model`](crate::model) out of the API server's JSON |

pub mod record;
