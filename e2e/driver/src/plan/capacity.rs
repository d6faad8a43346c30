//! Sizes: the size for a capacity range, and the free capacity of a pool.
//!
//! There is one pool per kind of storage (StorageClass parameter `kind`) and topology, each with
//! the size in the flag `--capacity=KIND=QUANTITY`. Without that flag storage is unlimited.

use std::collections::BTreeMap;

use csi_proto::csi;
use tonic::Code;

use super::{Policy, Refusal};
use crate::model::state::State;
use crate::model::topology::{self, Segments};

/// StorageClass parameter that selects the kind of storage.
pub const KIND_PARAMETER: &str = "kind";

/// Size of a volume without a requested size.
pub const DEFAULT_SIZE: i64 = 1 << 30;

/// Size for a range; `minimum` is the size of the content source.
pub fn size(range: Option<&csi::CapacityRange>, minimum: i64, max: i64) -> Result<i64, Refusal> {
    let (required, limit) = range.map_or((0, 0), |r| (r.required_bytes, r.limit_bytes));
    if required < 0 || limit < 0 {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "capacity range is negative",
        ));
    }
    if limit > 0 && required > limit {
        let message = format!("required {required} bytes exceed the limit of {limit} bytes");
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    let out_of_range = |message: String| Err(Refusal::new(Code::OutOfRange, message));
    let wanted = match (required, minimum) {
        (0, 0) if limit > 0 => DEFAULT_SIZE.min(limit),
        (0, 0) => DEFAULT_SIZE,
        (0, minimum) => minimum,
        (required, _) => required,
    };
    if wanted < minimum {
        return out_of_range(format!(
            "{wanted} bytes are less than the source's {minimum} bytes"
        ));
    }
    if limit > 0 && wanted > limit {
        return out_of_range(format!(
            "the source's {minimum} bytes exceed the limit of {limit}"
        ));
    }
    if wanted > max {
        return out_of_range(format!(
            "{wanted} bytes exceed the maximum volume size of {max}"
        ));
    }
    Ok(wanted)
}

/// Whether an existing size lies in the range.
pub fn within(size: i64, range: Option<&csi::CapacityRange>) -> bool {
    let (required, limit) = range.map_or((0, 0), |r| (r.required_bytes, r.limit_bytes));
    size >= required && (limit == 0 || size <= limit)
}

/// Free bytes for `parameters` at `place`; `None` without a limit.
pub fn free(
    state: &State,
    policy: &Policy,
    parameters: &BTreeMap<String, String>,
    place: &Segments,
) -> Result<Option<i64>, Refusal> {
    if policy.capacity.is_empty() {
        return Ok(None);
    }
    let kind = parameters.get(KIND_PARAMETER).map(String::as_str);
    let Some(kind) = kind.or_else(|| only(&policy.capacity)) else {
        let message = format!("parameter {KIND_PARAMETER:?} must name one of the kinds of storage");
        return Err(Refusal::new(Code::InvalidArgument, message));
    };
    let Some(total) = policy.capacity.get(kind) else {
        let message = format!("no storage of kind {kind:?}");
        return Err(Refusal::new(Code::InvalidArgument, message));
    };
    let pool = topology::canonical(place);
    let volumes = state.volumes.values().filter(|volume| {
        let volume_kind = volume.parameters.get(KIND_PARAMETER).map(String::as_str);
        volume_kind.or_else(|| only(&policy.capacity)) == Some(kind)
            && volume
                .topology
                .first()
                .map_or_else(String::new, topology::canonical)
                == pool
    });
    let used: i64 = volumes
        .map(|volume| volume.capacity)
        .fold(0, i64::saturating_add);
    Ok(Some(total.saturating_sub(used).max(0)))
}

fn only(capacity: &BTreeMap<String, i64>) -> Option<&str> {
    match capacity.len() {
        1 => capacity.keys().next().map(String::as_str),
        _ => None,
    }
}

