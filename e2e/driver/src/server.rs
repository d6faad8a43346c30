//! The driver's socket: listener, connections, dispatch to the services.

pub mod connection;
pub mod dispatch;
pub mod endpoint;
pub mod listener;
