//! What controllers say, through a stand-in for `kubectl port-forward`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sidecar::http::{PathRequest, Reply, Routes, Server};
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::fault::Fault;
use tokio::net::TcpListener;

use crate::process::served;
use crate::world::rows;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-csi");
const STAND_INS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-ins:/usr/bin:/bin");
const WHY: &[&str] = &["why", "pod/db-0", "-n", "shop"];
const JSON: &[&str] = &["why", "pod/db-0", "-n", "shop", "-o", "json"];

/// A controller that knows volumes, attachments and snapshots.
fn answer(asked: &PathRequest) -> Reply {
    let known = ["volumes/", "attachments/", "snapshots/"]
        .iter()
        .any(|path| asked.rest.starts_with(path));
    let body = json!({
        "version": 2,
        "known": known,
        "answers": [{
            "program": "csi-attacher",
            "known": known,
            "leads": true,
            "work": "detach",
            "queue": {"state": "backoff", "failures": 7, "until": "2026-11-27T14:33:00.000Z"},
            "last": {"step": "ControllerUnpublishVolume", "code": "Internal", "text": "password=planted"},
        }],
    });
    Reply::text(http::StatusCode::OK, body.to_string())
}

/// The port of a controller that never answers questions about `silent`.
async fn controller(silent: &'static str) -> u16 {
    let server = Server::bind("localhost:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let mut routes = Routes::new();
    let handler = move |asked: PathRequest| async move {
        if asked.rest.starts_with(silent) {
            std::future::pending::<()>().await;
        }
        answer(&asked)
    };
    routes.add_below("/why/", handler).unwrap();
    tokio::spawn(server.serve(routes));
    port
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"csi-sidecars.io/why": "8090"},
        },
        "status": {"phase": "Running"},
    })
}

/// An attachment that is not detached, and a controller with the annotation.
fn stuck() -> FakeApi {
    let row = rows().into_iter().find(|row| row.id == "C36").unwrap();
    let api = served(&row.world());
    api.edit("pods", "storage/csi-controller-0", |pod| {
        pod["metadata"]["annotations"] = json!({"csi-sidecars.io/why": "8090"});
    });
    api
}

fn command(file: &str, arguments: &[&str], port: u16, calls: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).args(["--kubeconfig", file]);
    command.env_clear().env("PATH", STAND_INS);
    command.env("FORWARDED", port.to_string());
    command.env("CALLS", calls);
    command
}

/// The arguments of each stand-in by its process id.
fn calls(folder: &Path) -> BTreeMap<u32, String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let calls = files.filter_map(|file| {
        let id = file.file_name().to_str()?.parse().ok()?;
        Some((id, std::fs::read_to_string(file.path()).ok()?))
    });
    calls.collect()
}

