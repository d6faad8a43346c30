//! The acts of users on snapshots, and of administrators and backup tools on volumes and snapshots that they make by
//! hand.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use csi_test_driver::control::client::Client;
use e2e::api::{Api, text};
use e2e::object;
use e2e::snapshots::GROUP;
use serde_json::{Map, Value, json};

use super::ledger::{BOUND, Fate, Ledger};
use super::{Users, count_one, create};
use crate::observe::{CONTENTS, VOLUMES, terminating};
use crate::stage::{CLASS, DRIVER, SNAPSHOT_CLASSES, namespace};
use crate::users::lifetimes::{Action, LifetimeStep, mark};
use crate::users::namespace_of;

/// Number of administrators. All acts of one lifetime belong to the same administrator.
pub(crate) const ADMINISTRATORS: u64 = 4;

const BYTES: i64 = 1 << 20;

/// The annotation of each mark of a content.
const ANNOTATIONS: [(u8, &str); 3] = [
    (
        mark::BEING_CREATED,
        "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
    ),
    (
        mark::BEING_DELETED,
        "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
    ),
    (
        mark::MEMBER,
        "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle",
    ),
];

/// An administrator's memory of a lifetime.
#[derive(Debug, Default)]
struct Memory {
    /// Handle of the volume or snapshot that was made by hand.
    handle: Option<String>,
    /// The content as it was when its policy was changed to Retain.
    content: Option<Value>,
}

/// One administrator.
pub(crate) struct Administrator<'r> {
    pub(crate) users: &'r Users<'r>,
    pub(crate) api: &'r Api,
    pub(crate) driver: Client,
    pub(crate) ledger: &'r Ledger,
    /// The volume that snapshots are taken of by hand.
    pub(crate) preexisting: &'r str,
}

/// Number and namespace of one lifetime.
struct Lifetime {
    number: u64,
    home: String,
}

impl Lifetime {
    fn of(number: u64) -> Self {
        let home = namespace(namespace_of(number));
        Self { number, home }
    }

    /// Name of the volume or snapshot that is made by hand, and of its objects.
    fn made(&self) -> String {
        format!("made-{}", self.number)
    }

    fn name(&self) -> String {
        format!("snap-{}", self.number)
    }

    fn snapshots(&self) -> String {
        format!("{GROUP}/namespaces/{}/volumesnapshots", self.home)
    }

    fn snapshot(&self) -> String {
        format!("{}/{}", self.snapshots(), self.name())
    }

    fn claims(&self) -> String {
        format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.home)
    }

    fn claim(&self) -> String {
        format!("{}/{}", self.claims(), self.made())
    }

    fn volume(&self) -> String {
        format!("{VOLUMES}/{}", self.made())
    }
}

