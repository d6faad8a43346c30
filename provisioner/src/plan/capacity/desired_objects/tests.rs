//! Rows 241 to 259, as far as they concern which objects exist.

use csi_proto::csi::Topology;
use proptest::prelude::*;
use proptest::sample::select;
use sidecar::node_selector::{self, Requirement};

use super::*;
use crate::model::Pairs;

fn term(labels: &str) -> Term {
    let labels = labels.split(' ').filter(|label| !label.is_empty());
    Term::new(labels.map(|label| {
        let (key, value) = label.split_once('=').unwrap();
        (key.into(), value.into())
    }))
}

fn class(name: &str, mode: BindingMode) -> Class {
    Class {
        name: name.into(),
        provisioner: "test-driver".into(),
        binding_mode: mode,
        ..Class::default()
    }
}

fn waiting(name: &str) -> Class {
    class(name, BindingMode::WaitForFirstConsumer)
}

fn object(name: &str, class: &str, labels: &str) -> Arc<StorageCapacity> {
    let segment = term(labels);
    Arc::new(StorageCapacity {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        version: 1,
        class: class.into(),
        topology: NodeTopology::Labels(Pairs::from_iter(
            segment
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        )),
        ..StorageCapacity::default()
    })
}

fn refresh(class: &str, labels: &str) -> Task {
    Task::Refresh(Item {
        class: class.into(),
        segment: term(labels),
    })
}

fn remove(name: &str) -> Task {
    Task::Remove(name.into())
}

fn item(class: &str, labels: &str) -> Item {
    Item {
        class: class.into(),
        segment: term(labels),
    }
}

fn desired(immediate: bool) -> DesiredObjects {
    DesiredObjects::new("test-driver".into(), immediate)
}

/// The desired objects with these classes and segments.
fn prepared(classes: &[&str], segments: &[&str]) -> DesiredObjects {
    let mut desired = desired(false);
    for name in classes {
        assert_eq!(desired.class_changed(&waiting(name)), []);
    }
    desired.set_segments(segments.iter().map(|labels| term(labels)));
    desired
}

fn figures(goal: usize, current: usize, obsolete: usize) -> Figures {
    Figures {
        goal,
        current,
        obsolete,
    }
}

fn holder(desired: &DesiredObjects, class: &str, labels: &str) -> Option<Text> {
    let object = desired.wanted(&item(class, labels)).unwrap()?;
    Some(object.name.clone())
}

#[test]
fn row_241_immediate_classes_are_for_whoever_asks() {
    use BindingMode::{Immediate, Other, Unset, WaitForFirstConsumer};
    for (mode, flag, wanted) in [
        (Immediate, false, false),
        (Immediate, true, true),
        (WaitForFirstConsumer, false, true),
        (Unset, false, true),
        (Other, false, true),
    ] {
        let mut desired = desired(flag);
        desired.set_segments([term("zone=1")]);
        let tasks = desired.class_changed(&class("sc1", mode));
        let expected = if wanted {
            vec![refresh("sc1", "zone=1")]
        } else {
            vec![]
        };
        assert_eq!(tasks, expected, "{mode:?} {flag}");
    }
    let mut desired = desired(true);
    desired.set_segments([term("zone=1")]);
    let foreign = Class {
        provisioner: "other".into(),
        ..waiting("sc1")
    };
    assert_eq!(desired.class_changed(&foreign), []);
    // A class that becomes another driver's, after which a new class takes its name.
    desired.class_changed(&waiting("sc1"));
    desired.object_changed(object("o", "sc1", "zone=1"));
    assert_eq!(desired.class_changed(&foreign), [remove("o")]);
}

#[test]
fn row_248_every_class_in_every_segment() {
    let mut desired = prepared(&["a", "b"], &["zone=1", "zone=2"]);
    assert_eq!(desired.figures(), figures(4, 0, 0));
    let tasks = [
        refresh("a", "zone=1"),
        refresh("a", "zone=2"),
        refresh("b", "zone=1"),
        refresh("b", "zone=2"),
    ];
    assert_eq!(desired.all(), tasks);
    for (index, (class, labels)) in [
        ("a", "zone=1"),
        ("a", "zone=2"),
        ("b", "zone=1"),
        ("b", "zone=2"),
    ]
    .into_iter()
    .enumerate()
    {
        let tasks = desired.object_changed(object(&format!("o{index}"), class, labels));
        assert_eq!(tasks, [refresh(class, labels)]);
    }
    assert_eq!(desired.figures(), figures(4, 4, 0));
}