/// The response to GetCapacity.
pub fn answer(
    state: &State,
    policy: &Policy,
    request: &csi::GetCapacityRequest,
) -> Result<csi::GetCapacityResponse, Refusal> {
    let place = topology::segments(request.accessible_topology.as_ref());
    let unreachable = policy.topology
        && !place.is_empty()
        && !policy.any_node
        && !state
            .nodes
            .values()
            .any(|node| topology::reaches(&node.topology, &place));
    let available = if unreachable {
        0
    } else {
        match free(state, policy, &request.parameters, &place) {
            Ok(free) => free.unwrap_or(policy.max_volume_size),
            // An unknown kind of storage is no error here: it has no capacity.
            Err(_) => 0,
        }
    };
    Ok(csi::GetCapacityResponse {
        available_capacity: available,
        // If it is set, the scheduler uses only this value.
        maximum_volume_size: Some(policy.max_volume_size.min(available)),
        minimum_volume_size: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{node, policy, put, segments, state, volume};

    fn range(required: i64, limit: i64) -> csi::CapacityRange {
        csi::CapacityRange {
            required_bytes: required,
            limit_bytes: limit,
        }
    }

    #[test]
    fn sizes_follow_the_range() {
        let max = 1 << 40;
        for (required, limit, minimum, expected) in [
            (0, 0, 0, Ok(DEFAULT_SIZE)),
            (0, 4096, 0, Ok(4096)),
            (5, 0, 0, Ok(5)),
            (0, 0, 77, Ok(77)),
            (77, 0, 77, Ok(77)),
            (76, 0, 77, Err(Code::OutOfRange)),
            (0, 76, 77, Err(Code::OutOfRange)),
            (6, 5, 0, Err(Code::InvalidArgument)),
            (-1, 0, 0, Err(Code::InvalidArgument)),
            (0, -1, 0, Err(Code::InvalidArgument)),
            (max, 0, 0, Ok(max)),
            (max + 1, 0, 0, Err(Code::OutOfRange)),
        ] {
            let got = size(Some(&range(required, limit)), minimum, max).map_err(|e| e.code);
            assert_eq!(
                got, expected,
                "required {required} limit {limit} minimum {minimum}"
            );
        }
        assert_eq!(size(None, 0, max), Ok(DEFAULT_SIZE));
    }

    fn kind(name: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(KIND_PARAMETER.to_owned(), name.to_owned())])
    }

    #[test]
    fn pools_are_per_kind_and_place() {
        let mut used = volume("v1", 1);
        used.capacity = 30;
        used.parameters = kind("fast");
        used.topology = vec![segments("zone=a")];
        let state = state([put(used), node("n1", "zone=a", 0)]);
        let mut policy = policy();
        let in_a = segments("zone=a");
        assert_eq!(
            free(&state, &policy, &kind("fast"), &in_a),
            Ok(None),
            "no limit configured"
        );
        policy.capacity = BTreeMap::from([("fast".to_owned(), 100), ("slow".to_owned(), 50)]);
        assert_eq!(free(&state, &policy, &kind("fast"), &in_a), Ok(Some(70)));
        assert_eq!(
            free(&state, &policy, &kind("fast"), &segments("zone=b")),
            Ok(Some(100))
        );
        assert_eq!(free(&state, &policy, &kind("slow"), &in_a), Ok(Some(50)));
        let refused = |p: &BTreeMap<String, String>| {
            free(&state, &policy, p, &in_a).map_err(|error| error.code)
        };
        assert_eq!(refused(&kind("tape")), Err(Code::InvalidArgument));
        assert_eq!(refused(&BTreeMap::new()), Err(Code::InvalidArgument));
    }

    #[test]
    fn capacity_answers_zero_where_there_is_no_node_or_no_such_kind() {
        let state = state([node("n1", "zone=a", 0)]);
        let mut policy = policy();
        policy.capacity = BTreeMap::from([("fast".to_owned(), 100)]);
        let ask = |zone: &str, storage: &str| {
            let request = csi::GetCapacityRequest {
                parameters: kind(storage),
                accessible_topology: Some(topology::message(&segments(zone))),
                ..Default::default()
            };
            answer(&state, &policy, &request)
                .unwrap()
                .available_capacity
        };
        assert_eq!(ask("zone=a", "fast"), 100);
        assert_eq!(ask("zone=b", "fast"), 0);
        assert_eq!(ask("zone=a", "tape"), 0);
        assert_eq!(ask("", "fast"), 100);
        let anywhere = csi::GetCapacityRequest {
            parameters: kind("fast"),
            ..Default::default()
        };
        for (most, expected) in [(1 << 40, 100), (7, 7)] {
            policy.max_volume_size = most;
            let answer = answer(&state, &policy, &anywhere).unwrap();
            assert_eq!(answer.maximum_volume_size, Some(expected), "largest volume");
        }
    }
}
