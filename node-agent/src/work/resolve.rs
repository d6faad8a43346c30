//! Looks up a pod's volumes: claims, PersistentVolumes, CSIDriver objects.

use registrar::kubelet::plan::keys::clip;

use super::act::{Actor, CLAIMS, VOLUMES, key, refused};
use crate::model::claim::Claim;
use crate::model::pod::{Pod, PodVolume, Reference};
use crate::model::volume::Volume;
use crate::plan::resolve::{Unusable, bound, inline, persistent};
use crate::plan::script::Failure;
use crate::plan::state::Wanted;

/// The result of a look-up.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The usable volumes.
    pub wanted: Vec<Wanted>,
    /// Why the others are not usable (yet).
    pub errors: Vec<String>,
}

/// Looks up all volumes of a pod. `se_linux`: SELinux is enabled.
pub async fn resolve(actor: &Actor, pod: &Pod, se_linux: bool) -> Resolved {
    let mut resolved = Resolved::default();
    for volume in &pod.volumes {
        match one(actor, pod, volume, se_linux).await {
            Ok(Some(wanted)) => resolved.wanted.push(wanted),
            Ok(None) => {}
            Err(error) => resolved.errors.push(error),
        }
    }
    resolved
}

/// One volume; `None` if it is not CSI and so not the agent's.
async fn one(
    actor: &Actor,
    pod: &Pod,
    volume: &PodVolume,
    se_linux: bool,
) -> Result<Option<Wanted>, String> {
    let text = |failure: Failure| failure.to_string();
    match &volume.reference {
        Reference::Inline { driver, .. } => {
            let object = actor.driver(driver).await.map_err(text)?;
            Ok(inline(pod, volume, object.as_ref()))
        }
        Reference::Claim { name, generic, .. } => {
            let unusable = |reason: String| Unusable::new(pod, name, reason).to_string();
            let failed = |failure: Failure| unusable(failure.to_string());
            let claim = claim(actor, pod, name).await.map_err(failed)?;
            let volume_name = bound(pod, name, *generic, &claim);
            let volume_name = volume_name.map_err(|error| error.to_string())?;
            let at = key(None, volume_name).map_err(failed)?;
            let json = actor.objects.get(&VOLUMES, &at).await;
            let json =
                json.map_err(|error| failed(refused("PersistentVolume", volume_name, &error)))?;
            let read = Volume::persistent(volume_name, &json);
            let read = read.map_err(|error| unusable(error.to_string()))?;
            let driver = actor.driver(&read.driver).await.map_err(failed)?;
            let claim = (name.as_str(), &claim);
            let wanted = persistent(pod, volume, claim, read, driver.as_ref(), se_linux);
            wanted.map(Some).map_err(|error| error.to_string())
        }
    }
}

async fn claim(actor: &Actor, pod: &Pod, name: &str) -> Result<Claim, Failure> {
    let key = key(Some(&pod.names.namespace), name)?;
    let json = actor.objects.get(&CLAIMS, &key).await;
    let json = json.map_err(|error| Failure::local(clip(&error.message)))?;
    Claim::read(&json).map_err(|error| Failure::local(error.to_string()))
}
