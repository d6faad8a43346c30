//! Pods, and the workloads that create them.

use migration::TRANSLATOR;
use serde::Deserialize;
use serde_json::{Value, json};

use super::in_tree::{InTree, Translated, translated};
use super::{Condition, Healths, Kind, Many, Meta, Node, Pairs, Selector, Text, Time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: Text,
    pub node_selector: Pairs<true>,
    pub affinity: Option<Affinity>,
    pub tolerations: Many<Toleration>,
    pub volumes: Many<PodVolume>,
    pub containers: Many<Container>,
    pub security_context: Option<SecurityContext>,
}

impl PodSpec {
    /// The field that keeps its pods off `node`, as far as labels show: the node selector, or the affinity.
    pub fn excludes(&self, node: &Node) -> Option<&'static str> {
        if !self.node_selector.are_in(&node.metadata.labels) {
            return Some("nodeSelector");
        }
        let affinity = self.affinity.as_ref();
        let affinity = affinity.and_then(|one| one.node_affinity.as_ref());
        let fits = affinity.is_none_or(|one| one.required.selects(node));
        (!fits).then_some("node affinity")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Selector,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    pub fs_group: Option<i64>,
    pub fs_group_change_policy: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Toleration {
    pub key: Text,
    pub operator: Text,
    pub value: Text,
    pub effect: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolume {
    pub name: Text,
    pub persistent_volume_claim: Option<ClaimSource>,
    pub ephemeral: Option<Nothing>,
    pub csi: Option<InlineSource>,
    pub config_map: Option<NamedSource>,
    pub secret: Option<NamedSource>,
    pub projected: Option<Projected>,
    pub host_path: Option<HostPath>,
    #[serde(flatten)]
    pub in_tree: InTree,
}

/// An object whose fields do not matter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Nothing {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct InlineSource {
    pub driver: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedSource {
    #[serde(alias = "secretName")]
    pub name: Text,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Projected {
    pub sources: Many<ProjectedSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectedSource {
    pub config_map: Option<NamedSource>,
    pub secret: Option<NamedSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPath {
    pub path: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    pub name: Text,
    pub image: Text,
    pub command: Many<Text>,
    pub args: Many<Text>,
    pub env: Many<Variable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Variable {
    pub value: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: Text,
    pub start_time: Time,
    pub conditions: Many<Condition>,
    pub init_container_statuses: Many<ContainerStatus>,
    pub container_statuses: Many<ContainerStatus>,
    pub volume_health: Many<Healths>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: Text,
    pub ready: bool,
    pub restart_count: u64,
    pub state: ContainerState,
    pub last_state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub running: Option<Nothing>,
    pub waiting: Option<Waiting>,
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub reason: Text,
    pub message: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub exit_code: i64,
    pub reason: Text,
    pub message: Text,
    pub finished_at: Time,
}

impl NamedSource {
    fn needed(&self) -> Option<&str> {
        (self.optional != Some(true)).then_some(&*self.name)
    }
}

impl PodVolume {
    /// Driver and handle of an in-tree volume that a CSI driver has taken over; `None` for others.
    pub fn in_words_of_csi(&self, namespace: &str) -> Option<Translated> {
        let volume = self.in_tree.within(json!({"name": &*self.name}))?;
        { TRANSLATOR.plugin_of_volume(&Value::Null, &volume) }.ok()?;
        Some(translated(TRANSLATOR.inline_to_csi(&volume, namespace)))
    }

    /// The ConfigMaps and Secrets that kubelet needs to mount the volume.
    pub fn named(&self) -> impl Iterator<Item = (Kind, &str)> {
        let own = (&self.config_map, &self.secret);
        let projected = self.projected.iter().flat_map(|one| &one.sources);
        let projected = projected.map(|part| (&part.config_map, &part.secret));
        std::iter::once(own)
            .chain(projected)
            .flat_map(|(map, secret)| {
                let map = map.as_ref().and_then(NamedSource::needed);
                let secret = secret.as_ref().and_then(NamedSource::needed);
                let map = map.map(|name| (Kind::ConfigMap, name));
                map.into_iter()
                    .chain(secret.map(|name| (Kind::Secret, name)))
            })
    }
}

impl ContainerStatus {
    /// The reason why it waits, in kubelet's words.
    pub fn waits_for(&self) -> Option<&str> {
        let waiting = self.state.waiting.as_ref().map(|one| &*one.reason);
        waiting.filter(|reason| !reason.is_empty())
    }

    /// Its last termination.
    pub fn ended(&self) -> Option<&Terminated> {
        let last = self.last_state.terminated.as_ref();
        last.or(self.state.terminated.as_ref())
    }

    /// Whether it was started at least once: kubelet starts containers only after it has mounted the pod's volumes.
    pub fn was_started(&self) -> bool {
        let created = |reason| !matches!(reason, "ContainerCreating" | "PodInitializing");
        let state = &self.state;
        state.running.is_some() || self.ended().is_some() || self.waits_for().is_some_and(created)
    }
}

impl Pod {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    /// Whether the pod is ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether its phase is final.
    pub fn is_over(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// Whether one of its volumes comes from a claim or a CSI driver.
    pub fn has_storage(&self) -> bool {
        let csi = |volume: &PodVolume| volume.csi.is_some() || self.claim_of(volume).is_some();
        self.spec.volumes.iter().any(csi)
    }

    /// Whether it neither has ended nor is being deleted.
    pub fn is_live(&self) -> bool {
        !self.is_over() && !self.metadata.is_leaving()
    }

    /// The container that keeps the pod from running: the first init container that has not succeeded, or the first
    /// container that is not ready.
    pub fn broken(&self) -> Option<&ContainerStatus> {
        let init = self.status.init_container_statuses.iter();
        let mut all = init.chain(&self.status.container_statuses);
        all.find(|one| !one.ready)
    }

    /// The names of the claims behind its volumes.
    pub fn claims(&self) -> impl Iterator<Item = String> {
        let volumes = self.spec.volumes.iter();
        volumes.filter_map(|volume| self.claim_of(volume))
    }

    /// The name of the claim behind one of its volumes.
    pub fn claim_of(&self, volume: &PodVolume) -> Option<String> {
        match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.to_string()),
            (None, Some(_)) => Some(format!("{}-{}", self.metadata.name, volume.name)),
            (None, None) => None,
        }
    }

    /// Whether one of its volumes is this claim.
    pub fn names_claim(&self, claim: &str) -> bool {
        self.claims().any(|name| name == claim)
    }
}

/// The fields that DaemonSets, Deployments and StatefulSets share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    pub metadata: Meta,
    pub spec: WorkloadSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadSpec {
    pub replicas: Option<i64>,
    pub template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    pub spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct DaemonSet(pub Workload);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Deployment(pub Workload);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct StatefulSet(pub Workload);
