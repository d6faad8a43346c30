//! `csi-resizer`: makes volumes larger, and changes their attributes, when their claims ask for it.
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
//! | [`model`] | what is read of API objects |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | executors of those decisions |
//! | [`permission`] | the RBAC rules that are used |
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
