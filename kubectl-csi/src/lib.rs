//! `kubectl csi why`: what holds up a pod, a claim, a volume, an attachment or a snapshot.
//!
//! Observe, decide, act: [`plan`] says what to look at next or what to say, [`work`] looks, [`show`] prints. Nothing is ever written.

pub mod args;
pub mod model;
pub mod plan;
pub mod run;
pub mod show;
pub mod work;
