//! The scripts of a living VolumeSnapshot or VolumeGroupSnapshot, and what both do with their contents.
//!
//! A content is made for the object, or an administrator made it and it is bound to the object. From then on the
//! object's status follows the content's.

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::secret::SecretRef;
use sidecar::snapshot::{
    ALLOWED_TOPOLOGIES, API_VERSION, BEING_DELETED, CONTENT_BOUND, DELETION_SECRET_NAME,
    DELETION_SECRET_NAMESPACE, GROUP_API_VERSION, GROUP_BEING_DELETED, GROUP_CONTENT_BOUND,
    GROUP_DELETION_SECRET_NAME, GROUP_DELETION_SECRET_NAMESPACE, YES,
};

use super::ask::Ask;
use super::attempt::Flow;
use super::class::{self, Chosen, class_field};
use super::complaint::Complaint;
use super::origin::Problem;
use super::request::{Purpose, create, delete, finalizers, held, patch, present};
use crate::model::{ContentHead, ContentSource, Head, Kind, Policy, Text};

/// A VolumeSnapshot or VolumeGroupSnapshot, and what is different between the two.
pub(super) trait Pair {
    /// Its content.
    type Content;

    fn head(&self) -> Head<'_>;

    fn content_head(content: &Self::Content) -> ContentHead<'_>;

