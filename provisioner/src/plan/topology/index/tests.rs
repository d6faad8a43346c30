//! Counting must give the same result as collecting anew, whatever happened before.

use super::super::term::term;
use super::*;

fn pairs(labels: &str) -> Option<Pairs> {
    let term = term(labels);
    let labels = term.iter().flat_map(|(key, value)| [key, value]);
    Some(Pairs::new(labels.cloned().collect()))
}

fn entry(keys: &str) -> Entry {
    let keys = keys.split(' ').filter(|key| !key.is_empty());
    Entry::Keys(keys.map(Text::from).collect())
}

fn node(topology: &mut TopologyIndex, name: &str, labels: &str, keys: &str) -> bool {
    let name = Text::from(name);
    let changed = topology.set_labels(&name, pairs(labels));
    topology.set_driver(&name, entry(keys)) || changed
}

fn segments(topology: &TopologyIndex) -> Vec<Term> {
    topology.segments().cloned().collect()
}

fn key_sets(topology: &TopologyIndex) -> Vec<String> {
    topology.key_sets().map(|keys| keys.join(" ")).collect()
}

#[test]
fn row_264_a_segment_needs_csinode_node_and_labels() {
    let mut topology = TopologyIndex::default();
    topology.set_labels(&"no-csinode".into(), pairs("zone=1"));
    topology.set_driver(&"no-node".into(), entry("zone"));
    node(&mut topology, "no-label", "rack=A", "zone");
    topology.set_labels(&"not-installed".into(), pairs("zone=2"));
    topology.set_driver(&"not-installed".into(), Entry::NotInstalled);
    assert_eq!(segments(&topology), []);
    node(&mut topology, "complete", "zone=3", "zone");
    assert_eq!(segments(&topology), [term("zone=3")]);
}

#[test]
fn row_265_the_order_of_keys_does_not_matter() {
    let mut topology = TopologyIndex::default();
    node(&mut topology, "n0", "zone=1 rack=A host=n0", "zone rack");
    node(
        &mut topology,
        "n1",
        "zone=1 rack=A host=n1",
        "rack zone zone",
    );
    assert_eq!(segments(&topology), [term("rack=A zone=1")]);
    assert_eq!(key_sets(&topology), ["rack zone"]);
}

#[test]
fn row_266_segments_follow_labels_and_keys() {
    let mut topology = TopologyIndex::default();
    node(&mut topology, "n0", "zone=1", "zone");
    assert_eq!(segments(&topology), [term("zone=1")]);
    let n0 = Text::from("n0");
    assert!(topology.set_labels(&n0, pairs("zone=2")));
    assert_eq!(segments(&topology), [term("zone=2")]);
    assert!(
        !topology.set_labels(&n0, pairs("zone=2")),
        "nothing changed"
    );
    assert!(!topology.set_labels(&n0, pairs("zone=2 other=1")), "no key");
    assert!(
        !node(&mut topology, "n1", "zone=2", "zone"),
        "known already"
    );
    assert!(!topology.set_driver(&"n1".into(), Entry::NotInstalled));
    assert!(topology.set_driver(&n0, Entry::NotInstalled));
    assert_eq!(segments(&topology), []);
    assert!(topology.set_driver(&n0, entry("zone")));
    assert!(topology.set_labels(&n0, None));
    assert_eq!(segments(&topology), []);
    topology.set_driver(&n0, Entry::NoCsiNode);
    assert!(topology.labels("n0").is_none());
    assert_eq!(
        topology.nodes.len(),
        1,
        "nothing stays of a node that is gone"
    );
}

#[test]
fn row_257_a_driver_without_keys_has_one_segment_for_all_nodes() {
    let mut topology = TopologyIndex::default();
    node(&mut topology, "n0", "zone=1", "");
    node(&mut topology, "n1", "zone=2", "");
    assert_eq!(segments(&topology), [term("")]);
    assert_eq!(key_sets(&topology), [""; 0]);
}

#[test]
fn sets_of_keys_come_and_go_with_those_who_name_them() {
    let mut topology = TopologyIndex::default();
    assert_eq!(*topology.everywhere(), []);
    node(&mut topology, "n0", "zone=1", "zone");
    node(&mut topology, "n1", "zone=2 rack=A", "rack");
    assert_eq!(*topology.everywhere(), [term("rack=A"), term("zone=1")]);
    node(&mut topology, "n2", "zone=1", "zone");
    topology.set_driver(&"n1".into(), entry("rack zone"));
    assert_eq!(key_sets(&topology), ["rack zone", "zone"]);
    let all = ["zone=1", "zone=2", "rack=A zone=2"].map(term);
    assert_eq!(*topology.everywhere(), all);
    for name in ["n0", "n2"] {
        topology.set_driver(&name.into(), Entry::NoCsiNode);
    }
    assert_eq!(key_sets(&topology), ["rack zone"]);
    assert_eq!(*topology.everywhere(), all[2..]);
}

#[test]
fn equal_lists_are_one_until_a_place_comes_or_goes() {
    let mut topology = TopologyIndex::default();
    node(&mut topology, "n0", "zone=1", "zone");
    node(&mut topology, "n1", "zone=2", "zone");
    let keys = List::from([Text::from("zone")]);
    let terms = topology.terms(&keys);
    assert_eq!(*terms, [term("zone=1"), term("zone=2")]);
    assert!(Arc::ptr_eq(&terms, &topology.everywhere()), "one set");
    node(&mut topology, "n2", "zone=2", "zone");
    topology.set_labels(&"n1".into(), pairs("zone=1"));
    assert!(Arc::ptr_eq(&terms, &topology.terms(&keys)));
    assert!(Arc::ptr_eq(&terms, &topology.everywhere()));
    topology.set_labels(&"n2".into(), pairs("zone=0"));
    assert_eq!(*topology.terms(&keys), [term("zone=0"), term("zone=1")]);
    assert_eq!(topology.everywhere(), topology.terms(&keys));
    // Keys that no CSINode has any more.
    assert_eq!(*topology.terms(&List::from([Text::from("row")])), []);
}

#[test]
fn the_places_of_one_node() {
    let topology = TopologyIndex::of_node(&"foo".into(), &term("zone=1 rack=A"));
    assert_eq!(segments(&topology), [term("rack=A zone=1")]);
    assert_eq!(*topology.driver("foo"), entry("rack zone"));
    let none = TopologyIndex::of_node(&"foo".into(), &term(""));
    assert_eq!(segments(&none), [term("")]);
}
