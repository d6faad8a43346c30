//! The driver's name and capabilities, and which changes of them end the process.
//!
//! They are read again whenever the driver restarts, while everything else goes on.

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::plugin_capability::service::Type as PluginCapability;
use migration::TRANSLATOR;
use sidecar::controller::IncompatibleDriver;

/// The driver as decisions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// Abilities from the driver's capabilities.
    pub abilities: Abilities,
}

impl Driver {
    /// The in-tree plugin that the driver replaced. Classes whose `provisioner` is the plugin belong to the driver as
    /// well, and so do the volumes made from them.
    #[must_use]
    pub fn plugin(&self) -> Option<&'static str> {
        TRANSLATOR.driver(&self.name).map(|driver| driver.plugin)
    }

    /// Whether `name` is the driver's name or that of the plugin that it replaced.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        *self.name == *name || self.plugin() == Some(name)
    }
}

/// The capabilities that change how the provisioner works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Plugin capability `CONTROLLER_SERVICE`: without it the driver has no controller capabilities.
    pub controller: bool,
    /// Plugin capability `VOLUME_ACCESSIBILITY_CONSTRAINTS`: a volume may not be accessible from every node.
    pub topology: bool,
    /// `CREATE_DELETE_VOLUME`
    pub create_delete: bool,
    /// `CREATE_DELETE_SNAPSHOT`
    pub snapshot: bool,
    /// `CLONE_VOLUME`
    pub clone: bool,
    /// `MODIFY_VOLUME`
    pub modify: bool,
    /// `PUBLISH_UNPUBLISH_VOLUME`: VolumeAttachments show whether a volume is in use.
    pub publish: bool,
    /// `SINGLE_NODE_MULTI_WRITER`: requests may use the newer access modes.
    pub single_node_multi_writer: bool,
}

impl Abilities {
    /// Builds the abilities from the two capability sets. `controller` returns false for everything where the driver
    /// has no controller service.
    #[must_use]
    pub fn new(
        plugin: impl Fn(PluginCapability) -> bool,
        controller: impl Fn(ControllerCapability) -> bool,
    ) -> Self {
        use ControllerCapability as Rpc;
        Self {
            controller: plugin(PluginCapability::ControllerService),
            topology: plugin(PluginCapability::VolumeAccessibilityConstraints),
            create_delete: controller(Rpc::CreateDeleteVolume),
            snapshot: controller(Rpc::CreateDeleteSnapshot),
            clone: controller(Rpc::CloneVolume),
            modify: controller(Rpc::ModifyVolume),
            publish: controller(Rpc::PublishUnpublishVolume),
            single_node_multi_writer: controller(Rpc::SingleNodeMultiWriter),
        }
    }
}

/// Whether the process may go on after the driver has restarted with other abilities.
///
/// # Errors
/// Names the capability that changed; the process ends with that text.
pub fn accept(then: Abilities, now: Abilities) -> Result<(), IncompatibleDriver> {
    let watched = [
        (
            "VOLUME_ACCESSIBILITY_CONSTRAINTS",
            then.topology,
            now.topology,
        ),
        ("PUBLISH_UNPUBLISH_VOLUME", then.publish, now.publish),
        ("CLONE_VOLUME", then.clone, now.clone),
        ("CREATE_DELETE_SNAPSHOT", then.snapshot, now.snapshot),
    ];
    match watched.into_iter().find(|(_, then, now)| then != now) {
        Some((capability, _, gained)) => Err(IncompatibleDriver::Changed {
            how: if gained { "with" } else { "without" },
            capability,
            consequence: "; the provisioner must restart to watch the objects that it needs",
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::driver;

    #[test]
    fn each_capability_is_its_own() {
        use ControllerCapability as Rpc;
        let all = Abilities::new(|_| true, |_| true);
        let one = |rpc| Abilities::new(|_| false, move |asked| asked == rpc);
        assert!(one(Rpc::CreateDeleteVolume).create_delete && one(Rpc::CloneVolume).clone);
        assert!(one(Rpc::CreateDeleteSnapshot).snapshot && one(Rpc::ModifyVolume).modify);
        assert!(one(Rpc::PublishUnpublishVolume).publish);
        assert!(one(Rpc::SingleNodeMultiWriter).single_node_multi_writer);
        assert!(all.controller && all.topology);
        assert_eq!(Abilities::new(|_| false, |_| false), Abilities::default());
    }

    #[test]
    fn m_2_a_driver_has_the_plugin_of_its_very_name() {
        let driver = |name: &str| Driver {
            name: name.into(),
            ..driver()
        };
        let disk = driver("disk.csi.azure.com");
        assert_eq!(disk.plugin(), Some("kubernetes.io/azure-disk"));
        assert!(disk.is_named("disk.csi.azure.com") && disk.is_named("kubernetes.io/azure-disk"));
        assert!(!disk.is_named("kubernetes.io/azure-file") && !disk.is_named(""));
        for name in ["Disk.csi.azure.com", "rbd.csi.ceph.com", ""] {
            assert_eq!(driver(name).plugin(), None, "{name:?}");
            assert!(
                !TRANSLATOR.has_moved_to(name) && driver(name).is_named(name),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_driver_that_came_back_is_accepted_or_not() {
        let before = driver().abilities;
        let with = |change: fn(&mut Abilities)| {
            let mut abilities = before;
            change(&mut abilities);
            accept(before, abilities).map_err(|error| error.to_string())
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|now| now.modify = true), Ok(()));
        assert_eq!(with(|now| now.create_delete = false), Ok(()));
        let changes: [(fn(&mut Abilities), _); 4] = [
            (
                |now| now.topology = true,
                "VOLUME_ACCESSIBILITY_CONSTRAINTS",
            ),
            (|now| now.publish = true, "PUBLISH_UNPUBLISH_VOLUME"),
            (|now| now.clone = true, "CLONE_VOLUME"),
            (|now| now.snapshot = true, "CREATE_DELETE_SNAPSHOT"),
        ];
        for (change, capability) in changes {
            let text = with(change).unwrap_err();
            let gained = format!("the driver came back with the capability {capability}; ");
            assert!(text.starts_with(&gained), "{text}");
        }
    }
}
