//! The content of a VolumeGroupSnapshot that selects claims.

use std::fmt::Display;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sidecar::log::quote;
use sidecar::secret::SecretRef;
use sidecar::snapshot::{
    GROUP_API_VERSION, GROUP_CONTENT, GROUP_CONTENT_BOUND, GROUP_DELETION_SECRET_NAME,
    GROUP_DELETION_SECRET_NAMESPACE, GROUP_SNAPSHOT, group_content_name,
};

use super::claims::{self, Problem};
use super::{Decision, fail};
use crate::model::{Group, Text};
use crate::plan::complaint::{Complaint, RequeueTrigger, unwritten};
use crate::plan::request::{self, Object};
use crate::plan::secret;
use crate::plan::snapshot::{Chosen, Origin};
use crate::plan::view::{Purpose, View};

/// The next step until the content exists.
pub(super) fn decide(
    view: &View<'_>,
    group: &Arc<Group>,
    selector: &Text,
    class: &Chosen,
) -> Decision {
    let parameters = |error: &dyn Display| {
        let (name, error) = (&group.name, quote(&error.to_string()));
        Complaint::ungrouped(&format_args!(
            "failed to get input parameters to create group snapshot {name}: {error}"
        ))
    };
    let refuse = |problem: Problem| fail(parameters(&problem.text).until_all(problem.triggers));
    let volumes = claims::volumes(view, group, selector)?.map_err(refuse)?;
    let name = Text::from(group_content_name(&group.uid));
    let of_class = || RequeueTrigger::GroupClass(class.name.clone());
    let secret = secret::resolve(&class.class, &secret::of_group(group, &name));
    let secret = secret.map_err(|problem| fail(parameters(&problem).until(of_class())))?;
    let handles = volumes.iter().map(|origin| handle(group, class, origin));
    let handles: Vec<Text> = handles.collect::<Decision<_>>()?;
    let body = body(group, class, &name, &handles, secret);
    let purpose = Purpose::Create { nowhere: false };
    Ok(request::create(purpose, Object::GroupContent(name), body))
}

/// The volume handle, if the volume belongs to the class's driver.
fn handle(group: &Group, class: &Chosen, origin: &Origin) -> Decision<Text> {
    let (volume, key) = (&origin.name, group.key());
    let (user_text, error) = match &origin.volume.csi {
        Some(csi) if csi.driver == class.class.driver => return Ok(csi.handle.clone()),
        None => (
            format!("Cannot snapshot a non-CSI volume: {volume}"),
            format!("cannot snapshot a non-CSI volume for group snapshot {key}: {volume}"),
        ),
        Some(csi) => {
            let (of_volume, of_class) = (&csi.driver, &class.class.driver);
            let user_text = format!(
                "Volume CSI driver ({of_volume}) mismatch with VolumeGroupSnapshotClass \
                 ({of_class}) {key}: {volume}"
            );
            let error = unwritten(&key, &user_text);
            (user_text, error)
        }
    };
    let complaint = Complaint {
        also: Some(("CreateGroupSnapshotContentFailed", user_text)),
        ..Complaint::ungrouped(&error)
    };
    let complaint = complaint.until_changed(Object::Volume(volume.clone()));
    Err(fail(
        complaint.until(RequeueTrigger::GroupClass(class.name.clone())),
    ))
}

/// The content to create. It has the finalizer from the start, as a single snapshot's content has.
fn body(
    group: &Group,
    class: &Chosen,
    name: &Text,
    handles: &[Text],
    secret: Option<SecretRef>,
) -> Value {
    let handles: Vec<&str> = handles.iter().map(|handle| &**handle).collect();
    let mut metadata = json!({"name": &**name, "finalizers": [GROUP_CONTENT_BOUND]});
    if let (Some(SecretRef { namespace, name }), Some(fields)) = (secret, metadata.as_object_mut())
    {
        let mut annotations = Map::new();
        annotations.insert(GROUP_DELETION_SECRET_NAME.to_owned(), (&*name).into());
        annotations.insert(
            GROUP_DELETION_SECRET_NAMESPACE.to_owned(),
            (&*namespace).into(),
        );
        fields.insert("annotations".to_owned(), annotations.into());
    }
    json!({
        "apiVersion": GROUP_API_VERSION,
        "kind": GROUP_CONTENT.kind,
        "metadata": metadata,
        "spec": {
            "volumeGroupSnapshotRef": {
                "kind": GROUP_SNAPSHOT.kind,
                "apiVersion": GROUP_API_VERSION,
                "namespace": &*group.namespace,
                "name": &*group.name,
                "uid": &*group.uid,
                "resourceVersion": &*group.version,
            },
            "source": {"volumeHandles": handles},
            "volumeGroupSnapshotClassName": &*class.name,
            "driver": &*class.class.driver,
            "deletionPolicy": class.class.policy.name(),
        },
    })
}
