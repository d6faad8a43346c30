//! The capabilities that the driver reports.
//!
//! Tests may replace each set at run time, also with numbers that CSI 1.13 does not define: drivers
//! of other versions send them.

use csi_proto::csi;
use csi_proto::csi::controller_service_capability::rpc::Type as Controller;
use csi_proto::csi::group_controller_service_capability::rpc::Type as Group;
use csi_proto::csi::node_service_capability::rpc::Type as Node;
use csi_proto::csi::plugin_capability::{Service, Type as Plugin, VolumeExpansion};
use csi_proto::csi::plugin_capability::{service, volume_expansion};
use serde::{Deserialize, Serialize};

/// Roles and features from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Features {
    /// Serve the controller services.
    pub controller: bool,
    /// Serve the node service.
    pub node: bool,
    /// Controller publish.
    pub attach: bool,
    /// Accessibility constraints.
    pub topology: bool,
    /// Expansion by the controller.
    pub controller_expansion: bool,
    /// Expansion by the node.
    pub node_expansion: bool,
    /// Any expansion.
    pub expansion: bool,
    /// Mutable parameters.
    pub modify: bool,
    /// ListSnapshots.
    pub list_snapshots: bool,
    /// SnapshotMetadata.
    pub snapshot_metadata: bool,
}

/// Sets that replace those of the features.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Override {
    /// `PluginCapability.Service.Type` by name or number; `ONLINE` and `OFFLINE` expansion.
    pub plugin: Option<Vec<Name>>,
    /// `ControllerServiceCapability.RPC.Type`.
    pub controller: Option<Vec<Name>>,
    /// `NodeServiceCapability.RPC.Type`.
    pub node: Option<Vec<Name>>,
    /// `GroupControllerServiceCapability.RPC.Type`.
    pub group: Option<Vec<Name>>,
}

/// A capability by name or by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Name {
    /// A name in the .proto file.
    Text(String),
    /// A number, for capabilities without a name.
    Number(i32),
}

impl Override {
    /// The first unknown name.
    pub fn unknown(&self) -> Option<String> {
        let plugin = texts(&self.plugin).find(|name| plugin_by_name(name).is_none());
        let controller =
            texts(&self.controller).find(|name| Controller::from_str_name(name).is_none());
        let node = texts(&self.node).find(|name| Node::from_str_name(name).is_none());
        let group = texts(&self.group).find(|name| Group::from_str_name(name).is_none());
        plugin.or(controller).or(node).or(group).map(str::to_owned)
    }
}

fn texts(names: &Option<Vec<Name>>) -> impl Iterator<Item = &str> {
    names.iter().flatten().filter_map(|name| match name {
        Name::Text(text) => Some(text.as_str()),
        Name::Number(_) => None,
    })
}

fn numbers(names: &[Name], known: fn(&str) -> Option<i32>) -> Vec<i32> {
    let number = |name: &Name| match name {
        Name::Text(text) => known(text).unwrap_or(0),
        Name::Number(number) => *number,
    };
    names.iter().map(number).collect()
}

