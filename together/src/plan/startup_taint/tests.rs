//! The decisions of rows O-103 to O-114.

use proptest::prelude::*;

use super::*;

const DRIVER: &str = "d.example.com";
const KEY: &str = "d.example.com/agent-not-ready";

fn wanted(texts: &[&str]) -> Vec<Wanted> {
    texts
        .iter()
        .map(|text| Wanted::parse(text).unwrap())
        .collect()
}

fn csi_node(drivers: &[&str], owner: &str) -> CsiNode {
    let drivers: Vec<_> = { drivers.iter() }
        .map(|name| json!({"name": name, "nodeID": "n1", "topologyKeys": null}))
        .collect();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": owner});
    let object = json!({"metadata": {"name": "n1", "ownerReferences": [owner]}, "spec": {"drivers": drivers}});
    serde_json::from_value(object).unwrap()
}

fn taint(text: &str) -> Value {
    let (rest, effect) = text.rsplit_once(':').unwrap();
    match rest.split_once('=') {
        // In the API server's format.
        Some((key, "")) => json!({"key": key, "effect": effect}),
        Some((key, value)) => json!({"key": key, "value": value, "effect": effect}),
        None => json!({"key": rest, "effect": effect}),
    }
}

fn node(taints: &[Value]) -> Node {
    let object =
        json!({"metadata": {"name": "n1", "uid": "u1", "labels": {}}, "spec": {"taints": taints}});
    serde_json::from_value(object).unwrap()
}

fn decided(flags: &[&str], taints: &[Value]) -> Step {
    let (csi_node, node) = (csi_node(&[DRIVER], "u1"), node(taints));
    next(DRIVER, &wanted(flags), Some(&csi_node), Some(&node))
}

/// The taints that remain on a Node.
fn left(flags: &[&str], taints: &[&str]) -> Vec<String> {
    let taints: Vec<_> = taints.iter().map(|text| taint(text)).collect();
    let mut object = json!({"metadata": {"uid": "u1"}, "spec": {"taints": taints}});
    match decided(flags, &taints) {
        Step::Remove(removal) => apply(&removal.operations, &mut object).unwrap(),
        Step::Nothing => {}
        other @ (Step::ReadCsiNode | Step::ReadNode | Step::Keep(_)) => panic!("{other:?}"),
    }
    let node: Node = serde_json::from_value(object).unwrap();
    node.spec
        .taints
        .unwrap()
        .iter()
        .map(Taint::to_string)
        .collect()
}

/// Applies the patch like an API server: all of it or nothing. A missing value passes a test for null.
fn apply(operations: &Value, object: &mut Value) -> Result<(), String> {
    let mut patched = object.clone();
    for operation in operations.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        if operation["op"] == "test" {
            if patched.pointer(path).unwrap_or(&Value::Null) != &operation["value"] {
                return Err(path.to_owned());
            }
            continue;
        }
        assert_eq!(operation["op"], "remove");
        let index: usize = path.strip_prefix("/spec/taints/").unwrap().parse().unwrap();
        patched["spec"]["taints"]
            .as_array_mut()
            .unwrap()
            .remove(index);
    }
    *object = patched;
    Ok(())
}

#[test]
fn o_101_csinode_is_read_before_the_node_and_the_node_before_it_is_patched() {
    let (flags, csi_node) = (wanted(&[KEY]), csi_node(&[DRIVER], "u1"));
    assert_eq!(next(DRIVER, &flags, None, None), Step::ReadCsiNode);
    assert_eq!(next(DRIVER, &flags, Some(&csi_node), None), Step::ReadNode);
    let step = decided(&[KEY], &[taint(&format!("{KEY}:NoSchedule"))]);
    assert!(matches!(step, Step::Remove(_)), "{step:?}");
}

#[test]
fn o_103_o_104_a_csinode_without_the_driver_or_of_another_node_keeps_the_taint() {
    let node = node(&[taint(&format!("{KEY}:NoSchedule"))]);
    let flags = wanted(&[KEY]);
    for (row, csi_node, hindrance) in [
        (
            "O-103: none at all",
            CsiNode::default(),
            Hindrance::NotListed,
        ),
        (
            "O-103: no driver",
            csi_node(&[], "u1"),
            Hindrance::NotListed,
        ),
        (
            "O-103: others",
            csi_node(&["d", "d.example.com.x"], "u1"),
            Hindrance::NotListed,
        ),
        (
            "O-104",
            csi_node(&["d", DRIVER], "u0"),
            Hindrance::OtherNode,
        ),
        (
            "O-104: no UID",
            csi_node(&[DRIVER], ""),
            Hindrance::OtherNode,
        ),
    ] {
        let step = next(DRIVER, &flags, Some(&csi_node), Some(&node));
        assert_eq!(step, Step::Keep(hindrance), "{row}");
    }
    let mut orphan = csi_node(&[DRIVER], "u1");
    orphan.metadata.owner_references = None;
    let step = next(DRIVER, &flags, Some(&orphan), Some(&node));
    assert_eq!(step, Step::Keep(Hindrance::OtherNode), "O-104: no owner");
}

