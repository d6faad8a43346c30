//! `csi-attacher`: makes what VolumeAttachment objects ask for true in the storage system.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`keys`] | strings shared with other programs |
//! | [`model`] | what is read of API objects |
//! | [`plan`] | decisions: pure functions |

pub mod keys;
pub mod model;
pub mod plan;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod testing;