fn plugin_by_name(name: &str) -> Option<Plugin> {
    let expansion = volume_expansion::Type::from_str_name(name)
        .filter(|kind| *kind != volume_expansion::Type::Unknown);
    if let Some(kind) = expansion {
        return Some(Plugin::VolumeExpansion(VolumeExpansion {
            r#type: kind as i32,
        }));
    }
    let kind = service::Type::from_str_name(name)? as i32;
    Some(Plugin::Service(Service { r#type: kind }))
}

/// Response to GetPluginCapabilities.
pub fn plugin(features: &Features, changed: &Override) -> Vec<csi::PluginCapability> {
    let types: Vec<Plugin> = match &changed.plugin {
        Some(names) => names.iter().filter_map(named_plugin).collect(),
        None => {
            let mut names = Vec::new();
            if features.controller {
                names.extend(["CONTROLLER_SERVICE", "GROUP_CONTROLLER_SERVICE"]);
            }
            if features.controller && features.snapshot_metadata {
                names.push("SNAPSHOT_METADATA_SERVICE");
            }
            if features.topology {
                names.push("VOLUME_ACCESSIBILITY_CONSTRAINTS");
                names.push("SNAPSHOT_ACCESSIBILITY_CONSTRAINTS");
            }
            if features.expansion {
                names.push("ONLINE");
            }
            names.into_iter().filter_map(plugin_by_name).collect()
        }
    };
    let capability = |kind| csi::PluginCapability { r#type: Some(kind) };
    types.into_iter().map(capability).collect()
}

fn named_plugin(name: &Name) -> Option<Plugin> {
    match name {
        Name::Text(text) => plugin_by_name(text),
        Name::Number(number) => Some(Plugin::Service(Service { r#type: *number })),
    }
}

/// Response to ControllerGetCapabilities.
pub fn controller(
    features: &Features,
    changed: &Override,
) -> Vec<csi::ControllerServiceCapability> {
    let numbers = match &changed.controller {
        Some(names) => numbers(names, |name| {
            Controller::from_str_name(name).map(|t| t as i32)
        }),
        None => controller_default(features)
            .into_iter()
            .map(|kind| kind as i32)
            .collect(),
    };
    let capability = |kind: i32| csi::ControllerServiceCapability {
        r#type: Some(csi::controller_service_capability::Type::Rpc(
            csi::controller_service_capability::Rpc { r#type: kind },
        )),
    };
    numbers.into_iter().map(capability).collect()
}

fn controller_default(features: &Features) -> Vec<Controller> {
    let mut all = vec![
        Controller::CreateDeleteVolume,
        Controller::ListVolumes,
        Controller::GetCapacity,
        Controller::CreateDeleteSnapshot,
        Controller::GetSnapshot,
        Controller::CloneVolume,
        Controller::GetVolume,
        Controller::SingleNodeMultiWriter,
        Controller::GetVolumeHealth,
        Controller::ListVolumeHealth,
    ];
    if features.list_snapshots {
        all.push(Controller::ListSnapshots);
    }
    if features.attach {
        all.extend([
            Controller::PublishUnpublishVolume,
            Controller::PublishReadonly,
            Controller::ListVolumesPublishedNodes,
        ]);
    }
    if features.expansion && features.controller_expansion {
        all.push(Controller::ExpandVolume);
    }
    if features.modify {
        all.push(Controller::ModifyVolume);
    }
    all
}

/// Response to NodeGetCapabilities.
pub fn node(features: &Features, changed: &Override) -> Vec<csi::NodeServiceCapability> {
    let numbers = match &changed.node {
        Some(names) => numbers(names, |name| Node::from_str_name(name).map(|t| t as i32)),
        None => {
            let mut all = vec![
                Node::StageUnstageVolume,
                Node::GetVolumeStats,
                Node::SingleNodeMultiWriter,
                Node::GetVolumeHealth,
                Node::GetStorageHealth,
            ];
            if features.expansion && features.node_expansion {
                all.push(Node::ExpandVolume);
            }
            all.into_iter().map(|kind| kind as i32).collect()
        }
    };
    let capability = |kind: i32| csi::NodeServiceCapability {
        r#type: Some(csi::node_service_capability::Type::Rpc(
            csi::node_service_capability::Rpc { r#type: kind },
        )),
    };
    numbers.into_iter().map(capability).collect()
}

/// Response to GroupControllerGetCapabilities.
pub fn group(changed: &Override) -> Vec<csi::GroupControllerServiceCapability> {
    let numbers = match &changed.group {
        Some(names) => numbers(names, |name| Group::from_str_name(name).map(|t| t as i32)),
        None => vec![Group::CreateDeleteGetVolumeGroupSnapshot as i32],
    };
    let capability = |kind: i32| csi::GroupControllerServiceCapability {
        r#type: Some(csi::group_controller_service_capability::Type::Rpc(
            csi::group_controller_service_capability::Rpc { r#type: kind },
        )),
    };
    numbers.into_iter().map(capability).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Features {
        Features {
            controller: true,
            node: true,
            attach: true,
            topology: true,
            controller_expansion: true,
            node_expansion: true,
            expansion: true,
            modify: true,
            list_snapshots: true,
            snapshot_metadata: false,
        }
    }

    fn controller_numbers(features: &Features, changed: &Override) -> Vec<i32> {
        let number = |capability: csi::ControllerServiceCapability| match capability.r#type {
            Some(csi::controller_service_capability::Type::Rpc(rpc)) => rpc.r#type,
            None => -1,
        };
        controller(features, changed)
            .into_iter()
            .map(number)
            .collect()
    }

    #[test]
    fn features_decide_what_is_said() {
        let full = controller_numbers(&features(), &Override::default());
        assert!(full.contains(&(Controller::PublishUnpublishVolume as i32)));
        assert!(full.contains(&(Controller::ModifyVolume as i32)));
        let mut without = features();
        (without.attach, without.modify, without.controller_expansion) = (false, false, false);
        let less = controller_numbers(&without, &Override::default());
        assert_eq!(full.len() - less.len(), 5, "{less:?}");
        assert_eq!(plugin(&features(), &Override::default()).len(), 5);
        assert_eq!(node(&features(), &Override::default()).len(), 6);
    }

    #[test]
    fn tests_may_replace_sets_also_by_number() {
        let text = r#"{"controller": ["CREATE_DELETE_VOLUME", 11], "plugin": ["OFFLINE"]}"#;
        let changed: Override = serde_json::from_str(text).unwrap();
        assert_eq!(changed.unknown(), None);
        assert_eq!(controller_numbers(&features(), &changed), [1, 11]);
        let expansion = VolumeExpansion {
            r#type: volume_expansion::Type::Offline as i32,
        };
        let said = plugin(&features(), &changed);
        assert_eq!(said[0].r#type, Some(Plugin::VolumeExpansion(expansion)));
        assert_eq!(node(&features(), &changed).len(), 6, "not replaced");
        let wrong: Override = serde_json::from_str(r#"{"node": ["FLY"]}"#).unwrap();
        assert_eq!(wrong.unknown().as_deref(), Some("FLY"));
    }
}
