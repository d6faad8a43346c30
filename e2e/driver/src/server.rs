//! The driver's socket: listening, connections, and which service a call goes to.

pub mod connection;
pub mod dispatch;
pub mod endpoint;
pub mod listener;
