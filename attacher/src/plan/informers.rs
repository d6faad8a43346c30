//! The caches and the driver, as decisions read them.
//!
//! A trait, because the program reads caches that its watches fill, and the crash simulation reads
//! its own.

use std::sync::Arc;

use super::{Driver, View};
use crate::model::{Attachment, CsiNode, Volume};

/// The newest known objects.
pub trait Informers {
    /// The driver with its latest capabilities.
    fn driver(&self) -> Arc<Driver>;
    /// The VolumeAttachment of this name, of any driver.
    fn attachment(&self, name: &str) -> Option<Arc<Attachment>>;
    /// All VolumeAttachments, of any driver.
    fn attachments(&self) -> Vec<Arc<Attachment>>;
    /// The PersistentVolume of this name. `None` does not prove that it does not exist: volumes of
    /// other drivers are cached only after a GET.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// The CSINode of this name.
    fn node(&self, name: &str) -> Option<Arc<CsiNode>>;
}

impl dyn Informers + '_ {
    /// Builds the view that a decision on `attachment` needs.
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
