//! Compares a driver's storage with the cluster.
//!
//! A finding is no proof that something may be deleted: CSI does not say which cluster a volume belongs to, and volumes
//! of other clusters, manually created ones and retained ones look the same. A user may delete by hand what an audit
//! calls unknown, so the audit calls nothing unknown as long as anything speaks against it.
//!
//! A look reads the driver's list first and the cluster's objects second. Only a difference that two looks show is a
//! finding: objects come and go in between. A volume in the first list cannot be that of a claim created after it; but
//! a new object may refer to an old volume.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::comparison::{snapshots, volumes};
use super::controller;
use super::difference::{Difference, Note, NoteKind};
use super::named::{self, at};
use super::seen::{Seen, Want};
use super::stock::Storage;
use super::walk::{Step, Stop, Walk};
use crate::model::{Attachment, Claim, Kind, Node, Ref, Volume};

/// The result of one look, or of two after `confirms`.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub driver: String,
    /// Number of volumes that the driver lists.
    pub volumes: Option<usize>,
    /// Number of snapshots that the driver lists.
    pub snapshots: Option<usize>,
    pub differences: Vec<Difference>,
    /// Differences that something speaks against.
    pub undecided: Vec<Difference>,
    /// Number of unknown volumes and snapshots whose handles lack this cluster's prefix.
    pub others: usize,
    pub notes: Vec<Note>,
    pub unseen: BTreeSet<(String, String)>,
    /// Why the comparison is impossible.
    pub refused: Option<String>,
    /// UIDs of the objects that volumes and snapshots are created for.
    pub(super) seen: BTreeSet<String>,
}

impl Audit {
    /// Keeps the differences that the `first` look had too.
    #[must_use]
    pub fn confirms(mut self, first: &Self) -> Self {
        let before = first.differences.iter().chain(&first.undecided);
        let before: BTreeMap<_, _> = before.map(|one| (one.key(), one)).collect();
        let now = std::mem::take(&mut self.differences);
        let now = now.into_iter().chain(std::mem::take(&mut self.undecided));
        for mut one in now {
            let Some(earlier) = before.get(&one.key()) else {
                continue;
            };
            one.why.extend(earlier.why.iter().cloned());
            self.note(one);
        }
        self.others = self.others.min(first.others);
        self.unseen.extend(first.unseen.iter().cloned());
        self
    }

    pub(super) fn note(&mut self, one: Difference) {
        match one.why.is_empty() {
            true => self.differences.push(one),
            false => self.undecided.push(one),
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match () {
            () if self.refused.is_some() => 4,
            () if !self.differences.is_empty() => 3,
            () if !self.unseen.is_empty() || !self.undecided.is_empty() => 1,
            () => 0,
        }
    }
}

/// Input of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Compare<'a> {
    pub storage: &'a Storage,
    /// Prefix of this cluster's handles.
    pub owned: &'a str,
    /// The result of the first look; `None` during it.
    pub first: Option<&'a Audit>,
}

/// Compares one look at the storage with one at the cluster, which has to be the later one.
///
/// # Errors
/// The objects that have to be read first.
pub fn compare(seen: &Seen, input: Compare<'_>, now: Timestamp) -> Result<Audit, Vec<Want>> {
    let mut walk = Walk::new(seen, now, true);
    let mut audit = Audit {
        driver: input.storage.driver.clone(),
        ..Audit::default()
    };
    match all(&mut walk, input, &mut audit) {
        Err(Stop::Look) => return Err(walk.wants.into_iter().collect()),
        Ok(()) | Err(Stop::CauseFound) => {}
    }
    audit.differences.sort();
    audit.undecided.sort();
    audit.notes.sort();
    audit.unseen.extend(walk.unseen());
    Ok(audit)
}

fn all(walk: &mut Walk<'_>, input: Compare<'_>, audit: &mut Audit) -> Step {
    let driver = &*input.storage.driver;
    let Some(cluster) = named::look(walk, input.storage)? else {
        audit.refused = Some("PersistentVolumes may not be listed".to_owned());
        return Ok(());
    };
    audit.seen.clone_from(&cluster.uids);
    let calls = cluster.calls.iter().map(|(uid, lease)| Note {
        kind: NoteKind::MayExist,
        object: lease.clone(),
        detail: Some(uid.clone()),
    });
    audit.notes.extend(calls);
    if cluster.has_driver {
        volumes(walk, input, &cluster, audit)?;
    } else {
        audit.refused = Some(format!(
            "no PersistentVolume and no CSINode of this cluster names {driver}. The driver at --csi-address, or the kubeconfig's context, is of another cluster, or the driver was never used here"
        ));
    }
    // A driver that may belong to another cluster proves nothing about this one.
    if audit.refused.is_none() || !input.storage.volumes.is_known() && cluster.has_driver {
        snapshots(walk, input, &cluster, audit)?;
    }
    notes(walk, driver, audit)
}

fn note(audit: &mut Audit, kind: NoteKind, object: Ref, detail: Option<String>) {
    audit.notes.push(Note {
        kind,
        object,
        detail,
    });
}

/// Adds notes that follow from the objects alone.
fn notes(walk: &mut Walk<'_>, driver: &str, audit: &mut Audit) -> Step {
    let mut gone = BTreeMap::new();
    for volume in walk.all::<Volume>()?.items {
        let Some(of) = volume.driver() else { continue };
        let kept = volume.status.phase == "Released"
            && volume.spec.persistent_volume_reclaim_policy == "Retain";
        if kept && of == driver {
            note(audit, NoteKind::Kept, at(volume), None);
        }
        let is_gone = match gone.get(of) {
            Some(is_gone) => *is_gone,
            None => {
                let is_gone = of != driver && controller::is_gone(walk, of)?;
                gone.insert(of, is_gone);
                is_gone
            }
        };
        if is_gone {
            note(audit, NoteKind::Driverless, at(volume), Some(of.to_owned()));
        }
    }
    let nodes = walk.all::<Node>()?;
    for one in walk.all::<Attachment>()?.items {
        let node = &*one.spec.node_name;
        if nodes.whole && one.spec.attacher == driver && walk.get::<Node>("", node)?.is_missing() {
            let object = Ref::new(Kind::Attachment, "", &one.metadata.name);
            note(audit, NoteKind::Nodeless, object, Some(node.to_owned()));
        }
    }
    for claim in walk.all::<Claim>()?.items {
        let unused = { claim.status.conditions.iter() }
            .find(|one| one.kind == "Unused" && one.status == "True");
        let Some(unused) = unused else { continue };
        let volume = walk.get::<Volume>("", &claim.spec.volume_name)?.found();
        if volume.and_then(Volume::driver) == Some(driver) {
            let meta = &claim.metadata;
            let object = Ref::new(Kind::Claim, &meta.namespace, &meta.name);
            let since = unused.last_transition_time.0;
            note(
                audit,
                NoteKind::Unused,
                object,
                since.map(|since| since.to_string()),
            );
        }
    }
    Ok(())
}
