//! Topology segments, and the choice of a new volume's topology.
//!
//! Segments are compared as sets of key and value; the comments on `TopologyRequirement` in the CSI
//! specification define `requisite` and `preferred`.

use std::collections::BTreeMap;

use csi_proto::csi;

/// Topology segments by key, for example `zone` = `a`.
pub type Segments = BTreeMap<String, String>;

/// The segments of a topology message; empty without one.
pub fn segments(topology: Option<&csi::Topology>) -> Segments {
    topology.map(|t| t.segments.clone()).unwrap_or_default()
}

/// The message for `segments`.
pub fn message(segments: &Segments) -> csi::Topology {
    csi::Topology {
        segments: segments.clone(),
    }
}

/// Whether a node with the segments `node` can access volumes of `term`. An empty term is
/// accessible from everywhere.
pub fn reaches(node: &Segments, term: &Segments) -> bool {
    term.iter().all(|(key, value)| node.get(key) == Some(value))
}

/// A canonical text of segments: the key of the capacity pools.
pub fn canonical(segments: &Segments) -> String {
    let pairs: Vec<String> = segments
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

/// The terms of a requirement without duplicates, in the order in which to try them.
pub fn candidates(requirement: Option<&csi::TopologyRequirement>) -> Vec<Segments> {
    let mut terms: Vec<Segments> = Vec::new();
    if let Some(requirement) = requirement {
        for term in requirement.preferred.iter().chain(&requirement.requisite) {
            if !terms.contains(&term.segments) {
                terms.push(term.segments.clone());
            }
        }
    }
    terms
}

/// Whether a volume that is accessible from `places` satisfies the requirement.
pub fn satisfies(places: &[Segments], requirement: Option<&csi::TopologyRequirement>) -> bool {
    let Some(requirement) = requirement else {
        return true;
    };
    if places.is_empty() || requirement.requisite.is_empty() {
        return true;
    }
    let mut requisite = requirement.requisite.iter();
    requisite.any(|term| places.iter().any(|place| reaches(&term.segments, place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Segments {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    fn requirement(requisite: &[&str], preferred: &[&str]) -> csi::TopologyRequirement {
        let terms = |list: &[&str]| list.iter().map(|text| message(&place(text))).collect();
        csi::TopologyRequirement {
            requisite: terms(requisite),
            preferred: terms(preferred),
        }
    }

    #[test]
    fn a_node_reaches_a_term_with_a_subset_of_its_segments() {
        assert!(reaches(&place("zone=a,host=1"), &place("zone=a")));
        assert!(reaches(&place("zone=a"), &place("")));
        assert!(!reaches(&place("zone=a"), &place("zone=b")));
        assert!(!reaches(&place("zone=a"), &place("zone=a,host=1")));
    }

    #[test]
    fn preferred_terms_come_first_and_no_term_twice() {
        let wanted = requirement(&["zone=a", "zone=b", "zone=c"], &["zone=b", "zone=a"]);
        let order: Vec<String> = candidates(Some(&wanted)).iter().map(canonical).collect();
        assert_eq!(order, ["zone=b", "zone=a", "zone=c"]);
        assert!(candidates(None).is_empty());
    }

    #[test]
    fn an_existing_volume_must_be_in_a_requisite_place() {
        let wanted = requirement(&["zone=a", "zone=b"], &[]);
        assert!(satisfies(&[place("zone=b")], Some(&wanted)));
        assert!(!satisfies(&[place("zone=c")], Some(&wanted)));
        assert!(satisfies(&[place("zone=c")], None));
        assert!(
            satisfies(&[], Some(&wanted)),
            "a volume without topology is everywhere"
        );
    }
}
