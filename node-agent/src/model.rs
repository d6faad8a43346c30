//! API objects, reduced to the fields that the agent reads. Parsing is lenient: a field that an API
//! server may omit or set to `null` reads as its default.

pub mod claim;
pub mod driver;
pub mod pod;
pub mod volume;
