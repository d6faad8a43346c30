//! The control socket: HTTP with JSON bodies on a unix socket.
//!
//! [`server`] answers, [`client`] asks (used by `csi-test-driver ctl` and by test harnesses).

pub mod client;
pub mod routes;
pub mod server;
