//! `csi-external-health-monitor-controller`: asks the CSI driver for the health of its volumes, and writes it into the
//! status of the claims that they are bound to. What drivers of CSI 1.12 and older say of a volume's condition becomes
//! events on the claim.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── control, run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | what is read of API objects |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors of those decisions |
//! | [`permission`] | the RBAC rules that are used |
//! | [`args`] | the command line |
//! | `control` | watches and workers of a leading process |
//! | [`run`] | start-up, leadership, end |

pub mod args;
mod control;
pub mod model;
pub mod permission;
pub mod plan;
pub mod run;
pub mod work;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod testing;
