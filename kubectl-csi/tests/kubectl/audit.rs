//! `kubectl csi audit`: the built program between a model API server and a model driver.

use std::process::{Command, Output};

use serde_json::{Value, json};
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::fault::{Fault, Gate};
use sidecar_testkit::driver::fault::CallFault;
use sidecar_testkit::driver::{ControllerRpc, FakeDriver};
use tonic::Code;

const DRIVER: &str = "csi.example.com";

fn volume(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": format!("pv-{number}"), "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{number}")},
        },
        "status": {"phase": "Bound"},
    })
}

/// A driver and a cluster with the same volumes and snapshots.
fn same(volumes: usize, snapshots: usize) -> (FakeApi, FakeDriver) {
    let (api, driver) = (FakeApi::new(), FakeDriver::new(DRIVER));
    (0..volumes).for_each(|number| {
        api.insert(volume(number));
    });
    for number in 0..snapshots {
        api.insert(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": {"name": format!("content-{number}")},
            "spec": {"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": format!("vol-{number}")}, "volumeSnapshotRef": {}},
            "status": {"snapshotHandle": format!("snap-{number}"), "readyToUse": true},
        }));
    }
    driver.configure(|model| {
        model.controller = vec![
            ControllerRpc::ListVolumes,
            ControllerRpc::GetVolume,
            ControllerRpc::ListVolumesPublishedNodes,
            ControllerRpc::ListSnapshots,
        ];
        for number in 0..volumes {
            model.add(&format!("vol-{number}"));
        }
        for number in 0..snapshots {
            let id = format!("snap-{number}");
            let snapshot = csi_proto::csi::Snapshot {
                snapshot_id: id.clone(),
                ..Default::default()
            };
            model.snapshots.insert(id, snapshot);
        }
    });
    driver.start();
    (api, driver)
}

