//! `csi-provisioner`: creates volumes for claims, and deletes released ones.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── control, run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`keys`] | strings shared with other programs |
//! | [`model`] | the fields of API objects that the provisioner reads |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors of those decisions |
//! | [`permission`] | the RBAC rules that the program needs |
//! | [`args`] | the command line |
//! | `control` | watches and workers of a leading process |
//! | [`run`] | start-up, leader election, shutdown |

pub mod args;
mod control;
pub mod keys;
pub mod model;
pub mod permission;
pub mod plan;
pub mod run;
pub mod work;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod testing;