#[test]
fn o_105_the_patch_tests_one_element_and_removes_it() {
    let mut last = taint("b.example.com/b:NoExecute");
    last["timeAdded"] = "2026-11-28T00:00:00Z".into();
    let taints = [
        taint("a=1:NoSchedule"),
        taint(&format!("{KEY}=true:NoExecute")),
        last,
    ];
    let Step::Remove(removal) = decided(&[KEY], &taints) else {
        panic!("nothing is removed");
    };
    let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
    let expected = json!([
        test("/metadata/uid", "u1"),
        test("/spec/taints/1/key", KEY),
        test("/spec/taints/1/effect", "NoExecute"),
        {"op": "remove", "path": "/spec/taints/1"},
    ]);
    assert_eq!(removal.operations, expected);
    let mut object = json!({"metadata": {"uid": "u1"}, "spec": {"taints": taints}});
    apply(&removal.operations, &mut object).unwrap();
    assert_eq!(object["spec"]["taints"], json!([taints[0], taints[2]]));
    object["metadata"]["uid"] = "u2".into();
    let refused = apply(&removal.operations, &mut object);
    assert_eq!(
        refused,
        Err("/metadata/uid".to_owned()),
        "another Node of the name"
    );
}

#[test]
fn o_109_key_value_and_effect() {
    let a = "a:NoSchedule";
    let (schedule, execute) = (
        &*format!("{KEY}:NoSchedule"),
        &*format!("{KEY}=v:NoExecute"),
    );
    let (value, other) = (&*format!("{KEY}=v"), &*format!("{KEY}=w:NoSchedule"));
    for (flags, taints, expected) in [
        (
            &[schedule][..],
            &[schedule, a, execute][..],
            &[a, execute][..],
        ),
        (&[KEY], &[schedule, a, execute], &[a]),
        (&[KEY], &[a, execute, schedule], &[a]),
        (&[value], &[schedule, a, execute], &[schedule, a]),
        (&[value], &[other, a], &[other, a]),
        (&[&*format!("{KEY}=")], &[schedule, execute], &[execute]),
        (&[execute, a], &[schedule, a, execute], &[schedule]),
        (&["b", KEY], &[a, execute], &[a]),
        // O-110
        (&[KEY], &[a], &[a]),
        (&[KEY], &[], &[]),
        (
            &[KEY],
            &["d.example.com/agent-not-ready2:NoSchedule"],
            &["d.example.com/agent-not-ready2:NoSchedule"],
        ),
    ] {
        assert_eq!(left(flags, taints), *expected, "{flags:?} of {taints:?}");
    }
}

/// The patch tests a value that the flag names, even an empty one.
#[test]
fn o_106_o_109_a_taint_whose_value_has_changed_meanwhile_stays() {
    let (key, empty, value) = (KEY.to_owned(), format!("{KEY}="), format!("{KEY}=v"));
    for (flag, before, after, goes) in [
        (&key, "", "=v", true),
        (&key, "=v", "", true),
        (&empty, "", "", true),
        (&empty, "", "=v", false),
        (&value, "=v", "=v", true),
        (&value, "=v", "", false),
        (&value, "=v", "=w", false),
    ] {
        let is = |value: &str| taint(&format!("{KEY}{value}:NoSchedule"));
        let Step::Remove(removal) = decided(&[flag], &[is(before)]) else {
            panic!("{flag}: nothing is removed");
        };
        let mut object = json!({"metadata": {"uid": "u1"}, "spec": {"taints": [is(after)]}});
        let applied = apply(&removal.operations, &mut object).is_ok();
        assert_eq!(applied, goes, "{flag}: {before:?}, then {after:?}");
    }
}