/// Runs the program between both.
async fn audited(
    api: &FakeApi,
    driver: &FakeDriver,
    flags: &[&str],
) -> (Option<i32>, String, String) {
    let server = api.serve().await;
    let mut arguments = vec![
        "audit".to_owned(),
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--csi-address={}", driver.address()),
    ];
    if !flags.iter().any(|flag| flag.starts_with("--grace")) {
        arguments.push("--grace=0s".to_owned());
    }
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-csi"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", "/nonexistent");
        command.output().unwrap()
    };
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The differences in `-o json` output.
fn differences(stdout: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(stdout).unwrap_or_else(|_| panic!("{stdout}"));
    let all = answer["differences"].as_array().unwrap().iter();
    let text = |one: &Value| format!("{} {}", one["what"], one["handle"]).replace('"', "");
    all.map(text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_w_54_w_58_w_60_a_thousand_volumes_page_by_page_and_nothing_is_written() {
    let (api, driver) = same(1000, 250);
    let (code, out, error) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(0), "{out} {error}");
    assert!(out.starts_with("Nothing differs between the cluster and csi.example.com, which lists 1000 volumes and 250 snapshots\n"), "{out}");
    // Without differences at the first look there is no second.
    assert_eq!(driver.calls_to("ListVolumes").len(), 10);
    driver.clear_calls();
    driver.configure(|model| {
        for gone in [3, 500, 999] {
            model.volumes.remove(&format!("vol-{gone}"));
        }
        (0..5).for_each(|number| model.add(&format!("made-{number}")));
        model.snapshots.remove("snap-7");
        let snapshot = csi_proto::csi::Snapshot {
            snapshot_id: "stray".to_owned(),
            ..Default::default()
        };
        model.snapshots.insert("stray".to_owned(), snapshot);
    });
    let (code, out, error) = audited(&api, &driver, &["-o", "json", "--driver", DRIVER]).await;
    assert_eq!(code, Some(3), "{out} {error}");
    let mut expected: Vec<_> = (0..5)
        .map(|number| format!("unknownVolume made-{number}"))
        .collect();
    expected.extend(["3", "500", "999"].map(|gone| format!("lostVolume vol-{gone}")));
    expected.extend(["unknownSnapshot stray", "lostSnapshot snap-7"].map(str::to_owned));
    assert_eq!(differences(&out), expected);
    assert!(
        error.contains("10 differences at the first look"),
        "{error}"
    );
    assert!(api.writes().is_empty(), "W-60");
    let reads = [
        "GetPluginInfo",
        "ControllerGetCapabilities",
        "ListVolumes",
        "ListSnapshots",
        "ControllerGetVolume",
    ];
    for call in driver.calls() {
        assert!(reads.contains(&call.method), "W-60: {}", call.method);
    }
    for call in driver.calls_to("ListVolumes") {
        let request = call
            .request::<csi_proto::csi::ListVolumesRequest>()
            .unwrap();
        assert_eq!(request.max_entries, 100);
    }
    let (_, out, _) = audited(&api, &driver, &["-o", "name"]).await;
    assert!(out.starts_with("unknownVolume made-0\n"), "{out}");
}

/// Volumes and objects change between the two looks, while the driver's second list is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_51_what_comes_and_goes_during_an_audit_is_no_finding() {
    let (api, driver) = same(300, 0);
    driver.configure(|model| {
        (0..200).for_each(|number| model.add(&format!("new-{number}")));
        (0..100).for_each(|number| {
            model.volumes.remove(&format!("vol-{number}"));
        });
        model.add("stray");
    });
    let gate = Gate::new();
    // The first look reads 401 volumes, in five pages.
    driver.fault(CallFault::on("ListVolumes").skip(5).hold(&gate));
    let flags = ["-o", "json"];
    let run = audited(&api, &driver, &flags);
    let settle = async {
        driver
            .until(|driver| driver.calls_to("ListVolumes").len() > 5)
            .await;
        for number in 0..200 {
            let mut one = volume(number);
            one["metadata"]["name"] = format!("new-{number}").into();
            one["spec"]["csi"]["volumeHandle"] = format!("new-{number}").into();
            api.insert(one);
        }
        (0..100).for_each(|number| api.remove("persistentvolumes", &format!("pv-{number}")));
        gate.open();
    };
    let ((code, out, error), ()) = tokio::join!(run, settle);
    assert_eq!(code, Some(3), "{out} {error}");
    assert_eq!(differences(&out), ["unknownVolume stray"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_52_w_54_a_list_that_breaks_off_begins_anew_or_is_none() {
    for (fault, code, calls) in [
        (
            CallFault::on("ListVolumes")
                .skip(2)
                .times(1)
                .fail(Code::Aborted, "the token has expired"),
            Some(0),
            6,
        ),
        (
            CallFault::on("ListVolumes")
                .skip(1)
                .times(1)
                .fail(Code::Unavailable, "starting"),
            Some(0),
            5,
        ),
        (
            CallFault::on("ListVolumes")
                .skip(1)
                .fail(Code::Aborted, "the token has expired"),
            Some(1),
            4,
        ),
        (
            CallFault::on("ListVolumes")
                .skip(1)
                .fail(Code::Internal, "password=planted"),
            Some(1),
            2,
        ),
    ] {
        let (api, driver) = same(250, 0);
        driver.configure(|model| {
            model.volumes.remove("vol-249");
            model.add("vol-249");
        });
        let what = format!("{fault:?}");
        driver.fault(fault);
        let (got, out, error) = audited(&api, &driver, &[]).await;
        assert_eq!(got, code, "{what}: {out} {error}");
        assert_eq!(driver.calls_to("ListVolumes").len(), calls, "{what}");
        if code == Some(1) {
            assert!(
                out.is_empty()
                    && error.contains("ListVolumes failed, so that nothing can be compared"),
                "{what}: {out} {error}"
            );
            assert!(!error.contains("planted"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_52_another_driver_and_nobody_are_said() {
    let (api, driver) = same(1, 0);
    let (code, out, error) = audited(&api, &driver, &["--driver", "other.example.com"]).await;
    assert_eq!((code, &*out), (Some(1), ""));
    assert_eq!(
        error,
        "the driver at --csi-address is csi.example.com, not other.example.com\n"
    );
    driver.stop();
    let (code, out, error) = audited(&api, &driver, &["--csi-timeout=1s"]).await;
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(
        error.starts_with("--csi-address: cannot connect to the CSI driver at "),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_53_a_driver_without_a_list_is_asked_for_each_volume_or_named() {
    let (api, driver) = same(3, 2);
    driver.configure(|model| {
        model.controller = vec![ControllerRpc::GetVolume, ControllerRpc::GetSnapshot];
        model.volumes.remove("vol-1");
        model.snapshots.remove("snap-1");
    });
    let (code, out, error) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{out} {error}");
    // The driver may see another part of the storage than the snapshot's.
    assert_eq!(differences(&out), ["lostVolume vol-1"]);
    assert!(out.contains("\"lostSnapshot\""), "{out}");
    driver.configure(|model| model.controller = Vec::new());
    let (code, out, _) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(4), "{out}");
    let text = out.replace('\n', " ");
    assert!(text.contains("csi.example.com cannot be audited: the driver does not list its volumes: it has neither LIST_VOLUMES nor GET_VOLUME"), "{out}");
}

/// A driver may list a volume once for each node: it is one volume, published to all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_55_a_volume_that_is_listed_twice_is_at_the_nodes_of_both() {
    use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};
    use csi_proto::csi::{ListVolumesResponse, Volume};
    let entry = |node: &str| Entry {
        volume: Some(Volume {
            volume_id: "vol-0".to_owned(),
            ..Volume::default()
        }),
        status: Some(VolumeStatus {
            published_node_ids: vec![node.to_owned()],
        }),
    };
    let (api, driver) = same(1, 0);
    for id in ["a", "b"] {
        api.insert(json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": format!("node-{id}")},
            "spec": {"drivers": [{"name": DRIVER, "nodeID": id}]},
        }));
    }
    driver.fault(CallFault::on("ListVolumes").answer(ListVolumesResponse {
        entries: vec![entry("b"), entry("a"), entry("b")],
        next_token: String::new(),
    }));
    let (code, out, error) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{out} {error}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let nodes: Vec<&Value> = { answer["differences"].as_array().unwrap().iter() }
        .map(|one| &one["node"])
        .collect();
    assert_eq!(nodes, ["a", "b"], "{out}");
    let (_, out, _) = audited(&api, &driver, &["-o", "name"]).await;
    assert_eq!(
        out,
        "publishedWithoutAttachment vol-0 a\npublishedWithoutAttachment vol-0 b\n"
    );
}

/// A driver that fails for each volume is not asked a hundred times, and no volume is called lost because of
/// its failures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_a_driver_that_fails_when_it_is_asked_is_left_in_peace() {
    let (api, driver) = same(20, 0);
    driver.configure(|model| {
        (0..8).for_each(|number| drop(model.volumes.remove(&format!("vol-{number}"))));
    });
    driver.fault(CallFault::on("ControllerGetVolume").fail(Code::Internal, "broken"));
    let (code, out, error) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(1), "{out} {error}");
    assert_eq!(
        driver.calls_to("ControllerGetVolume").len(),
        10,
        "two looks"
    );
    let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("was not asked for 3 more"), "{out}");
    assert!(
        text.contains("PersistentVolumes without a volume: 8"),
        "{out}"
    );
    assert!(
        error.contains("8 differences at the first look"),
        "looks again, too, if nobody can tell: {error}"
    );
    assert!(
        error.contains("--grace is shorter than --csi-timeout"),
        "{error}"
    );
    let flags = ["--csi-timeout=1s", "--grace=1s"];
    let (_, _, error) = audited(&api, &driver, &flags).await;
    assert!(!error.contains("--grace is shorter"), "{error}");
}

/// JSON has the raw handle; the output for people has only its printable characters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_json_has_handles_as_they_are() {
    let (api, driver) = same(3, 0);
    let handle = "stray\u{7}\u{202e}x";
    driver.configure(|model| model.add(handle));
    let (code, out, _) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["differences"][0]["handle"], handle, "{out}");
    let (_, out, _) = audited(&api, &driver, &[]).await;
    assert!(!out.contains('\u{7}') && !out.contains('\u{202e}'), "{out}");
}

