//! The members of a group: VolumeSnapshots and their contents. The controller makes, binds and fills
//! them here, once; from then on they are VolumeSnapshots like any others.

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};
use sidecar::controller::request::Object as _;
use sidecar::snapshot::{
    API_VERSION, CONTENT, CONTENT_BOUND, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE,
    GROUP_API_VERSION, GROUP_HANDLE, GROUP_SNAPSHOT, SNAPSHOT, SNAPSHOT_IN_GROUP,
};

use super::fail;
use crate::model::{Content, Group, GroupContent, Member, Snapshot, Text, key};
use crate::plan::complaint::{Complaint, RequeueTrigger};
use crate::plan::request::{Object, create, patch, patch_status, read};
use crate::plan::status::patch as status;
use crate::plan::view::{Next, Purpose, View};

/// Names of a member and of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Name of the VolumeSnapshot.
    pub snapshot: Text,
    /// Name of the VolumeSnapshotContent.
    pub content: Text,
}

impl Names {
    /// The names for the snapshot of the volume with this handle, in the group with this UID.
    #[must_use]
    pub fn new(group: &str, volume: &str) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(group.as_bytes());
        context.update(volume.as_bytes());
        let digest = context.finish();
        let hash: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        Self {
            snapshot: format!("snapshot-{hash}").into(),
            content: format!("snapcontent-{hash}").into(),
        }
    }
}

/// The next step until all members exist, bound and filled; `None` if they do.
pub(super) fn decide(view: &View<'_>, group: &Group, content: &GroupContent) -> Option<Next> {
    let mut awaits = None;
    for member in content.members() {
        match one(view, group, content, member) {
            // The other members need not wait for this one.
            wait @ Some(Next::Await(_)) => awaits = wait,
            None => {}
            next @ Some(Next::Done | Next::Ask(..) | Next::Wait(_) | Next::Fail(_)) => return next,
        }
    }
    awaits
}

fn one(view: &View<'_>, group: &Group, of: &GroupContent, member: &Member) -> Option<Next> {
    let names = Names::new(&group.uid, &member.volume);
    let Some(content) = view.informers.content(&names.content) else {
        let body = content_body(view, group, of, member, &names);
        return Some(create(
            Purpose::Member,
            Object::Content(names.content),
            body,
        ));
    };
    let key = key(&group.namespace, &names.snapshot);
    if content.snapshot_key() != key {
        return Some(foreign(content.object()));
    }
    let Some(snapshot) = view.informers.snapshot(&key) else {
        let body = snapshot_body(view, group, of, member, &names);
        return Some(create(Purpose::Member, Object::Snapshot(key), body));
    };
    // A member that somebody has cut loose still has its content, and is not taken back.
    let ours = match snapshot.owner() {
        Some((uid, _)) => *uid == group.uid,
        None => content.is_of(&snapshot),
    };
    if !ours {
        return Some(foreign(snapshot.object()));
    }
    if !content.is_of(&snapshot) {
        if content.deleting {
            // Somebody deleted the content before it had a finalizer: the next attempt makes another
            // one.
            return Some(Next::Await(RequeueTrigger::Object(content.object())));
        }
        // The VolumeSnapshot was removed by force and made again, or the cache still has the old
        // one.
        let bound = !content.snapshot.uid.is_empty();
        if bound && view.learnt(&snapshot.object()).is_none() {
            return Some(read(snapshot.object()));
        }
        let body = bind(&content, &snapshot);
        return Some(patch(Purpose::Member, content.object(), body));
    }
    if snapshot.bound().is_none() {
        let mut change = Map::new();
        let name = (&*content.name).into();
        change.insert("boundVolumeSnapshotContentName".to_owned(), name);
        let body = status(&snapshot.version, change);
        return Some(patch_status(Purpose::Member, snapshot.object(), body));
    }
    // Only once: later reports of the driver go through the sidecar.
    if content
        .status
        .as_deref()
        .is_none_or(|status| !status.is_taken)
    {
        let body = status(&content.version, taken(of, member));
        return Some(patch_status(Purpose::Member, content.object(), body));
    }
    None
}

/// An object with a member's name belongs to somebody else.
fn foreign(object: Object) -> Next {
    let message = format!(
        "{} has the name of a member of the group snapshot, and is another's",
        object.key()
    );
    let complaint = Complaint::unready("GroupSnapshotMemberMisbound", message);
    fail(complaint.until_changed(object))
}

