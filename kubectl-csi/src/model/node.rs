//! Nodes, CSINodes and CSIDrivers.

use serde::{Deserialize, Deserializer};
use sidecar::node_selector::{Requirement, Term, selects};

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
    pub volumes_attached: Many<AttachedVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttachedVolume {
    pub name: Text,
}

impl Node {
    /// Driver and handle of each CSI volume that is attached to this node or in use on it.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &str)> {
        let attached = self.status.volumes_attached.iter().map(|one| &one.name);
        let names = self.status.volumes_in_use.iter().chain(attached);
        names.filter_map(|name| name.strip_prefix("kubernetes.io/csi/")?.split_once('^'))
    }

    /// Time since which its kubelet has not answered; `None` if the node is ready.
    pub fn not_ready(&self) -> Option<Time> {
        let mut conditions = self.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == "Ready")?;
        (ready.status != "True").then_some(ready.last_transition_time)
    }
}

/// Terms of a node selector, of which one has to match; without terms it selects every node.
#[derive(Clone, Debug, Default)]
pub struct Selector(Vec<Term>);

impl Selector {
    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.0
    }

    /// Whether the selector matches `node`.
    pub fn selects(&self, node: &Node) -> bool {
        let meta = &node.metadata;
        self.0.is_empty() || selects(&self.0, Some(&meta.name), &meta.labels)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Option::<WireSelector>::deserialize(deserializer)?.unwrap_or_default();
        let all = |many: Many<WireRequirement>| many.into_iter().map(Requirement::from).collect();
        let terms = wire.node_selector_terms.into_iter().map(|term| Term {
            expressions: all(term.match_expressions),
            fields: all(term.match_fields),
        });
        Ok(Self(terms.collect()))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSelector {
    node_selector_terms: Many<WireTerm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTerm {
    match_expressions: Many<WireRequirement>,
    match_fields: Many<WireRequirement>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WireRequirement {
    key: Text,
    operator: Text,
    values: Many<Text>,
}

impl From<WireRequirement> for Requirement {
    fn from(wire: WireRequirement) -> Self {
        Self {
            key: wire.key.shared(),
            operator: wire.operator.shared(),
            values: wire.values.into_iter().map(Text::shared).collect(),
        }
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
    /// The driver's name for the node.
    #[serde(rename = "nodeID")]
    pub node_id: Text,
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
    /// The entry of this driver.
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
    pub capacity: Text,
    pub maximum_volume_size: Text,
}

impl Capacity {
    /// The largest volume that fits into the capacity.
    pub fn largest(&self) -> &str {
        match &*self.maximum_volume_size {
            "" => &self.capacity,
            largest => largest,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    match_labels: Pairs<true>,
    match_expressions: Many<WireRequirement>,
}

impl LabelSelector {
    /// A label that all selected objects have, if the selector names one.
    pub fn label(&self) -> Option<(&str, &str)> {
        self.match_labels.iter().next()
    }

    /// Whether the selector matches these labels.
    pub fn selects(&self, labels: &Pairs<true>) -> bool {
        let expressions = self.match_expressions.iter().cloned();
        let expressions: Vec<_> = expressions.map(Requirement::from).collect();
        let term = Term {
            expressions,
            ..Term::default()
        };
        let all = term.expressions.is_empty() || selects(&[term], None, labels);
        all && self.match_labels.are_in(labels)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttributesClass {
    pub metadata: Meta,
    pub driver_name: Text,
}