#[test]
fn row_246_objects_whose_class_or_segment_is_gone() {
    let mut desired = desired(false);
    desired.class_changed(&waiting("a"));
    for found in [
        object("old", "gone", "zone=1"),
        object("older", "a", "zone=0"),
        object("kept", "a", "zone=1"),
    ] {
        assert_eq!(
            desired.object_changed(found),
            [],
            "nothing is known of segments yet"
        );
    }
    assert_eq!(desired.figures(), figures(0, 0, 0));
    assert!(!desired.is_prepared());
    let tasks = desired.set_segments([term("zone=1")]);
    assert_eq!(
        tasks,
        [refresh("a", "zone=1"), remove("old"), remove("older")]
    );
    assert_eq!(desired.figures(), figures(1, 1, 2));
    assert_eq!(desired.object_gone("old"), []);
    assert_eq!(desired.figures(), figures(1, 1, 1));
    assert_eq!(desired.class_gone("a"), [remove("kept")]);
    assert!(desired.obsolete("kept").is_some());
    assert_eq!(desired.figures(), figures(0, 0, 2));
    assert_eq!(
        desired.wanted(&item("a", "zone=1")),
        None,
        "a late task finds nothing to do"
    );
}

#[test]
fn rows_249_250_an_object_that_is_gone_is_made_again() {
    let mut desired = prepared(&["a"], &["zone=1"]);
    desired.object_changed(object("o", "a", "zone=1"));
    assert_eq!(desired.object_gone("o"), [refresh("a", "zone=1")]);
    assert_eq!(desired.wanted(&item("a", "zone=1")), Some(None));
    assert_eq!(desired.object_gone("o"), []);
}

#[test]
fn row_251_an_object_of_somebody_else_s_making_is_adopted() {
    let mut desired = prepared(&["a"], &["zone=1"]);
    desired.object_changed(object("o", "a", "zone=1"));
    desired.object_gone("o");
    assert_eq!(
        desired.object_changed(object("theirs", "a", "zone=1")),
        [refresh("a", "zone=1")]
    );
    assert_eq!(holder(&desired, "a", "zone=1").as_deref(), Some("theirs"));
    // A new object of the same name, before the end of the first one was noticed.
    let again = StorageCapacity {
        uid: "new".into(),
        ..(*object("theirs", "a", "zone=1")).clone()
    };
    assert_eq!(
        desired.object_changed(Arc::new(again)),
        [refresh("a", "zone=1")]
    );
    let elsewhere = StorageCapacity {
        uid: "newer".into(),
        ..(*object("theirs", "b", "zone=1")).clone()
    };
    let tasks = desired.object_changed(Arc::new(elsewhere));
    assert_eq!(tasks, [refresh("a", "zone=1"), remove("theirs")]);
    assert_eq!(desired.figures(), figures(1, 0, 1));
}

#[test]
fn row_252_one_of_two_objects_goes() {
    let mut desired = prepared(&["a"], &["zone=1"]);
    desired.object_changed(object("one", "a", "zone=1"));
    assert_eq!(
        desired.object_changed(object("two", "a", "zone=1")),
        [remove("two")]
    );
    assert_eq!(desired.figures(), figures(1, 1, 1));
    // If the first one goes before the second one, the second one stays.
    assert_eq!(desired.object_gone("one"), [refresh("a", "zone=1")]);
    assert_eq!(holder(&desired, "a", "zone=1").as_deref(), Some("two"));
    assert_eq!(desired.obsolete("two"), None, "a late task leaves it alone");
}

#[test]
fn an_object_of_our_own_is_not_asked_for_again() {
    let zone_1 = item("a", "zone=1");
    for watch_first in [false, true] {
        let mut desired = prepared(&["a"], &["zone=1"]);
        let made = object("ours", "a", "zone=1");
        desired.begin_create(&zone_1);
        if watch_first {
            assert_eq!(desired.object_changed(made.clone()), []);
        }
        assert_eq!(desired.end_create(&zone_1, Some(made.clone())), []);
        assert_eq!(desired.object_changed(made), []);
        assert_eq!(holder(&desired, "a", "zone=1").as_deref(), Some("ours"));
    }
    // Another process's object was there first: ours is removed, the other one is refreshed.
    let mut desired = prepared(&["a"], &["zone=1"]);
    desired.begin_create(&zone_1);
    assert_eq!(desired.object_changed(object("theirs", "a", "zone=1")), []);
    let tasks = desired.end_create(&zone_1, Some(object("ours", "a", "zone=1")));
    assert_eq!(tasks, [remove("ours"), refresh("a", "zone=1")]);
    // The same if ours was rejected; nothing if there is none at all.
    let mut desired = prepared(&["a"], &["zone=1"]);
    desired.begin_create(&zone_1);
    desired.object_changed(object("theirs", "a", "zone=1"));
    assert_eq!(desired.end_create(&zone_1, None), [refresh("a", "zone=1")]);
    let mut desired = prepared(&["a"], &["zone=1"]);
    desired.begin_create(&zone_1);
    assert_eq!(desired.end_create(&zone_1, None), []);
    assert_eq!(
        desired.object_changed(object("late", "a", "zone=1")),
        [refresh("a", "zone=1")]
    );
}

