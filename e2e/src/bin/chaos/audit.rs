//! Finds damage in a cluster and its storage, seen from outside. Pure: from the lists of both.

mod snapshots;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[cfg(test)]
use crate::acts::ledger::Known;

pub(crate) use state::{
    Attachment, Claim, Content, Namespace, Origin, Snapshot, State, Stored, Taken, Volume,
};

/// The expected state of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// No work is in progress; everything that users have not deleted exists.
    Settled,
    /// Everything has been deleted.
    Empty,
}

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Damage {
    /// A leaked volume: nobody will ever delete it.
    VolumeWithoutPv,
    /// A lost volume: its data is gone.
    PvWithoutVolume,
    /// Two volumes of one claim.
    TwoVolumes,
    /// A volume is attached without a VolumeAttachment.
    AttachedWithoutObject,
    /// A VolumeAttachment is attached, but the volume is not.
    ObjectWithoutAttached,
    /// A VolumeAttachment is still not attached.
    NotAttached,
    /// A VolumeAttachment was deleted and stays.
    AttachmentStays,
    /// A claim has no volume.
    ClaimPending,
    /// A claim was deleted and stays.
    ClaimStays,
    /// The claim of a PersistentVolume is gone, and the PersistentVolume stays.
    PvStays,
    /// A namespace was deleted and stays.
    NamespaceStays,
    /// Claim, PersistentVolume and storage differ in size, or the size is less than requested.
    Size,
    /// A leaked snapshot: nobody will ever delete it.
    SnapshotWithoutContent,
    /// A lost snapshot.
    ContentWithoutSnapshot,
    /// A volume or snapshot that had to be kept is gone.
    KeptGone,
    /// Two contents of one VolumeSnapshot.
    TwoContents,
    /// A VolumeSnapshot is still not ready.
    SnapshotPending,
    /// A VolumeSnapshot or content was deleted and stays.
    SnapshotStays,
    /// A process neither leads although it could, nor ends when it is asked to.
    Hangs,
    /// A leader that was frozen or cut off has called the driver after another one had taken over.
    StaleCall,
}

impl Damage {
    /// All kinds, the worst first.
    pub(crate) const ALL: [Self; 20] = [
        Self::VolumeWithoutPv,
        Self::PvWithoutVolume,
        Self::TwoVolumes,
        Self::SnapshotWithoutContent,
        Self::ContentWithoutSnapshot,
        Self::TwoContents,
        Self::KeptGone,
        Self::AttachedWithoutObject,
        Self::ObjectWithoutAttached,
        Self::StaleCall,
        Self::NotAttached,
        Self::AttachmentStays,
        Self::ClaimPending,
        Self::ClaimStays,
        Self::PvStays,
        Self::NamespaceStays,
        Self::SnapshotPending,
        Self::SnapshotStays,
        Self::Hangs,
        Self::Size,
    ];
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VolumeWithoutPv => "volumes in the storage without PersistentVolume (leaked)",
            Self::PvWithoutVolume => "PersistentVolumes without volume in the storage (lost)",
            Self::TwoVolumes => "claims with two volumes",
            Self::SnapshotWithoutContent => {
                "snapshots in the storage without VolumeSnapshotContent (leaked)"
            }
            Self::ContentWithoutSnapshot => {
                "VolumeSnapshotContents without snapshot in the storage (lost)"
            }
            Self::TwoContents => "VolumeSnapshots with two contents",
            Self::KeptGone => "volumes and snapshots that were to stay, and are gone",
            Self::SnapshotPending => "VolumeSnapshots and contents that do not get ready",
            Self::SnapshotStays => "deleted VolumeSnapshots and contents that stay",
            Self::Hangs => "processes that neither take over nor end",
            Self::AttachedWithoutObject => "attachments in the storage without VolumeAttachment",
            Self::ObjectWithoutAttached => "VolumeAttachments `attached` that are not",
            Self::NotAttached => "VolumeAttachments that do not get attached",
            Self::AttachmentStays => "deleted VolumeAttachments that stay",
            Self::ClaimPending => "claims that stay Pending",
            Self::ClaimStays => "deleted claims that stay Terminating",
            Self::PvStays => "PersistentVolumes that stay without their claim",
            Self::NamespaceStays => "deleted namespaces that stay Terminating",
            Self::Size => "sizes on which claim, PersistentVolume and storage disagree",
            Self::StaleCall => "calls of a thawed or cut-off leader while another one led",
        })
    }
}

/// One damaged object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) damage: Damage,
    /// Name of the object.
    pub(crate) object: String,
}

/// A finding about an object.
pub(crate) fn finding(damage: Damage, object: impl Into<String>) -> Finding {
    let object = object.into();
    Finding { damage, object }
}

/// All findings.
pub(crate) fn audit(state: &State, expected: Expected) -> Vec<Finding> {
    let mut found = storage(state);
    found.extend(attachments(state));
    found.extend(snapshots::storage(state));
    match expected {
        Expected::Settled => {
            found.extend(settled(state));
            found.extend(snapshots::settled(state));
        }
        Expected::Empty => {
            found.extend(left(state));
            found.extend(snapshots::left(state));
        }
    }
    found.sort();
    found
}

