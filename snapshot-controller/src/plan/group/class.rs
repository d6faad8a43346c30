//! The class of a VolumeGroupSnapshot. Read only where its fields are needed.

use std::sync::Arc;

use serde_json::json;

use super::claims::{self, Problem};
use super::{Decision, fail};
use crate::model::{Class, Group, Text};
use crate::plan::complaint::{Complaint, RequeueTrigger};
use crate::plan::request::patch;
use crate::plan::snapshot::{Chosen, only_default};
use crate::plan::view::{Purpose, View};

/// The class that the VolumeGroupSnapshot names.
pub(super) fn named(view: &View<'_>, name: &Text) -> Decision<Chosen> {
    let found = view.informers.group_class(name);
    let found = found.map(|class| Chosen {
        name: name.clone(),
        class: Arc::new(Class::clone(&class.0)),
    });
    found.ok_or_else(|| {
        let message = format!(
            "failed to get group snapshot class with error \
             volumegroupsnapshotclass.groupsnapshot.storage.k8s.io {name:?} not found"
        );
        let complaint = Complaint::error("GetGroupSnapshotClassFailed", message);
        fail(complaint.until(RequeueTrigger::GroupClass(name.clone())))
    })
}

/// The class that the VolumeGroupSnapshot names; without one, the default is written first.
pub(super) fn choose(view: &View<'_>, group: &Arc<Group>, selector: &Text) -> Decision<Chosen> {
    match &group.class {
        Some(name) => named(view, name),
        None => Err(default(view, group, selector)?),
    }
}

/// Writes the default class of the first volume's driver into the VolumeGroupSnapshot.
fn default(view: &View<'_>, group: &Arc<Group>, selector: &Text) -> Decision {
    let refuse = |error: String, triggers: Vec<RequeueTrigger>| {
        let message = format!("Failed to set default group snapshot class with error {error}");
        let complaint = Complaint::error("SetDefaultGroupSnapshotClassFailed", message);
        fail(Complaint {
            triggers,
            ..complaint
        })
    };
    let refused = |problem: Problem| refuse(problem.text, problem.triggers);
    let all = claims::volumes(view, group, selector)?.map_err(refused)?;
    let driver = all.first().and_then(|first| first.volume.csi.as_ref());
    let Some(csi) = driver else {
        let error = format!(
            "snapshotting non-CSI volumes is not supported, group snapshot:{}",
            group.key()
        );
        return Err(refuse(error, Vec::new()));
    };
    let defaults = view.informers.default_group_classes(&csi.driver);
    let name = only_default(&defaults, "group snapshot class");
    let name = name.map_err(|error| refuse(error, vec![RequeueTrigger::AnyGroupClass]))?;
    let body = json!({
        "metadata": {"resourceVersion": &*group.version},
        "spec": {"volumeGroupSnapshotClassName": &*name},
    });
    Ok(patch(Purpose::DefaultClass, group.object(), body))
}
