//! Nodes, times, crashes, topology.

use serde_json::{Value, json};

use super::*;
use crate::plan::Settings;
use crate::plan::operation::Operation;
use crate::testing::bench::Bench;
use crate::testing::objects::{content, handmade, of_content, snapshot, taken};
use crate::testing::server::{Kind, finalizers};

fn affine(bench: &mut Bench) {
    bench.edit(Kind::Volume, "pv1", |volume| {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]},
        ]}});
    });
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"host": name}}})
}

#[test]
fn c_84_c_85_c_86_who_is_to_take_the_snapshot() {
    let here = json!({"snapshot.storage.kubernetes.io/managed-by": "n1"});
    let warning = "E: ns/s1 Warning SnapshotNodeNotFound …";
    for (row, distributed, affinity, nodes, labels, reported) in [
        ("C-84", true, true, &["n1", "n2"][..], here, false),
        ("C-85", true, true, &["n2"], Value::Null, true),
        ("C-85", true, false, &["n1"], Value::Null, false),
        ("C-86", false, true, &["n1"], Value::Null, false),
    ] {
        let mut bench = Bench::new();
        bench.set(Settings {
            distributed,
            ..Settings::default()
        });
        if affinity {
            affine(&mut bench);
        }
        nodes
            .iter()
            .for_each(|name| bench.add(Kind::Node, node(name)));
        bench.add(Kind::Snapshot, snapshot("s1", "U1"));
        let mut expected = BEGUN.to_vec();
        if reported {
            expected.insert(4, warning);
        }
        shows(row, &bench.run(), &expected);
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        assert_eq!(content["metadata"]["labels"], labels, "{row}");
    }
}

fn samples(bench: &mut Bench) -> Vec<(Operation, &'static str, String, &'static str)> {
    let samples = std::mem::take(&mut bench.samples).into_iter();
    samples
        .map(|one| (one.operation, one.status, one.driver.to_string(), one.kind))
        .collect()
}

#[test]
fn c_87_c_88_c_89_what_is_measured() {
    use Operation::{Create, CreateAndReady, Delete};
    let sample = |operation, status| (operation, status, "T".to_owned(), "dynamic");
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run();
    assert_eq!(bench.in_flight, 2);
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["status"] = taken(true)
    });
    bench.run();
    let both = [sample(Create, "success"), sample(CreateAndReady, "success")];
    assert_eq!(samples(&mut bench), both, "C-87");
    assert_eq!(bench.in_flight, 0);
    bench.delete(Kind::Snapshot, "ns/s1");
    bench.run();
    bench.sidecar_lets_go("snapcontent-U1");
    bench.run();
    assert_eq!(samples(&mut bench), [sample(Delete, "success")], "C-88");
    assert_eq!(bench.in_flight, 0);
    bench.add(Kind::Snapshot, snapshot("s2", "U2"));
    bench.run();
    bench.delete(Kind::Snapshot, "ns/s2");
    bench.run();
    bench.sidecar_lets_go("snapcontent-U2");
    bench.run();
    let canceled = [
        sample(Delete, "success"),
        sample(Create, "cancel"),
        sample(CreateAndReady, "cancel"),
    ];
    assert_eq!(samples(&mut bench), canceled, "C-89");
    assert_eq!(bench.in_flight, 0);
}

#[test]
fn c_90_what_an_administrator_made_is_told_apart() {
    let mut bench = Bench::new();
    let mut content = handmade("pp", "s1");
    content["status"] = taken(true);
    bench.add(Kind::Content, content);
    bench.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
    bench.run();
    let samples = samples(&mut bench);
    assert_eq!(samples.len(), 2);
    assert!(
        samples
            .iter()
            .all(|(_, _, driver, kind)| driver == "T" && *kind == "pre-provisioned")
    );
}

#[test]
fn c_92_a_group_that_is_not_known_does_not_matter() {
    let mut bench = Bench::new();
    bench.without_groups();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run();
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["status"] = taken(true);
        content["status"]["volumeGroupSnapshotHandle"] = "g1".into();
    });
    let lines = bench.run();
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"creationTime\":\
                 \"2026-01-02T03:04:05Z\",\"readyToUse\":true,\"restoreSize\":\"1Gi\"}}";
    shows("C-92", &lines, &[shown, TAKEN, READY, FREE]);
}

/// Takes and deletes a snapshot, with crashes after so many writes before and after the deletion.
fn life(before: usize, after: usize) -> Bench {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run_until(before);
    bench.restart();
    bench.run();
    let contents = bench.server.all(Kind::Content).count();
    assert_eq!(contents, 1, "after {before} writes");
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["status"] = taken(true)
    });
    bench.run_until(after.min(2));
    bench.restart();
    bench.run();
    let ready = bench.server.get(Kind::Snapshot, "ns/s1").unwrap();
    assert_eq!(ready["status"]["readyToUse"], true);
    let claim = bench.server.get(Kind::Claim, "ns/p1").unwrap();
    assert_eq!(finalizers(claim), ["kubernetes.io/pvc-protection"]);
    bench.delete(Kind::Snapshot, "ns/s1");
    bench.run_until(after);
    bench.restart();
    bench.run();
    bench.sidecar_lets_go("snapcontent-U1");
    bench.run_until(after);
    bench.restart();
    bench.run();
    bench
}

