//! Chooses the topology of a new volume.

use std::collections::BTreeMap;

use csi_proto::csi;
use tonic::Code;

use super::{Policy, Refusal, capacity};
use crate::model::state::State;
use crate::model::topology::{self, Segments};

/// The topology of a new volume of `bytes`: the first candidate that some node can access and that
/// has enough capacity.
pub fn choose(
    state: &State,
    policy: &Policy,
    parameters: &BTreeMap<String, String>,
    requirement: Option<&csi::TopologyRequirement>,
    bytes: i64,
) -> Result<Vec<Segments>, Refusal> {
    if !policy.topology {
        let room = has_room(state, policy, parameters, &Segments::new(), bytes)?;
        return if room {
            Ok(Vec::new())
        } else {
            Err(exhausted(bytes, "here"))
        };
    }
    let mut candidates = topology::candidates(requirement);
    if candidates.is_empty() {
        candidates = every_place(state);
    }
    let mut reachable = 0;
    for candidate in candidates {
        let mut nodes = state.nodes.values();
        if !policy.any_node && !nodes.any(|node| topology::reaches(&node.topology, &candidate)) {
            continue;
        }
        reachable += 1;
        if has_room(state, policy, parameters, &candidate, bytes)? {
            return Ok(if candidate.is_empty() {
                Vec::new()
            } else {
                vec![candidate]
            });
        }
    }
    let place = if reachable == 0 {
        "in a place that a node reaches"
    } else {
        "in any place"
    };
    Err(exhausted(bytes, place))
}

fn exhausted(bytes: i64, place: &str) -> Refusal {
    Refusal::new(
        Code::ResourceExhausted,
        format!("no room for {bytes} bytes {place}"),
    )
}

fn has_room(
    state: &State,
    policy: &Policy,
    parameters: &BTreeMap<String, String>,
    place: &Segments,
    bytes: i64,
) -> Result<bool, Refusal> {
    Ok(capacity::free(state, policy, parameters, place)?.is_none_or(|free| free >= bytes))
}

fn every_place(state: &State) -> Vec<Segments> {
    let mut places: Vec<Segments> = Vec::new();
    for node in state.nodes.values() {
        if !places.contains(&node.topology) {
            places.push(node.topology.clone());
        }
    }
    if places.is_empty() {
        vec![Segments::new()]
    } else {
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{node, policy, put, segments, state, topology_requirement, volume};

    fn zones(places: Result<Vec<Segments>, Refusal>) -> Result<Vec<String>, Code> {
        let list = places.map_err(|error| error.code)?;
        Ok(list.iter().map(topology::canonical).collect())
    }

    #[test]
    fn the_first_preferred_place_with_a_node_and_room_wins() {
        let mut full = volume("v1", 1);
        full.capacity = 100;
        full.topology = vec![segments("zone=b")];
        let state = state([put(full), node("n1", "zone=a", 0), node("n2", "zone=b", 0)]);
        let mut policy = policy();
        let none = BTreeMap::new();
        let wanted = topology_requirement(&["zone=a", "zone=b", "zone=c"], &["zone=c", "zone=b"]);
        let choose = |policy: &Policy| zones(choose(&state, policy, &none, Some(&wanted), 10));
        assert_eq!(
            choose(&policy),
            Ok(vec!["zone=b".to_owned()]),
            "no node in c"
        );
        policy.capacity = BTreeMap::from([("fast".to_owned(), 105)]);
        assert_eq!(choose(&policy), Ok(vec!["zone=a".to_owned()]), "b is full");
        policy.capacity = BTreeMap::from([("fast".to_owned(), 5)]);
        assert_eq!(choose(&policy), Err(Code::ResourceExhausted));
        policy.topology = false;
        policy.capacity.clear();
        assert_eq!(choose(&policy), Ok(vec![]));
    }

    #[test]
    fn without_requirement_any_known_place_will_do() {
        let none = BTreeMap::new();
        let known = state([node("n1", "zone=a", 0)]);
        let choose = |state: &State| zones(choose(state, &policy(), &none, None, 10));
        assert_eq!(choose(&known), Ok(vec!["zone=a".to_owned()]));
        assert_eq!(
            choose(&State::default()),
            Err(Code::ResourceExhausted),
            "no node at all"
        );
    }

    #[test]
    fn a_place_without_nodes_exhausts_unless_any_node_is_accepted() {
        let state = state([node("n1", "zone=a", 0)]);
        let wanted = topology_requirement(&["zone=z"], &[]);
        let mut policy = policy();
        let none = BTreeMap::new();
        let choose = |policy: &Policy| zones(choose(&state, policy, &none, Some(&wanted), 10));
        assert_eq!(choose(&policy), Err(Code::ResourceExhausted));
        policy.any_node = true;
        assert_eq!(choose(&policy), Ok(vec!["zone=z".to_owned()]));
    }
}
