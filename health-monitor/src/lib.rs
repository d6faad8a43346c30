//! `csi-external-health-monitor-controller`: asks the CSI driver for the health of its volumes and writes it to the
//! status of the bound claims. For drivers of CSI 1.12 and older it reports volume conditions as events on the claim.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── control, run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | the fields of API objects that the health monitor reads |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors that carry the decisions out |
//! | [`permission`] | the RBAC rules that the health monitor needs |
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
