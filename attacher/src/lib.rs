//! `csi-attacher`: attaches and detaches volumes as VolumeAttachment objects request.
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
//! | [`model`] | the fields of API objects that the attacher reads |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors that carry the decisions out |
//! | [`permission`] | the RBAC rules that the attacher needs |
//! | [`args`] | the command line |
//! | `control` | watches and workers of a leading process |
//! | [`run`] | start-up, leadership, end |

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
