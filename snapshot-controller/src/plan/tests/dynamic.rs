//! VolumeSnapshots of claims, until they are ready.

use serde_json::{Value, json};

use super::*;
use crate::plan::Settings;
use crate::testing::bench::Bench;
use crate::testing::objects::{claim, class, content, snapshot, taken, volume};
use crate::testing::server::Kind;

/// Fixture C with `change` applied, then the VolumeSnapshot `ns/s1` is created.
fn begin(change: impl FnOnce(&mut Bench)) -> (Bench, Vec<String>) {
    let mut bench = Bench::new();
    change(&mut bench);
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    let lines = bench.run();
    (bench, lines)
}

fn status(bench: &mut Bench, status: Value) -> Vec<String> {
    bench.edit(Kind::Content, "snapcontent-U1", |content| {
        content["status"] = status
    });
    bench.run()
}

#[test]
fn c_15_a_snapshot_begins() {
    let (bench, lines) = begin(|_| {});
    shows("C-15", &lines, BEGUN);
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    let held = &content["metadata"]["finalizers"];
    assert_eq!(
        *held,
        json!(["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"])
    );
}

#[test]
fn c_16_the_content_and_nothing_else() {
    let (bench, _) = begin(|_| {});
    let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
    let expected = json!({
        "volumeSnapshotRef": {
            "kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1",
            // The version at which the content was made: after the finalizer.
            "namespace": "ns", "name": "s1", "uid": "U1", "resourceVersion": "5",
        },
        "source": {"volumeHandle": "vol-1"}, "volumeSnapshotClassName": "c1", "driver": "T",
        "deletionPolicy": "Delete", "sourceVolumeMode": "Filesystem",
    });
    assert_eq!(content["spec"], expected);
    let metadata = content["metadata"].as_object().unwrap();
    assert!(!metadata.contains_key("annotations") && !metadata.contains_key("labels"));
}

#[test]
fn c_17_a_mode_that_is_not_kept_or_not_known() {
    let loose = Settings::default();
    let changes: [fn(&mut Bench); 2] = [
        |bench| bench.set(Settings::default()),
        |bench| {
            bench.edit(Kind::Volume, "pv1", |volume| {
                volume["spec"]["volumeMode"] = Value::Null
            })
        },
    ];
    assert!(!loose.keep_mode);
    for change in changes {
        let (bench, _) = begin(change);
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        assert_eq!(content["spec"]["sourceVolumeMode"], Value::Null);
    }
}

fn with_secret(name: Option<&str>, namespace: Option<&str>) -> (Bench, Vec<String>) {
    begin(|bench| {
        bench.edit(Kind::Class, "c1", |class| {
            let parameters = &mut class["parameters"];
            if let Some(name) = name {
                parameters["csi.storage.k8s.io/snapshotter-secret-name"] = name.into();
            }
            if let Some(namespace) = namespace {
                parameters["csi.storage.k8s.io/snapshotter-secret-namespace"] = namespace.into();
            }
        });
    })
}

#[test]
fn c_18_the_content_names_the_secret() {
    for (name, namespace, expected) in [
        (
            "${volumesnapshot.name}-k",
            "${volumesnapshot.namespace}",
            ("s1-k", "ns"),
        ),
        ("a.b", "ns2", ("a.b", "ns2")),
        ("x", "a-${volumesnapshot.namespace}", ("x", "a-ns")),
    ] {
        let (bench, lines) = with_secret(Some(name), Some(namespace));
        shows("C-18", &lines, BEGUN);
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        let annotations = json!({
            "snapshot.storage.kubernetes.io/deletion-secret-name": expected.0,
            "snapshot.storage.kubernetes.io/deletion-secret-namespace": expected.1,
        });
        assert_eq!(content["metadata"]["annotations"], annotations);
    }
}