    /// The cached content of this name.
    fn cached(ask: Ask<'_>, name: &Text) -> Option<Arc<Self::Content>>;

    /// The name of the content that it is bound to.
    fn bound(&self, _ask: Ask<'_>) -> Option<Text> {
        self.head().bound.cloned()
    }

    /// The finalizers that it must have, if this is its content.
    fn finalizers(&self, content: Option<&Self::Content>) -> Vec<&'static str>;

    /// The driver of the volumes that the snapshot is taken of.
    fn driver(&self, ask: Ask<'_>) -> Flow<Result<Text, Problem>>;

    /// Makes the content.
    fn create(&self, ask: Ask<'_>, class: &Chosen) -> Flow;

    /// Makes the status follow the content's.
    fn follow(&self, ask: Ask<'_>, content: &Self::Content) -> Flow;

    /// What is left to do once it is ready.
    fn finish(&self, _ask: Ask<'_>, _content: &Self::Content) -> Flow {
        Ok(())
    }
}

/// The script of an object that is not being deleted.
pub(super) fn living<P: Pair>(ask: Ask<'_>, it: &P) -> Flow {
    let head = it.head();
    match (head.ready, head.bound, head.source, head.named) {
        (Some(true), Some(bound), ..) => ready(ask, it, bound),
        (_, _, ContentSource::Volume, _) => dynamic(ask, it),
        (_, _, ContentSource::Snapshot, Some(name)) => bind(ask, it, name),
        (..) => {
            let (reason, message) = head.kind.say(
                (
                    "SnapshotValidationError",
                    "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should \
                     be specified",
                ),
                (
                    "GroupSnapshotValidationError",
                    "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified",
                ),
            );
            Err(Complaint::unready(reason, message).into())
        }
    }
}

/// The driver is to take the snapshot.
fn dynamic<P: Pair>(ask: Ask<'_>, it: &P) -> Flow {
    let head = it.head();
    let made = head.kind.content_name(head.uid);
    let name = it.bound(ask).unwrap_or_else(|| made.clone());
    let content = if head.was_taken || name != made {
        existing(ask, it, &name)?
    } else if let Some(content) = P::cached(ask, &name) {
        content
    } else {
        // If the content exists and the watch is late, its POST returns AlreadyExists.
        let class = match head.class {
            Some(name) => class::named(ask, head.kind, name)?,
            None => class::write_default(ask, &head, it.driver(ask)?)?,
        };
        // The finalizer must be there before anything is made that would be left behind.
        protect(it, None)?;
        return it.create(ask, &class);
    };
    let of = P::content_head(&content);
    if head.bound != Some(&name) && of.source != ContentSource::Volume {
        let kind = head.kind.content().kind;
        let message = format!(
            "{kind} {name} is pre-provisioned while expecting a dynamically provisioned one"
        );
        return Err(mismatch(&of, message).into());
    }
    hold(ask, it, &content)?;
    it.follow(ask, &content)
}

/// It is ready, and can only lose its content.
fn ready<P: Pair>(ask: Ask<'_>, it: &P, bound: &Text) -> Flow {
    let content = existing(ask, it, bound)?;
    hold(ask, it, &content)?;
    it.finish(ask, &content)
}

/// Protects it, unless its content is another's.
fn hold<P: Pair>(ask: Ask<'_>, it: &P, content: &P::Content) -> Flow {
    let (head, of) = (it.head(), P::content_head(content));
    if !of.is_of(&head) {
        return misbound(ask, &head, &of);
    }
    protect(it, Some(content))
}

/// Binds it to the pre-provisioned content of this name, and shows that content's status.
fn bind<P: Pair>(ask: Ask<'_>, it: &P, name: &Text) -> Flow {
    let content = existing(ask, it, name)?;
    let (head, of) = (it.head(), P::content_head(&content));
    let (kind, called) = (head.kind, head.kind.content().kind);
    if of.source != ContentSource::Snapshot {
        let message =
            format!("{called} is dynamically provisioned while expecting a pre-provisioned one");
        return Err(mismatch(&of, message).into());
    }
    let bound = !of.of.uid.is_empty();
    if !of.names(&head) || bound && !of.is_of(&head) {
        return misbound(ask, &head, &of);
    }
    protect(it, Some(&*content))?;
    // The content names no class, but the object does.
    let classless = of.class.is_none() && head.class.is_some();
    if bound && !classless {
        return it.follow(ask, &content);
    }
    if of.deleting && !bound {
        // The deletion takes the object along: the sidecar may not see the binding in time.
        let reason = kind.say("SnapshotBindFailed", "GroupSnapshotBindFailed");
        let complaint = Complaint::unready(reason, format!("{called} [{name}] is being deleted"));
        return Err(complaint.until_changed(of.object()).into());
    }
    if let Some(class) = head.class {
        class::named(ask, kind, class)?;
    }
    let body = json!({
        "metadata": {"resourceVersion": &**of.version},
        "spec": present(json!({
            (reference_field(kind)): {"uid": &**head.uid},
            (class_field(kind)): head.class.map(|class| &**class),
        })),
    });
    patch(Purpose::Bind, of.object(), body)
}

/// The content of this name, which must exist. The cache may be late, and users who rely on the data must not be
/// alarmed for nothing.
fn existing<P: Pair>(ask: Ask<'_>, it: &P, name: &Text) -> Flow<Arc<P::Content>> {
    let kind = it.head().kind;
    let object = kind.content_object(name);
    if let Some(content) = ask.sure(P::cached(ask, name), &object)? {
        return Ok(content);
    }
    protect(it, None)?;
    let reason = kind.say("SnapshotContentMissing", "GroupSnapshotContentMissing");
    let complaint = Complaint::unready(reason, format!("{} is missing", kind.content().kind));
    Err(complaint.until_changed(object).into())
}

/// Adds the missing finalizers.
pub(super) fn protect<P: Pair>(it: &P, content: Option<&P::Content>) -> Flow {
    let (head, mut missing) = (it.head(), it.finalizers(content));
    missing.retain(|one| held(head.finalizers).all(|held| held != *one));
    if missing.is_empty() {
        return Ok(());
    }
    let body = finalizers(head.version, held(head.finalizers).chain(missing));
    patch(Purpose::Finalizers, head.object(), body)
}

fn mismatch(of: &ContentHead<'_>, message: String) -> Complaint {
    let reason = of
        .kind
        .say("SnapshotContentMismatch", "GroupSnapshotContentMismatch");
    Complaint::unready(reason, message).until_changed(of.object())
}

/// The content belongs to another object. Reported in the same words whether this one was ready or not.
fn misbound(ask: Ask<'_>, head: &Head<'_>, of: &ContentHead<'_>) -> Flow {
    let (kind, name, object) = (of.kind.content().kind, of.name, of.object());
    let complaint = if head.bound == Some(name) {
        // The cache may be late: the binding of a pre-provisioned content is a write of its own.
        ask.refresh(&object)?;
        let message = format!(
            "{kind} is not bound to the {} correctly",
            of.kind.whole().kind
        );
        Complaint::unready(
            of.kind.say("SnapshotMisbound", "GroupSnapshotMisbound"),
            message,
        )
    } else {
        let noun = of.kind.noun();
        let message = format!("{kind} [{name}] is bound to a different {noun}");
        let reason = of
            .kind
            .say("SnapshotContentMisbound", "GroupSnapshotContentMisbound");
        Complaint::unready(reason, message)
    };
    Err(complaint.until_changed(object).into())
}

/// The content of an object that is being deleted, if this one is bound to it.
pub(super) fn only_its<P: Pair>(
    ask: Ask<'_>,
    it: &P,
    content: Option<Arc<P::Content>>,
) -> Flow<Option<Arc<P::Content>>> {
    let head = it.head();
    if let Some(content) = &content {
        let of = P::content_head(content);
        if of.names(&head) && of.of.uid.is_empty() {
            // A request of unknown outcome may have bound it.
            ask.refresh(&of.object())?;
        }
    }
    Ok(content.filter(|content| P::content_head(content).is_of(&head)))
}

/// Marks a content as being deleted, with the finalizer if the content is to be deleted: a content without it, because
/// it was just bound or upstream's controller made it, would go before its snapshot.
pub(super) fn announce(of: &ContentHead<'_>) -> Flow {
    let bare = of.policy == Policy::Delete && !of.deleting && !of.is_protected();
    if of.being_deleted && !bare {
        return Ok(());
    }
    let list: Vec<&str> = held(of.finalizers).chain([of.finalizer()]).collect();
    let metadata = json!({
        "uid": &**of.uid,
        "annotations": {(of.kind.say(BEING_DELETED, GROUP_BEING_DELETED)): YES},
        "finalizers": bare.then_some(list),
        "resourceVersion": bare.then_some(&**of.version),
    });
    let body = json!({"metadata": present(metadata)});
    patch(Purpose::Announce, of.object(), body)
}

/// Deletes a content if that is its policy.
pub(super) fn remove(of: &ContentHead<'_>) -> Flow {
    if of.policy != Policy::Delete || of.deleting {
        return Ok(());
    }
    delete(Purpose::Delete, of.object(), of.uid, of.version)
}

/// Parts of a content in which single snapshots and groups differ.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) source: Value,
    pub(super) secret: Option<SecretRef>,
    /// Whether no node can reach its volume.
    pub(super) nowhere: bool,
    /// More annotations.
    pub(super) topologies: Option<String>,
    pub(super) labels: Value,
    pub(super) mode: Option<&'a Text>,
}

/// Makes the content. It has the finalizer from the start: a sidecar may take the snapshot before any second write, and
/// the content must then stay until that is deleted.
pub(super) fn make(head: &Head<'_>, class: &Chosen, parts: Parts<'_>) -> Flow {
    let kind = head.kind;
    let name = kind.content_name(head.uid);
    let secret = parts.secret.as_ref();
    let api_version = kind.say(API_VERSION, GROUP_API_VERSION);
    let annotations = json!({
        (kind.say(DELETION_SECRET_NAME, GROUP_DELETION_SECRET_NAME)):
            secret.map(|secret| &*secret.name),
        (kind.say(DELETION_SECRET_NAMESPACE, GROUP_DELETION_SECRET_NAMESPACE)):
            secret.map(|secret| &*secret.namespace),
        ALLOWED_TOPOLOGIES: parts.topologies,
    });
    let body = json!({
        "apiVersion": api_version,
        "kind": kind.content().kind,
        "metadata": present(json!({
            "name": &*name,
            "finalizers": [kind.say(CONTENT_BOUND, GROUP_CONTENT_BOUND)],
            "annotations": present(annotations),
            "labels": parts.labels,
        })),
        "spec": present(json!({
            (reference_field(kind)): {
                "kind": kind.whole().kind,
                "apiVersion": api_version,
                "namespace": &**head.namespace,
                "name": &**head.name,
                "uid": &**head.uid,
                "resourceVersion": &**head.version,
            },
            "source": parts.source,
            (class_field(kind)): &*class.name,
            "driver": &*class.class.driver,
            "deletionPolicy": class.class.policy.name(),
            "sourceVolumeMode": parts.mode.map(|mode| &**mode),
        })),
    });
    let nowhere = parts.nowhere;
    create(
        Purpose::Create { nowhere },
        kind.content_object(&name),
        body,
    )
}

/// The field of contents for the object that they refer to.
fn reference_field(kind: Kind) -> &'static str {
    kind.say("volumeSnapshotRef", "volumeGroupSnapshotRef")
}
