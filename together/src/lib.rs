//! Several controllers of a driver in one process.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | decisions: pure functions |
//! | [`programs`] | what can be in a process, with the flags and gates of each |
//! | [`run`] | carries out: one process, one link, the leases in their order |
//! | [`node`] | the process of livenessprobe and registrar, which has no Kubernetes client |
//! | `registration`, `startup_taint` | keeping the driver registered, and removing the Node's taint once it is |
//!
//! Without the feature `controllers` there are those two alone, and nothing of Kubernetes is linked.

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
