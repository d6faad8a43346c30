//! ControllerExpandVolume and NodeExpandVolume.

use csi_proto::csi;
use tonic::Code;

use super::{Policy, Refusal, capacity, required};
use crate::model::state::State;
use crate::model::topology::Segments;
use crate::model::volume::Volume;

/// The volume with its new capacity; unchanged if it is already large enough.
pub fn controller(
    state: &State,
    policy: &Policy,
    request: &csi::ControllerExpandVolumeRequest,
) -> Result<Volume, Refusal> {
    required(&request.volume_id, "volume ID")?;
    let Some(range) = request.capacity_range.as_ref() else {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "capacity range missing in request",
        ));
    };
    let Some(volume) = state.volumes.get(&request.volume_id) else {
        return Err(not_found(&request.volume_id));
    };
    let wanted = capacity::size(Some(range), 0, policy.max_volume_size)?;
    let mut volume = volume.clone();
    if wanted <= volume.capacity {
        return Ok(volume);
    }
    let place = volume
        .topology
        .first()
        .cloned()
        .unwrap_or_else(Segments::new);
    if let Some(free) = capacity::free(state, policy, &volume.parameters, &place)?
        && free < wanted - volume.capacity
    {
        let message = format!("no room for {wanted} bytes, {free} more bytes are free");
        return Err(Refusal::new(Code::ResourceExhausted, message));
    }
    volume.capacity = wanted;
    if !policy.node_expansion {
        volume.grown_to = wanted;
    }
    Ok(volume)
}

/// The volume after the node expansion.
pub fn node(
    state: &State,
    policy: &Policy,
    request: &csi::NodeExpandVolumeRequest,
) -> Result<Volume, Refusal> {
    required(&request.volume_id, "volume ID")?;
    required(&request.volume_path, "volume path")?;
    let Some(volume) = state.volumes.get(&request.volume_id) else {
        return Err(not_found(&request.volume_id));
    };
    let range = request.capacity_range.as_ref();
    let wanted = range.map_or(0, |range| range.required_bytes);
    if wanted < 0 {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "capacity range is negative",
        ));
    }
    if wanted.max(volume.capacity) > policy.max_volume_size_node {
        let max = policy.max_volume_size_node;
        let message = format!("more than the node's maximum volume size of {max} bytes");
        return Err(Refusal::new(Code::OutOfRange, message));
    }
    let mut volume = volume.clone();
    // Without a controller expansion the node's request enlarges the volume.
    volume.capacity = volume.capacity.max(wanted);
    volume.grown_to = volume.capacity;
    Ok(volume)
}

fn not_found(id: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("volume {id} does not exist"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::testing::{policy, put, state, volume};

    fn request(id: &str, bytes: i64) -> csi::ControllerExpandVolumeRequest {
        csi::ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: Some(csi::CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            ..Default::default()
        }
    }

    #[test]
    fn controller_expansion_grows_and_never_shrinks() {
        let state = state([put(volume("v1", 1))]);
        let mut policy = policy();
        policy.max_volume_size = 8 << 20;
        let grown = controller(&state, &policy, &request("v1", 2 << 20)).unwrap();
        assert_eq!(
            (grown.capacity, grown.grown_to),
            (2 << 20, 1 << 20),
            "the node comes later"
        );
        let same = controller(&state, &policy, &request("v1", 5)).unwrap();
        assert_eq!(same.capacity, 1 << 20);
        let code = |policy: &Policy, request: &csi::ControllerExpandVolumeRequest| {
            controller(&state, policy, request).unwrap_err().code
        };
        assert_eq!(code(&policy, &request("v1", 9 << 20)), Code::OutOfRange);
        assert_eq!(code(&policy, &request("gone", 1)), Code::NotFound);
        let mut bare = request("v1", 1);
        bare.capacity_range = None;
        assert_eq!(code(&policy, &bare), Code::InvalidArgument);
        policy.capacity = BTreeMap::from([("fast".to_owned(), (1 << 20) + 10)]);
        assert_eq!(
            code(&policy, &request("v1", (1 << 20) + 11)),
            Code::ResourceExhausted
        );
        assert!(controller(&state, &policy, &request("v1", (1 << 20) + 10)).is_ok());
    }

    #[test]
    fn node_expansion_follows_the_controller() {
        let mut grown = volume("v1", 1);
        grown.capacity = 2 << 20;
        let state = state([put(grown)]);
        let mut policy = policy();
        let mut request = csi::NodeExpandVolumeRequest {
            volume_id: "v1".to_owned(),
            volume_path: "/somewhere".to_owned(),
            ..Default::default()
        };
        assert_eq!(node(&state, &policy, &request).unwrap().grown_to, 2 << 20);
        policy.max_volume_size_node = 1 << 20;
        assert_eq!(
            node(&state, &policy, &request).unwrap_err().code,
            Code::OutOfRange
        );
        request.volume_path.clear();
        assert_eq!(
            node(&state, &policy, &request).unwrap_err().code,
            Code::InvalidArgument
        );
    }
}
