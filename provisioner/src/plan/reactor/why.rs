//! What `--why-endpoint` says about a claim and about a PersistentVolume, and the open intents of the journal.

use std::sync::Arc;

use serde_json::{Value, json};
use sidecar::controller::reactor::Now;
use sidecar::why::{Explained, Explanation, Kind, Object, OpenIntent, Work};

use super::{CLAIMS, Failed, Informed, Key, Provisioner, VOLUMES};
use crate::model::{Claim, Text, Volume};
use crate::plan::attached::Attached;
use crate::plan::event::may_be_ours;
use crate::plan::in_flight::{ClaimKey, InFlightState, PendingCreate};
use crate::plan::journal::Journal;
use crate::plan::outcome::RequeueTrigger;
use crate::plan::ownership::OwnershipRaces;
use crate::plan::request::PinnedRequest;
use crate::plan::{Driver, delete, protection};

impl Explained for Provisioner {
    fn explain(
        &self,
        object: &Object,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Explanation<Key>> {
        if object.kind == Kind::Claim {
            return Some(self.explain_claim(&object.key(), informers, now));
        }
        if object.kind != Kind::Volume {
            return None;
        }
        Some(match informers.volume(&object.name) {
            Some(volume) => explain_volume(&object.name, &volume, &informers.driver()),
            None => Explanation::unknown(),
        })
    }

    fn object(&self, key: &Key, _informers: Informed<'_>) -> Object {
        match key {
            Key::Claim(claim) => Object::of(Kind::Claim, &claim.name),
            Key::Source(name) => Object::of(Kind::Claim, name),
            Key::Volume(name) => Object::of(Kind::Volume, name),
        }
    }

    fn fork(&self, key: &Key, informers: Informed<'_>) -> Self {
        let (mut races, mut attached) = (OwnershipRaces::default(), Attached::default());
        match key {
            Key::Claim(claim) => races = self.ownership_races.of(claim),
            Key::Volume(name) => attached = self.attached.of(name),
            Key::Source(_) => {}
        }
        Self {
            settings: self.settings.clone(),
            in_flight: self.remembered_of(key, informers),
            topology: Arc::clone(&self.topology),
            attached,
            ownership_races: races,
            node: self.node.clone(),
            pace: self.pace,
            seed: self.seed,
            journal: self.journal.as_ref().map(Journal::without_entries),
            recovered: self.recovered,
        }
    }

    fn text(failure: &Failed) -> String {
        match failure {
            Failed::Claim(failure, _) => failure.to_string(),
            Failed::NotTaken(error) => error.to_string(),
            Failed::Volume(failure) => failure.to_string(),
            Failed::Source(error) => error.clone(),
            Failed::Follows => "the volume has to be looked at again".to_owned(),
        }
    }

    fn intents(&self) -> Option<Vec<OpenIntent>> {
        let journal = self.journal.as_ref()?;
        let intents = self
            .in_flight()
            .pending_creates()
            .flat_map(|(key, pending)| {
                let leases = journal.leases_of(&key.uid);
                let state = |request: &Arc<PinnedRequest>| match &pending.pinned {
                    Some(pinned) if Arc::ptr_eq(pinned, request) => "open",
                    Some(_) | None => "owed",
                };
                pending.requests().map(move |request| OpenIntent {
                    claim: Object::of(Kind::Claim, &key.name),
                    uid: key.uid.to_string(),
                    state: state(request),
                    volume: request.name.clone(),
                    since: Some(pending.since),
                    leases: leases.clone(),
                })
            });
        Some(intents.collect())
    }
}

impl Provisioner {
    /// What a decision about `key` looks at, with the claims that the same data source is needed for.
    fn remembered_of(&self, key: &Key, informers: Informed<'_>) -> InFlightState<PinnedRequest> {
        let whole = self.in_flight();
        match key {
            Key::Claim(key) => {
                let part = whole.of_claim(key);
                let cached = informers.claim(&key.name);
                let cached = cached.filter(|claim| claim.uid == key.uid);
                let claim = cached.as_ref().or_else(|| whole.pending_claim(key));
                let snapshots = claim.map(|claim| protection::snapshots_of(claim).collect());
                let snapshots: Vec<_> = snapshots.unwrap_or_default();
                match snapshots.is_empty() {
                    true => part,
                    false => {
                        let need = |claim: &Claim| protection::names_one_of(claim, &snapshots);
                        part.with_busy(whole, need)
                    }
                }
            }
            Key::Volume(name) => whole.of_volume(name),
            Key::Source(name) => {
                let need = |claim: &Claim| {
                    let source = protection::clone_source(claim);
                    let source = source.map(|(namespace, name)| format!("{namespace}/{name}"));
                    source.is_some_and(|source| *source == **name)
                };
                whole.of_nothing().with_busy(whole, need)
            }
        }
    }

