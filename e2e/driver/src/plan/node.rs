//! NodeStageVolume, NodePublishVolume and their reverse calls.
//!
//! With `--check-volume-lifecycle` the order stage, publish, unpublish, unstage is enforced.

use csi_proto::csi;
use tonic::Code;

use super::{Policy, Refusal, capability, capacity, create, required};
use crate::model::state::State;
use crate::model::topology::Segments;
use crate::model::volume::{Backing, Kind, Phase, Publication, Volume, access_mode};

/// Volume context key with which kubelet marks an inline volume.
pub const EPHEMERAL_KEY: &str = "csi.storage.k8s.io/ephemeral";

/// Volume attribute with the size of an inline volume.
pub const SIZE_KEY: &str = "size";

/// The node this driver runs on.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// Node id.
    pub id: &'a str,
    /// Its topology segments.
    pub topology: &'a Segments,
}

/// A volume after a call, and whether the call changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The volume after the call.
    pub volume: Volume,
    /// The call repeats an earlier one.
    pub repeated: bool,
}

/// Decides a NodeStageVolume call.
pub fn stage(
    state: &State,
    policy: &Policy,
    here: Here<'_>,
    request: &csi::NodeStageVolumeRequest,
) -> Result<Outcome, Refusal> {
    let id = required(&request.volume_id, "volume ID")?;
    let path = required(&request.staging_target_path, "staging target path")?;
    let kind = capability::required(request.volume_capability.as_ref())?;
    let volume = existing(state, id)?;
    capability::fits(volume, kind)?;
    check_here(policy, here, volume)?;
    let staged = volume.staged.get(here.id);
    if staged.is_some_and(|paths| paths.contains(path)) {
        return Ok(Outcome {
            volume: volume.clone(),
            repeated: true,
        });
    }
    let mut volume = volume.clone();
    volume
        .staged
        .entry(here.id.to_owned())
        .or_default()
        .insert(path.to_owned());
    Ok(Outcome {
        volume,
        repeated: false,
    })
}

/// Decides a NodeUnstageVolume call; `None` for an unknown volume.
pub fn unstage(
    state: &State,
    policy: &Policy,
    here: Here<'_>,
    request: &csi::NodeUnstageVolumeRequest,
) -> Result<Option<Volume>, Refusal> {
    let id = required(&request.volume_id, "volume ID")?;
    let path = required(&request.staging_target_path, "staging target path")?;
    let Some(volume) = state.volumes.get(id) else {
        return Ok(None);
    };
    let mut targets = volume.published.get(here.id).into_iter().flatten();
    let user = targets.find(|(_, publication)| publication.staging == path);
    if let Some((target, _)) = user
        && policy.check_lifecycle
    {
        let message = format!("volume {id} is still published at {target}");
        return Err(Refusal::new(Code::FailedPrecondition, message));
    }
    let mut volume = volume.clone();
    if let Some(paths) = volume.staged.get_mut(here.id) {
        paths.remove(path);
        if paths.is_empty() {
            volume.staged.remove(here.id);
        }
    }
    Ok(Some(volume))
}

/// Decides a NodePublishVolume call.
pub fn publish(
    state: &State,
    policy: &Policy,
    here: Here<'_>,
    request: &csi::NodePublishVolumeRequest,
) -> Result<Outcome, Refusal> {
    let id = required(&request.volume_id, "volume ID")?;
    let target = required(&request.target_path, "target path")?;
    let kind = capability::required(request.volume_capability.as_ref())?;
    let inline = request
        .volume_context
        .get(EPHEMERAL_KEY)
        .is_some_and(|value| value == "true");
    let volume = match state.volumes.get(id) {
        Some(volume) => volume.clone(),
        None if inline => inline_volume(state, policy, here, request, kind)?,
        None => return Err(not_found(id)),
    };
    capability::fits(&volume, kind)?;
    let staging = request.staging_target_path.as_str();
    if !volume.ephemeral {
        check_here(policy, here, &volume)?;
        let staged = volume.staged.get(here.id);
        if policy.check_lifecycle
            && !staging.is_empty()
            && !staged.is_some_and(|paths| paths.contains(staging))
        {
            let message = format!("volume {id} is not staged at {staging}");
            return Err(Refusal::new(Code::FailedPrecondition, message));
        }
    }
    let mode = request.volume_capability.as_ref().map_or(0, access_mode);
    let wanted = Publication {
        readonly: request.readonly,
        staging: staging.to_owned(),
        access_mode: mode,
    };
    add_target(volume, here, target, wanted)
}

