//! The driver's capabilities and settings, and which changes of them end the process.
//!
//! The attacher reads the capabilities again after each restart of the driver and keeps running.

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::plugin_capability::service::Type as PluginCapability;
use sidecar::controller::IncompatibleDriver;

/// The driver as decisions see it: its name, capabilities, and the related settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// Finalizer on VolumeAttachments and PersistentVolumes.
    pub finalizer: String,
    /// What the driver's capabilities allow.
    pub abilities: Abilities,
    /// `--default-fstype`: the file system type for volumes that name none.
    pub default_fs_type: String,
    /// Feature gate `MutableCSINodeAllocatableCount`: whether to write `errorCode`.
    pub error_codes: bool,
}

/// The capabilities that change the attacher's behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// `CONTROLLER_SERVICE` and `PUBLISH_UNPUBLISH_VOLUME`: without them the attacher makes no
    /// calls.
    pub publish: bool,
    /// `PUBLISH_READONLY`: the driver accepts `readonly`.
    pub readonly: bool,
    /// `SINGLE_NODE_MULTI_WRITER`: the driver accepts the newer access modes.
    pub single_node_multi_writer: bool,
    /// `LIST_VOLUMES` and `LIST_VOLUMES_PUBLISHED_NODES`: the attacher can compare attachments with
    /// the driver's list.
    pub list_published: bool,
}

impl Abilities {
    /// Evaluates the two capability sets. Never calls `controller` for a driver without controller
    /// service.
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

/// The driver gained it: volumes marked attached were never published.
pub const GAINED_PUBLISH: IncompatibleDriver = IncompatibleDriver::Changed {
    how: "with",
    capability: PUBLISH,
    consequence: ", which it did not have; the attacher must restart to use it",
};

/// Whether the process can continue with the capabilities of the restarted driver.
///
/// # Errors
/// Says why it cannot; the process exits with that text.
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