    fn explain_claim(&self, name: &str, informers: Informed<'_>, now: Now) -> Explanation<Key> {
        let driver = informers.driver();
        let claim = informers.claim(name);
        let gone = { self.in_flight().pending_creates() }
            .filter(|(key, _)| *key.name == *name)
            .filter(|(key, _)| claim.as_ref().is_none_or(|claim| claim.uid != key.uid));
        let gone: Vec<_> = gone.collect();
        let known = match &claim {
            Some(claim) if may_be_ours(claim, &driver) => {
                let because = because(claim, informers);
                let work = self.work(&ClaimKey::of(claim), &because, now);
                Explanation::known(&claim.uid, None).with(work)
            }
            Some(claim) => Explanation::known(&claim.uid, Some(rule(claim, &driver))),
            None => Explanation {
                is_known: !gone.is_empty(),
                ..Explanation::unknown()
            },
        };
        let works = gone.into_iter().map(|(key, _)| {
            let because = "deleted, and a call of it has an unknown outcome";
            self.work(key, because, now)
        });
        works.fold(known, Explanation::with)
    }

    fn work(&self, key: &ClaimKey, because: &str, now: Now) -> Work<Key> {
        let in_flight = self.in_flight();
        let waits: Vec<_> = in_flight.awaited(key).iter().map(awaited).collect();
        let later = in_flight.refused_for(key, now.instant);
        let pending = in_flight.pending_create(key);
        let work = Work {
            later: Some(later),
            ..Work::new(CLAIMS, Key::Claim(key.clone()), "provision", because)
        };
        let work = work.waiting_for(waits);
        let work = match pending {
            Some(pending) => work.fact("unsettled", unsettled(pending, now)),
            None => work,
        };
        match self.journal.as_ref() {
            Some(journal) => {
                let closed = journal.closed().map(|reason| reason.to_string());
                let closed = closed.map(|reason| sidecar::redact::words(&reason));
                let leases = journal.leases_of(&key.uid);
                work.fact("journal", json!({"leases": leases, "closed": closed}))
            }
            None => work,
        }
    }
}

/// Calls with unknown outcome, without what they ask for.
fn unsettled(pending: &PendingCreate<PinnedRequest>, now: Now) -> Value {
    json!({
        "since": now.write(pending.since),
        "requests": pending.requests().count(),
        "sentEarlier": pending.sent_earlier.len(),
    })
}

fn rule(claim: &Claim, driver: &Driver) -> String {
    match claim.provisioner() {
        Some(other) => format!(
            "annotation volume.kubernetes.io/storage-provisioner is {other}, not {}",
            driver.name
        ),
        None => "annotation volume.kubernetes.io/storage-provisioner is missing: kube-controller-manager has \
                 not asked for a volume"
            .to_owned(),
    }
}

fn because(claim: &Claim, informers: Informed<'_>) -> String {
    let class = claim.class_name();
    if !claim.volume.is_empty() {
        return format!("bound to PersistentVolume {}", claim.volume);
    }
    if claim.deleting {
        return "being deleted before it has a volume".to_owned();
    }
    match (informers.class(class), claim.selected_node()) {
        (None, _) => format!("needs a volume of StorageClass {class}, which does not exist"),
        (Some(_), "") => format!("needs a volume of StorageClass {class}"),
        (Some(_), node) => format!("needs a volume of StorageClass {class} for node {node}"),
    }
}

fn explain_volume(name: &str, volume: &Volume, driver: &Driver) -> Explanation<Key> {
    let key = || Key::Volume(Text::from(name));
    let (uid, owner, because) = match volume {
        // Whose it is was not kept: bound volumes of this driver end here as well.
        Volume::NameOnly => return Explanation::unknown(),
        Volume::Finalizer(due) => (&due.uid, &due.owner, "its finalizer has to be changed"),
        Volume::Deletable(detail) if detail.deleting => {
            (&detail.uid, &detail.owner, "being deleted")
        }
        Volume::Deletable(detail) => (&detail.uid, &detail.owner, "released by its claim"),
    };
    if !delete::concerns(owner, driver) {
        let of = owner.provisioned_by.as_ref().or(owner.csi_driver.as_ref());
        let of = of.map_or("no CSI driver", |of| &**of);
        let rule = format!("it is one of {of}, not of {}", driver.name);
        return Explanation::known(uid, Some(rule));
    }
    let work = Work::new(VOLUMES, key(), "delete", because);
    Explanation::known(uid, None).with(work)
}

fn awaited(trigger: &RequeueTrigger) -> Object {
    match trigger {
        RequeueTrigger::Class(name) => Object::of(Kind::Class, name),
        RequeueTrigger::SourceClaim(name) => Object::of(Kind::Claim, name),
        RequeueTrigger::CsiNode(name) => Object::of(Kind::CsiNode, name),
        RequeueTrigger::Node(name) => Object::of(Kind::Node, name),
        RequeueTrigger::AnyNode => Object::any(Kind::Node),
        RequeueTrigger::Grant(namespace) => Object {
            namespace: namespace.to_string(),
            ..Object::any(Kind::Grant)
        },
        RequeueTrigger::AttributesClass(name) => Object::of(Kind::AttributesClass, name),
    }
}

#[cfg(test)]
mod tests;
