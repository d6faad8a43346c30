//! Whether a PersistentVolume is that of the volume which the driver answered with.
//!
//! A volume is deleted where it is not, and a PersistentVolume of an in-tree plugin does not say
//! all that the driver's answer says, or something else instead.

use csi_proto::csi::Volume;

use super::migrated;
use super::pv::{self, PvTemplate};
use crate::model::{Text, VolumeDetail};

/// A volume as PersistentVolumes name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the PersistentVolume that is to be saved.
    name: Text,
    driver: Text,
    /// The driver's id.
    handle: Text,
    /// What that PersistentVolume will say of the id, where it is of an in-tree plugin.
    in_tree: Option<Text>,
}

impl Identity {
    /// Of a volume with which the driver answered, and which is to get a PersistentVolume of this name.
    #[must_use]
    pub fn new(blueprint: &PvTemplate, name: &str, volume: &Volume) -> Self {
        let object = blueprint
            .is_in_tree()
            .then(|| pv::object(blueprint, name, volume, ""));
        let object = object.and_then(Result::ok);
        Self {
            name: name.into(),
            driver: blueprint.driver().into(),
            handle: volume.volume_id.as_str().into(),
            in_tree: object.and_then(|object| migrated::handle(&object)),
        }
    }

    /// The driver's id of the volume.
    #[must_use]
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Whether `volume` is the volume's PersistentVolume, or may be. One that cannot be said in the
    /// driver's words, or says nothing by which the driver knows volumes, may be if it has the very name.
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
