//! `kubectl csi why`: explains what blocks a pod, a claim, a volume, an attachment or a snapshot.
//!
//! Observe, decide, act: [`plan`] names the objects to read next or gives the answer, [`work`] reads them, [`show`]
//! prints. Nothing is ever written.

pub mod args;
pub mod model;
pub mod plan;
pub mod run;
pub mod show;
pub mod work;
