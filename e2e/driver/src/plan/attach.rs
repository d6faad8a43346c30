//! ControllerPublishVolume and ControllerUnpublishVolume.

use csi_proto::csi;
use tonic::Code;

use super::{Policy, Refusal, capability, required};
use crate::model::state::State;
use crate::model::volume::{Attachment, Volume, access_mode};

/// The volume with the attachment; unchanged if it is already attached. `limit` overrides the
/// node's own.
pub fn publish(
    state: &State,
    policy: &Policy,
    limit: Option<i64>,
    request: &csi::ControllerPublishVolumeRequest,
) -> Result<Volume, Refusal> {
    let id = required(&request.volume_id, "volume ID")?;
    let node_id = required(&request.node_id, "node ID")?;
    let kind = capability::required(request.volume_capability.as_ref())?;
    let Some(volume) = state.volumes.get(id) else {
        return Err(Refusal::new(
            Code::NotFound,
            format!("volume {id} does not exist"),
        ));
    };
    let node = state.nodes.get(node_id);
    if node.is_none() && !policy.any_node {
        return Err(Refusal::new(
            Code::NotFound,
            format!("node {node_id} does not exist"),
        ));
    }
    capability::fits(volume, kind)?;
    if let Some(node) = node
        && policy.check_lifecycle
        && !volume.reachable_from(&node.topology)
    {
        let message = format!("volume {id} is not accessible from node {node_id}");
        return Err(Refusal::new(Code::FailedPrecondition, message));
    }
    let mode = request.volume_capability.as_ref().map_or(0, access_mode);
    let wanted = Attachment {
        readonly: request.readonly,
        access_mode: mode,
    };
    match volume.attachments.get(node_id) {
        Some(existing) if *existing == wanted => return Ok(volume.clone()),
        Some(_) => {
            let message = format!("volume {id} is attached to node {node_id} in another way");
            return Err(Refusal::new(Code::AlreadyExists, message));
        }
        None => {}
    }
    check_other_nodes(volume, mode)?;
    let limit = limit.unwrap_or_else(|| node.map_or(0, |node| node.attach_limit));
    if limit > 0 && i64::try_from(state.attached_to(node_id)).is_ok_and(|used| used >= limit) {
        let message = format!("node {node_id} has its maximum of {limit} attached volumes");
        return Err(Refusal::new(Code::ResourceExhausted, message));
    }
    let mut volume = volume.clone();
    volume.attachments.insert(node_id.to_owned(), wanted);
    Ok(volume)
}

fn check_other_nodes(volume: &Volume, mode: i32) -> Result<(), Refusal> {
    let exclusive = |(_, a): &(&String, &Attachment)| {
        capability::is_single_node(mode) || capability::is_single_node(a.access_mode)
    };
    match volume.attachments.iter().find(exclusive) {
        Some((other, _)) => {
            let message = format!("volume {} is attached to node {other}", volume.id);
            Err(Refusal::new(Code::FailedPrecondition, message))
        }
        None => Ok(()),
    }
}

