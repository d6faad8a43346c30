//! Shared by the tests of decisions: a model API server that keeps whole objects,
//! and objects to put into it.

pub(crate) mod bench;
pub(crate) mod known;
pub(crate) mod objects;
pub(crate) mod request;
pub(crate) mod server;
