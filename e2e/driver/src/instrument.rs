//! The instrument: records each call, and injects faults on request.
//!
//! [`facts`] reads a request, [`rules`] decides its fate (both pure), [`call`] carries that out,
//! [`record`] writes and reads the lines, [`settings`] holds the responses that tests have set.

pub mod call;
pub mod facts;
pub mod random;
pub mod record;
pub mod rules;
pub mod settings;
pub mod unknown;
pub mod wire;
