//! How far claims and volumes have come, for figures of service levels.
//!
//! Decisions know nothing of it: it is read off the objects, also off those of which nothing is kept.

use jiff::Timestamp;
use sidecar::lifecycle::{End, Id, Look, Since, Stage, Step, What};

use crate::model::{ClaimPhase, Reclaim, VolumePhase};

/// What csi-provisioner measures.
pub const STAGES: &[Stage] = &[Stage::Provisioned, Stage::Bound, Stage::Deleted];

/// What is looked at of a claim.
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

/// What is looked at of a PersistentVolume.
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

/// How far the claim has come. `node`: the node of this process, in a node deployment.
#[must_use]
pub fn of_claim(claim: &ClaimSeen<'_>, look: Look, node: Option<&str>) -> Vec<Step<'static>> {
    let elsewhere = node.is_some_and(|node| node != claim.node);
    let never_ours = !claim.ours || elsewhere && claim.node.is_empty();
    if claim.uid.is_empty() || never_ours && look == Look::First {
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
    if look == Look::Gone || !claim.ours || elsewhere || open && claim.deleting {
        return both(What::Dropped, What::Dropped);
    }
    let opened = |since| What::Open { since, moves: true };
    let created = Since::At(claim.created);
    match (open, claim.node.is_empty()) {
        (true, true) => both(opened(created), opened(created)),
        // Nobody says when the node was chosen, and until then a pod was waited for.
        (true, false) => both(opened(Since::Chosen), What::Dropped),
        (false, true) => both(What::Begun(claim.created), What::Begun(claim.created)),
        (false, false) => both(What::Begun(0), What::Passed),
    }
}

/// How far the volume, and with it its claim, has come. `node` as with [`of_claim`].
#[must_use]
pub fn of_volume<'a>(volume: &VolumeSeen<'a>, look: Look, node: Option<&str>) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let step = |stage, uid: &str, what| Step::new(stage, Id::of(uid), what).of_class(volume.class);
    let done = |at, end| What::Done { at, end };
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
            // Somebody else's, or an administrator's: it was not provisioned for this claim.
            let stages = [Stage::Provisioned, Stage::Bound];
            steps.extend(stages.map(|stage| step(stage, volume.claim, What::Dropped)));
        }
    }
    // In a node deployment each process deletes the volumes of its node, which only their affinity tells.
    if volume.deletable && node.is_none() {
        steps.push(step(Stage::Deleted, volume.uid, leaving(volume, look)));
    }
    steps
}

fn leaving(volume: &VolumeSeen<'_>, look: Look) -> What {
    let done = What::Done {
        at: None,
        end: End::Own,
    };
    let (deleting, released) = (volume.deleted != 0, volume.phase == VolumePhase::Released);
    let is_bound = volume.phase == VolumePhase::Bound;
    if look == Look::Gone {
        return done;
    }
    if volume.reclaim != Reclaim::Delete || !(released || deleting && !is_bound) {
        return What::Dropped;
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
    What::Open { since, moves: true }
}

#[cfg(test)]
mod tests;