/// A driver that repeats a token, the last one or one from long before, has no last page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_54_a_list_that_goes_round_in_a_circle_is_none() {
    use csi_proto::csi::{ListSnapshotsResponse, ListVolumesResponse};
    for method in ["ListVolumes", "ListSnapshots"] {
        for circle in [&["a"][..], &["a", "b", "c"]] {
            let (api, driver) = same(3, 3);
            // The first rule that is not used up answers.
            let tokens: Vec<_> = circle.iter().cycle().take(20).collect();
            for token in tokens {
                let fault = CallFault::on(method).times(1);
                let next_token = (*token).to_owned();
                driver.fault(match method {
                    "ListVolumes" => fault.answer(ListVolumesResponse {
                        next_token,
                        ..Default::default()
                    }),
                    _ => fault.answer(ListSnapshotsResponse {
                        next_token,
                        ..Default::default()
                    }),
                });
            }
            let (code, out, error) = audited(&api, &driver, &[]).await;
            assert_eq!((code, &*out), (Some(1), ""), "{method} {circle:?}: {error}");
            let expected = format!(
                "{method}: the driver's list has no end: it gave a token for the next page twice"
            );
            assert!(error.starts_with(&expected), "{error}");
            assert_eq!(
                driver.calls_to(method).len(),
                circle.len() + 1,
                "{circle:?}"
            );
        }
    }
}

