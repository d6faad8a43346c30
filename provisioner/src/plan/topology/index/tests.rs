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

fn node(places: &mut TopologyIndex, name: &str, labels: &str, keys: &str) -> bool {
    let name = Text::from(name);
    let changed = places.set_labels(&name, pairs(labels));
    places.set_driver(&name, entry(keys)) || changed
}

fn segments(places: &TopologyIndex) -> Vec<Term> {
    places.segments().cloned().collect()
}

fn key_sets(places: &TopologyIndex) -> Vec<String> {
    places.key_sets().map(|keys| keys.join(" ")).collect()
}

#[test]
fn row_264_a_segment_needs_csinode_node_and_labels() {
    let mut places = TopologyIndex::default();
    places.set_labels(&"no-csinode".into(), pairs("zone=1"));
    places.set_driver(&"no-node".into(), entry("zone"));
    node(&mut places, "no-label", "rack=A", "zone");
    places.set_labels(&"not-installed".into(), pairs("zone=2"));
    places.set_driver(&"not-installed".into(), Entry::NotInstalled);
    assert_eq!(segments(&places), []);
    node(&mut places, "complete", "zone=3", "zone");
    assert_eq!(segments(&places), [term("zone=3")]);
}

#[test]
fn row_265_the_order_of_keys_does_not_matter() {
    let mut places = TopologyIndex::default();
    node(&mut places, "n0", "zone=1 rack=A host=n0", "zone rack");
    node(&mut places, "n1", "zone=1 rack=A host=n1", "rack zone zone");
    assert_eq!(segments(&places), [term("rack=A zone=1")]);
    assert_eq!(key_sets(&places), ["rack zone"]);
}

#[test]
fn row_266_segments_follow_labels_and_keys() {
    let mut places = TopologyIndex::default();
    node(&mut places, "n0", "zone=1", "zone");
    assert_eq!(segments(&places), [term("zone=1")]);
    let n0 = Text::from("n0");
    assert!(places.set_labels(&n0, pairs("zone=2")));
    assert_eq!(segments(&places), [term("zone=2")]);
    assert!(!places.set_labels(&n0, pairs("zone=2")), "nothing changed");
    assert!(!places.set_labels(&n0, pairs("zone=2 other=1")), "no key");
    assert!(!node(&mut places, "n1", "zone=2", "zone"), "known already");
    assert!(!places.set_driver(&"n1".into(), Entry::NotInstalled));
    assert!(places.set_driver(&n0, Entry::NotInstalled));
    assert_eq!(segments(&places), []);
    assert!(places.set_driver(&n0, entry("zone")));
    assert!(places.set_labels(&n0, None));
    assert_eq!(segments(&places), []);
    places.set_driver(&n0, Entry::NoCsiNode);
    assert!(places.labels("n0").is_none());
    assert_eq!(
        places.nodes.len(),
        1,
        "nothing stays of a node that is gone"
    );
}

#[test]
fn row_257_a_driver_without_keys_has_one_segment_for_all_nodes() {
    let mut places = TopologyIndex::default();
    node(&mut places, "n0", "zone=1", "");
    node(&mut places, "n1", "zone=2", "");
    assert_eq!(segments(&places), [term("")]);
    assert_eq!(key_sets(&places), [""; 0]);
}

#[test]
fn sets_of_keys_come_and_go_with_those_who_name_them() {
    let mut places = TopologyIndex::default();
    assert_eq!(*places.everywhere(), []);
    node(&mut places, "n0", "zone=1", "zone");
    node(&mut places, "n1", "zone=2 rack=A", "rack");
    assert_eq!(*places.everywhere(), [term("rack=A"), term("zone=1")]);
    node(&mut places, "n2", "zone=1", "zone");
    places.set_driver(&"n1".into(), entry("rack zone"));
    assert_eq!(key_sets(&places), ["rack zone", "zone"]);
    let all = ["zone=1", "zone=2", "rack=A zone=2"].map(term);
    assert_eq!(*places.everywhere(), all);
    for name in ["n0", "n2"] {
        places.set_driver(&name.into(), Entry::NoCsiNode);
    }
    assert_eq!(key_sets(&places), ["rack zone"]);
    assert_eq!(*places.everywhere(), all[2..]);
}

#[test]
fn equal_lists_are_one_until_a_place_comes_or_goes() {
    let mut places = TopologyIndex::default();
    node(&mut places, "n0", "zone=1", "zone");
    node(&mut places, "n1", "zone=2", "zone");
    let keys = List::from([Text::from("zone")]);
    let terms = places.terms(&keys);
    assert_eq!(*terms, [term("zone=1"), term("zone=2")]);
    assert!(Arc::ptr_eq(&terms, &places.everywhere()), "one set");
    node(&mut places, "n2", "zone=2", "zone");
    places.set_labels(&"n1".into(), pairs("zone=1"));
    assert!(Arc::ptr_eq(&terms, &places.terms(&keys)));
    assert!(Arc::ptr_eq(&terms, &places.everywhere()));
    places.set_labels(&"n2".into(), pairs("zone=0"));
    assert_eq!(*places.terms(&keys), [term("zone=0"), term("zone=1")]);
    assert_eq!(places.everywhere(), places.terms(&keys));
    // Keys that no CSINode has any more.
    assert_eq!(*places.terms(&List::from([Text::from("row")])), []);
}

#[test]
fn the_places_of_one_node() {
    let places = TopologyIndex::of_node(&"foo".into(), &term("zone=1 rack=A"));
    assert_eq!(segments(&places), [term("rack=A zone=1")]);
    assert_eq!(*places.driver("foo"), entry("rack zone"));
    let none = TopologyIndex::of_node(&"foo".into(), &term(""));
    assert_eq!(segments(&none), [term("")]);
}
