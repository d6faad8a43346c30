//! What decisions need to know of the driver, and which changes of a driver end the process.
//!
//! It is read again whenever the driver restarts while everything else goes on.

use std::fmt;

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::plugin_capability::service::Type as PluginCapability;
use migration::TRANSLATOR;

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

/// Whether volumes of an in-tree plugin were moved to the driver of this name.
#[must_use]
pub fn is_migrated(name: &str) -> bool {
    TRANSLATOR.driver(name).is_some()
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

/// A driver came back as something this process cannot go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncompatibleDriver {
    /// Another driver answers on the socket.
    Renamed {
        /// Name at start-up.
        before: String,
        /// Name now.
        now: String,
    },
    /// The driver no longer has `PUBLISH_UNPUBLISH_VOLUME`: attached volumes could not be
    /// detached.
    LostPublish,
    /// The driver gained `PUBLISH_UNPUBLISH_VOLUME`: volumes marked attached never were published.
    GainedPublish,
}

impl fmt::Display for IncompatibleDriver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renamed { before, now } => write!(
                out,
                "the driver on the CSI socket changed its name from {before} to {now}; \
                 restart the attacher together with the driver"
            ),
            Self::LostPublish => out.write_str(
                "the driver came back without the capability PUBLISH_UNPUBLISH_VOLUME, which \
                 attached volumes need to be detached; restart the attacher if that is intended",
            ),
            Self::GainedPublish => out.write_str(
                "the driver came back with the capability PUBLISH_UNPUBLISH_VOLUME, which it did \
                 not have; the attacher must start anew to use it",
            ),
        }
    }
}

impl std::error::Error for IncompatibleDriver {}

/// Whether the process may go on with the driver that came back as `name` with `abilities`.
///
/// # Errors
/// Says why it may not; the process ends with that text.
pub fn accept(before: &Driver, name: &str, abilities: Abilities) -> Result<(), IncompatibleDriver> {
    if before.name != name {
        return Err(IncompatibleDriver::Renamed {
            before: before.name.clone(),
            now: name.to_owned(),
        });
    }
    match (before.abilities.publish, abilities.publish) {
        (true, false) => Err(IncompatibleDriver::LostPublish),
        (false, true) => Err(IncompatibleDriver::GainedPublish),
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
    fn a_driver_that_came_back_is_accepted_or_named() {
        let before = driver();
        let more = Abilities {
            readonly: true,
            ..before.abilities
        };
        assert_eq!(accept(&before, &before.name, more), Ok(()));
        let renamed = accept(&before, "other", more).unwrap_err().to_string();
        assert!(
            renamed.contains("test.csi.driver") && renamed.contains("other"),
            "{renamed}"
        );
        let lost = accept(&before, &before.name, Abilities::default());
        assert_eq!(lost, Err(IncompatibleDriver::LostPublish));
        let trivial = Driver {
            abilities: Abilities::default(),
            ..driver()
        };
        assert_eq!(
            accept(&trivial, &trivial.name, more),
            Err(IncompatibleDriver::GainedPublish)
        );
    }
}