#[test]
fn o_110_no_such_taint() {
    let csi_node = csi_node(&[DRIVER], "u1");
    let nothing: Node =
        serde_json::from_value(json!({"metadata": {"uid": "u1"}, "spec": {}})).unwrap();
    for node in [nothing, node(&[]), node(&[taint("a:NoSchedule")])] {
        let step = next(DRIVER, &wanted(&[KEY]), Some(&csi_node), Some(&node));
        assert_eq!(step, Step::Nothing);
    }
}

#[test]
fn o_114_what_is_no_taint() {
    for (text, words) in [
        (":NoSchedule", "is no key of a taint"),
        ("=v", "is no key of a taint"),
        ("a b", "is no key of a taint"),
        ("a/b/c", "is no key of a taint"),
        ("-a", "is no key of a taint"),
        (&"a".repeat(64), "is no key of a taint"),
        ("a:b", "NoSchedule, PreferNoSchedule, NoExecute"),
        ("a:noschedule", "\"noschedule\" is no effect"),
        ("a:", "is no effect"),
        ("a=b c:NoExecute", "is no value of a taint"),
    ] {
        let problem = Wanted::parse(text).unwrap_err();
        assert!(problem.contains(words), "{text}: {problem}");
    }
}

/// Times of the checks after one confirmation if all of them find everything in order.
fn looks(unit_random: f64) -> Vec<Duration> {
    let (mut course, mut at) = (Course::default(), Duration::ZERO);
    let mut all = vec![at];
    while let Some(pause) = course.pause(at, Look::Settled, unit_random) {
        at += pause;
        all.push(at);
    }
    all
}

#[test]
fn o_107_looks_go_on_for_ten_minutes() {
    for unit_random in [0.0, 0.5, 0.999] {
        let all = looks(unit_random);
        assert_eq!(all[..4], [0, 1, 5, 15].map(Duration::from_secs));
        for pair in all.windows(2) {
            let longest = if pair[0] < Duration::from_secs(15) {
                10
            } else {
                30
            };
            assert!(
                pair[1] - pair[0] <= Duration::from_secs(longest),
                "{pair:?}"
            );
        }
        let last = *all.last().unwrap();
        assert!(last >= WATCHED && last <= WATCHED + INTERVAL, "{last:?}");
        // 8 s after the confirmation.
        let gone = all
            .iter()
            .find(|at| **at >= Duration::from_secs(8))
            .unwrap();
        assert!(*gone <= Duration::from_secs(18));
    }
}

/// The pauses after checks that all have the same result.
fn pauses(look: Look, unit_random: f64, since: u64) -> Vec<f64> {
    let mut course = Course::default();
    let since = Duration::from_secs(since);
    let mut pause = || {
        course
            .pause(since, look, unit_random)
            .unwrap()
            .as_secs_f64()
    };
    (0..8).map(|_| pause()).collect()
}

/// The API server did not answer for this long.
fn away(took: u64) -> Look {
    Look::Away {
        took: Duration::from_secs(took),
        asked: Duration::ZERO,
        answered: false,
    }
}

/// The API server answered after `took` seconds that it cannot serve the request now, and asked to wait
/// for `asked` seconds.
fn busy(took: u64, asked: u64) -> Look {
    Look::Away {
        took: Duration::from_secs(took),
        asked: Duration::from_secs(asked),
        answered: true,
    }
}

#[test]
fn o_112_who_is_away_and_who_refuses() {
    let took = Duration::from_secs(3);
    let answer = |status, retry_after: Option<u64>| Failure::Refused {
        status,
        error: sidecar::refusal::ApiError::local("said"),
        retry_after: retry_after.map(Duration::from_secs),
    };
    for (failure, look) in [
        (Failure::Away("no answer within 10s".into()), away(3)),
        (Failure::Unusable("certificate refused".into()), away(3)),
        (answer(429, None), busy(3, 0)),
        (answer(429, Some(7)), busy(3, 7)),
        (answer(500, None), busy(3, 0)),
        (answer(503, Some(1)), busy(3, 1)),
        (answer(504, None), busy(3, 0)),
        (answer(200, None), Look::Failed),
        (answer(401, None), Look::Failed),
        (answer(403, None), Look::Failed),
        (answer(404, None), Look::Failed),
        (answer(422, None), Look::Failed),
    ] {
        assert_eq!(Look::failed(&failure, took), look, "{failure:?}");
    }
}

