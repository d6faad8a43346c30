//! `livenessprobe`: an HTTP server beside a CSI driver whose `/healthz` is the driver's `Probe`.
//!
//! kubelet probes it on behalf of the *driver's* container, so its answers decide whether the driver is restarted. It
//! only talks to the driver.
//!
//! # Layout
//!
//! [`args`] the configuration from the flags, [`socket`] the identity of the driver's socket file, [`connection`] a
//! connection to it, [`driver`] its answers, [`health`] HTTP, [`prober`] the work in a process, [`run`] the program.

pub mod args;
pub mod connection;
pub mod driver;
pub mod health;
pub mod prober;
pub mod run;
pub mod socket;
