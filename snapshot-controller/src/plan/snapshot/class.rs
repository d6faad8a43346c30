//! The class of a VolumeSnapshot. Read only where its fields are needed: deleting a class must not
//! disturb VolumeSnapshots that are taken.

use std::sync::Arc;

use serde_json::json;
use sidecar::log::quote;

use super::{Decision, fail};
use crate::model::{Class, Snapshot, Text};
use crate::plan::complaint::{Complaint, RequeueTrigger};
use crate::plan::request::{Object, patch};
use crate::plan::snapshot::create::Origin;
use crate::plan::view::{Next, Purpose, View};

/// A class and its name.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// `metadata.name`
    pub name: Text,
    /// The class.
    pub class: Arc<Class>,
}

/// The class that the VolumeSnapshot names.
pub(super) fn named(view: &View<'_>, name: &Text) -> Decision<Chosen> {
    let found = view.informers.class(name);
    found
        .map(|class| Chosen {
            name: name.clone(),
            class,
        })
        .ok_or_else(|| {
            let message = format!(
                "Failed to get snapshot class with error \
                 volumesnapshotclass.snapshot.storage.k8s.io {name:?} not found"
            );
            let complaint = Complaint::error("GetSnapshotClassFailed", message);
            fail(complaint.until(RequeueTrigger::Class(name.clone())))
        })
}

/// The class that the VolumeSnapshot names; without one, the default is written first.
pub(super) fn choose(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Decision<Chosen> {
    match &snapshot.class {
        Some(name) => named(view, name),
        None => Err(default(view, snapshot)?),
    }
}

/// Writes the default class of the volume's driver into the VolumeSnapshot.
fn default(view: &View<'_>, snapshot: &Arc<Snapshot>) -> Decision {
    let refuse = |error: String, trigger: RequeueTrigger| {
        let message = format!("Failed to set default snapshot class with error {error}");
        fail(Complaint::error("SetDefaultSnapshotClassFailed", message).until(trigger))
    };
    let Some(key) = snapshot.claim() else {
        return Ok(Next::Done);
    };
    let of_claim = RequeueTrigger::Object(Object::Claim(key.clone()));
    let Some(claim) = view.claim(&key)? else {
        let (_, name) = key.split_once('/').unwrap_or_default();
        let cause = quote(&format!("persistentvolumeclaim {} not found", quote(name)));
        let error = format!("failed to retrieve PVC {name} from the lister: {cause}");
        return Err(refuse(error, of_claim));
    };
    let origin = Origin::of(view, &key, &claim)?;
    let origin = origin.map_err(|problem| refuse(problem.to_string(), problem.trigger(&key)))?;
    let Some(csi) = &origin.volume.csi else {
        let (namespace, name) = (&snapshot.namespace, &snapshot.name);
        let error =
            format!("snapshotting non-CSI volumes is not supported, snapshot:{namespace}/{name}");
        return Err(refuse(error, of_claim));
    };
    let defaults = view.informers.default_classes(&csi.driver);
    let name = only_default(&defaults, "snapshot class");
    let name = name.map_err(|error| refuse(error, RequeueTrigger::AnyClass))?;
    let body = json!({
        "metadata": {"resourceVersion": &*snapshot.version},
        "spec": {"volumeSnapshotClassName": &*name},
    });
    Ok(patch(Purpose::DefaultClass, snapshot.object(), body))
}

/// The class that is the only default of its driver.
///
/// # Errors
/// There is none, or there are several, in upstream's words.
pub fn only_default(defaults: &[Text], kind: &str) -> Result<Text, String> {
    match defaults {
        [] => Err(format!("cannot find default {kind}")),
        [name] => Ok(name.clone()),
        // Upstream uses the same words for groups.
        several => {
            let number = several.len();
            Err(format!("{number} default snapshot classes were found"))
        }
    }
}
