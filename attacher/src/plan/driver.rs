//! What decisions need to know of the driver, and which changes of a driver end the process.
//!
//! It is read again whenever the driver restarts while everything else goes on.

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::plugin_capability::service::Type as PluginCapability;
use sidecar::controller::IncompatibleDriver;

/// The driver as decisions see it: its name, its abilities, and the settings that go with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// Finalizer on VolumeAttachments and PersistentVolumes.
    pub finalizer: String,
    /// What the driver's capabilities allow.
    pub abilities: Abilities,
    /// `--default-fstype`: used where a volume names none.
    pub default_fs_type: String,
    /// Feature gate `MutableCSINodeAllocatableCount`: whether `errorCode` is written.
    pub error_codes: bool,
}

/// The capabilities that change what the attacher does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// `CONTROLLER_SERVICE` and `PUBLISH_UNPUBLISH_VOLUME`: without them nothing is to be called.
    pub publish: bool,
    /// `PUBLISH_READONLY`: `readonly` may be passed.
    pub readonly: bool,
    /// `SINGLE_NODE_MULTI_WRITER`: the newer access modes may be used.
    pub single_node_multi_writer: bool,
    /// `LIST_VOLUMES` and `LIST_VOLUMES_PUBLISHED_NODES`: attachments can be compared with the
    /// driver's own list.
    pub list_published: bool,
}

impl Abilities {
    /// Abilities out of the two capability sets. `controller` answers nothing where the driver has
    /// no controller service, and must not be asked then.
    #[must_use]
    pub fn new(
        plugin: impl Fn(PluginCapability) -> bool,
        controller: impl Fn(ControllerCapability) -> bool,
    ) -> Self {
        if !plugin(PluginCapability::ControllerService) {
            return Self::default();
        }
        Self {
            publish: controller(ControllerCapability::PublishUnpublishVolume),
            readonly: controller(ControllerCapability::PublishReadonly),
            single_node_multi_writer: controller(ControllerCapability::SingleNodeMultiWriter),
            list_published: controller(ControllerCapability::ListVolumes)
                && controller(ControllerCapability::ListVolumesPublishedNodes),
        }
    }
}

const PUBLISH: &str = "PUBLISH_UNPUBLISH_VOLUME";

/// The driver lost the capability to publish volumes.
pub const LOST_PUBLISH: IncompatibleDriver = IncompatibleDriver::Changed {
    how: "without",
    capability: PUBLISH,
    consequence: ", which attached volumes need to be detached; restart the attacher if that is intended",
};

/// The driver gained it: volumes marked attached never were published.
pub const GAINED_PUBLISH: IncompatibleDriver = IncompatibleDriver::Changed {
    how: "with",
    capability: PUBLISH,
    consequence: ", which it did not have; the attacher must restart to use it",
};

/// Whether the process may go on with the driver that came back with other abilities.
///
/// # Errors
/// Says why it may not; the process ends with that text.
pub fn accept(before: Abilities, now: Abilities) -> Result<(), IncompatibleDriver> {
    match (before.publish, now.publish) {
        (true, false) => Err(LOST_PUBLISH),
        (false, true) => Err(GAINED_PUBLISH),
        (true, true) | (false, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::driver;

    #[test]
    fn row_26_controller_capabilities_count_only_with_the_controller_service() {
        let none = Abilities::new(|_| false, |_| unreachable!("must not be asked"));
        assert_eq!(none, Abilities::default());
        let all = Abilities::new(|_| true, |_| true);
        assert!(all.publish && all.readonly && all.single_node_multi_writer && all.list_published);
        let half = Abilities::new(|_| true, |kind| kind == ControllerCapability::ListVolumes);
        assert_eq!(half, Abilities::default());
    }

    #[test]
    fn a_driver_that_came_back_is_accepted_or_not() {
        let before = driver().abilities;
        let more = Abilities {
            readonly: true,
            ..before
        };
        assert_eq!(accept(before, more), Ok(()));
        assert_eq!(accept(before, Abilities::default()), Err(LOST_PUBLISH));
        assert_eq!(accept(Abilities::default(), more), Err(GAINED_PUBLISH));
        let text = LOST_PUBLISH.to_string();
        assert!(
            text.contains("without the capability PUBLISH_UNPUBLISH_VOLUME, which"),
            "{text}"
        );
    }
}
