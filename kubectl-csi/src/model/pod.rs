//! Pods, and what makes them.

use serde::Deserialize;

use super::{Condition, Healths, Many, Meta, Pairs, Text, Time};

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
    pub tolerations: Many<Toleration>,
    pub volumes: Many<PodVolume>,
    pub containers: Many<Container>,
    pub security_context: Option<SecurityContext>,
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
}

/// An object of which nothing is read.
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

impl Pod {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    /// Whether it answers.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether its containers have ended for good.
    pub fn is_over(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
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
        let mut volumes = self.spec.volumes.iter();
        volumes.any(|volume| self.claim_of(volume).as_deref() == Some(claim))
    }
}

/// What a DaemonSet, a Deployment and a StatefulSet have in common.
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