impl Administrator<'_> {
    /// Performs all steps of one administrator.
    pub(crate) fn work(&self, steps: &[LifetimeStep], administrator: u64) {
        let mut memory: BTreeMap<u64, Memory> = BTreeMap::new();
        for step in steps
            .iter()
            .filter(|it| it.life % ADMINISTRATORS == administrator)
        {
            let memory = memory.entry(step.life).or_default();
            let life = Lifetime::of(step.life);
            self.users
                .insist(step.at_ms, || self.perform(&life, step.action, memory));
        }
    }

    fn perform(&self, life: &Lifetime, action: Action, memory: &mut Memory) -> Result<()> {
        let done = self.users.done;
        let did = match action {
            Action::Take { claim, retain } => {
                let [deleting, retaining] = SNAPSHOT_CLASSES.map(|(name, _)| name);
                let class = if retain { retaining } else { deleting };
                let source = format!("data-{claim}");
                let object = object::snapshot_of(&life.name(), class, &source);
                let home = json!({ "metadata": { "namespace": life.home } });
                let object = object::with(object, &home);
                create(self.api, &life.snapshots(), &object)?;
                count_one(&done.taken);
                true
            }
            Action::Restore => {
                let (name, source) = (format!("restored-{}", life.number), life.name());
                let kind = "VolumeSnapshot";
                let object = object::claim_from(&name, CLASS, "1Mi", kind, &source);
                create(self.api, &life.claims(), &object)?;
                count_one(&done.restores);
                true
            }
            Action::Bring { retain, marks } => self.bring(life, retain, marks, memory)?,
            Action::Show => {
                create(self.api, &life.snapshots(), &shown(life, &life.made()))?;
                true
            }
            Action::Drop => {
                self.api.delete(&life.snapshot())?;
                count_one(&done.dropped);
                true
            }
            Action::Retain => self.retain(life, memory)?,
            Action::CutLoose => self.cut_loose(life)?,
            Action::Remove => self.remove(life, memory)?,
            Action::Again => self.again(life, memory)?,
            Action::Make { retain } => self.make(life, retain, memory)?,
            Action::Claim => {
                self.must_not_go(&life.claim())?;
                let object = object::claim_of(&life.made(), &life.made());
                create(self.api, &life.claims(), &object)?;
                true
            }
            Action::Unclaim => self.api.delete(&life.claim()).map(|()| true)?,
            Action::RemoveVolume => self.api.delete(&life.volume()).map(|()| true)?,
            Action::MakeAgain => {
                self.must_not_go(&life.volume())?;
                self.make(life, true, memory)?
            }
        };
        if !did {
            count_one(&done.left_out);
        }
        Ok(())
    }

    /// Fails if the object is still being deleted, so that recreating it is retried.
    fn must_not_go(&self, path: &str) -> Result<()> {
        let object = self.api.find(path)?;
        let going = object.as_ref().is_some_and(terminating);
        anyhow::ensure!(!going, "{path} is still going");
        Ok(())
    }

    /// The volume or snapshot of a lifetime; the first call makes it in the storage. No object refers to it yet.
    fn handle(&self, memory: &mut Memory, make: impl FnOnce() -> Result<String>) -> Result<String> {
        if let Some(handle) = &memory.handle {
            return Ok(handle.clone());
        }
        let handle = make()?;
        self.ledger.free(&handle);
        Ok(memory.handle.insert(handle).clone())
    }

    /// Records whether the storage must keep it, now that an object refers to it.
    fn promise(&self, handle: &str, retain: bool) {
        if retain {
            self.ledger.keep(handle);
        } else {
            self.ledger.hold(handle);
        }
    }

    fn bring(&self, life: &Lifetime, retain: bool, marks: u8, memory: &mut Memory) -> Result<bool> {
        let handle = self.handle(memory, || {
            Ok(self.driver.take_snapshot(&life.made(), self.preexisting)?)
        })?;
        let annotations = ANNOTATIONS
            .into_iter()
            .filter(|(bit, _)| marks & bit != 0)
            .map(|(_, name)| (name.to_owned(), json!("yes")));
        let annotations = annotations.collect();
        let protected = marks & mark::PROTECTED != 0;
        let policy = if retain { "Retain" } else { "Delete" };
        let content = content(life, &life.made(), &handle, policy, annotations, protected);
        create(self.api, CONTENTS, &content)?;
        self.promise(&handle, retain);
        count_one(&self.users.done.brought);
        Ok(true)
    }

    /// The content of a lifetime: of the snapshot made by hand, or of the VolumeSnapshot.
    fn content(&self, life: &Lifetime, memory: &Memory) -> Result<Option<Value>> {
        let named = { memory.content.as_ref() }.and_then(|it| text(it, "/metadata/name"));
        let name = match (named, &memory.handle) {
            (Some(name), _) => name.to_owned(),
            (None, Some(_)) => life.made(),
            (None, None) => {
                let snapshot = self.api.find(&life.snapshot())?;
                let uid = snapshot.as_ref().and_then(|it| text(it, "/metadata/uid"));
                let Some(uid) = uid else { return Ok(None) };
                format!("snapcontent-{uid}")
            }
        };
        self.api.find(&format!("{CONTENTS}/{name}"))
    }

    fn retain(&self, life: &Lifetime, memory: &mut Memory) -> Result<bool> {
        let Some(content) = self.content(life, memory)? else {
            return Ok(false);
        };
        let patch = json!({ "spec": { "deletionPolicy": "Retain" } });
        let now = self.api.merge(&path_of(&content)?, &patch)?;
        let handle = handle_of(&now);
        // A snapshot that is being taken at this moment may appear later, and then stays.
        if let Some(name) = uid_of_taken(&now) {
            self.ledger.free(&name);
        }
        match handle {
            Some(handle) if terminating(&now) => self.ledger.free(handle),
            Some(handle) => self.ledger.keep(handle),
            None => {}
        }
        memory.content = Some(now);
        count_one(&self.users.done.retained);
        Ok(true)
    }

    fn cut_loose(&self, life: &Lifetime) -> Result<bool> {
        let loose = json!({ "metadata": { "finalizers": null } });
        let mut contents = vec![life.made()];
        let snapshot = self.api.find(&life.snapshot())?;
        let uid = snapshot.as_ref().and_then(|it| text(it, "/metadata/uid"));
        contents.extend(uid.map(|uid| format!("snapcontent-{uid}")));
        let mut did = false;
        for name in contents {
            let path = format!("{CONTENTS}/{name}");
            let Some(content) = self.api.find(&path)? else {
                continue;
            };
            if text(&content, "/spec/deletionPolicy") != Some("Retain") {
                // Whether the snapshot is deleted with the content cannot be known.
                let names = uid_of_taken(&content);
                for it in names.iter().map(String::as_str).chain(handle_of(&content)) {
                    self.ledger.free(it);
                }
            }
            self.api.merge(&path, &loose)?;
            did = true;
        }
        if snapshot.is_some() {
            self.api.merge(&life.snapshot(), &loose)?;
        }
        if did {
            count_one(&self.users.done.cut_loose);
        }
        Ok(did)
    }

    /// Deletes the content in exactly the state that was read, so that its snapshot's fate is known.
    fn remove(&self, life: &Lifetime, memory: &Memory) -> Result<bool> {
        let Some(content) = self.content(life, memory)? else {
            return Ok(false);
        };
        remove(self.api, &content, self.ledger)?;
        count_one(&self.users.done.removed);
        Ok(true)
    }

    fn again(&self, life: &Lifetime, memory: &Memory) -> Result<bool> {
        let Some(old) = &memory.content else {
            return Ok(false);
        };
        let Some(handle) = handle_of(old) else {
            return Ok(false);
        };
        let name = text(old, "/metadata/name").context("a content has a name")?;
        self.must_not_go(&path_of(old)?)?;
        self.must_not_go(&life.snapshot())?;
        let annotations = old.pointer("/metadata/annotations");
        let annotations = annotations.and_then(Value::as_object).cloned();
        let annotations = annotations.unwrap_or_default();
        let content = content(life, name, handle, "Retain", annotations, false);
        create(self.api, CONTENTS, &content)?;
        create(self.api, &life.snapshots(), &shown(life, name))?;
        count_one(&self.users.done.again);
        Ok(true)
    }

    fn make(&self, life: &Lifetime, retain: bool, memory: &mut Memory) -> Result<bool> {
        let handle = self.handle(memory, || {
            let made = self.driver.make_volumes(&[life.made()], BYTES)?;
            made.into_iter().next().context("a volume")
        })?;
        let mut volume = object::persistent_volume(&life.made(), DRIVER, &handle);
        if !retain {
            let going = json!({
                "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER } },
                "spec": { "persistentVolumeReclaimPolicy": "Delete" },
            });
            volume = object::with(volume, &going);
        }
        create(self.api, VOLUMES, &volume)?;
        self.promise(&handle, retain);
        count_one(&self.users.done.made);
        Ok(true)
    }
}