#[test]
fn c_19_a_secret_that_cannot_be_is_refused() {
    let half = "failed to get name and namespace template from params: either name and namespace \
                for Snapshotter secrets specified, Both must be specified";
    let empty = "failed to get name and namespace template from params: Snapshotter secrets \
                 specified in parameters but value of either namespace or name is empty";
    for (name, namespace, problem) in [
        (Some("x"), None, half),
        (None, Some("x"), half),
        (Some(""), Some("ns"), empty),
        (Some("x"), Some(""), empty),
        (
            Some("${pvc.name}"),
            Some("ns"),
            r#"error resolving value "${pvc.name}": invalid tokens: ["pvc.name"]"#,
        ),
        (
            Some("x"),
            Some("${volumesnapshot.name}"),
            r#"error resolving value "${volumesnapshot.name}": invalid tokens: ["volumesnapshot.name"]"#,
        ),
        (
            Some("A_${volumesnapshot.name}"),
            Some("ns"),
            r#""A_${volumesnapshot.name}" resolved to "A_s1" which is not a valid secret name"#,
        ),
        (
            Some("A_b"),
            Some("ns"),
            r#""A_b" is not a valid secret name"#,
        ),
        (
            Some("x"),
            Some("a.b"),
            r#""a.b" is not a valid namespace name"#,
        ),
    ] {
        let (bench, lines) = with_secret(name, namespace);
        let [status, event] = unfit(problem);
        shows("C-19", &lines, &[PROTECTED, CLAIMED, &status, &event]);
        assert!(bench.server.get(Kind::Content, "snapcontent-U1").is_none());
    }
}

#[test]
fn c_20_what_is_kept_does_not_hold_its_snapshot() {
    let (_, lines) = begin(|bench| {
        bench.edit(Kind::Class, "c1", |class| {
            class["deletionPolicy"] = "Retain".into()
        });
    });
    shows(
        "C-20",
        &lines,
        &[PROTECTED, CLAIMED, POSTED, WAITING, SHOWN],
    );
}

#[test]
fn c_21_c_22_taken_first_and_ready_later() {
    let (mut bench, _) = begin(|_| {});
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"creationTime\":\"2026-01-02T03:04:05Z\",\
                 \"restoreSize\":\"1Gi\"}}";
    shows("C-21", &status(&mut bench, taken(false)), &[shown, TAKEN]);
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"readyToUse\":true}}";
    shows(
        "C-22",
        &status(&mut bench, taken(true)),
        &[shown, READY, FREE],
    );
}

const ALL: &str = "PATCH snapshot/status ns/s1 {\"status\":{\"creationTime\":\
                   \"2026-01-02T03:04:05Z\",\"readyToUse\":true,\"restoreSize\":\"1Gi\"}}";

#[test]
fn c_23_ready_at_once() {
    let (mut bench, _) = begin(|_| {});
    shows(
        "C-23",
        &status(&mut bench, taken(true)),
        &[ALL, TAKEN, READY, FREE],
    );
    assert!(bench.run().is_empty() && bench.resync().is_empty());
}

#[test]
fn c_24_c_25_an_error_is_shown_as_long_as_there_is_one() {
    let (mut bench, _) = begin(|_| {});
    let failed =
        json!({"readyToUse": false, "error": {"message": "m", "time": "2026-01-02T03:04:06Z"}});
    let shown = "PATCH snapshot/status ns/s1 {\"status\":{\"error\":{\"message\":\"m\",\"time\":\
                 \"2026-01-02T03:04:06Z\"}}}";
    shows("C-24", &status(&mut bench, failed.clone()), &[shown]);
    shows("C-25", &bench.resync(), &[]);
    let mut polled = failed.clone();
    polled["snapshotHandle"] = "snap-1".into();
    shows("C-25", &status(&mut bench, polled), &[]);
    let gone = "PATCH snapshot/status ns/s1 {\"status\":{\"error\":null}}";
    shows(
        "C-24",
        &status(&mut bench, json!({"readyToUse": false})),
        &[gone],
    );
    // A ready VolumeSnapshot shows no error, whatever the content still has.
    let mut late = taken(true);
    late["error"] = failed["error"].clone();
    shows(
        "C-24",
        &status(&mut bench, late),
        &[ALL, TAKEN, READY, FREE],
    );
}

/// The lines of a failure between claim and content.
fn uncreated(error: &str) -> [String; 2] {
    let message = format!("Failed to create snapshot content with error {error}");
    complains("SnapshotContentCreationFailed", &message)
}

fn unfit(problem: &str) -> [String; 2] {
    let quoted = Value::from(problem).to_string();
    uncreated(&format!(
        "failed to get input parameters to create snapshot s1: {quoted}"
    ))
}

