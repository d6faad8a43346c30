//! What decisions may look at: the caches and the driver.
//!
//! A trait, because the process reads caches that other tasks fill, and the crash simulation reads its
//! own.

use std::sync::Arc;

use super::{Driver, View};
use crate::model::{Attachment, CsiNode, Volume};

/// The newest that this process knows.
pub trait Informers {
    /// The driver, as it said last what it can do.
    fn driver(&self) -> Arc<Driver>;
    /// The VolumeAttachment of this name, of whatever driver.
    fn attachment(&self, name: &str) -> Option<Arc<Attachment>>;
    /// All VolumeAttachments, of whatever driver.
    fn attachments(&self) -> Vec<Arc<Attachment>>;
    /// The PersistentVolume of this name. `None` is no proof that there is none: one of another driver is
    /// known only once it was asked for.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// The CSINode of this name.
    fn node(&self, name: &str) -> Option<Arc<CsiNode>>;
}

impl dyn Informers + '_ {
    /// Looks at everything that a decision on `attachment` needs.
    pub fn with_view<T>(&self, attachment: &Attachment, look: impl FnOnce(&View<'_>) -> T) -> T {
        let name = attachment.volume.as_deref();
        look(&View {
            driver: &self.driver(),
            attachment,
            volume: name.and_then(|name| self.volume(name)).as_deref(),
            node: self.node(&attachment.node).as_deref(),
        })
    }
}