#[test]
fn o_112_an_api_server_that_returns_is_noticed() {
    let quick = [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0];
    // At any time: the taint may still be there.
    for since in [3, 3600] {
        assert_eq!(pauses(away(0), 0.0, since), quick);
        // A deadline of 10 s passed, and a connection is tried once more 7 s after it began.
        assert_eq!(pauses(away(10), 0.0, since), [1.0; 8]);
        // The pause that the API server asks for is kept, up to the longest back-off.
        assert_eq!(pauses(busy(0, 17), 0.0, since)[..4], [17.0; 4]);
        assert_eq!(pauses(busy(0, 3600), 0.0, since), [30.0; 8]);
    }
    assert_eq!(pauses(busy(0, 1), 0.0, 3), quick);
    // Requests of all nodes of a cluster must not keep it overloaded.
    let slower = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0];
    assert_eq!(pauses(busy(0, 1), 0.0, 3600), slower);
    for (took, unit_random) in [(0, 0.5), (2, 0.999), (10, 0.999)] {
        for pause in pauses(away(took), unit_random, 3) {
            assert!((0.8..=4.0).contains(&pause), "{pause}");
        }
    }
}

#[test]
fn o_111_refusals_back_off() {
    assert_eq!(
        pauses(Look::Failed, 0.0, 3),
        [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    );
    assert_eq!(pauses(Look::Failed, 0.0, 3600), [300.0; 8]);
    for pause in pauses(Look::Failed, 0.999, 3) {
        assert!(pause >= 0.8, "{pause}");
    }
    // An API server that has just started may refuse until it has loaded the roles.
    for between in [Look::Settled, away(0)] {
        let (mut course, at) = (Course::default(), Duration::from_secs(2));
        for _ in 0..4 {
            assert!(course.pause(at, Look::Failed, 0.0).is_some());
        }
        assert!(course.pause(at, between, 0.0).is_some());
        let pause = course.pause(at, Look::Failed, 0.0);
        assert_eq!(pause, Some(Duration::from_secs(1)), "{between:?}");
    }
}

/// A removal of our taint at this position.
fn at_place(place: usize) -> Removal {
    let mut taints = vec![taint("a:NoSchedule"); place];
    taints.push(taint(&format!("{KEY}:NoSchedule")));
    let Step::Remove(removal) = decided(&[KEY], &taints) else {
        panic!("nothing is removed");
    };
    removal
}

#[test]
fn o_106_o_111_a_patch_that_is_not_applied_is_a_conflict_or_refused() {
    let conflict = Look::Conflict;
    // Status and position of each patch, and the expected result.
    for (row, patches) in [
        ("moved", &[(422, 1, conflict(1)), (422, 2, conflict(2))][..]),
        (
            "refused",
            &[
                (422, 1, conflict(1)),
                (422, 1, Look::Failed),
                (422, 1, Look::Failed),
            ],
        ),
        (
            "moved, then refused",
            &[
                (422, 1, conflict(1)),
                (422, 2, conflict(2)),
                (422, 2, Look::Failed),
            ],
        ),
        (
            "refused, then moved",
            &[
                (422, 1, conflict(1)),
                (422, 1, Look::Failed),
                (422, 0, conflict(0)),
            ],
        ),
        (
            "written meanwhile",
            &[(409, 1, conflict(1)), (409, 1, conflict(1))],
        ),
        (
            "written meanwhile, then moved by somebody",
            &[(409, 1, conflict(1)), (422, 1, conflict(1))],
        ),
        (
            "for ever",
            &[
                (409, 1, conflict(1)),
                (422, 2, conflict(2)),
                (422, 1, conflict(1)),
                (409, 1, conflict(1)),
                (422, 2, conflict(2)),
                (422, 1, Look::Failed),
                (422, 2, conflict(2)),
            ],
        ),
    ] {
        let (mut course, at) = (Course::default(), Duration::from_secs(2));
        for (status, place, expected) in patches {
            let look = course.unapplied(at_place(*place), *status);
            assert_eq!(look, *expected, "{row}");
            assert!(course.pause(at, look, 0.0).is_some());
        }
    }
    // Once all is in order, earlier refusals no longer count.
    let mut course = Course::default();
    assert_eq!(course.unapplied(at_place(1), 422), conflict(1));
    assert!(course.pause(Duration::ZERO, Look::Settled, 0.0).is_some());
    assert_eq!(course.unapplied(at_place(1), 422), conflict(1));
}

#[test]
fn o_108_who_stands_further_back_waits_longer() {
    for (place, millis) in [(0, 200), (1, 200), (9, 1800), (99, 4000)] {
        let mut course = Course::default();
        let pause = course.pause(Duration::from_secs(2), Look::Conflict(place), 0.0);
        assert_eq!(pause, Some(Duration::from_millis(millis)));
    }
}

/// O-108: ten drivers read one list at once; each sees the removals of those before it.
#[test]
fn o_108_ten_drivers_take_turns() {
    for (step, unit_random) in [(0, 0.0), (1, 0.5), (3, 0.999)] {
        let keys: Vec<_> = (0..10)
            .map(|it| format!("d{it}.example.com/agent-not-ready"))
            .collect();
        let taints: Vec<_> = keys
            .iter()
            .map(|key| taint(&format!("{key}:NoSchedule")))
            .collect();
        let mut object = json!({"metadata": {"uid": "u1"}, "spec": {"taints": taints}});
        let csi_node = csi_node(&[DRIVER], "u1");
        let read = |object: &Value, key: &str| {
            let node: Node = serde_json::from_value(object.clone()).unwrap();
            next(DRIVER, &wanted(&[key]), Some(&csi_node), Some(&node))
        };
        // All drivers read before one writes; the order starts at a different driver each time.
        let mut waiting = Vec::new();
        let removals: Vec<_> = keys.iter().map(|key| read(&object, key)).collect();
        for it in 0..10 {
            let it = (it + step) % 10;
            let Step::Remove(removal) = &removals[it] else {
                panic!()
            };
            if apply(&removal.operations, &mut object).is_err() {
                let mut course = Course::default();
                let look = Look::Conflict(removal.place);
                let pause = course.pause(Duration::ZERO, look, unit_random);
                waiting.push((pause.unwrap(), it));
            }
        }
        waiting.sort();
        for pair in waiting.windows(2) {
            // Longer than a check takes.
            assert!(
                pair[1].0 - pair[0].0 >= Duration::from_millis(150),
                "{waiting:?}"
            );
        }
        for (pause, it) in waiting {
            assert!(pause < Duration::from_secs(5));
            let Step::Remove(removal) = read(&object, &keys[it]) else {
                panic!()
            };
            // Three requests more than necessary.
            apply(&removal.operations, &mut object).unwrap();
        }
        assert_eq!(object["spec"]["taints"], json!([]));
    }
}

proptest! {
    /// O-106: whatever another writer does to the list between GET and PATCH, no other taint is removed,
    /// and reading again removes ours.
    #[test]
    fn o_106_no_other_taint_is_ever_removed(
        before in proptest::collection::vec((0_usize..5, 0_usize..3, 0_usize..3), 0..7),
        after in proptest::collection::vec((0_usize..5, 0_usize..3, 0_usize..3), 0..7),
        flag in 0_usize..5,
    ) {
        let flags = [KEY, &format!("{KEY}=v"), &format!("{KEY}:NoExecute"), &format!("{KEY}=v:NoSchedule"), &format!("{KEY}=")];
        let flags = [flags[flag]];
        let list = |list: &[(usize, usize, usize)]| -> Vec<Value> {
            let mut seen = std::collections::BTreeSet::new();
            { list.iter() }
                // A list contains each key and effect only once.
                .filter(|(key, _, effect)| seen.insert((*key, *effect)))
                .map(|(key, value, effect)| {
                    let key = ["a", "b", KEY, "c", KEY][*key];
                    taint(&format!("{key}={}:{}", ["v", "w", ""][*value], EFFECTS[*effect]))
                })
                .collect()
        };
        let others = |object: &Value| -> Vec<Value> {
            let is_ours = |taint: &Value| {
                let taint: Taint = serde_json::from_value(taint.clone()).unwrap();
                wanted(&flags)[0].is(&taint)
            };
            let taints = object["spec"]["taints"].as_array().unwrap().iter();
            taints.filter(|taint| !is_ours(taint)).cloned().collect()
        };
        let mut object = json!({"metadata": {"uid": "u1"}, "spec": {"taints": list(&after)}});
        let untouched = others(&object);
        if let Step::Remove(removal) = decided(&flags, &list(&before)) {
            let before = object.clone();
            if apply(&removal.operations, &mut object).is_err() {
                prop_assert_eq!(&object, &before);
            }
            prop_assert_eq!(others(&object), untouched.clone());
        }
        let now = object["spec"]["taints"].as_array().unwrap().clone();
        if let Step::Remove(removal) = decided(&flags, &now) {
            apply(&removal.operations, &mut object).unwrap();
        }
        prop_assert_eq!(object["spec"]["taints"].as_array().unwrap(), &untouched);
    }
}
