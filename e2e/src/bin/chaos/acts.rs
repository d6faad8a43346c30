//! Performs the users' acts at their scheduled times, whatever state the API server is in.

pub(crate) mod administrator;
pub(crate) mod ledger;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::api::{Api, text};
use e2e::object;
use serde_json::json;

use crate::stage::{CLASS, DRIVER, SNAPSHOT, namespace, node};
use crate::users::{Act, Leaving, Origin, Step, namespace_of};

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// Number of users. All acts on one claim belong to the same user.
pub(crate) const USERS: u64 = 8;

/// Time after which a failing request is given up.
const RETRY_LIMIT: Duration = Duration::from_secs(120);

/// Counters of the acts so far.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) created: AtomicU64,
    pub(crate) clones: AtomicU64,
    pub(crate) restores: AtomicU64,
    pub(crate) grown: AtomicU64,
    pub(crate) attached: AtomicU64,
    pub(crate) detached: AtomicU64,
    pub(crate) deleted: AtomicU64,
    pub(crate) namespaces: AtomicU64,
    /// VolumeSnapshots created from claims.
    pub(crate) taken: AtomicU64,
    /// VolumeSnapshots deleted.
    pub(crate) dropped: AtomicU64,
    /// Contents created for snapshots that were taken by hand.
    pub(crate) brought: AtomicU64,
    /// Contents whose policy was changed to Retain.
    pub(crate) retained: AtomicU64,
    /// Contents whose finalizers somebody removed.
    pub(crate) cut_loose: AtomicU64,
    /// Contents deleted.
    pub(crate) removed: AtomicU64,
    /// Contents recreated from a backup.
    pub(crate) again: AtomicU64,
    /// PersistentVolumes created for volumes that were made by hand.
    pub(crate) made: AtomicU64,
    /// Acts skipped because the claim was gone or had no volume yet.
    pub(crate) left_out: AtomicU64,
}

impl Done {
    /// The counters by name, for the table.
    pub(crate) fn told(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("claims created", count(&self.created)),
            ("of them clones of claims", count(&self.clones)),
            ("of them restored from snapshots", count(&self.restores)),
            ("claims deleted by their owners", count(&self.deleted)),
            (
                "namespaces deleted with all their claims",
                count(&self.namespaces),
            ),
            ("claims made larger", count(&self.grown)),
            ("volumes attached", count(&self.attached)),
            ("volumes detached", count(&self.detached)),
            ("VolumeSnapshots of claims", count(&self.taken)),
            ("VolumeSnapshots deleted", count(&self.dropped)),
            ("contents for snapshots made by hand", count(&self.brought)),
            ("contents told to stay", count(&self.retained)),
            ("contents cut loose of finalizers", count(&self.cut_loose)),
            ("contents deleted", count(&self.removed)),
            ("contents made again from a backup", count(&self.again)),
            (
                "PersistentVolumes for volumes made by hand",
                count(&self.made),
            ),
            (
                "left out, their claim being gone or without volume",
                count(&self.left_out),
            ),
        ]
    }

    pub(crate) fn line(&self) -> String {
        let [created, grown, attached, detached, deleted, taken, brought] = [
            &self.created,
            &self.grown,
            &self.attached,
            &self.detached,
            &self.deleted,
            &self.taken,
            &self.brought,
        ]
        .map(count);
        format!(
            "{created} claims created, {deleted} deleted, {attached} attached, {detached} detached, {grown} grown, \
             {taken} snapshots taken, {brought} made by hand"
        )
    }
}

/// A counter's value.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Increments a counter.
fn count_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The users of a run.
pub(crate) struct Users<'r> {
    pub(crate) began: Instant,
    pub(crate) stop: &'r AtomicBool,
    pub(crate) done: &'r Done,
}

