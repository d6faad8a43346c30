//! Nodes, and what drivers say of themselves.

use serde::Deserialize;

use super::{Condition, Healths, Many, Meta, Pairs, Text, Time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    pub taints: Many<Taint>,
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    pub effect: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub conditions: Many<Condition>,
    pub volumes_in_use: Many<Text>,
}

impl Node {
    /// Since when its kubelet does not answer, if it does not.
    pub fn not_ready(&self) -> Option<Time> {
        let mut conditions = self.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == "Ready")?;
        (ready.status != "True").then_some(ready.last_transition_time)
    }
}

/// A term of a node selector: all of its requirements.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Term {
    pub match_expressions: Many<Requirement>,
    pub match_fields: Many<Requirement>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Requirement {
    pub key: Text,
    pub operator: Text,
    pub values: Many<Text>,
}

impl Requirement {
    /// Whether a label with this value, or without one, fits.
    pub fn fits(&self, value: Option<&str>) -> bool {
        let named = value.is_some_and(|value| self.values.iter().any(|one| *one == value));
        match &*self.operator {
            "In" => named,
            "NotIn" => !named,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // Numbers of labels, which no driver uses: nothing is said against the node.
            _ => true,
        }
    }
}

impl Term {
    /// The first requirement that `node` does not meet.
    pub fn unmet(&self, node: &Node) -> Option<&Requirement> {
        let labels = &node.metadata.labels;
        let label = |one: &&Requirement| !one.fits(labels.get(&one.key));
        let field = |one: &&Requirement| !one.fits(Some(&node.metadata.name));
        let labels = self.match_expressions.iter().find(label);
        labels.or_else(|| self.match_fields.iter().find(field))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    pub metadata: Meta,
    pub spec: CsiNodeSpec,
    pub status: CsiNodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    pub drivers: Many<NodeDriver>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDriver {
    pub name: Text,
    pub topology_keys: Many<Text>,
    pub allocatable: Option<Allocatable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    pub count: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiNodeStatus {
    pub storage_health: Many<Healths>,
}

impl CsiNode {
    /// The driver's entry.
    pub fn driver(&self, name: &str) -> Option<&NodeDriver> {
        self.spec.drivers.iter().find(|driver| driver.name == name)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Driver {
    pub metadata: Meta,
    pub spec: DriverSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverSpec {
    pub attach_required: Option<bool>,
    pub storage_capacity: Option<bool>,
    pub volume_lifecycle_modes: Many<Text>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capacity {
    pub metadata: Meta,
    pub storage_class_name: Text,
    pub node_topology: Option<LabelSelector>,
    pub capacity: Text,
    pub maximum_volume_size: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    pub match_labels: Pairs<true>,
    pub match_expressions: Many<Requirement>,
}

impl LabelSelector {
    /// Whether these labels are selected.
    pub fn selects(&self, labels: &Pairs<true>) -> bool {
        let mut expressions = self.match_expressions.iter();
        self.match_labels.are_in(labels) && expressions.all(|one| one.fits(labels.get(&one.key)))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttributesClass {
    pub metadata: Meta,
    pub driver_name: Text,
}