#[test]
fn rows_253_254_segments_come_and_go() {
    let mut desired = prepared(&["a"], &["zone=1"]);
    assert_eq!(
        desired.class_changed(&class("now", BindingMode::Immediate)),
        []
    );
    desired.object_changed(object("o", "a", "zone=1"));
    assert_eq!(
        desired.set_segments([term("zone=1"), term("zone=2")]),
        [refresh("a", "zone=2")]
    );
    assert_eq!(desired.set_segments([term("zone=2")]), [remove("o")]);
    assert_eq!(desired.figures(), figures(1, 0, 1));
    // The segment comes back before the object is gone.
    assert_eq!(
        desired.set_segments([term("zone=1"), term("zone=2")]),
        [refresh("a", "zone=1")]
    );
    assert_eq!(holder(&desired, "a", "zone=1").as_deref(), Some("o"));
    assert_eq!(desired.figures(), figures(2, 1, 0));
}

#[test]
fn row_257_an_empty_selector_is_the_empty_segment() {
    let mut desired = prepared(&["a"], &[""]);
    assert_eq!(
        desired.object_changed(object("o", "a", "")),
        [refresh("a", "")]
    );
    assert_eq!(desired.figures(), figures(1, 1, 0));
    // An empty selector selects no node, and no provisioner writes expressions.
    for (name, topology) in [("p", NodeTopology::None), ("q", NodeTopology::Other)] {
        let odd = StorageCapacity {
            topology,
            ..(*object(name, "a", "")).clone()
        };
        assert_eq!(desired.object_changed(Arc::new(odd)), [remove(name)]);
    }
}

#[test]
fn a_class_that_changes_is_asked_for_anew() {
    let mut desired = prepared(&["a"], &["zone=1", "zone=2"]);
    let all = [refresh("a", "zone=1"), refresh("a", "zone=2")];
    assert_eq!(desired.class_changed(&waiting("a")), all);
    assert_eq!(desired.class_gone("other"), []);
}

#[test]
fn an_older_state_of_an_object_says_nothing() {
    let mut desired = prepared(&["a"], &["zone=1"]);
    let at = |version| {
        Arc::new(StorageCapacity {
            version,
            ..(*object("o", "a", "zone=1")).clone()
        })
    };
    desired.object_changed(at(5));
    assert_eq!(desired.object_changed(at(4)), []);
    let version = |desired: &DesiredObjects| {
        desired
            .wanted(&item("a", "zone=1"))
            .unwrap()
            .unwrap()
            .version
    };
    assert_eq!(version(&desired), 5);
    desired.object_changed(at(6));
    assert_eq!(version(&desired), 6);
}

fn topology(labels: &str) -> Topology {
    Topology {
        segments: term(labels).to_map(),
    }
}

#[test]
fn rows_258_259_after_provisioning() {
    let desired = prepared(
        &["a", "b"],
        &["layer0=bar", "layer0=foo", "layer0=foo layer1=x"],
    );
    let foo = [refresh("a", "layer0=foo"), refresh("b", "layer0=foo")];
    assert_eq!(
        desired.after_success("a", &[topology("layer0=foo")]),
        foo,
        "row 258"
    );
    let class = desired.of_class("b");
    assert_eq!(class.len(), 3);
    for accessible in [vec![], vec![topology("")]] {
        assert_eq!(desired.after_success("b", &accessible), class);
    }
    assert_eq!(desired.after_failure("b"), class, "row 259");
    assert_eq!(desired.after_failure("other"), []);
}

#[test]
fn after_a_deletion_the_affinity_decides() {
    let desired = prepared(&["a"], &["zone=1", "zone=2", "rack=A zone=1"]);
    let expression = |key: &str, operator: &str, values: &[&str]| Requirement {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|value| Text::from(*value)).collect(),
    };
    let term = |expressions| node_selector::Term {
        expressions,
        fields: Vec::new(),
    };
    let is = |key, value| expression(key, "In", &[value]);
    assert_eq!(desired.after_delete(None), []);
    let both = [
        term(vec![is("zone", "2")]),
        term(vec![is("zone", "1"), is("rack", "A")]),
    ];
    assert_eq!(
        desired.after_delete(Some(&both)),
        [refresh("a", "zone=2"), refresh("a", "rack=A zone=1")]
    );
    for skipped in [
        term(vec![expression("zone", "In", &["1", "2"])]),
        term(vec![expression("zone", "NotIn", &["1"])]),
        term(vec![expression("zone", "In", &[])]),
        node_selector::Term {
            expressions: vec![is("zone", "1")],
            fields: vec![expression("metadata.name", "In", &["n1"])],
        },
    ] {
        assert_eq!(
            desired.after_delete(Some(std::slice::from_ref(&skipped))),
            [],
            "{skipped:?}"
        );
    }
}

