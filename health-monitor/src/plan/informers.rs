//! The caches and the driver, as decisions read them.
//!
//! A trait, because the program reads caches that its watches fill, and the crash simulation reads its own.

use std::sync::Arc;

use super::Driver;
use crate::model::{Claim, Text, Volume};

/// The newest known objects.
pub trait Informers {
    /// The driver with its latest capabilities.
    fn driver(&self) -> Arc<Driver>;
    /// The bound PersistentVolume of this name, if it belongs to the driver.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// The claim `namespace/name`, if it is unbound or has health conditions.
    fn claim(&self, key: &str) -> Option<Arc<Claim>>;
    /// Keys of all claims that have health conditions, with their volumes.
    fn unhealthy(&self) -> Vec<(Text, Arc<Claim>)>;
}