/// The member's content to create. It has no finalizer before it is bound, so that it can be deleted
/// without further work.
fn content_body(
    view: &View<'_>,
    group: &Group,
    of: &GroupContent,
    member: &Member,
    names: &Names,
) -> Value {
    let mut annotations = Map::new();
    if let Some(handle) = of.handle() {
        annotations.insert(GROUP_HANDLE.to_owned(), (&**handle).into());
    }
    if let Some((name, namespace)) = &of.secret {
        annotations.insert(DELETION_SECRET_NAME.to_owned(), (&**name).into());
        annotations.insert(DELETION_SECRET_NAMESPACE.to_owned(), (&**namespace).into());
    }
    let mut spec = json!({
        "volumeSnapshotRef": {
            "kind": SNAPSHOT.kind,
            "apiVersion": API_VERSION,
            "namespace": &*group.namespace,
            "name": &*names.snapshot,
        },
        "source": {"volumeHandle": &*member.volume},
        "driver": &*of.driver,
        "deletionPolicy": of.policy.name(),
    });
    let volume = view.informers.volume_of(&of.driver, &member.volume);
    let mode = volume.and_then(|volume| volume.mode.clone());
    if let (Some(mode), Some(spec)) = (mode, spec.as_object_mut()) {
        spec.insert("sourceVolumeMode".to_owned(), (&*mode).into());
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": CONTENT.kind,
        "metadata": {"name": &*names.content, "annotations": annotations},
        "spec": spec,
    })
}

fn snapshot_body(
    view: &View<'_>,
    group: &Group,
    of: &GroupContent,
    member: &Member,
    names: &Names,
) -> Value {
    let volume = view.informers.volume_of(&of.driver, &member.volume);
    let claim = volume.and_then(|volume| Some(volume.claim.as_ref()?.name.clone()));
    json!({
        "apiVersion": API_VERSION,
        "kind": SNAPSHOT.kind,
        "metadata": {
            "namespace": &*group.namespace,
            "name": &*names.snapshot,
            "finalizers": [SNAPSHOT_IN_GROUP],
            "ownerReferences": [owner(group)],
        },
        "spec": {"source": {"persistentVolumeClaimName": &*claim.unwrap_or_default()}},
    })
}

/// The owner reference to a group snapshot.
#[must_use]
pub fn owner(group: &Group) -> Value {
    json!({
        "apiVersion": GROUP_API_VERSION,
        "kind": GROUP_SNAPSHOT.kind,
        "name": &*group.name,
        "uid": &*group.uid,
    })
}

fn bind(content: &Content, snapshot: &Snapshot) -> Value {
    let held = content.finalizers.iter().map(|held| &**held);
    let held = held.filter(|held| *held != CONTENT_BOUND);
    let held: Vec<&str> = held.chain([CONTENT_BOUND]).collect();
    json!({
        "metadata": {"resourceVersion": &*content.version, "finalizers": held},
        "spec": {"volumeSnapshotRef": {"uid": &*snapshot.uid}},
    })
}

/// The status fields that the driver reported for a member, with the group's time if the member has
/// none.
fn taken(of: &GroupContent, member: &Member) -> Map<String, Value> {
    let group = of.status.as_deref();
    let time = || {
        let time: jiff::Timestamp = group?.creation_time.as_deref()?.parse().ok()?;
        i64::try_from(time.as_nanosecond()).ok()
    };
    let fields = [
        ("snapshotHandle", Some(Value::from(&*member.snapshot))),
        (
            "volumeGroupSnapshotHandle",
            of.handle().map(|handle| (&**handle).into()),
        ),
        (
            "creationTime",
            member.creation_time.or_else(time).map(Value::from),
        ),
        (
            "restoreSize",
            member
                .restore_size
                .filter(|size| *size > 0)
                .map(Value::from),
        ),
        ("readyToUse", Some(member.ready.unwrap_or_default().into())),
    ];
    let fields = fields.into_iter();
    fields
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_tests_of_kubernetes_compute() {
        // printf V1vol-1 | sha256sum
        let names = Names::new("V1", "vol-1");
        let hash = "dccaacbe8841181a575d97cd8e1f7a9eae13539f416d01e3f90a96c6ad2cb4c0";
        assert_eq!(*names.snapshot, format!("snapshot-{hash}"));
        assert_eq!(*names.content, format!("snapcontent-{hash}"));
    }
}
