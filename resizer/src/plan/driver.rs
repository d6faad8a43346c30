//! The driver's name and abilities, whether the resizer can work with them, and which changes of
//! them end the process.
//!
//! They are read again after each restart of the driver, while the process keeps running.

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::csi::plugin_capability::service::Type as PluginCapability;
use sidecar::controller::IncompatibleDriver;

use super::fairness::Kind;

/// The driver, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// The abilities that its capabilities add up to.
    pub abilities: Abilities,
    /// Whether this driver has replaced an in-tree plugin.
    pub migrated: bool,
}

/// Which side expands volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expansion {
    /// Controller capability `EXPAND_VOLUME`: ControllerExpandVolume is called.
    Controller,
    /// Node capability `EXPAND_VOLUME` only: kubelet does everything, the resizer makes no call.
    NodeOnly,
    /// None: volumes cannot be expanded.
    #[default]
    None,
}

/// The capabilities that the resizer's behaviour depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Which side expands volumes.
    pub expansion: Expansion,
    /// Controller capability `MODIFY_VOLUME`.
    pub modify: bool,
    /// Controller capability `SINGLE_NODE_MULTI_WRITER`: requests may use the newer access modes.
    pub single_node_multi_writer: bool,
}

impl Abilities {
    /// Derives the abilities from the capability sets. `node` is called only if the answer matters;
    /// for a driver without a node service at the controller's socket it returns `false`.
    ///
    /// # Errors
    /// The resizer has nothing to do for such a driver.
    pub fn new(
        plugin: impl Fn(PluginCapability) -> bool,
        controller: impl Fn(ControllerCapability) -> bool,
        node: impl Fn(NodeCapability) -> bool,
    ) -> Result<Self, Unsuitable> {
        use ControllerCapability as Rpc;
        if !plugin(PluginCapability::ControllerService) {
            return Err(Unsuitable::NoControllerService);
        }
        let abilities = Self {
            expansion: match controller(Rpc::ExpandVolume) {
                true => Expansion::Controller,
                false if node(NodeCapability::ExpandVolume) => Expansion::NodeOnly,
                false => Expansion::None,
            },
            modify: controller(Rpc::ModifyVolume),
            single_node_multi_writer: controller(Rpc::SingleNodeMultiWriter),
        };
        if abilities.has(Kind::Expand) || abilities.modify {
            Ok(abilities)
        } else {
            Err(Unsuitable::Neither)
        }
    }

    /// Whether tasks of this kind exist.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Expand => self.expansion != Expansion::None,
            Kind::Modify => self.modify,
        }
    }
}

/// A driver that the resizer cannot work with: the process ends with this text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// Plugin capability `CONTROLLER_SERVICE` is missing.
    #[error("CSI driver does not support controller service")]
    NoControllerService,
    /// Neither expansion nor modification.
    #[error(
        "CSI driver does not support resize nor modify; remove the resizer from the driver's pod, or let the driver \
         announce EXPAND_VOLUME or MODIFY_VOLUME"
    )]
    Neither,
}

/// Whether the process may continue after the driver restarted with other abilities.
///
/// # Errors
/// The reason why not; the process ends with that text.
pub fn accept(then: Abilities, now: Abilities) -> Result<(), IncompatibleDriver> {
    let changed = |capability| {
        Err(IncompatibleDriver::Changed {
            how: "with another answer about",
            capability,
            consequence: "; the resizer must restart to follow it",
        })
    };
    if then.expansion != now.expansion {
        return changed("EXPAND_VOLUME");
    }
    if then.modify == now.modify {
        Ok(())
    } else {
        changed("MODIFY_VOLUME")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::driver;

    #[test]
    fn z_19_to_27_what_the_capabilities_allow() {
        use Expansion::{Controller, NodeOnly};
        // Plugin capability: controller service; controller capabilities: expand, modify; node
        // capability: expand.
        let rows = [
            (
                "z_21",
                [false, true, true, true],
                Err(Unsuitable::NoControllerService),
            ),
            ("z_19", [true, true, false, false], Ok((Controller, false))),
            ("z_22", [true, false, false, true], Ok((NodeOnly, false))),
            (
                "z_23",
                [true, false, false, false],
                Err(Unsuitable::Neither),
            ),
            (
                "z_24",
                [true, false, true, false],
                Ok((Expansion::None, true)),
            ),
            ("z_25", [true, true, true, false], Ok((Controller, true))),
            ("both", [true, false, true, true], Ok((NodeOnly, true))),
        ];
        for (row, [service, expand, modify, node], expected) in rows {
            let plugin = |asked| asked == PluginCapability::ControllerService && service;
            let controller = |asked| {
                (asked == ControllerCapability::ExpandVolume && expand)
                    || (asked == ControllerCapability::ModifyVolume && modify)
            };
            let asked = |kind| {
                assert!(!expand, "{row}: the node is not to be asked");
                kind == NodeCapability::ExpandVolume && node
            };
            let found = Abilities::new(plugin, controller, asked);
            let found = found.map(|abilities| (abilities.expansion, abilities.modify));
            assert_eq!(found, expected, "{row}");
        }
        let z_23 = Unsuitable::Neither.to_string();
        assert!(z_23.contains("CSI driver does not support resize nor modify"));
        let modern = Abilities::new(|_| true, |_| true, |_| false).unwrap();
        assert!(modern.single_node_multi_writer);
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
        assert_eq!(with(|now| now.single_node_multi_writer = true), Ok(()));
        let changes: [(fn(&mut Abilities), _); 2] = [
            (|now| now.modify = false, "MODIFY_VOLUME"),
            (|now| now.expansion = Expansion::NodeOnly, "EXPAND_VOLUME"),
        ];
        for (change, capability) in changes {
            let text = with(change).unwrap_err();
            let changed = format!("with another answer about the capability {capability}; ");
            assert!(text.contains(&changed), "{text}");
        }
    }
}
