//! `livenessprobe`: an HTTP server beside a CSI driver whose `/healthz` is the driver's `Probe`.
//!
//! kubelet probes it on behalf of the *driver's* container, so what this program says decides
//! whether the driver is restarted. It talks to nobody but the driver.
//!
//! # Layout
//!
//! [`args`] what the flags ask for, [`socket`] which file the driver listens on, [`connection`] a connection
//! to it, [`driver`] its answers, [`health`] HTTP, [`prober`] what it does on a process, [`run`] all of it
//! together.

pub mod args;
pub mod connection;
pub mod driver;
pub mod health;
pub mod prober;
pub mod run;
pub mod socket;
