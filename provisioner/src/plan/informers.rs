//! What decisions may look at: the caches and the driver.
//!
//! A trait, because the process reads caches that other tasks fill, and the crash simulation reads its
//! own.

use std::sync::Arc;

use super::Driver;
use crate::model::{Claim, Class, Grant, Volume};

/// The newest that this process knows.
pub trait Informers {
    /// The driver, as it said last what it can do.
    fn driver(&self) -> Arc<Driver>;
    /// The claim of this `namespace/name`, if something may be due for it.
    fn claim(&self, key: &str) -> Option<Arc<Claim>>;
    /// Shows all such claims.
    fn for_each_claim(&self, look: &mut dyn FnMut(&Arc<Claim>));
    /// The PersistentVolume of this name, of whatever driver.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// Shows all PersistentVolumes with their names.
    fn for_each_volume(&self, look: &mut dyn FnMut(&str, &Volume));
    /// The StorageClass of this name.
    fn class(&self, name: &str) -> Option<Arc<Class>>;
    /// Shows all ReferenceGrants.
    fn for_each_grant(&self, look: &mut dyn FnMut(&Arc<Grant>));
    /// Whether there may be VolumeAttachments that are not told, because their watch is known to have
    /// ended.
    fn misses_attachments(&self) -> bool;
}
