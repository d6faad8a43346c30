//! A pod: the volumes of its containers, and how they use them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::volume::{PodRef, SecretRef};

/// The source of a volume in a pod's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A claim in the pod's namespace.
    Claim {
        /// Name of the claim.
        name: String,
        /// `readOnly` of the reference.
        read_only: bool,
        /// A generic ephemeral volume: the claim was created for this pod.
        generic: bool,
    },
    /// An inline CSI volume.
    Inline {
        /// The driver.
        driver: String,
        /// `readOnly`
        read_only: bool,
        /// `fsType`
        fs_type: String,
        /// `volumeAttributes`
        attributes: BTreeMap<String, String>,
        /// `nodePublishSecretRef`, in the pod's namespace.
        secret: Option<SecretRef>,
    },
}

/// A volume that at least one of the pod's containers uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: String,
    /// Its source.
    pub reference: Reference,
    /// A container mounts it as a file system.
    pub mounted: bool,
    /// A container has it as a block device.
    pub device: bool,
    /// SELinux labels of files that the containers with this mount may access, for those with options;
    /// `None` for options without a level.
    pub se_linux: BTreeSet<Option<String>>,
}

/// A pod, as far as the agent keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace, name, UID and service account.
    pub names: PodRef,
    /// None of its containers runs or will run: it has ended, or it is being deleted.
    pub ended: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `status.phase`
    pub phase: String,
    /// `securityContext.fsGroup`
    pub fs_group: Option<i64>,
    /// `securityContext.fsGroupChangePolicy: OnRootMismatch`
    pub on_root_mismatch: bool,
    /// `securityContext.seLinuxChangePolicy: Recursive`
    pub relabels: bool,
    /// CSI volumes and claims that its containers use, in the order of the spec.
    pub volumes: Vec<PodVolume>,
}

/// `spec` of a pod, as far as the agent reads it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    volumes: Option<Vec<SpecVolume>>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    service_account_name: Option<String>,
    security_context: Option<SecurityContext>,
}

/// `status`
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Status {
    phase: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecVolume {
    #[serde(default)]
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
    csi: Option<InlineSource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSource {
    #[serde(default)]
    claim_name: String,
    read_only: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InlineSource {
    #[serde(default)]
    driver: String,
    read_only: Option<bool>,
    fs_type: Option<String>,
    volume_attributes: Option<BTreeMap<String, String>>,
    node_publish_secret_ref: Option<SecretRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    volume_mounts: Option<Vec<Named>>,
    volume_devices: Option<Vec<Named>>,
    security_context: Option<SecurityContext>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecurityContext {
    fs_group: Option<i64>,
    fs_group_change_policy: Option<String>,
    #[serde(rename = "seLinuxChangePolicy")]
    se_linux_change_policy: Option<String>,
    #[serde(rename = "seLinuxOptions")]
    se_linux_options: Option<SeLinux>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SeLinux {
    user: Option<String>,
    level: Option<String>,
}

impl SeLinux {
    /// The label of files that such a container may access. Role and type are those of files in the
    /// targeted policy: the options name those of processes. Without a level the container runtime
    /// chooses one that nobody else knows.
    fn label(&self) -> Option<String> {
        let set = |part: &'_ Option<String>| part.clone().filter(|part| !part.is_empty());
        let user = set(&self.user).unwrap_or_else(|| "system_u".to_owned());
        let label = format!("{user}:object_r:container_file_t:{}", set(&self.level)?);
        is_label(&label).then_some(label)
    }
}

/// Whether the text is safe as a label: it becomes part of a quoted mount option.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:.,-".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

impl Pod {
    /// Builds a pod from the parts of its JSON. `deleting`: it has a deletion timestamp.
    #[must_use]
    pub fn new(mut names: PodRef, deleting: bool, mut spec: Spec, status: Status) -> Self {
        names.service_account = spec.service_account_name.take().unwrap_or_default();
        let phase = status.phase.unwrap_or_default();
        let context = spec.security_context.take().unwrap_or_default();
        let containers: Vec<Container> = { spec.init_containers.take().into_iter() }
            .chain(spec.containers.take())
            .flatten()
            .collect();
        let volumes = spec.volumes.unwrap_or_default();
        let volumes = { volumes.into_iter() }
            .filter_map(|volume| used(&names, volume, &containers, &context))
            .collect();
        Self {
            ended: deleting || phase == "Succeeded" || phase == "Failed",
            deleting,
            phase,
            fs_group: context.fs_group,
            on_root_mismatch: context.fs_group_change_policy.as_deref() == Some("OnRootMismatch"),
            relabels: context.se_linux_change_policy.as_deref() == Some("Recursive"),
            volumes,
            names,
        }
    }
}

fn used(
    pod: &PodRef,
    volume: SpecVolume,
    containers: &[Container],
    context: &SecurityContext,
) -> Option<PodVolume> {
    let has = |list: &Option<Vec<Named>>| {
        let list = list.as_deref().unwrap_or_default();
        list.iter().any(|it| it.name == volume.name)
    };
    let labels = containers.iter().filter(|it| has(&it.volume_mounts));
    let labels = labels.filter_map(|container| {
        let own = container.security_context.as_ref();
        let options = own.and_then(|own| own.se_linux_options.as_ref());
        options
            .or(context.se_linux_options.as_ref())
            .map(SeLinux::label)
    });
    let se_linux = labels.collect();
    let mounted = containers.iter().any(|it| has(&it.volume_mounts));
    let device = containers.iter().any(|it| has(&it.volume_devices));
    if !mounted && !device {
        return None;
    }
    let name = volume.name;
    let reference = match (volume.persistent_volume_claim, volume.ephemeral, volume.csi) {
        (Some(claim), _, _) => Reference::Claim {
            name: claim.claim_name,
            read_only: claim.read_only.unwrap_or(false),
            generic: false,
        },
        (None, Some(_), _) => Reference::Claim {
            name: format!("{}-{name}", pod.name),
            read_only: false,
            generic: true,
        },
        (None, None, Some(csi)) => Reference::Inline {
            driver: csi.driver,
            read_only: csi.read_only.unwrap_or(false),
            fs_type: csi.fs_type.unwrap_or_default(),
            attributes: csi.volume_attributes.unwrap_or_default(),
            secret: csi.node_publish_secret_ref.map(|secret| SecretRef {
                namespace: pod.namespace.clone(),
                ..secret
            }),
        },
        (None, None, None) => return None,
    };
    Some(PodVolume {
        name,
        reference,
        mounted,
        device,
        se_linux,
    })
}
