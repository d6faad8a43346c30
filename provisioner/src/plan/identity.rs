//! Whether a PersistentVolume refers to a volume that the driver returned.
//!
//! A volume without a PersistentVolume that refers to it may be deleted; and the PersistentVolume of an in-tree plugin
//! carries less than the driver's response, or another ID.

use csi_proto::csi::Volume;

use super::migrated;
use super::pv::{self, PvTemplate};
use crate::model::{Text, VolumeDetail};

/// A volume as PersistentVolumes refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the PersistentVolume that will be saved.
    name: Text,
    driver: Text,
    /// The driver's volume handle.
    handle: Text,
    /// The translated handle of that PersistentVolume, where it is of an in-tree plugin.
    in_tree: Option<Text>,
}

impl Identity {
    /// Identity of a volume that the driver returned, and whose PersistentVolume will have this name.
    #[must_use]
    pub fn new(pv_template: &PvTemplate, name: &str, volume: &Volume) -> Self {
        let object = pv_template
            .is_in_tree()
            .then(|| pv::object(pv_template, name, volume, ""));
        let object = object.and_then(Result::ok);
        Self {
            name: name.into(),
            driver: pv_template.driver().into(),
            handle: volume.volume_id.as_str().into(),
            in_tree: object.and_then(|object| migrated::handle(&object)),
        }
    }

    /// The driver's volume handle.
    #[must_use]
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Whether the PersistentVolume `volume` refers to this volume, or may refer to it. One that cannot be translated,
    /// or whose ID is not the driver's, may refer to it if it has the expected name.
    #[must_use]
    pub fn is_of(&self, volume: &VolumeDetail) -> bool {
        let named = volume.name == self.name;
        if named && volume.has_other_id(&self.driver) {
            return true;
        }
        let known = named || volume.handle_of(&self.driver).is_some();
        let handles = [Some(&self.handle), self.in_tree.as_ref()];
        let mut handles = handles.into_iter().flatten();
        known && handles.any(|handle| volume.is_of(&self.driver, handle))
    }
}