#[test]
fn c_26_without_a_claim() {
    let mut bench = Bench::new();
    bench.delete(Kind::Claim, "ns/p1");
    bench.server.strip(Kind::Claim, "ns/p1");
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    let [status, event] = uncreated(
        "snapshot controller failed to update s1 on API server: cannot get claim from snapshot",
    );
    shows("C-26", &bench.run(), &[PROTECTED, &status, &event]);
    // The claim appears: the attempt does not wait for the back-off.
    bench.add(Kind::Claim, claim("p1", "pv1"));
    let lines = bench.run();
    shows(
        "C-26",
        &lines,
        &[
            CLAIMED,
            POSTED,
            WAITING,
            "PATCH snapshot/status ns/s1 …",
            BOUND,
        ],
    );
}

#[test]
fn c_27_a_claim_without_a_volume_is_waited_for() {
    let (mut bench, lines) = begin(|bench| {
        bench.edit(Kind::Claim, "ns/p1", |claim| {
            claim["status"]["phase"] = "Pending".into()
        });
    });
    let [status, event] =
        unfit("the PVC p1 is not yet bound to a PV, will not attempt to take a snapshot");
    shows("C-27", &lines, &[PROTECTED, CLAIMED, &status, &event]);
    bench.edit(Kind::Claim, "ns/p1", |claim| {
        claim["status"]["phase"] = "Bound".into()
    });
    let lines = bench.run();
    let cleared = "PATCH snapshot/status ns/s1 {\"status\":{\"boundVolumeSnapshotContentName\":\
                   \"snapcontent-U1\",\"error\":null}}";
    shows("C-27", &lines, &[POSTED, WAITING, cleared, BOUND]);
}

#[test]
fn c_28_c_29_c_30_volumes_that_cannot_be_used() {
    type Change = fn(&mut Bench);
    let other_uid: Change = |b| {
        b.edit(Kind::Volume, "pv1", |v| {
            v["spec"]["claimRef"]["uid"] = "other".into()
        })
    };
    let other_name: Change = |b| {
        b.edit(Kind::Volume, "pv1", |v| {
            v["spec"]["claimRef"]["name"] = "p2".into()
        })
    };
    let gone: Change = |b| b.server.strip(Kind::Volume, "pv1");
    let nfs: Change = |b| b.edit(Kind::Volume, "pv1", |v| v["spec"]["csi"] = Value::Null);
    let missing = "failed to retrieve PV pv1 from the API server: \"persistentvolumes \\\"pv1\\\" \
                   not found\"";
    let invalid = "claim in dataSource not bound or invalid";
    let no_csi = "cannot find CSI PersistentVolumeSource for volume pv1";
    for (row, change, expected) in [
        ("C-28", other_uid, unfit(invalid)),
        ("C-28", other_name, unfit(invalid)),
        ("C-29", gone, unfit(missing)),
        ("C-30", nfs, uncreated(no_csi)),
    ] {
        let (mut bench, lines) = begin(change);
        shows(
            row,
            &lines,
            &[PROTECTED, CLAIMED, &expected[0], &expected[1]],
        );
        assert!(bench.server.get(Kind::Content, "snapcontent-U1").is_none());
        bench.server.strip(Kind::Volume, "pv1");
        bench.add(Kind::Volume, volume("pv1", "p1"));
        let lines = bench.run();
        shows(
            row,
            &lines,
            &[POSTED, WAITING, "PATCH snapshot/status ns/s1 …", BOUND],
        );
    }
}

#[test]
fn c_31_a_claim_that_goes_is_not_begun_with() {
    let (_, lines) = begin(|bench| bench.delete(Kind::Claim, "ns/p1"));
    let [status, event] = uncreated(
        "snapshot controller failed to update p1 on API server: cannot add finalizer on claim \
         because it is being deleted",
    );
    shows("C-31", &lines, &[PROTECTED, &status, &event]);
}

#[test]
fn c_32_a_claim_that_goes_and_is_held_already_is_used() {
    let mut bench = Bench::new();
    bench.add(Kind::Snapshot, snapshot("s0", "U0"));
    bench.run();
    bench.delete(Kind::Claim, "ns/p1");
    bench.add(Kind::Snapshot, snapshot("s1", "U1"));
    shows(
        "C-32",
        &bench.run(),
        &[PROTECTED, POSTED, WAITING, SHOWN, BOUND],
    );
}

