//! The control socket: HTTP with JSON bodies on a unix socket.
//!
//! [`server`] serves it, [`client`] sends requests (used by `csi-test-driver ctl` and by test
//! harnesses).

pub mod client;
pub mod routes;
pub mod server;