/// Deletes a content in exactly the state that was read.
pub(crate) fn remove(api: &Api, content: &Value, ledger: &Ledger) -> Result<()> {
    let fate = Fate::when_deleted(content);
    match handle_of(content) {
        Some(handle) if fate == Fate::Held => ledger.hold(handle),
        Some(handle) if fate == Fate::Free => ledger.free(handle),
        Some(_) | None => {}
    }
    // A call for its snapshot may be in flight, and its response will be lost.
    if let Some(name) = uid_of_taken(content).filter(|_| fate != Fate::Held) {
        ledger.free(&name);
    }
    let version = text(content, "/metadata/resourceVersion");
    let as_read = json!({ "preconditions": { "resourceVersion": version } });
    api.delete_with(&path_of(content)?, &as_read)
}

fn path_of(content: &Value) -> Result<String> {
    let name = text(content, "/metadata/name").context("a content without name")?;
    Ok(format!("{CONTENTS}/{name}"))
}

/// The handle of its snapshot, if known.
fn handle_of(content: &Value) -> Option<&str> {
    text(content, "/status/snapshotHandle").or_else(|| text(content, "/spec/source/snapshotHandle"))
}

/// The name that the driver gets for a content's snapshot; `None` if the snapshot was made by hand.
fn uid_of_taken(content: &Value) -> Option<String> {
    let name = text(content, "/metadata/name")?;
    Some(format!("snapshot-{}", name.strip_prefix("snapcontent-")?))
}

fn shown(life: &Lifetime, content: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": { "name": life.name() },
        "spec": { "source": { "volumeSnapshotContentName": content } },
    })
}

fn content(
    life: &Lifetime,
    name: &str,
    handle: &str,
    policy: &str,
    annotations: Map<String, Value>,
    protected: bool,
) -> Value {
    let finalizers: &[&str] = if protected { &[BOUND] } else { &[] };
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": { "name": name, "annotations": annotations, "finalizers": finalizers },
        "spec": {
            "deletionPolicy": policy, "driver": DRIVER, "source": { "snapshotHandle": handle },
            "volumeSnapshotRef": { "namespace": life.home, "name": life.name() },
        },
    })
}