impl Users<'_> {
    /// Performs all steps of one user.
    pub(crate) fn work(&self, api: &Api, steps: &[Step], user: u64) {
        for step in steps.iter().filter(|it| it.claim % USERS == user) {
            let counted = self.insist(step.at_ms, || self.perform(api, step));
            if let Some(counter) = counted {
                count_one(counter);
            }
        }
    }

    /// Deletes the namespaces at their times.
    pub(crate) fn leave(&self, api: &Api, leaving: &[Leaving]) {
        for leave in leaving {
            let path = format!("/api/v1/namespaces/{}", namespace(leave.namespace));
            let deleted = self.insist(leave.at_ms, || api.delete(&path));
            if deleted.is_some() {
                count_one(&self.done.namespaces);
            }
        }
    }

    /// Performs an act when it is due, and retries it while the API server fails. `None` if the
    /// object's state makes it impossible.
    fn insist<T>(&self, at_ms: u64, mut act: impl FnMut() -> Result<T>) -> Option<T> {
        let due = self.began + Duration::from_millis(at_ms);
        while Instant::now() < due {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            thread::sleep(Duration::from_millis(20).min(due - Instant::now()));
        }
        loop {
            match act() {
                Ok(done) => return Some(done),
                Err(error) if is_final(&error) => {
                    count_one(&self.done.left_out);
                    return None;
                }
                Err(_) if due.elapsed() > RETRY_LIMIT || self.stop.load(Ordering::Relaxed) => {
                    return None;
                }
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Performs one step; returns its counter.
    fn perform(&self, api: &Api, step: &Step) -> Result<&AtomicU64> {
        let home = namespace(namespace_of(step.claim));
        let claims = format!("/api/v1/namespaces/{home}/persistentvolumeclaims");
        let name = claim(step.claim);
        let path = format!("{claims}/{name}");
        let done = self.done;
        Ok(match step.act {
            Act::Create(origin) => {
                let (object, counter) = match origin {
                    Origin::New => (object::claim(&name, CLASS, "1Mi"), None),
                    Origin::Clone(source) => {
                        let (kind, source) = ("PersistentVolumeClaim", claim(source));
                        let object = object::claim_from(&name, CLASS, "1Mi", kind, &source);
                        (object, Some(&done.clones))
                    }
                    Origin::Snapshot => {
                        let kind = "VolumeSnapshot";
                        let object = object::claim_from(&name, CLASS, "1Mi", kind, SNAPSHOT);
                        (object, Some(&done.restores))
                    }
                };
                create(api, &claims, &object)?;
                if let Some(counter) = counter {
                    count_one(counter);
                }
                &done.created
            }
            Act::Grow(mebibytes) => {
                let size = format!("{mebibytes}Mi");
                let patch = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
                api.merge(&path, &patch)?;
                &done.grown
            }
            Act::Attach(number) => {
                let object = api.get(&path)?;
                let bound = text(&object, "/status/phase") == Some("Bound");
                let Some(volume) = text(&object, "/spec/volumeName").filter(|_| bound) else {
                    return Ok(&done.left_out);
                };
                let name = attachment(step.claim);
                let object = object::volume_attachment(&name, DRIVER, volume, &node(number));
                create(api, ATTACHMENTS, &object)?;
                &done.attached
            }
            Act::Detach => {
                let path = format!("{ATTACHMENTS}/{}", attachment(step.claim));
                if api.find(&path)?.is_none() {
                    return Ok(&done.left_out);
                }
                api.delete(&path)?;
                &done.detached
            }
            Act::Delete => {
                api.delete(&path)?;
                &done.deleted
            }
        })
    }
}

fn claim(number: u64) -> String {
    format!("data-{number}")
}

fn attachment(claim: u64) -> String {
    format!("chaos-{claim}")
}

/// A create whose response was lost has succeeded all the same.
fn create(api: &Api, collection: &str, object: &serde_json::Value) -> Result<()> {
    match api.create(collection, object) {
        Err(error) if status(&error) == Some(409) => Ok(()),
        answer => answer.map(drop),
    }
}

/// Whether the API server refuses the request for good.
fn is_final(error: &anyhow::Error) -> bool {
    status(error).is_some_and(|code| (400..500).contains(&code) && code != 409 && code != 429)
}

/// The HTTP status of an API error.
pub(crate) fn status(error: &anyhow::Error) -> Option<u16> {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.find_map(|cause: &kube::Error| {
        let kube::Error::Api(status) = cause else {
            return None;
        };
        Some(status.code)
    })
}