#[test]
fn c_93_a_crash_at_any_write_changes_nothing() {
    for before in 0..8 {
        for after in 0..5 {
            let bench = life(before, after);
            assert_eq!(
                bench.server.all(Kind::Snapshot).count(),
                0,
                "{before} {after}"
            );
            assert_eq!(
                bench.server.all(Kind::Content).count(),
                0,
                "{before} {after}"
            );
        }
    }
}

#[test]
fn c_94_a_content_is_held_from_the_start() {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    assert!(
        bench.run_until(3),
        "the content is made, and the process dies"
    );
    bench.delete(Kind::Snapshot, "ns/s1");
    bench.restart();
    bench.run();
    // The sidecar may be deleting the snapshot: the object that tells it to is still there.
    let left = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    assert_eq!(finalizers(left), finalizers(&content("s1", "U1")));
    assert!(!left["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(
        left["metadata"]["annotations"]["snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"],
        "yes"
    );
}

const TOPOLOGIES: &str = "csi-sidecars.io/snapshot-allowed-topologies";

#[test]
fn c_95_c_96_c_97_where_a_snapshot_is_to_be_usable() {
    let terms = r#"[{"matchLabelExpressions":[{"key":"zone","values":["a","b"]}]}]"#;
    for (row, topology, text, expected) in [
        ("C-95", true, terms, Some(terms)),
        ("C-95", true, "[]", Some("[]")),
        ("C-97", false, terms, None),
        ("C-97", false, "{", None),
    ] {
        let mut bench = Bench::new();
        bench.set(Settings {
            topology,
            ..Settings::default()
        });
        bench.edit(Kind::Class, "c1", |class| {
            class["metadata"]["annotations"][TOPOLOGIES] = text.into()
        });
        bench.add(Kind::Snapshot, snapshot("s1", "U1"));
        shows(row, &bench.run(), BEGUN);
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        let copied = content["metadata"]["annotations"][TOPOLOGIES].as_str();
        assert_eq!(copied, expected, "{row}");
    }
    for text in [
        "{",
        "{}",
        "[1]",
        r#"[{"matchLabelExpressions":[{"key":1,"values":[]}]}]"#,
    ] {
        let mut bench = Bench::new();
        bench.set(Settings {
            topology: true,
            ..Settings::default()
        });
        bench.edit(Kind::Class, "c1", |class| {
            class["metadata"]["annotations"][TOPOLOGIES] = text.into()
        });
        bench.add(Kind::Snapshot, snapshot("s1", "U1"));
        let event = "E: ns/s1 Warning SnapshotContentCreationFailed Failed to create snapshot content \
                     with error the allowed topologies of VolumeSnapshotClass c1 cannot be read: …";
        let lines = bench.run();
        shows(
            "C-96",
            &lines,
            &[PROTECTED, CLAIMED, "PATCH snapshot/status ns/s1 …", event],
        );
        assert!(bench.server.get(Kind::Content, "snapcontent-U1").is_none());
    }
}

/// Quirk 7: servers and drivers put ids of requests and times into their texts.
#[test]
fn c_39_an_error_that_differs_in_an_id_alone_is_the_same() {
    let refused = |number: u8| {
        let text = format!("request 0123abcd-4567-89ab-cdef-01234567890{number} was refused");
        error(Refusal::Other, text)
    };
    let mut bench = Bench::new();
    (0..3).for_each(|number| bench.refuse("POST content", refused(number), 1));
    bench.refuse("POST content", error(Refusal::Other, "no"), 1);
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    let reported = |lines: Vec<String>| {
        let status = |line: &String| line.starts_with("PATCH snapshot/status");
        let event = |line: &String| line.contains("SnapshotContentCreationFailed");
        let count = |is: &dyn Fn(&String) -> bool| lines.iter().filter(|line| is(line)).count();
        (count(&status), count(&event))
    };
    assert_eq!(reported(bench.run()), (1, 1), "C-39");
    assert_eq!(reported(bench.retry()), (0, 0), "C-39");
    assert_eq!(reported(bench.retry()), (0, 0), "C-39");
    assert_eq!(reported(bench.retry()), (1, 1), "C-39: another one");
}

/// The same for the error of a content, which a sidecar of another make writes at each attempt.
#[test]
fn c_24_an_error_of_a_content_that_differs_in_an_id_alone_is_the_same() {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    bench.run();
    let fails = |bench: &mut Bench, text: &str, time: &str| {
        bench.edit(Kind::Content, "snapcontent-U1", |content| {
            content["status"] =
                json!({"readyToUse": false, "error": {"message": text, "time": time}});
        });
        bench.run().len()
    };
    let (first, second) = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z");
    assert_eq!(fails(&mut bench, "call 5f3a9c01e2: busy", first), 1, "C-24");
    assert_eq!(
        fails(&mut bench, "call 77aa01bc9d: busy", second),
        0,
        "C-24"
    );
    assert_eq!(
        fails(&mut bench, "call 77aa01bc9d: gone", second),
        1,
        "C-24"
    );
}
