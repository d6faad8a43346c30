//! Several controllers of a driver in one process.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | decisions: pure functions |
//! | [`programs`] | the controllers a process can contain, with their flags and gates |
//! | [`run`] | the process of several controllers: one driver connection, leases in a fixed order |
//! | [`node`] | the process of livenessprobe and registrar, which has no Kubernetes client |
//! | `registration`, `startup_taint` | keep the driver registered, and then remove the Node's start-up taint |
//!
//! Without the feature `controllers`, the crate contains only the process of livenessprobe and
//! registrar, and links no Kubernetes client.

pub mod node;
pub mod plan;
pub mod programs;
mod registration;
#[cfg(feature = "controllers")]
pub mod run;
mod startup_taint;

#[cfg(feature = "controllers")]
#[cfg(test)]
mod sim;