/// Compares volumes in the cluster and in the storage.
fn storage(state: &State) -> Vec<Finding> {
    let handles: BTreeSet<_> = state.volumes.iter().map(|it| it.handle.as_str()).collect();
    let stored: BTreeSet<_> = state.stored.iter().map(|it| it.handle.as_str()).collect();
    let mut found = Vec::new();
    let mut of_claim: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for volume in &state.stored {
        if !handles.contains(volume.handle.as_str()) && !is_nobodys(state, volume) {
            let object = format!("{} ({}, for {})", volume.handle, volume.name, volume.claim);
            found.push(finding(Damage::VolumeWithoutPv, object));
        }
        if !volume.claim.is_empty() {
            of_claim
                .entry(&volume.claim)
                .or_default()
                .insert(&volume.handle);
        }
    }
    for volume in &state.volumes {
        if !stored.contains(volume.handle.as_str()) {
            let object = format!("{} ({})", volume.name, volume.handle);
            found.push(finding(Damage::PvWithoutVolume, object));
        }
        if !volume.claim_name.is_empty() {
            let volumes = of_claim.entry(&volume.claim_name).or_default();
            volumes.insert(&volume.handle);
        }
    }
    for (claim, volumes) in of_claim {
        if volumes.len() > 1 {
            let object = format!("{claim}: {volumes:?}");
            found.push(finding(Damage::TwoVolumes, object));
        }
    }
    found
}

/// Whether an administrator has left it there, or has deleted its journal entry.
fn is_nobodys(state: &State, volume: &Stored) -> bool {
    let known = &state.known;
    let claim = volume.name.strip_prefix("pvc-");
    known.free.contains(&volume.handle)
        || known.kept.contains(&volume.handle)
        || claim.is_some_and(|uid| known.given_up.contains(uid))
}

/// Compares attachments in the cluster and in the storage.
fn attachments(state: &State) -> Vec<Finding> {
    let handles: BTreeMap<_, _> = { state.volumes.iter() }
        .map(|it| (it.name.as_str(), it.handle.as_str()))
        .collect();
    let attached: BTreeSet<_> = { state.stored.iter() }
        .flat_map(|it| {
            it.nodes
                .iter()
                .map(|node| (it.handle.as_str(), node.as_str()))
        })
        .collect();
    let mut wanted = BTreeSet::new();
    let mut found = Vec::new();
    for object in &state.attachments {
        let handle = handles.get(object.volume.as_str()).copied();
        let place = (handle.unwrap_or_default(), object.node.as_str());
        wanted.insert(place);
        if object.attached && !object.terminating && !attached.contains(&place) {
            found.push(finding(Damage::ObjectWithoutAttached, &object.name));
        }
    }
    for (handle, node) in attached.difference(&wanted) {
        let object = format!("{handle} on {node}");
        found.push(finding(Damage::AttachedWithoutObject, object));
    }
    found
}

/// Work that is still in progress.
fn settled(state: &State) -> Vec<Finding> {
    let mut found = Vec::new();
    for claim in &state.claims {
        if claim.terminating {
            found.push(finding(Damage::ClaimStays, &claim.name));
            continue;
        }
        let made = |name: &String| state.volumes.iter().any(|it| it.name == *name);
        let hopeless = { claim.source.as_ref() }.is_some_and(|it| !is_there(state, it)) || {
            claim.made_for.as_ref()
        }
        .is_some_and(|it| !made(it));
        if !claim.bound && !hopeless {
            found.push(finding(Damage::ClaimPending, &claim.name));
        }
    }
    for volume in &state.volumes {
        let claim = state.claims.iter().find(|it| it.uid == volume.claim);
        // A PersistentVolume made by hand may wait for its claim, or outlive it.
        let alone = claim.is_none() && !volume.retained && !volume.claim.is_empty();
        if volume.terminating || alone {
            found.push(finding(Damage::PvStays, &volume.name));
        }
        found.extend(claim.and_then(|claim| size(state, claim, volume)));
    }
    for object in &state.attachments {
        if object.terminating {
            found.push(finding(Damage::AttachmentStays, &object.name));
        } else if !object.attached {
            found.push(finding(Damage::NotAttached, &object.name));
        }
    }
    let going = state.namespaces.iter().filter(|it| it.terminating);
    found.extend(going.map(|it| finding(Damage::NamespaceStays, &it.name)));
    found
}

/// Whether the data source of a copy exists.
fn is_there(state: &State, origin: &Origin) -> bool {
    match origin {
        Origin::Claim(name) => {
            let claim = state.claims.iter().find(|it| it.name == *name);
            claim.is_some_and(|it| it.bound && !it.terminating)
        }
        Origin::Snapshot(name) => {
            let snapshot = state.snapshots.iter().find(|it| it.name == *name);
            snapshot.is_some_and(|it| it.ready && !it.terminating)
        }
    }
}

/// Checks that claim, PersistentVolume and storage agree on the size.
fn size(state: &State, claim: &Claim, volume: &Volume) -> Option<Finding> {
    let stored = state.stored.iter().find(|it| it.handle == volume.handle)?;
    let same = claim.capacity == volume.capacity && volume.capacity == stored.capacity;
    let enough = claim.capacity >= claim.requested;
    let done = same && enough && !claim.growing;
    (claim.bound && !claim.terminating && !done).then(|| {
        let object = format!(
            "{}: asked for {}, claim {}{}, PersistentVolume {}, storage {}",
            claim.name,
            claim.requested,
            claim.capacity,
            if claim.growing { " and growing" } else { "" },
            volume.capacity,
            stored.capacity
        );
        finding(Damage::Size, object)
    })
}

/// Everything that is left.
fn left(state: &State) -> Vec<Finding> {
    let claims = state.claims.iter().map(|it| (Damage::ClaimStays, &it.name));
    let volumes = state.volumes.iter().map(|it| (Damage::PvStays, &it.name));
    let objects = state
        .attachments
        .iter()
        .map(|it| (Damage::AttachmentStays, &it.name));
    let namespaces = state
        .namespaces
        .iter()
        .map(|it| (Damage::NamespaceStays, &it.name));
    let all = claims.chain(volumes).chain(objects).chain(namespaces);
    all.map(|(damage, name)| finding(damage, name)).collect()
}

#[cfg(test)]
#[path = "audit/tests.rs"]
mod tests;
