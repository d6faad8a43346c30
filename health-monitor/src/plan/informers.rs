//! What decisions may look at: the caches and the driver.
//!
//! A trait, because the process reads caches that other tasks fill, and the crash simulation reads its own.

use std::sync::Arc;

use super::Driver;
use crate::model::{Claim, Text, Volume};

/// The newest that this process knows.
pub trait Informers {
    /// The driver, as it said last what it can do.
    fn driver(&self) -> Arc<Driver>;
    /// The bound PersistentVolume of this name, if it is the driver's.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// The claim, `namespace/name`, if anything of it is special.
    fn claim(&self, key: &str) -> Option<Arc<Claim>>;
    /// Keys of all claims that have health conditions, with their volumes.
    fn unhealthy(&self) -> Vec<(Text, Arc<Claim>)>;
}
