//! The members of a group: VolumeSnapshots and their contents. The controller makes, binds and fills
//! them here, once; from then on they are VolumeSnapshots like any others.

use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use sidecar::controller::request::Object as _;
use sidecar::controller::script::Leave;
use sidecar::snapshot::{
    API_VERSION, CONTENT, CONTENT_BOUND, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE,
    GROUP_API_VERSION, GROUP_HANDLE, GROUP_SNAPSHOT, SNAPSHOT, SNAPSHOT_IN_GROUP,
};

use crate::model::{Content, Group, GroupContent, Member, Snapshot, Text, key};
use crate::plan::ask::Ask;
use crate::plan::attempt::{End, Flow};
use crate::plan::complaint::{Complaint, RequeueTrigger};
use crate::plan::request::{Object, Purpose, create, held, patch, patch_status, present};
use crate::plan::status::patch as status;

/// A group and its content.
type Made<'a> = (&'a Group, &'a GroupContent);

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

/// Makes all members, binds and fills them.
pub(super) fn make(ask: Ask<'_>, group: &Group, content: &GroupContent) -> Flow {
    let mut awaits = Ok(());
    for member in content.members() {
        match one(ask, group, content, member) {
            // The other members need not wait for this one.
            wait @ Err(Leave::End(End::Await(_))) => awaits = wait,
            made => made?,
        }
    }
    awaits
}

fn one(ask: Ask<'_>, group: &Group, of: &GroupContent, member: &Member) -> Flow {
    let names = Names::new(&group.uid, &member.volume);
    let Some(content) = ask.informers.content(&names.content) else {
        let body = content_body(ask, (group, of), member, &names);
        return create(Purpose::Member, Object::Content(names.content), body);
    };
    let content_object = content.head().object();
    let key = key(&group.namespace, &names.snapshot);
    if content.snapshot_key() != key {
        return Err(foreign(content_object).into());
    }
    let object = Object::Snapshot(key.clone());
    let Some(snapshot) = ask.informers.snapshot(&key) else {
        let body = snapshot_body(ask, (group, of), member, &names);
        return create(Purpose::Member, object, body);
    };
    // A member that somebody has cut loose still has its content, and is not taken back.
    let ours = match snapshot.owner() {
        Some((uid, _)) => *uid == group.uid,
        None => content.is_of(&snapshot),
    };
    if !ours {
        return Err(foreign(object).into());
    }
    if !content.is_of(&snapshot) {
        if content.deleting {
            // Somebody deleted the content before it had a finalizer: the next attempt makes another
            // one.
            return Err(End::Await(RequeueTrigger::Object(content_object)).into());
        }
        if !content.snapshot.uid.is_empty() {
            // The VolumeSnapshot was removed by force and made again, or the cache still has the old
            // one.
            ask.refresh(&object)?;
        }
        return patch(Purpose::Member, content_object, bind(&content, &snapshot));
    }
    if snapshot.bound().is_none() {
        let change = json!({"boundVolumeSnapshotContentName": &*content.name});
        return patch_status(Purpose::Member, object, status(&snapshot.version, change));
    }
    // Only once: later reports of the driver go through the sidecar.
    let of_content = content.status.as_deref();
    if of_content.is_some_and(|status| status.is_taken) {
        return Ok(());
    }
    let body = status(&content.version, taken(of, member));
    patch_status(Purpose::Member, content_object, body)
}

/// An object with a member's name belongs to somebody else.
fn foreign(object: Object) -> Complaint {
    let message = format!(
        "{} has the name of a member of the group snapshot, and is another's",
        object.key()
    );
    let complaint = Complaint::unready("GroupSnapshotMemberMisbound", message);
    complaint.until_changed(object)
}

/// The member's content to create. It has no finalizer before it is bound, so that it can be deleted
/// without further work.
fn content_body(ask: Ask<'_>, (group, of): Made<'_>, member: &Member, names: &Names) -> Value {
    let secret = of.secret.as_ref();
    let annotations = json!({
        GROUP_HANDLE: of.handle().map(|handle| &**handle),
        DELETION_SECRET_NAME: secret.map(|(name, _)| &**name),
        DELETION_SECRET_NAMESPACE: secret.map(|(_, namespace)| &**namespace),
    });
    let volume = ask.informers.volume_of(&of.driver, &member.volume);
    json!({
        "apiVersion": API_VERSION,
        "kind": CONTENT.kind,
        "metadata": {"name": &*names.content, "annotations": present(annotations)},
        "spec": present(json!({
            "volumeSnapshotRef": {
                "kind": SNAPSHOT.kind,
                "apiVersion": API_VERSION,
                "namespace": &*group.namespace,
                "name": &*names.snapshot,
            },
            "source": {"volumeHandle": &*member.volume},
            "driver": &*of.driver,
            "deletionPolicy": of.policy.name(),
            "sourceVolumeMode": volume.and_then(|volume| volume.mode.clone()).as_deref(),
        })),
    })
}

fn snapshot_body(ask: Ask<'_>, (group, of): Made<'_>, member: &Member, names: &Names) -> Value {
    let volume = ask.informers.volume_of(&of.driver, &member.volume);
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
    let held = held(&content.finalizers).filter(|held| *held != CONTENT_BOUND);
    let held: Vec<&str> = held.chain([CONTENT_BOUND]).collect();
    json!({
        "metadata": {"resourceVersion": &*content.version, "finalizers": held},
        "spec": {"volumeSnapshotRef": {"uid": &*snapshot.uid}},
    })
}

/// The status fields that the driver reported for a member, with the group's time if the member has
/// none.
fn taken(of: &GroupContent, member: &Member) -> Value {
    let group = of.status.as_deref();
    let time = || {
        let time: jiff::Timestamp = group?.creation_time.as_deref()?.parse().ok()?;
        i64::try_from(time.as_nanosecond()).ok()
    };
    present(json!({
        "snapshotHandle": &*member.snapshot,
        "volumeGroupSnapshotHandle": of.handle().map(|handle| &**handle),
        "creationTime": member.creation_time.or_else(time),
        "restoreSize": member.restore_size.filter(|size| *size > 0),
        "readyToUse": member.ready.unwrap_or_default(),
    }))
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
