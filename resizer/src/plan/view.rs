//! The objects that a decision reads.
//!
//! The executor and the crash simulation provide them.

use std::sync::Arc;

use super::{Driver, Settings};
use crate::model::{AttributesClass, Claim, Text, Volume};

/// Access to the caches.
pub trait Informers {
    /// The driver, with its latest abilities.
    fn driver(&self) -> Arc<Driver>;
    /// The claim with this key, `namespace/name`. `None` does not prove that it does not exist: the
    /// cache holds a claim without due tasks only after it was read.
    fn claim(&self, key: &Text) -> Option<Arc<Claim>>;
    /// The PersistentVolume of this name and its version; 0 for a version that is no number. The
    /// cache holds one of another driver only after it was read.
    fn volume(&self, name: &Text) -> Option<(Arc<Volume>, u64)>;
    /// The VolumeAttributesClass of this name.
    fn class(&self, name: &Text) -> Option<Arc<AttributesClass>>;
}

/// Everything that a decision reads, taken from the caches at the same time. The caches have to show
/// this process's own writes from the moment of the response on.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The settings.
    pub settings: &'a Settings,
    /// The claim with the task's name, if it exists.
    pub claim: Option<&'a Claim>,
    /// The PersistentVolume [`Attempt::volume`](super::attempt::Attempt::volume), if it exists.
    pub volume: Option<&'a Volume>,
    /// The VolumeAttributesClass [`Attempt::class`](super::attempt::Attempt::class), if it exists.
    pub class: Option<&'a AttributesClass>,
    /// Whether a pod uses the claim; see [`usage`](super::usage).
    pub in_use: bool,
    /// The current time for conditions, RFC 3339 in whole seconds (`2026-01-02T03:04:05Z`).
    pub now: &'a str,
}
