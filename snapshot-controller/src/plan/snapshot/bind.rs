//! Binds a VolumeSnapshot to a pre-provisioned content.

use std::sync::Arc;

use serde_json::json;

use super::{Decision, class, fail, follow, misbound, missing, protect};
use crate::model::{Content, ContentSource, Snapshot, Text};
use crate::plan::complaint::Complaint;
use crate::plan::request::{Object, patch};
use crate::plan::view::{Next, Purpose, View};

/// The next step until the VolumeSnapshot shows the status of the content of this name.
pub(super) fn decide(view: &View<'_>, snapshot: &Arc<Snapshot>, name: &Text) -> Decision {
    let Some(content) = view.content(name)? else {
        protect(snapshot, None)?;
        return Ok(missing(name));
    };
    if content.source != ContentSource::Snapshot {
        let complaint = Complaint::unready(
            "SnapshotContentMismatch",
            "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
        );
        return Ok(fail(complaint.until_changed(Object::Content(name.clone()))));
    }
    let bound = !content.snapshot.uid.is_empty();
    if !content.names(snapshot) || bound && !content.is_of(snapshot) {
        return misbound(view, snapshot, &content);
    }
    protect(snapshot, Some(&content))?;
    // The content names no class, but the VolumeSnapshot does.
    let classless = content.class.is_none() && snapshot.class.is_some();
    if bound && !classless {
        return Ok(follow(view, snapshot, &content));
    }
    if content.deleting && !bound {
        // The deletion takes the snapshot along: the sidecar may not see the binding in time.
        let message = format!("VolumeSnapshotContent [{name}] is being deleted");
        let complaint = Complaint::unready("SnapshotBindFailed", message);
        return Ok(fail(complaint.until_changed(Object::Content(name.clone()))));
    }
    if let Some(class) = &snapshot.class {
        class::named(view, class)?;
    }
    Ok(bind(snapshot, &content))
}

fn bind(snapshot: &Snapshot, content: &Content) -> Next {
    let mut spec = json!({"volumeSnapshotRef": {"uid": &*snapshot.uid}});
    if let (Some(class), Some(spec)) = (&snapshot.class, spec.as_object_mut()) {
        spec.insert("volumeSnapshotClassName".to_owned(), (&**class).into());
    }
    let body = json!({
        "metadata": {"resourceVersion": &*content.version},
        "spec": spec,
    });
    patch(Purpose::Bind, content.object(), body)
}