/// A change of the desired objects.
#[derive(Clone, Debug)]
enum Change {
    Segments(Vec<&'static str>),
    Class(&'static str),
    ClassGone(&'static str),
    Object(&'static str, &'static str, &'static str),
    ObjectGone(&'static str),
}

fn any_change() -> impl Strategy<Value = Change> {
    const SEGMENTS: [&str; 3] = ["", "zone=1", "zone=2"];
    const CLASSES: [&str; 2] = ["a", "b"];
    const NAMES: [&str; 4] = ["o1", "o2", "o3", "o4"];
    let segments = proptest::sample::subsequence(SEGMENTS.to_vec(), 0..=3);
    let objects = (select(&NAMES), select(&CLASSES), select(&SEGMENTS));
    prop_oneof![
        segments.prop_map(Change::Segments),
        select(&CLASSES).prop_map(Change::Class),
        select(&CLASSES).prop_map(Change::ClassGone),
        objects.prop_map(|(name, class, labels)| Change::Object(name, class, labels)),
        select(&NAMES).prop_map(Change::ObjectGone),
    ]
}

proptest! {
    /// Tasks that are carried out in any order lead to one object per item and no other.
    #[test]
    fn carrying_out_the_tasks_leads_to_the_goal(changes in proptest::collection::vec(any_change(), 0..20)) {
        let mut desired = desired(false);
        let mut tasks = Vec::new();
        let mut server = HashMap::new();
        for change in changes {
            tasks.extend(match change {
                Change::Segments(segments) => desired.set_segments(segments.into_iter().map(term)),
                Change::Class(name) => desired.class_changed(&waiting(name)),
                Change::ClassGone(name) => desired.class_gone(name),
                // Class and topology of an object never change.
                Change::Object(name, ..) if server.contains_key(name) => Vec::new(),
                Change::Object(name, class, labels) => {
                    let object = object(name, class, labels);
                    server.insert(name.to_owned(), object.clone());
                    desired.object_changed(object)
                }
                Change::ObjectGone(name) => {
                    server.remove(name);
                    desired.object_gone(name)
                }
            });
            let Figures { goal, current, obsolete } = desired.figures();
            prop_assert!(current <= goal);
            let all = if desired.is_prepared() { server.len() } else { 0 };
            prop_assert_eq!(current + obsolete, all);
        }
        tasks.extend(desired.set_segments([term("zone=1"), term("")]));
        tasks.reverse();
        let mut made = 0;
        while let Some(task) = tasks.pop() {
            match task {
                Task::Refresh(item) => {
                    if desired.wanted(&item) == Some(None) {
                        let name = format!("new{made}");
                        made += 1;
                        let labels = item.segment.iter().map(|(key, value)| format!("{key}={value}"));
                        let new = object(&name, &item.class, &labels.collect::<Vec<_>>().join(" "));
                        server.insert(name, new.clone());
                        tasks.extend(desired.object_changed(new));
                    }
                }
                Task::Remove(name) => {
                    if desired.obsolete(&name).is_some() {
                        server.remove(&*name);
                        tasks.extend(desired.object_gone(&name));
                    }
                }
            }
        }
        let Figures { goal, current, obsolete } = desired.figures();
        prop_assert_eq!((current, obsolete), (goal, 0));
        prop_assert_eq!(server.len(), goal);
    }
}

#[test]
fn fp_15_items_are_found_by_their_order() {
    let classes = ["", "a", "a-b", "ab", "b"];
    let segments = ["", "zone=1", "zone=1 rack=2", "zone=2"];
    let desired = prepared(&classes, &segments);
    for class in classes {
        let all: Vec<Task> = { desired.items.keys() }
            .filter(|item| &*item.class == class)
            .cloned()
            .map(Task::Refresh)
            .collect();
        assert_eq!(all.len(), segments.len());
        assert_eq!(desired.of_class(class), all, "{class:?}");
    }
    assert_eq!(desired.of_class("a-"), []);
    for some in [&segments[..0], &segments[..1], &segments[1..3], &["zone=3"]] {
        let some: BTreeSet<Term> = some.iter().map(|labels| term(labels)).collect();
        let all: Vec<Task> = { desired.items.keys() }
            .filter(|item| some.contains(&item.segment))
            .cloned()
            .map(Task::Refresh)
            .collect();
        assert_eq!(desired.of_segments(&some), all, "{some:?}");
    }
}