/// The volume without the attachment (without all, if no node is named); `None` if nothing has to
/// change.
pub fn unpublish(
    state: &State,
    request: &csi::ControllerUnpublishVolumeRequest,
) -> Result<Option<Volume>, Refusal> {
    let id = required(&request.volume_id, "volume ID")?;
    let Some(volume) = state.volumes.get(id) else {
        return Ok(None);
    };
    let mut volume = volume.clone();
    let before = volume.attachments.len();
    if request.node_id.is_empty() {
        volume.attachments.clear();
    } else {
        volume.attachments.remove(&request.node_id);
    }
    Ok((volume.attachments.len() != before).then_some(volume))
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::volume_capability::access_mode::Mode;

    use super::*;
    use crate::plan::testing::{block, mount, node, policy, put, segments, state, volume};

    fn request(node: &str, mode: Mode) -> csi::ControllerPublishVolumeRequest {
        csi::ControllerPublishVolumeRequest {
            volume_id: "v1".to_owned(),
            node_id: node.to_owned(),
            volume_capability: Some(mount(mode)),
            ..Default::default()
        }
    }

    fn two_nodes(volume: Volume) -> State {
        state([
            put(volume),
            node("n1", "zone=a", 0),
            node("n2", "zone=b", 0),
        ])
    }

    fn code(state: &State, request: &csi::ControllerPublishVolumeRequest) -> Code {
        publish(state, &policy(), None, request).unwrap_err().code
    }

    #[test]
    fn publishing_twice_is_the_same_as_once() {
        let first = publish(
            &two_nodes(volume("v1", 1)),
            &policy(),
            None,
            &request("n1", Mode::SingleNodeWriter),
        );
        let first = first.unwrap();
        assert!(first.attachments.contains_key("n1"));
        let state = two_nodes(first.clone());
        let again = publish(
            &state,
            &policy(),
            None,
            &request("n1", Mode::SingleNodeWriter),
        )
        .unwrap();
        assert_eq!(again, first);
        let mut readonly = request("n1", Mode::SingleNodeWriter);
        readonly.readonly = true;
        assert_eq!(code(&state, &readonly), Code::AlreadyExists);
    }

    #[test]
    fn a_single_node_volume_goes_to_one_node_a_shared_one_to_many() {
        let attach = |mode| {
            publish(
                &two_nodes(volume("v1", 1)),
                &policy(),
                None,
                &request("n1", mode),
            )
            .unwrap()
        };
        let single = two_nodes(attach(Mode::SingleNodeWriter));
        assert_eq!(
            code(&single, &request("n2", Mode::SingleNodeWriter)),
            Code::FailedPrecondition
        );
        assert_eq!(
            code(&single, &request("n2", Mode::MultiNodeMultiWriter)),
            Code::FailedPrecondition
        );
        let shared = two_nodes(attach(Mode::MultiNodeMultiWriter));
        let both = publish(
            &shared,
            &policy(),
            None,
            &request("n2", Mode::MultiNodeMultiWriter),
        )
        .unwrap();
        assert_eq!(both.attachments.len(), 2);
    }

    #[test]
    fn bad_requests_have_the_codes_of_the_specification() {
        let state = two_nodes(volume("v1", 1));
        let writer = Mode::SingleNodeWriter;
        assert_eq!(code(&state, &request("", writer)), Code::InvalidArgument);
        assert_eq!(code(&state, &request("n9", writer)), Code::NotFound);
        assert_eq!(
            code(&State::default(), &request("n1", writer)),
            Code::NotFound
        );
        let mut other = request("n1", writer);
        other.volume_capability = None;
        assert_eq!(code(&state, &other), Code::InvalidArgument);
        other.volume_capability = Some(block(writer));
        assert_eq!(code(&state, &other), Code::InvalidArgument);
    }

    #[test]
    fn unreachable_nodes_and_full_nodes_are_refused() {
        let mut placed = volume("v1", 1);
        placed.topology = vec![segments("zone=a")];
        let writer = Mode::SingleNodeWriter;
        let state_placed = two_nodes(placed);
        assert_eq!(
            code(&state_placed, &request("n2", writer)),
            Code::FailedPrecondition
        );
        assert!(publish(&state_placed, &policy(), None, &request("n1", writer)).is_ok());

        let mut other = volume("v2", 2);
        other.attachments.insert(
            "n1".to_owned(),
            Attachment {
                readonly: false,
                access_mode: 1,
            },
        );
        let full = state([put(volume("v1", 1)), put(other), node("n1", "", 1)]);
        assert_eq!(code(&full, &request("n1", writer)), Code::ResourceExhausted);
    }

    #[test]
    fn unpublishing_is_idempotent_and_no_node_means_all() {
        let mut attached = volume("v1", 1);
        for node in ["n1", "n2"] {
            let attachment = Attachment {
                readonly: false,
                access_mode: 5,
            };
            attached.attachments.insert(node.to_owned(), attachment);
        }
        let state = two_nodes(attached);
        let ask = |id: &str, node: &str| {
            let request = csi::ControllerUnpublishVolumeRequest {
                volume_id: id.to_owned(),
                node_id: node.to_owned(),
                ..Default::default()
            };
            let answer = unpublish(&state, &request).map_err(|error| error.code)?;
            Ok::<_, Code>(answer.map(|volume| volume.attachments.len()))
        };
        assert_eq!(ask("v1", "n1"), Ok(Some(1)));
        assert_eq!(ask("v1", ""), Ok(Some(0)));
        assert_eq!(ask("v1", "n3"), Ok(None));
        assert_eq!(ask("gone", "n1"), Ok(None));
        assert_eq!(ask("", "n1"), Err(Code::InvalidArgument));
    }
}
