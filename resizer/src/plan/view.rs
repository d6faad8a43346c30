//! What a decision looks at.
//!
//! The executor and the crash simulation fill it in.

use std::sync::Arc;

use super::{Driver, Settings};
use crate::model::{AttributesClass, Claim, Text, Volume};

/// What is known of the cluster.
pub trait Informers {
    /// The driver, as it said last what it can do.
    fn driver(&self) -> Arc<Driver>;
    /// The claim by this key, `namespace/name`. `None` is no proof that there is none: one for which
    /// nothing is due is known only once it was asked for.
    fn claim(&self, key: &Text) -> Option<Arc<Claim>>;
    /// The PersistentVolume of this name, and its version; 0 if that is no number. One of another
    /// driver is known only once it was asked for.
    fn volume(&self, name: &Text) -> Option<(Arc<Volume>, u64)>;
    /// The VolumeAttributesClass of this name.
    fn class(&self, name: &Text) -> Option<Arc<AttributesClass>>;
}

/// Everything a decision looks at, read from the caches in one go. The caches must show what this
/// process wrote itself from the moment the answer came.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The settings.
    pub settings: &'a Settings,
    /// The claim by the task's name, if there is one.
    pub claim: Option<&'a Claim>,
    /// The PersistentVolume [`Attempt::volume`](super::attempt::Attempt::volume), if there is one.
    pub volume: Option<&'a Volume>,
    /// The VolumeAttributesClass [`Attempt::class`](super::attempt::Attempt::class), if there is
    /// one.
    pub class: Option<&'a AttributesClass>,
    /// Whether a pod uses the claim; see [`usage`](super::usage).
    pub in_use: bool,
    /// The time, RFC 3339 in whole seconds (`2026-01-02T03:04:05Z`), for conditions.
    pub now: &'a str,
}