#[test]
fn c_33_a_class_of_another_driver_is_refused() {
    let (mut bench, lines) = begin(|bench| {
        bench.edit(Kind::Class, "c1", |class| class["driver"] = "T2".into());
    });
    let [status, event] =
        uncreated("the driver T2 of VolumeSnapshotClass c1 is not the driver T of volume pv1");
    shows("C-33", &lines, &[PROTECTED, CLAIMED, &status, &event]);
    bench.edit(Kind::Class, "c1", |class| class["driver"] = "T".into());
    let lines = bench.run();
    shows(
        "C-33",
        &lines,
        &[POSTED, WAITING, "PATCH snapshot/status ns/s1 …", BOUND],
    );
}

#[test]
fn c_34_c_39_a_content_that_is_refused_is_told_once() {
    let (mut bench, lines) = begin(|bench| bench.refuse("POST content", forbidden(), 3));
    let also = "E: ns/s1 Warning CreateSnapshotContentFailed Error creating volume snapshot content \
                object for snapshot ns/s1: forbidden.";
    let [status, event] =
        uncreated("snapshot controller failed to update ns/s1 on API server: forbidden");
    shows(
        "C-34",
        &lines,
        &[PROTECTED, CLAIMED, POSTED, &status, also, &event],
    );
    assert!(bench.retries());
    shows("C-39", &bench.retry(), &[POSTED]);
    assert!(bench.retries());
    shows("C-39", &bench.retry(), &[POSTED]);
    let lines = bench.retry();
    shows(
        "C-34",
        &lines,
        &[POSTED, WAITING, "PATCH snapshot/status ns/s1 …", BOUND],
    );
}

#[test]
fn c_35_a_content_that_is_there_already_is_used() {
    let (bench, lines) = begin(|bench| bench.add(Kind::Content, content("s1", "U1")));
    shows("C-35", &lines, &[PROTECTED, SHOWN, BOUND]);
    assert_eq!(bench.server.all(Kind::Content).count(), 1);
    // The watch is late, but the POST returns AlreadyExists.
    let (bench, lines) = begin(|bench| {
        let exists = error(Refusal::AlreadyExists, "already exists");
        bench.refuse("POST content", exists, 1);
    });
    shows(
        "C-35",
        &lines,
        &[PROTECTED, CLAIMED, POSTED, POSTED, WAITING, SHOWN, BOUND],
    );
    assert_eq!(bench.server.all(Kind::Content).count(), 1);
}

#[test]
fn c_36_c_37_a_content_that_is_something_else_is_left_alone() {
    let bound = "VolumeSnapshotContent [snapcontent-U1] is bound to a different snapshot";
    let handmade = "VolumeSnapshotContent snapcontent-U1 is pre-provisioned while expecting a \
                    dynamically provisioned one";
    for (row, pointer, value, reason, message) in [
        (
            "C-36",
            "/spec/volumeSnapshotRef/uid",
            json!("U2"),
            "SnapshotContentMisbound",
            bound,
        ),
        (
            "C-36",
            "/spec/volumeSnapshotRef/name",
            json!("s2"),
            "SnapshotContentMisbound",
            bound,
        ),
        (
            "C-36",
            "/spec/volumeSnapshotRef/namespace",
            json!("x"),
            "SnapshotContentMisbound",
            bound,
        ),
        (
            "C-37",
            "/spec/source",
            json!({"snapshotHandle": "h"}),
            "SnapshotContentMismatch",
            handmade,
        ),
    ] {
        let (bench, lines) = begin(|bench| {
            let mut content = content("s1", "U1");
            *content.pointer_mut(pointer).unwrap() = value;
            bench.add(Kind::Content, content);
        });
        let [status, event] = complains(reason, message);
        shows(row, &lines, &[&status, &event]);
        let content = bench.server.get(Kind::Content, "snapcontent-U1").unwrap();
        assert_eq!(content["metadata"]["resourceVersion"], "4");
    }
}

#[test]
fn c_38_what_others_change_meanwhile_is_read_again_without_a_word() {
    for (line, twice) in [
        ("PUT claim", CLAIMED),
        ("PATCH snapshot ns/s1", PROTECTED),
        ("PATCH snapshot/status", SHOWN),
    ] {
        let (bench, lines) = begin(|bench| bench.refuse(line, conflict(), 1));
        let expected: Vec<&str> = { BEGUN.iter() }
            .flat_map(|one| std::iter::repeat_n(*one, 1 + usize::from(*one == twice)))
            .collect();
        shows("C-38", &lines, &expected);
        assert!(!bench.retries());
    }
}