fn add_target(
    mut volume: Volume,
    here: Here<'_>,
    target: &str,
    wanted: Publication,
) -> Result<Outcome, Refusal> {
    let id = &volume.id;
    let targets = volume.published.get(here.id);
    match targets.and_then(|targets| targets.get(target)) {
        Some(existing) if *existing == wanted => {
            return Ok(Outcome {
                volume,
                repeated: true,
            });
        }
        Some(_) => {
            let message = format!("volume {id} is published at {target} in another way");
            return Err(Refusal::new(Code::AlreadyExists, message));
        }
        None => {}
    }
    let other = targets.into_iter().flatten().next();
    if let Some((other, publication)) = other
        && (capability::is_single_writer(wanted.access_mode)
            || capability::is_single_writer(publication.access_mode))
    {
        let message = format!("volume {id} is published at {other} for a single writer");
        return Err(Refusal::new(Code::FailedPrecondition, message));
    }
    let targets = volume.published.entry(here.id.to_owned()).or_default();
    targets.insert(target.to_owned(), wanted);
    Ok(Outcome {
        volume,
        repeated: false,
    })
}

/// Decides a NodeUnpublishVolume call; `None` for an unknown volume.
pub fn unpublish(
    state: &State,
    here: Here<'_>,
    request: &csi::NodeUnpublishVolumeRequest,
) -> Result<Option<Volume>, Refusal> {
    let id = required(&request.volume_id, "volume ID")?;
    let target = required(&request.target_path, "target path")?;
    let Some(volume) = state.volumes.get(id) else {
        return Ok(None);
    };
    let mut volume = volume.clone();
    if let Some(targets) = volume.published.get_mut(here.id) {
        targets.remove(target);
        if targets.is_empty() {
            volume.published.remove(here.id);
        }
    }
    if volume.ephemeral && volume.published.is_empty() {
        volume.phase = Phase::Deleting;
    }
    Ok(Some(volume))
}

fn existing<'a>(state: &'a State, id: &str) -> Result<&'a Volume, Refusal> {
    state.volumes.get(id).ok_or_else(|| not_found(id))
}

fn not_found(id: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("volume {id} does not exist"))
}

/// Checks that this node may use the volume now.
fn check_here(policy: &Policy, here: Here<'_>, volume: &Volume) -> Result<(), Refusal> {
    if !policy.check_lifecycle {
        return Ok(());
    }
    let problem = if volume.phase != Phase::Ready {
        "is not complete"
    } else if policy.attach && !volume.attachments.contains_key(here.id) {
        "is not attached to this node"
    } else if policy.topology && !volume.reachable_from(here.topology) {
        "is not accessible from this node"
    } else {
        return Ok(());
    };
    let message = format!("volume {} {problem}", volume.id);
    Err(Refusal::new(Code::FailedPrecondition, message))
}

fn inline_volume(
    state: &State,
    policy: &Policy,
    here: Here<'_>,
    request: &csi::NodePublishVolumeRequest,
    kind: Kind,
) -> Result<Volume, Refusal> {
    let bytes = match request.volume_context.get(SIZE_KEY) {
        None => capacity::DEFAULT_SIZE,
        Some(text) => inline_size(text)?,
    };
    if bytes > policy.max_volume_size {
        let max = policy.max_volume_size;
        let message = format!("{bytes} bytes exceed the maximum volume size of {max}");
        return Err(Refusal::new(Code::OutOfRange, message));
    }
    let image = kind == Kind::Block || policy.fs_images;
    let fs_type = request
        .volume_capability
        .as_ref()
        .and_then(create::mount_fs_type);
    Ok(Volume {
        id: request.volume_id.clone(),
        sequence: state.sequence + 1,
        name: String::new(),
        capacity: bytes,
        grown_to: bytes,
        kind,
        backing: if image {
            Backing::Image
        } else {
            Backing::Directory
        },
        fs_type: fs_type.unwrap_or_default().to_owned(),
        ephemeral: true,
        phase: Phase::Creating,
        parameters: request.volume_context.clone(),
        mutable_parameters: Default::default(),
        source: None,
        topology: if policy.topology {
            vec![here.topology.clone()]
        } else {
            Vec::new()
        },
        attachments: Default::default(),
        staged: Default::default(),
        published: Default::default(),
    })
}

fn inline_size(text: &str) -> Result<i64, Refusal> {
    let invalid = || {
        let message = format!("volume attribute {SIZE_KEY}={text:?} is not a quantity of bytes");
        Refusal::new(Code::InvalidArgument, message)
    };
    crate::size::parse(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(invalid)
}

#[cfg(test)]
#[path = "node/tests.rs"]
mod tests;
