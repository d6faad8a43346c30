//! The instrument: what is recorded about each call, and what is done to it on request.
//!
//! [`facts`] reads a request, [`rules`] decides what happens to it (both pure), [`call`] does it,
//! [`record`] writes and reads the lines, [`settings`] holds what the driver is told to say.

pub mod call;
pub mod facts;
pub mod random;
pub mod record;
pub mod rules;
pub mod settings;
pub mod unknown;
pub mod wire;
