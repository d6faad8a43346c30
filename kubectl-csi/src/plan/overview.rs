//! Everything that is stuck, by cause.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::seen::{Record, Seen, Want};
use super::verdict::{Next, State};
use super::walk::{FRESH, ObjectSelector, many};
use super::{Question, decide, delete_is_late};
use crate::model::{Attachment, Claim, Content, GroupSnapshot, Kind, Pod, Ref, Snapshot, Volume};

/// The scope of the overview.
#[derive(Clone, Debug)]
pub struct Scope {
    /// `None`: all namespaces.
    pub namespace: Option<String>,
}

/// Stuck objects that share a cause.
#[derive(Clone, Debug)]
pub struct Found {
    /// `None`: no cause was found.
    pub id: Option<&'static str>,
    /// They only wait, as they should.
    pub waits: bool,
    /// The stuck objects.
    pub subjects: Vec<Ref>,
    /// The objects at fault; often the subjects themselves.
    pub objects: BTreeSet<Ref>,
}

/// Everything that is stuck in a scope.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Largest group first.
    pub found: Vec<Found>,
    pub unseen: BTreeSet<(String, String)>,
}

impl Overview {
    /// The overall state. Finding nothing proves nothing if some requests failed.
    pub fn state(&self) -> State {
        match () {
            () if self.found.iter().any(|found| !found.waits) => State::Stuck,
            () if !self.found.is_empty() => State::Waits,
            () if !self.unseen.is_empty() => State::Unknown,
            () => State::Fine,
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        let known = |found: &Found| !found.waits && found.id.is_some();
        match self.state() {
            State::Stuck if self.found.iter().any(known) => 3,
            State::Stuck => 4,
            State::Waits => 5,
            State::Unknown => 1,
            State::Fine => 0,
        }
    }
}

/// Explains every candidate in the scope.
///
/// # Errors
/// The objects that have to be read first.
pub fn survey(seen: &Seen, scope: &Scope, now: Timestamp) -> Result<Overview, Vec<Want>> {
    let first = wanted(scope);
    let missing: Vec<_> = first
        .into_iter()
        .filter(|want| seen.standing(want).is_none())
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut wants = BTreeSet::new();
    let mut found: BTreeMap<(bool, Option<&'static str>), Found> = BTreeMap::new();
    let mut overview = Overview::default();
    for want in wanted(scope) {
        if let Some(super::Answer::Refused(why)) = seen.standing(&want) {
            let place = want
                .namespace
                .map(|namespace| format!(" in {namespace}"))
                .unwrap_or_default();
            overview
                .unseen
                .insert((format!("{}{place}", want.kind.plural()), why));
        }
    }
    for subject in candidates(seen, scope, now) {
        let question = Question {
            subject,
            all: false,
        };
        let verdict = match decide(seen, &question, now) {
            Next::Look(more) => {
                wants.extend(more);
                continue;
            }
            Next::Say(verdict) => verdict,
        };
        overview.unseen.extend(verdict.unseen);
        let waits = match verdict.state {
            State::Fine => continue,
            State::Waits => true,
            State::Stuck | State::Unknown => false,
        };
        let first = verdict.causes.first();
        // Objects that have only just begun to wait are not reported.
        if first.is_none() && waits {
            continue;
        }
        let id = first.map(|first| first.id);
        let entry = found.entry((waits, id)).or_insert_with(|| Found {
            id,
            waits,
            subjects: Vec::new(),
            objects: BTreeSet::new(),
        });
        entry
            .objects
            .insert(first.map_or_else(|| question.subject.clone(), |first| first.object.clone()));
        entry.subjects.push(question.subject);
    }
    if !wants.is_empty() {
        return Err(wants.into_iter().collect());
    }
    overview.found = found.into_values().collect();
    overview
        .found
        .sort_by_key(|found| (found.waits, std::cmp::Reverse(found.subjects.len())));
    Ok(overview)
}

/// Whole lists, so that the walk needs no requests for single objects.
fn wanted(scope: &Scope) -> Vec<Want> {
    let selector = scope
        .namespace
        .as_deref()
        .map_or_else(ObjectSelector::all, ObjectSelector::of);
    let of_namespace = [
        Kind::Pod,
        Kind::Claim,
        Kind::Event,
        Kind::Snapshot,
        Kind::GroupSnapshot,
    ];
    let of_cluster = [
        Kind::Volume,
        Kind::Class,
        Kind::Attachment,
        Kind::Node,
        Kind::CsiNode,
        Kind::Driver,
        Kind::Content,
        Kind::SnapshotClass,
    ];
    let own = of_namespace.into_iter().map(|kind| many(kind, &selector));
    own.chain(
        of_cluster
            .into_iter()
            .map(|kind| many(kind, &ObjectSelector::all())),
    )
    .collect()
}

/// The objects that may be stuck.
fn candidates(seen: &Seen, scope: &Scope, now: Timestamp) -> Vec<Ref> {
    let own = scope.namespace.as_deref();
    let old = |time: Option<Timestamp>| {
        time.is_none_or(|time| now.duration_since(time).as_secs() >= FRESH)
    };
    let mut found = Candidates {
        seen,
        namespace: own,
        now,
        all: Vec::new(),
    };
    found.add(|claim: &Claim| {
        let unbound = claim.status.phase != "Bound" && old(claim.metadata.creation_timestamp.0);
        unbound || super::change::pending(claim).is_some() || claim.status.health_status.is_some()
    });
    found.add(|pod: &Pod| {
        let pending = pod.status.phase == "Pending" && old(pod.metadata.creation_timestamp.0);
        pod.has_storage() && (pending || !pod.status.volume_health.is_empty())
    });
    found.add(|snapshot: &Snapshot| {
        !snapshot.is_ready() && old(snapshot.metadata.creation_timestamp.0)
    });
    found.add(|group: &GroupSnapshot| {
        let ready = group
            .status
            .as_ref()
            .is_some_and(|status| status.ready_to_use);
        !ready && old(group.metadata.creation_timestamp.0)
    });
    if own.is_none() {
        found.add(|volume: &Volume| {
            let released = matches!(&*volume.status.phase, "Released" | "Failed");
            released && old(volume.status.last_phase_transition_time.0)
        });
        found.add(|attachment: &Attachment| {
            !attachment.status.attached && old(attachment.metadata.creation_timestamp.0)
        });
        found.add(|_: &Content| false);
    }
    found.all
}

/// The candidates found so far.
struct Candidates<'a> {
    seen: &'a Seen,
    namespace: Option<&'a str>,
    now: Timestamp,
    all: Vec<Ref>,
}

impl Candidates<'_> {
    /// Adds the objects of a kind whose deletion is late, or for which `is_stuck` holds.
    fn add<T: Record>(&mut self, is_stuck: impl Fn(&T) -> bool) {
        for object in T::store(self.seen).list(None) {
            let meta = object.meta();
            let inside = self.namespace.is_none_or(|own| meta.namespace == *own);
            if inside && (delete_is_late(meta, self.now) || is_stuck(object)) {
                self.all
                    .push(Ref::new(T::KIND, &meta.namespace, &meta.name));
            }
        }
    }
}
