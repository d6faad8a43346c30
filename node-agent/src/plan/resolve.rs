//! Checks whether the claim and the PersistentVolume behind a pod's volume are usable.

use registrar::kubelet::plan::keys::clip;

use super::layout::ephemeral_handle;
use super::state::Wanted;
use crate::model::claim::Claim;
use crate::model::driver::CsiDriver;
use crate::model::pod::{Pod, PodVolume, Reference};
use crate::model::volume::{Lifecycle, Use, Volume};

/// Why a pod's volume is not usable (yet). The text goes into an event of the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error processing PVC {namespace}/{claim}: {reason}")]
pub struct Unusable {
    /// Namespace of pod and claim.
    pub namespace: String,
    /// Name of the claim.
    pub claim: String,
    /// The problem.
    pub reason: String,
}

impl Unusable {
    /// A problem with the pod's claim `name`.
    #[must_use]
    pub fn new(pod: &Pod, name: &str, reason: impl Into<String>) -> Self {
        Self {
            namespace: pod.names.namespace.clone(),
            claim: clip(name).to_owned(),
            reason: reason.into(),
        }
    }
}

/// Name of the PersistentVolume that the claim is bound to.
///
/// # Errors
/// [`Unusable`]
pub fn bound<'a>(
    pod: &Pod,
    name: &str,
    generic: bool,
    claim: &'a Claim,
) -> Result<&'a str, Unusable> {
    let reason = if claim.name != name {
        "the API server answered with another object"
    } else if claim.deleted {
        "PVC is being deleted"
    } else if !claim.bound || claim.volume.is_empty() {
        "PVC is not bound"
    } else if generic && claim.owner != pod.names.uid {
        "PVC was not created for the pod (the pod is not its owner)"
    } else {
        return Ok(&claim.volume);
    };
    Err(Unusable::new(pod, name, reason))
}

/// How the pod uses its persistent volume. `se_linux`: SELinux is enabled.
///
/// # Errors
/// [`Unusable`]
pub fn persistent(
    pod: &Pod,
    wanted: &PodVolume,
    (name, claim): (&str, &Claim),
    volume: Volume,
    driver: Option<&CsiDriver>,
    se_linux: bool,
) -> Result<Wanted, Unusable> {
    let reason = if volume.claim_uid != claim.uid {
        Some("the PersistentVolume is bound to another claim")
    } else if volume.block && wanted.mounted {
        Some("volume has volumeMode Block, but is specified in volumeMounts")
    } else if !volume.block && wanted.device {
        Some("volume has volumeMode Filesystem, but is specified in volumeDevices")
    } else {
        None
    };
    if let Some(reason) = reason {
        return Err(Unusable::new(pod, name, reason));
    }
    let read_only = match &wanted.reference {
        Reference::Claim { read_only, .. } | Reference::Inline { read_only, .. } => *read_only,
    };
    let with_label = se_linux && !pod.relabels && driver.is_some_and(|it| it.se_linux_mount);
    let label = if with_label {
        label(wanted).map_err(|reason| Unusable::new(pod, name, reason))?
    } else {
        None
    };
    let claim = claim.usage(&pod.names.namespace);
    Ok(Wanted {
        usage: Use {
            se_linux: label,
            claim: Some(claim),
            ..usage(pod, read_only)
        },
        attach: driver.is_none_or(|driver| driver.attach),
        republish: driver.is_some_and(|driver| driver.republish),
        volume,
    })
}

/// How the pod uses its inline volume; `None` for a claim.
#[must_use]
pub fn inline(pod: &Pod, wanted: &PodVolume, object: Option<&CsiDriver>) -> Option<Wanted> {
    let Reference::Inline {
        driver,
        read_only,
        fs_type,
        attributes,
        secret,
    } = &wanted.reference
    else {
        return None;
    };
    let volume = Volume {
        lifecycle: Lifecycle::Ephemeral,
        spec_name: wanted.name.clone(),
        driver: driver.clone(),
        handle: ephemeral_handle(&pod.names.uid, &wanted.name),
        block: false,
        fs_type: fs_type.clone(),
        attributes: attributes.clone(),
        access_modes: Vec::new(),
        mount_options: Vec::new(),
        stage_secret: None,
        publish_secret: secret.clone(),
        expand_secret: None,
        capacity: 0,
        affinity: None,
        claim_uid: String::new(),
    };
    Some(Wanted {
        usage: usage(pod, *read_only),
        attach: false,
        republish: object.is_some_and(|driver| driver.republish),
        volume,
    })
}

/// The SELinux label that all containers of the pod agree on.
fn label(wanted: &PodVolume) -> Result<Option<String>, String> {
    let named = |label: &Option<String>| {
        { label.as_ref() }.map_or_else(
            || "one whose level the container runtime selects".to_owned(),
            |label| format!("{label:?}"),
        )
    };
    let mut labels = wanted.se_linux.iter();
    match (labels.next(), labels.next()) {
        (Some(one), Some(other)) => Err(format!(
            "the pod's containers mount it with different SELinux labels, {} and {}; give them one \
             label, or the pod seLinuxChangePolicy: Recursive",
            named(one),
            named(other)
        )),
        (label, _) => Ok(label.cloned().flatten()),
    }
}

fn usage(pod: &Pod, read_only: bool) -> Use {
    Use {
        pod: pod.names.clone(),
        fs_group: pod.fs_group,
        on_root_mismatch: pod.on_root_mismatch,
        read_only,
        se_linux: None,
        claim: None,
    }
}