/// Fails unless every stand-in ends; a process whose end nobody has waited for has no command line.
fn all_are_gone(folder: &Path) {
    let until = Instant::now() + Duration::from_secs(5);
    for id in calls(folder).keys() {
        let line = format!("/proc/{id}/cmdline");
        while std::fs::read(&line).is_ok_and(|line| !line.is_empty()) {
            assert!(Instant::now() < until, "{id} still forwards");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What the program says, and the arguments of the stand-ins, which are gone.
async fn asked(
    api: &FakeApi,
    arguments: &'static [&'static str],
    port: u16,
) -> (Output, Vec<String>) {
    let server = api.serve().await;
    let file = server.kubeconfig().display().to_string();
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        let output = command(&file, arguments, port, folder.path())
            .output()
            .unwrap();
        all_are_gone(folder.path());
        (output, calls(folder.path()).into_values().collect())
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    output
}

fn flat(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_44_w_46_what_the_leader_says_is_shown_without_secrets() {
    let api = stuck();
    // Pods that no Lease names.
    api.insert(pod("aaa", "csi-controller-0"));
    api.insert(pod("storage", "standby"));
    let port = controller("nothing").await;
    let (output, calls) = asked(&api, WHY, port).await;
    let text = flat(&output);
    for part in [
        "◄ C36",
        "What the controllers say",
        "csi-attacher (pod storage/csi-controller-0) on attachment csi-c4, detach",
        "failed 7 times",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("planted"), "{text}");
    assert!(api.writes().is_empty(), "W-41");
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].contains("--namespace=storage") && calls[0].contains("pod/csi-controller-0"));
    let (output, _) = asked(&api, JSON, port).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = &answer["controllers"][0];
    assert_eq!(one["pod"], "storage/csi-controller-0", "{answer:#}");
    assert_eq!(
        (&one["state"], &one["failures"]),
        (&json!("backoff"), &json!(7))
    );
    let without = &[
        "why",
        "pod/db-0",
        "-n",
        "shop",
        "-o",
        "json",
        "--no-endpoint",
    ];
    let (output, calls) = asked(&api, without, port).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&answer["controllers"], calls.len()),
        (&json!([]), 0),
        "{answer:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_46_snapshot_controller_without_leader_election_is_asked() {
    let row = rows().into_iter().find(|row| row.id == "C80").unwrap();
    let mut world = row.world();
    world.edit("- lease kube-system/snapshot-controller-leader");
    let api = served(&world);
    api.edit("pods", "kube-system/snapshot-controller-0", |pod| {
        pod["metadata"]["annotations"] = json!({"csi-sidecars.io/why": "8090"});
    });
    // It has the annotation, and runs something else.
    api.insert(pod("kube-system", "another"));
    let why = &["why", "vs/snap", "-n", "shop"];
    let (output, calls) = asked(&api, why, controller("nothing").await).await;
    let text = flat(&output);
    for part in [
        "◄ C80",
        "(pod kube-system/snapshot-controller-0) on snapshot shop/snap",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(calls.len(), 1, "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_44_no_list_of_all_pods_is_read_to_ask() {
    let api = stuck();
    let everywhere = || {
        let lists = api.requests_to("GET", "/api/v1/pods").len();
        api.clear_requests();
        lists
    };
    let port = controller("nothing").await;
    asked(
        &api,
        &["why", "pod/db-0", "-n", "shop", "--no-endpoint"],
        port,
    )
    .await;
    let before = everywhere();
    asked(&api, WHY, port).await;
    assert_eq!(everywhere(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_35_the_verdict_stands_whatever_asking_comes_to() {
    let port = controller("nothing").await;
    for (status, said) in [
        (401, "credentials"),
        (403, "leases (no permission)"),
        (500, ""),
    ] {
        let api = stuck();
        let of_resizer = |request: &sidecar_testkit::api::record::Request| {
            { request.query.get("fieldSelector") }.is_some_and(|field| field.contains("resizer"))
        };
        api.fault(Fault::on("GET", "*").when(of_resizer).answer(status));
        let (output, _) = asked(&api, WHY, port).await;
        let text = flat(&output);
        assert_eq!(output.status.code(), Some(3), "{status}: {text}");
        for part in ["◄ C36", "Not looked at", said] {
            assert!(text.contains(part), "{status}: {part}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_46_earlier_answers_stay_and_asking_ends_in_time() {
    let api = stuck();
    let port = controller("attachments/").await;
    let begun = Instant::now();
    let (output, _) = asked(&api, WHY, port).await;
    let text = flat(&output);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(output.status.code(), Some(3), "{text}");
    let silent = "answers of pod storage/csi-controller-0 at port 8090 (no answer in time)";
    for part in [silent, "on volume pvc-1, detach"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_46_a_port_without_a_controller_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let (output, _) = asked(&stuck(), WHY, port).await;
    let text = flat(&output);
    assert!(text.contains("nothing listens at port 8090"), "{text}");
    let api = stuck();
    api.insert(pod("storage", "refused"));
    api.edit("leases", "storage/csi-example-com", |lease| {
        lease["spec"]["holderIdentity"] = "refused_provisioner_together".into();
    });
    let (output, _) = asked(&api, WHY, controller("nothing").await).await;
    let text = flat(&output);
    let refused = "answers of pod storage/refused at port 8090 (error: pods";
    assert!(text.contains(refused), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_41_a_signal_ends_forwarding_and_shows_the_verdict() {
    let (api, port) = (stuck(), controller("").await);
    let server = api.serve().await;
    let file = server.kubeconfig().display().to_string();
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(&file, WHY, port, folder.path());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        while calls(folder.path()).is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let output = child.wait_with_output().unwrap();
        all_are_gone(folder.path());
        output
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    let text = flat(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    for part in ["◄ C36", "answers of controllers (interrupted by a signal)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_31_a_watch_shows_what_the_leader_says_and_ends_on_the_same_signal() {
    let (api, port) = (stuck(), controller("nothing").await);
    let server = api.serve().await;
    let file = server.kubeconfig().display().to_string();
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        let arguments = [WHY, &["--watch"]].concat();
        let mut command = command(&file, &arguments, port, folder.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Lines are cut where the terminal ends.
        let mut text = String::new();
        let told = lines.map_while(Result::ok).any(|line| {
            text.extend(line.split_whitespace().flat_map(|word| [word, " "]));
            text.contains("on attachment csi-c4, detach")
        });
        let kill = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let code = child.wait().unwrap().code();
        all_are_gone(folder.path());
        (told, code, calls(folder.path()).len())
    };
    let (told, code, calls) = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    assert!(told, "no answer");
    assert_eq!((code, calls), (Some(3), 1));
}