#[test]
fn c_40_a_claim_stays_until_the_last_one_is_ready() {
    let (mut bench, _) = begin(|_| {});
    bench.add(Kind::Snapshot, snapshot("s2", "U2"));
    assert_eq!(bench.run().len(), 5);
    shows(
        "C-40",
        &status(&mut bench, taken(true)),
        &[ALL, TAKEN, READY],
    );
    bench.edit(Kind::Content, "snapcontent-U2", |content| {
        content["status"] = taken(true)
    });
    let lines = bench.run();
    shows(
        "C-40",
        &lines,
        &[
            "PATCH snapshot/status ns/s2 …",
            "E: ns/s2 …",
            "E: ns/s2 …",
            FREE,
        ],
    );
}

#[test]
fn c_41_one_that_never_began_does_not_hold_the_claim() {
    let (mut bench, _) = begin(|bench| {
        let mut other = snapshot("sx", "UX");
        other["spec"]["volumeSnapshotClassName"] = "none".into();
        bench.add(Kind::Snapshot, other);
    });
    shows(
        "C-41",
        &status(&mut bench, taken(true)),
        &[ALL, TAKEN, READY, FREE],
    );
}

#[test]
fn c_42_a_status_that_could_not_be_written_is_told_of_and_written() {
    let (mut bench, _) = begin(|_| {});
    bench.refuse("PATCH snapshot/status", broken(), 1);
    let lines = status(&mut bench, taken(true));
    let event = "E: ns/s1 Warning SnapshotStatusUpdateFailed Snapshot status update failed, \
                 snapshot controller failed to update ns/s1 on API server: internal error";
    shows("C-42", &lines, &[ALL, event]);
    shows("C-42", &bench.retry(), &[ALL, TAKEN, READY, FREE]);
}

#[test]
fn c_43_no_request_is_made_for_nothing() {
    let mut bench = Bench::new();
    bench.shows_reads = true;
    let all: Vec<String> = (0..200).map(|number| format!("{number}")).collect();
    for one in &all {
        bench.add(Kind::Volume, volume(&format!("v{one}"), &format!("c{one}")));
        bench.add(Kind::Claim, claim(&format!("c{one}"), &format!("v{one}")));
        let mut snapshot = snapshot(&format!("s{one}"), &format!("U{one}"));
        snapshot["spec"]["source"]["persistentVolumeClaimName"] = format!("c{one}").into();
        bench.add(Kind::Snapshot, snapshot);
    }
    let mut lines = bench.run();
    for one in &all {
        let name = format!("snapcontent-U{one}");
        bench.edit(Kind::Content, &name, |content| {
            content["status"] = taken(true)
        });
    }
    lines.append(&mut bench.run());
    // Events are requests too: eleven each, and all of them writes but one GET.
    assert_eq!(lines.len(), 11 * all.len(), "{:#?}", &lines[..24]);
    let reads = lines.iter().filter(|line| line.starts_with("GET")).count();
    assert_eq!(reads, all.len());
    assert!(bench.resync().is_empty());
}

#[test]
fn a_snapshot_without_one_source_is_told_of() {
    let mut bench = Bench::new();
    let mut both = snapshot("s1", "U1");
    both["spec"]["source"]["volumeSnapshotContentName"] = "v".into();
    bench.add(Kind::Snapshot, both);
    let [status, event] = complains(
        "SnapshotValidationError",
        "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified",
    );
    shows("4.4 #3", &bench.run(), &[&status, &event]);
}

#[test]
fn a_size_is_neither_guessed_nor_taken_back() {
    let (mut bench, _) = begin(|_| {});
    let mut zero = taken(false);
    zero["restoreSize"] = 0.into();
    let lines = status(&mut bench, zero);
    assert!(lines[0].contains("\"restoreSize\":\"0\""), "{lines:?}");
    let larger = "PATCH snapshot/status ns/s1 {\"status\":{\"restoreSize\":\"1Gi\"}}";
    shows("4.9", &status(&mut bench, taken(false)), &[larger]);
    let mut smaller = taken(false);
    smaller["restoreSize"] = 5.into();
    shows("4.9", &status(&mut bench, smaller), &[]);
}

#[test]
fn the_class_is_not_asked_for_once_there_is_a_content() {
    let (mut bench, _) = begin(|_| {});
    bench.delete(Kind::Class, "c1");
    shows(
        "Q51",
        &status(&mut bench, taken(true)),
        &[ALL, TAKEN, READY, FREE],
    );
    bench.add(Kind::Class, class("c1", "T2"));
    assert!(bench.run().is_empty());
}
