//! Makes a content for a protected claim that is bound to a volume of the class's driver.

use serde_json::{Value, json};
use sidecar::snapshot::MANAGED_BY;

use crate::model::{Csi, Kind, Snapshot, Text};
use crate::plan::ask::Ask;
use crate::plan::attempt::Flow;
use crate::plan::claim;
use crate::plan::class::Chosen;
use crate::plan::complaint::{Complaint, unwritten};
use crate::plan::origin::Origin;
use crate::plan::pair::{self, Parts};
use crate::plan::request::{Object, present};

/// Makes the content.
pub(super) fn create(ask: Ask<'_>, snapshot: &Snapshot, class: &Chosen) -> Flow {
    let head = snapshot.head();
    let key = snapshot.claim().unwrap_or_default();
    let refuse = |name: &str, error: &str| {
        let complaint = Complaint::uncreated(head.kind, &unwritten(name, &error));
        complaint.until_changed(Object::Claim(key.clone()))
    };
    let Some(claim) = ask.claim(&key)? else {
        return Err(refuse(&snapshot.name, "cannot get claim from snapshot").into());
    };
    if claim.deleting && claim.protected.is_none() {
        let (_, name) = key.split_once('/').unwrap_or_default();
        let error = "cannot add finalizer on claim because it is being deleted";
        return Err(refuse(name, error).into());
    }
    claim::protect(ask, &key)?;
    let origin = Origin::of(ask, head.kind, (&key, &claim))?;
    let origin = origin.map_err(|problem| problem.unfit(&head))?;
    let secret = class.secret(&head, &head.kind.content_name(head.uid))?;
    let csi = csi_of(&origin, class)?;
    let (settings, volume) = (ask.informers.settings(), &origin.volume);
    let topologies = class.class.topologies.as_ref();
    let topologies = topologies.filter(|_| settings.topology);
    let topologies = topologies.map(|text| readable(text, class)).transpose()?;
    let affinity = volume.affinity.as_ref().filter(|_| settings.distributed);
    let node = affinity.and_then(|affinity| ask.informers.node_for(affinity));
    let parts = Parts {
        source: json!({"volumeHandle": &*csi.handle}),
        secret,
        nowhere: affinity.is_some() && node.is_none(),
        topologies,
        labels: present(json!({MANAGED_BY: node.as_deref()})),
        mode: volume.mode.as_ref().filter(|_| settings.keep_mode),
    };
    pair::make(&head, class, parts)
}

/// The volume's CSI source, if it belongs to the class's driver.
fn csi_of<'a>(origin: &'a Origin, class: &Chosen) -> Result<&'a Csi, Complaint> {
    let Origin { name, volume } = origin;
    let refuse = |error: String| Complaint::uncreated(Kind::Single, &error);
    let Some(csi) = &volume.csi else {
        let error = format!("cannot find CSI PersistentVolumeSource for volume {name}");
        return Err(refuse(error).until_changed(Object::Volume(name.clone())));
    };
    if csi.driver != class.class.driver {
        // Handles are unique only within a driver.
        let error = format!(
            "the driver {} of VolumeSnapshotClass {} is not the driver {} of volume {name}",
            class.class.driver, class.name, csi.driver
        );
        return Err(refuse(error).until(class.changes()));
    }
    Ok(csi)
}

/// The class's topologies, in the form that the sidecar reads.
fn readable(text: &Text, class: &Chosen) -> Result<String, Complaint> {
    let refuse = |why: &dyn std::fmt::Display| {
        let name = &class.name;
        let error =
            format!("the allowed topologies of VolumeSnapshotClass {name} cannot be read: {why}");
        Complaint::uncreated(Kind::Single, &error).until(class.changes())
    };
    let terms: Value = serde_json::from_str(text).map_err(|error| refuse(&error))?;
    let is_term = |term: &Value| {
        let labels = term.get("matchLabelExpressions").and_then(Value::as_array);
        labels.is_some_and(|labels| labels.iter().all(is_label))
    };
    match terms.as_array() {
        Some(list) if list.iter().all(is_term) => Ok(terms.to_string()),
        Some(_) | None => Err(refuse(&"not a list of topology selector terms")),
    }
}

fn is_label(label: &Value) -> bool {
    let values = label.get("values").and_then(Value::as_array);
    label.get("key").is_some_and(Value::is_string)
        && values.is_some_and(|values| values.iter().all(Value::is_string))
}
