//! Binds a VolumeGroupSnapshot to a pre-provisioned content.

use std::sync::Arc;

use serde_json::json;

use super::{Decision, class, fail, follow, misbound, missing, protect};
use crate::model::{ContentSource, Group, GroupContent, Text};
use crate::plan::complaint::Complaint;
use crate::plan::request::patch;
use crate::plan::view::{Next, Purpose, View};

/// The next step until the VolumeGroupSnapshot shows the status of the content of this name.
pub(super) fn decide(view: &View<'_>, group: &Arc<Group>, name: &Text) -> Decision {
    let Some(content) = view.group_content(name)? else {
        protect(group)?;
        return Ok(missing(name));
    };
    if content.source != ContentSource::Snapshot {
        let complaint = Complaint::unready(
            "GroupSnapshotContentMismatch",
            "VolumeGroupSnapshotContent is dynamically provisioned while expecting a \
             pre-provisioned one",
        );
        return Ok(fail(complaint.until_changed(content.object())));
    }
    let bound = !content.group.uid.is_empty();
    if !content.names(group) || bound && !content.is_of(group) {
        return misbound(view, group, &content);
    }
    protect(group)?;
    // The content names no class, but the VolumeGroupSnapshot does.
    let classless = content.class.is_none() && group.class.is_some();
    if bound && !classless {
        return Ok(follow(group, &content));
    }
    if content.deleting && !bound {
        // The deletion takes the group along: the sidecar may not see the binding in time.
        let message = format!("VolumeGroupSnapshotContent [{name}] is being deleted");
        let complaint = Complaint::unready("GroupSnapshotBindFailed", message);
        return Ok(fail(complaint.until_changed(content.object())));
    }
    if let Some(class) = &group.class {
        class::named(view, class)?;
    }
    Ok(bind(group, &content))
}

fn bind(group: &Group, content: &GroupContent) -> Next {
    let mut spec = json!({"volumeGroupSnapshotRef": {"uid": &*group.uid}});
    if let (Some(class), Some(spec)) = (&group.class, spec.as_object_mut()) {
        spec.insert("volumeGroupSnapshotClassName".to_owned(), (&**class).into());
    }
    let body = json!({
        "metadata": {"resourceVersion": &*content.version},
        "spec": spec,
    });
    patch(Purpose::Bind, content.object(), body)
}
