//! The progress of claims and PersistentVolumes, for service levels.
//!
//! Decisions do not use it: caches derive it from objects, including those that they do not keep.

use jiff::Timestamp;
use sidecar::lifecycle::{End, Id, Look, Progress, Since, Stage, Step};

use crate::model::{ClaimPhase, Reclaim, VolumePhase};

/// The stages that csi-provisioner measures.
pub const STAGES: &[Stage] = &[Stage::Provisioned, Stage::Bound, Stage::Deleted];

/// The fields of a claim that its stages depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimSeen<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// `metadata.creationTimestamp`, in seconds since 1970; 0 if that cannot be read.
    pub created: u32,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether it names this driver.
    pub ours: bool,
    /// The node that the scheduler chose, or the process of a node; empty where there is none.
    pub node: &'a str,
    /// `spec.volumeName`
    pub volume: &'a str,
    /// `status.phase`
    pub phase: ClaimPhase,
}

/// The fields of a PersistentVolume that its stages and its claim's depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeSeen<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// `metadata.creationTimestamp`
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`, in seconds since 1970; 0 where there is none.
    pub deleted: u32,
    /// Whether it was provisioned by this driver or as a volume of the plugin that the driver has replaced.
    pub ours: bool,
    /// Whether it is this driver's to delete: of the plugin it is not before it is marked.
    pub deletable: bool,
    /// Whether it carries the finalizer that says that the volume exists.
    pub held: bool,
    /// `spec.claimRef.uid`
    pub claim: &'a str,
    /// `spec.storageClassName`
    pub class: &'a str,
    /// `spec.persistentVolumeReclaimPolicy`
    pub reclaim: Reclaim,
    /// `status.phase`
    pub phase: VolumePhase,
    /// `status.lastPhaseTransitionTime`
    pub changed: Option<Timestamp>,
}

/// The claim's progress. `node` is the node of this process, in a node deployment.
#[must_use]
pub fn of_claim(claim: &ClaimSeen<'_>, look: Look, node: Option<&str>) -> Vec<Step<'static>> {
    let elsewhere = node.is_some_and(|node| node != claim.node);
    let is_foreign = !claim.ours || elsewhere;
    let names_another_node = claim.ours && elsewhere && !claim.node.is_empty();
    if claim.uid.is_empty() || look == Look::First && is_foreign && !names_another_node {
        return Vec::new();
    }
    let object = Id::of(claim.uid);
    let both = |provisioned, bound| {
        vec![
            Step::new(Stage::Provisioned, object, provisioned),
            Step::new(Stage::Bound, object, bound),
        ]
    };
    let open = claim.phase.is_open() && claim.volume.is_empty();
    if look == Look::Gone || is_foreign || open && claim.deleting {
        return both(Progress::Dropped, Progress::Dropped);
    }
    let created = Since::At(claim.created);
    match (open, claim.node.is_empty()) {
        (true, true) => both(Progress::open(created), Progress::open(created)),
        // No object records when the scheduler selected the node; until then the claim waited for a pod.
        (true, false) => both(Progress::open(Since::Chosen), Progress::Dropped),
        (false, true) => both(
            Progress::Begun(claim.created),
            Progress::Begun(claim.created),
        ),
        (false, false) => both(Progress::Begun(0), Progress::Passed),
    }
}

/// The progress of the volume and of its claim. `node` as with [`of_claim`].
#[must_use]
pub fn of_volume<'a>(volume: &VolumeSeen<'a>, look: Look, node: Option<&str>) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let step =
        |stage, uid: &str, progress| Step::new(stage, Id::of(uid), progress).of_class(volume.class);
    let done = |at, end| Progress::Done { at, end };
    let is_bound = volume.phase == VolumePhase::Bound;
    if look != Look::Gone && !volume.claim.is_empty() {
        if volume.ours {
            let saved = done(volume.created, End::Another);
            steps.push(step(Stage::Provisioned, volume.claim, saved));
            if is_bound {
                let bound = done(volume.changed, End::Another);
                steps.push(step(Stage::Bound, volume.claim, bound));
            }
        } else if is_bound {
            // Another provisioner or an administrator created it: it was not provisioned for this claim.
            let stages = [Stage::Provisioned, Stage::Bound];
            steps.extend(stages.map(|stage| step(stage, volume.claim, Progress::Dropped)));
        }
    }
    // In a node deployment each process deletes the volumes of its node, which only their affinity names.
    if volume.deletable && node.is_none() {
        steps.push(step(Stage::Deleted, volume.uid, leaving(volume, look)));
    }
    steps
}

fn leaving(volume: &VolumeSeen<'_>, look: Look) -> Progress {
    let done = Progress::DONE;
    let (deleting, released) = (volume.deleted != 0, volume.phase == VolumePhase::Released);
    let is_bound = volume.phase == VolumePhase::Bound;
    if look == Look::Gone {
        return done;
    }
    if volume.reclaim != Reclaim::Delete || !(released || deleting && !is_bound) {
        return Progress::Dropped;
    }
    if deleting && !volume.held {
        return done;
    }
    let changed = volume.changed.filter(|_| released);
    let changed = changed.and_then(|changed| u32::try_from(changed.as_second()).ok());
    let since = match changed {
        Some(changed) => Since::At(changed),
        None if deleting => Since::At(volume.deleted),
        None => Since::Seen,
    };
    Progress::open(since)
}

#[cfg(test)]
mod tests;
