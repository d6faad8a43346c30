//! Node affinity of a PersistentVolume: the nodes that can use the volume.
//!
//! The requirement is what the provisioner requests; the affinity follows from the driver's response.

use csi_proto::csi;
use serde_json::{Value, json};

/// `spec.nodeAffinity` of a PersistentVolume from `accessible_topology` of the driver's response: one
/// term per topology, of which any may match. `None` if the driver sets no bounds.
///
/// A topology without segments is ignored. If there are only such, there is no affinity: the API server rejects one
/// without terms, and the volume would never be saved.
#[must_use]
pub fn node_affinity(accessible: &[csi::Topology]) -> Option<Value> {
    let expression =
        |(key, value): (&String, &String)| json!({"key": key, "operator": "In", "values": [value]});
    let reported = accessible
        .iter()
        .filter(|topology| !topology.segments.is_empty());
    let term = |topology: &csi::Topology| {
        let expressions: Vec<Value> = topology.segments.iter().map(expression).collect();
        json!({ "matchExpressions": expressions })
    };
    let terms: Vec<Value> = reported.map(term).collect();
    (!terms.is_empty()).then(|| json!({"required": {"nodeSelectorTerms": terms}}))
}

#[cfg(test)]
mod tests {
    use super::super::term::term;
    use super::*;

    fn affinity(zones: &[&str]) -> Option<Value> {
        let topology = |segments: &&str| csi::Topology {
            segments: term(segments).to_map(),
        };
        let topologies: Vec<_> = zones.iter().map(topology).collect();
        node_affinity(&topologies)
    }

    #[test]
    fn rows_177_to_179_the_driver_s_topologies_as_node_affinity() {
        let is = |key, value| json!({"key": key, "operator": "In", "values": [value]});
        let any = |terms: Value| Some(json!({"required": {"nodeSelectorTerms": terms}}));
        let z1 = json!({"matchExpressions": [is("zone", "z1")]});
        for (row, zones, expected) in [
            (
                177,
                &["zone=z1", "zone=z2"][..],
                any(json!([z1, {"matchExpressions": [is("zone", "z2")]}])),
            ),
            (
                178,
                &["zone=z1 rack=a"],
                any(json!([{"matchExpressions": [is("rack", "a"), is("zone", "z1")]}])),
            ),
            (179, &[], None),
            // Upstream loops here.
            (179, &["", ""], None),
            (177, &["", "zone=z1"], any(json!([z1]))),
        ] {
            assert_eq!(affinity(zones), expected, "row {row} {zones:?}");
        }
    }
}