/// A driver without pages returns everything at once: more than gRPC's default limit of 4 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_56_lists_of_eight_mebibytes_are_read_and_larger_ones_than_32_named() {
    use csi_proto::csi::{ListSnapshotsResponse, ListVolumesResponse, Snapshot, Volume};
    use csi_proto::csi::{list_snapshots_response, list_volumes_response};
    let volumes = |count: usize| ListVolumesResponse {
        entries: { 0..count }
            .map(|number| list_volumes_response::Entry {
                volume: Some(Volume {
                    volume_id: format!("vol-{number}"),
                    volume_context: [("a".to_owned(), "x".repeat(1000))].into(),
                    ..Volume::default()
                }),
                status: None,
            })
            .collect(),
        next_token: String::new(),
    };
    let snapshots = |count: usize| ListSnapshotsResponse {
        entries: { 0..count }
            .map(|number| list_snapshots_response::Entry {
                snapshot: Some(Snapshot {
                    snapshot_id: format!("snap-{number}"),
                    source_volume_id: "x".repeat(1000),
                    ..Snapshot::default()
                }),
            })
            .collect(),
        next_token: String::new(),
    };
    let (api, driver) = same(2, 2);
    driver.fault(CallFault::on("ListVolumes").times(2).answer(volumes(8000)));
    driver.fault(
        CallFault::on("ListSnapshots")
            .times(2)
            .answer(snapshots(8000)),
    );
    let (code, out, error) = audited(&api, &driver, &["-o", "json"]).await;
    assert_eq!(code, Some(3), "{error}");
    assert_eq!(differences(&out).len(), 2 * 7998);
    for method in ["ListVolumes", "ListSnapshots"] {
        driver.fault(match method {
            "ListVolumes" => CallFault::on(method).times(1).answer(volumes(40_000)),
            _ => CallFault::on(method).times(1).answer(snapshots(40_000)),
        });
        let (code, out, error) = audited(&api, &driver, &[]).await;
        assert_eq!((code, &*out), (Some(1), ""), "{error}");
        let expected = format!("{method} failed, so that nothing can be compared: ");
        assert!(
            error.starts_with(&expected) && error.contains("larger than max"),
            "{error}"
        );
    }
}

/// A user who may not list pods learns which permission is missing, and is shown no unknown volume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_25_w_50_a_permission_that_is_missing_is_named() {
    let (api, driver) = same(3, 0);
    driver.configure(|model| model.add("stray"));
    let (_, out, _) = audited(&api, &driver, &["-o", "name"]).await;
    assert_eq!(out, "unknownVolume stray\n");
    api.fault(Fault::on("GET", "/api/v1/pods*").answer(403));
    let (code, out, error) = audited(&api, &driver, &["-o", "name"]).await;
    assert_eq!((code, &*out), (Some(1), ""), "{error}");
    let (code, out, _) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(1));
    let text = out.replace('\n', " ");
    for expected in [
        "Nothing is known to differ between the cluster and csi.example.com",
        "Cannot tell whether these are volumes that this cluster does not know: 1   stray",
        "Why: pods could not be listed: no permission. Keep them.",
    ] {
        assert!(text.contains(expected), "{out}");
    }
}

/// The kubeconfig of one cluster with the socket of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_50_another_clusters_driver_is_refused() {
    let (_, driver) = same(5, 5);
    let api = FakeApi::new();
    let (code, out, _) = audited(&api, &driver, &[]).await;
    assert_eq!(code, Some(4), "{out}");
    assert!(
        out.contains("cannot be audited: no PersistentVolume and no CSINode"),
        "{out}"
    );
    let (api, _) = same(0, 0);
    for number in 5..9 {
        api.insert(volume(number));
    }
    for format in ["human", "name", "json"] {
        let (code, out, _) = audited(&api, &driver, &["-o", format]).await;
        assert_eq!(code, Some(4), "{out}");
        assert!(!out.contains("vol-") && !out.contains("snap-"), "{out}");
    }
}
