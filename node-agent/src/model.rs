//! API objects, as far as the agent looks at them. Everything is read leniently: what an API server
//! may omit or set to `null` is its default.

pub mod claim;
pub mod driver;
pub mod pod;
pub mod volume;
