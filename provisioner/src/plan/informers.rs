//! The informers that decisions read: the caches and the driver.
//!
//! A trait, because the process reads caches that other tasks fill, and the crash simulation reads its own.

use std::sync::Arc;

use super::Driver;
use crate::model::{Claim, Class, Grant, Volume};

/// The newest state that this process has.
pub trait Informers {
    /// The driver, with its latest capabilities.
    fn driver(&self) -> Arc<Driver>;
    /// The claim of this `namespace/name`, if anything may be due for it.
    fn claim(&self, key: &str) -> Option<Arc<Claim>>;
    /// Calls `look` with every cached claim.
    fn for_each_claim(&self, look: &mut dyn FnMut(&Arc<Claim>));
    /// The PersistentVolume of this name, of whatever driver.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// Calls `look` with every PersistentVolume and its name.
    fn for_each_volume(&self, look: &mut dyn FnMut(&str, &Volume));
    /// The StorageClass of this name.
    fn class(&self, name: &str) -> Option<Arc<Class>>;
    /// Calls `look` with every ReferenceGrant.
    fn for_each_grant(&self, look: &mut dyn FnMut(&Arc<Grant>));
    /// Whether VolumeAttachments may be missing from the cache, because their watch is known to have ended.
    fn misses_attachments(&self) -> bool;
}
