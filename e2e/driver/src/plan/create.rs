//! CreateVolume and DeleteVolume.

use csi_proto::csi;
use tonic::Code;

use super::{Policy, Refusal, capability, capacity, modify, place, required};
use crate::model::state::State;
use crate::model::topology;
use crate::model::volume::{Backing, Kind, Phase, Source, Volume};

/// The decision about a CreateVolume call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    /// The volume exists.
    Exists(Box<Volume>),
    /// Its data has to be created; also after a crash in the middle of that.
    Make(Box<Volume>),
}

/// Decides a CreateVolume call; `fresh` is the ID of a new volume.
pub fn create(
    state: &State,
    policy: &Policy,
    request: &csi::CreateVolumeRequest,
    fresh: &str,
) -> Result<Creation, Refusal> {
    required(&request.name, "name")?;
    let kind = capability::check_all(&request.volume_capabilities)?;
    modify::check_names(policy, &request.mutable_parameters)?;
    let source = Source::of(request.volume_content_source.as_ref());
    if let Some(existing) = state.volume_named(&request.name) {
        return same(existing, request, kind, source.as_ref());
    }
    let minimum = source_size(state, source.as_ref(), kind)?;
    let range = request.capacity_range.as_ref();
    let bytes = capacity::size(range, minimum, policy.max_volume_size)?;
    let requirement = request.accessibility_requirements.as_ref();
    let topology = place::choose(state, policy, &request.parameters, requirement, bytes)?;
    let image = kind == Kind::Block || policy.fs_images;
    Ok(Creation::Make(Box::new(Volume {
        id: fresh.to_owned(),
        sequence: state.sequence + 1,
        name: request.name.clone(),
        capacity: bytes,
        grown_to: bytes,
        kind,
        backing: if image {
            Backing::Image
        } else {
            Backing::Directory
        },
        fs_type: fs_type(request),
        ephemeral: false,
        phase: Phase::Creating,
        parameters: request.parameters.clone(),
        mutable_parameters: request.mutable_parameters.clone(),
        source,
        topology,
        attachments: Default::default(),
        staged: Default::default(),
        published: Default::default(),
    })))
}

fn fs_type(request: &csi::CreateVolumeRequest) -> String {
    let mut mounts = request.volume_capabilities.iter().filter_map(mount_fs_type);
    mounts.next().unwrap_or_default().to_owned()
}

/// File system of a mount capability.
pub fn mount_fs_type(capability: &csi::VolumeCapability) -> Option<&str> {
    match capability.access_type.as_ref()? {
        csi::volume_capability::AccessType::Mount(mount) => Some(&mount.fs_type),
        csi::volume_capability::AccessType::Block(_) => None,
    }
}

/// Least size of a volume with that source in bytes; an error if it cannot be a source.
fn source_size(state: &State, source: Option<&Source>, kind: Kind) -> Result<i64, Refusal> {
    let not_found = |what: &str, id: &str| {
        Refusal::new(Code::NotFound, format!("source {what} {id} does not exist"))
    };
    let (size, source_kind) = match source {
        None => return Ok(0),
        Some(Source::Snapshot(id)) => {
            let snapshot = state
                .snapshots
                .get(id)
                .ok_or_else(|| not_found("snapshot", id))?;
            if snapshot.phase != Phase::Ready {
                let message = format!("snapshot {id} is not ready yet");
                return Err(Refusal::new(Code::Unavailable, message));
            }
            (snapshot.size, snapshot.kind)
        }
        Some(Source::Volume(id)) => {
            let volume = state
                .volumes
                .get(id)
                .ok_or_else(|| not_found("volume", id))?;
            (volume.capacity, volume.kind)
        }
    };
    if source_kind != kind {
        let message = format!("source is {source_kind:?}, requested is {kind:?}");
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    Ok(size)
}

/// Checks that a repeated call requests the same volume.
fn same(
    existing: &Volume,
    request: &csi::CreateVolumeRequest,
    kind: Kind,
    source: Option<&Source>,
) -> Result<Creation, Refusal> {
    let requirement = request.accessibility_requirements.as_ref();
    let difference = if existing.kind != kind {
        "another access type"
    } else if !capacity::within(existing.capacity, request.capacity_range.as_ref()) {
        "another size"
    } else if existing.source.as_ref() != source {
        "another content source"
    } else if existing.parameters != request.parameters {
        "other parameters"
    } else if !topology::satisfies(&existing.topology, requirement) {
        "another topology"
    } else {
        return match existing.phase {
            Phase::Ready => Ok(Creation::Exists(Box::new(existing.clone()))),
            Phase::Creating => Ok(Creation::Make(Box::new(existing.clone()))),
            Phase::Deleting => Err(Refusal::new(
                Code::Aborted,
                format!("volume {} is being deleted", existing.id),
            )),
        };
    };
    let message = format!(
        "volume {} of that name exists with {difference}",
        existing.id
    );
    Err(Refusal::new(Code::AlreadyExists, message))
}

/// Decides a DeleteVolume call: the volume whose data has to be deleted, `None` if there is none.
pub fn delete(state: &State, policy: &Policy, id: &str) -> Result<Option<Volume>, Refusal> {
    required(id, "volume ID")?;
    let Some(volume) = state.volumes.get(id) else {
        return Ok(None);
    };
    if policy.check_lifecycle
        && let Some(user) = volume.user()
    {
        let message = format!("volume {id} is still {user}");
        return Err(Refusal::new(Code::FailedPrecondition, message));
    }
    Ok(Some(Volume {
        phase: Phase::Deleting,
        ..volume.clone()
    }))
}

#[cfg(test)]
#[path = "create/tests.rs"]
mod tests;
