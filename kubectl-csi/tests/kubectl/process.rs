//! The built program, against a model API server and with files.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::world::{World, rows};
use futures_util::future::join_all;
use serde_json::Value;
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::kind::Kind as ServedKind;
use tokio::io::{AsyncBufReadExt as _, BufReader};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-csi");

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent");
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A file with the objects of the first row of a cause.
fn dump(folder: &Path, id: &str) -> String {
    let row = rows().into_iter().find(|row| row.id == id).unwrap();
    let path = folder.join(id);
    std::fs::write(&path, row.world().json()).unwrap();
    path.display().to_string()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn w_35_exit_codes_with_files() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = folder.path().join("healthy");
    std::fs::write(&healthy, World::healthy().json()).unwrap();
    let healthy = healthy.display().to_string();
    let mut strange = World::healthy();
    strange.edit("@creating");
    strange.edit("- configmap shop/db-config");
    let unknown = folder.path().join("unknown");
    std::fs::write(&unknown, strange.json()).unwrap();
    let unknown = unknown.display().to_string();
    for (arguments, code, said) in [
        (
            vec!["why", "pod/db-0", "-n", "shop", "--offline", &healthy],
            0,
            "nothing is stuck",
        ),
        (
            vec!["why", "pod/none", "-n", "shop", "--offline", &healthy],
            1,
            "does not exist",
        ),
        (
            vec!["why", "pod/db-0", "-n", "shop", "--offline", &unknown],
            4,
            "No cause was found",
        ),
        (
            vec![
                "why",
                "pvc/data-db-0",
                "-n",
                "shop",
                "--offline",
                &dump(folder.path(), "C5"),
            ],
            3,
            "does not exist. Did you mean fast?",
        ),
        (
            vec![
                "why",
                "pvc/data-db-0",
                "-n",
                "shop",
                "--offline",
                &dump(folder.path(), "C1"),
            ],
            5,
            "Nothing is wrong",
        ),
        (
            vec!["why", "-A", "--offline", &healthy],
            0,
            "Nothing is stuck in this cluster",
        ),
        (
            vec!["why", "-n", "shop", "--offline", &dump(folder.path(), "C5")],
            3,
            "the StorageClass does not exist",
        ),
    ] {
        let output = run(&arguments);
        let text = out(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
        assert!(!text.contains('\u{1b}'), "no colour in a pipe");
    }
    let output = run(&["why", "web-0"]);
    assert_eq!((output.status.code(), &*out(&output)), (Some(2), ""));
    let output = run(&["why", "pod/a", "--kubeconfig", "/nowhere"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("--kubeconfig=/nowhere: "), "{error}");
    let output = run(&["why", "pod/a"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), error.lines().count()),
        (Some(1), 1),
        "{error}"
    );
}

#[test]
fn w_36_json_has_its_fields() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&[
        "why",
        "pod/db-0",
        "-n",
        "shop",
        "-o",
        "json",
        "--offline",
        &dump(folder.path(), "C36"),
    ]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for field in [
        "version",
        "subject",
        "state",
        "since",
        "causes",
        "path",
        "unseen",
        "lastWords",
        "now",
        "controllers",
    ] {
        assert!(answer.get(field).is_some(), "{field}");
    }
    let cause = &answer["causes"][0];
    assert_eq!(
        (&answer["state"], &cause["id"], &cause["certainty"]),
        (&"stuck".into(), &"C36".into(), &"proved".into())
    );
    assert_eq!(
        cause["remedies"][1]["risk"],
        "if it still runs, two nodes write to the volume"
    );
    let names = run(&[
        "why",
        "pod/db-0",
        "-n",
        "shop",
        "-o",
        "name",
        "--offline",
        &dump(folder.path(), "C36"),
    ]);
    assert_eq!(out(&names), "persistentvolume/pvc-1\n");
}

#[test]
fn w_36_names_are_what_kubectl_takes() {
    let folder = tempfile::tempdir().unwrap();
    let dump = dump(folder.path(), "C5");
    let claim = "persistentvolumeclaim/data-db-0 -n shop\n";
    for arguments in [&["why", "-A"][..], &["why", "pvc/data-db-0", "-n", "shop"]] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", "name", "--offline", &dump]);
        let names = out(&run(&arguments));
        assert!(
            names.lines().any(|line| line == claim.trim_end()),
            "{arguments:?}: {names}"
        );
        assert!(!names.contains("pod/db-0\n"), "{names}");
    }
}

/// Also without a lease and without an event.
#[test]
fn w_30_now_is_when_the_file_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    for (object, now) in [
        (
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","creationTimestamp":"2024-02-03T04:05:06Z"},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2024-02-03T05:00:00Z"}]}}"#,
            "2024-02-03T05:00:00Z",
        ),
        (
            r#"{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"n","creationTimestamp":"2024-02-03T04:05:06Z"},"status":{"attachError":{"message":"x","time":"2024-02-03T06:00:00Z"}}}"#,
            "2024-02-03T06:00:00Z",
        ),
        (
            r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"n","creationTimestamp":"2024-02-03T04:05:06Z"},"status":{"phase":"Released","lastPhaseTransitionTime":"2024-02-03T07:00:00Z"}}"#,
            "2024-02-03T07:00:00Z",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"shop","creationTimestamp":"2024-02-03T04:05:06Z","deletionTimestamp":"2034-02-03T04:05:06Z"}}"#,
            "2024-02-03T04:05:06Z",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#,
            "1970-01-01T00:00:00Z",
        ),
    ] {
        std::fs::write(&path, object).unwrap();
        let file = path.display().to_string();
        let output = run(&["why", "node/n", "-o", "json", "--offline", &file]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["now"], now, "{object}");
    }
}

#[test]
fn w_17_nothing_planted_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    for row in rows() {
        let path = folder.path().join("dump");
        std::fs::write(&path, row.world().json()).unwrap();
        let (verdict, _) = row.world().ask(&row.subject, true);
        for format in [
            kubectl_csi::show::Format::Human,
            kubectl_csi::show::Format::Json,
        ] {
            let text =
                kubectl_csi::show::verdict(&verdict, format, kubectl_csi::show::Style::default());
            assert!(
                !text.contains("planted") && !text.contains("vol-1\""),
                "{}: {text}",
                row.id
            );
        }
    }
}

#[test]
fn preflight_is_csi_sidecars_or_says_how_to_run_it() {
    // A built csi-sidecars may lie beside the program.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("kubectl-csi");
    // A file that a test has just written cannot be run while a process that another test has started meanwhile holds
    // it open: a link is never open.
    std::fs::hard_link(PROGRAM, &program).unwrap();
    let run = |path: &str| {
        let mut command = Command::new(&program);
        command
            .args(["preflight", "-", "-n", "csi"])
            .env("PATH", path);
        command.output().unwrap()
    };
    let output = run("/nowhere");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    for part in ["neither beside kubectl-csi nor in PATH", "preflight -"] {
        assert!(error.contains(part), "{error}");
    }
    let output = run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-ins"));
    let said = out(&output);
    assert_eq!(
        (output.status.code(), &*said),
        (Some(5), "preflight - -n csi\n")
    );
}

pub(crate) fn served(world: &World) -> FakeApi {
    let api = FakeApi::new();
    // Kinds that the model does not serve by default.
    for (group, version, resource, kind) in [
        (
            "populator.storage.k8s.io",
            "v1",
            "volumepopulators",
            "VolumePopulator",
        ),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
        ("apps", "v1", "daemonsets", "DaemonSet"),
        ("apps", "v1", "deployments", "Deployment"),
        ("apps", "v1", "statefulsets", "StatefulSet"),
        ("", "v1", "resourcequotas", "ResourceQuota"),
    ] {
        let kind = ServedKind::new(group, version, resource, kind);
        api.serve_kind(if matches!(group, "apps" | "") {
            kind.namespaced()
        } else {
            kind
        });
    }
    for (object, value) in &world.objects {
        if object.kind.group() != "populator.storage.k8s.io" {
            api.insert(value.clone());
        }
    }
    api
}

async fn asked(api: &FakeApi, arguments: &'static [&'static str]) -> Output {
    let server = api.serve().await;
    let file = server.kubeconfig().display().to_string();
    let run = move || {
        let mut all = arguments.to_vec();
        all.extend(["--kubeconfig", &file]);
        run(&all)
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    output
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_24_w_41_a_server_is_read_from_in_few_requests_and_never_written_to() {
    let row = rows().into_iter().find(|row| row.id == "C36").unwrap();
    let api = served(&row.world());
    // The world is older than today: the node has not responded for longer, which is the same cause.
    let output = asked(&api, &["why", "pod/db-0", "-n", "shop"]).await;
    let text = out(&output);
    assert_eq!(
        output.status.code(),
        Some(3),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("◄ C36"), "{text}");
    let requests = api.requests();
    assert!(requests.len() <= 20, "{}", requests.len());
    assert!(api.writes().is_empty());
    let mut seen = std::collections::BTreeSet::new();
    for request in &requests {
        assert!(seen.insert(format!("{request:?}")), "twice: {request:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_25_a_user_of_one_namespace_gets_what_the_objects_there_tell() {
    let row = rows().into_iter().find(|row| row.id == "C61").unwrap();
    let api = served(&row.world());
    api.allow_only([
        Allow::new("", "pods,events,persistentvolumeclaims", "get,list").within("shop"),
    ]);
    let output = asked(&api, &["why", "pvc/data-db-0", "-n", "shop"]).await;
    let text = out(&output);
    assert_eq!(
        output.status.code(),
        Some(3),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("◄ C61"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_25_what_may_not_be_read_is_named() {
    let row = rows().into_iter().find(|row| row.id == "C5").unwrap();
    let api = served(&row.world());
    api.allow_only([
        Allow::new("", "pods,events,persistentvolumeclaims", "get,list").within("shop"),
    ]);
    let output = asked(&api, &["why", "pvc/data-db-0", "-n", "shop"]).await;
    let text = out(&output);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("Not looked at: StorageClass fastt (no permission)"),
        "{text}"
    );
}

/// The exit code of a watch of a pod with cause C36, after the event `end`.
async fn watched(end: &str) -> (Option<i32>, String) {
    let row = rows().into_iter().find(|row| row.id == "C36").unwrap();
    let api = served(&row.world());
    let server = api.serve().await;
    let file = server.kubeconfig().display().to_string();
    let mut child = tokio::process::Command::new(PROGRAM)
        .args([
            "why",
            "pod/db-0",
            "-n",
            "shop",
            "--watch",
            "--kubeconfig",
            &file,
        ])
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("◄ C36") {
            break;
        }
    }
    let heal = || {
        let healthy = World::healthy();
        let pod = healthy
            .objects
            .values()
            .find(|one| one["metadata"]["name"] == "db-0");
        api.edit("pods", "shop/db-0", |object| {
            object["status"] = pod.unwrap()["status"].clone()
        });
    };
    match end {
        "healed" => heal(),
        "gone" => api.remove("pods", "shop/db-0"),
        "signal" => {
            let id = child.id().unwrap().to_string();
            let kill = Command::new("kill").args(["-INT", &id]).status();
            assert!(kill.unwrap().success());
        }
        "away" => {
            api.set_down(true);
            let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
            let line = errors.next_line().await.unwrap().unwrap();
            assert!(line.contains("looking again"), "{line}");
            heal();
            api.set_down(false);
        }
        _ => panic!("{end}"),
    }
    let mut text = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        text.push_str(&line);
    }
    (child.wait().await.unwrap().code(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w_31_w_35_a_watch_ends_when_nothing_is_stuck_any_more() {
    let ends = ["healed", "gone", "signal", "away"].map(watched);
    let [healed, gone, signal, away] = <[_; 4]>::try_from(join_all(ends).await).unwrap();
    assert_eq!(
        (healed.0, healed.1.contains("nothing is stuck")),
        (Some(0), true)
    );
    assert_eq!((gone.0, gone.1.contains("does not exist")), (Some(0), true));
    assert_eq!(signal.0, Some(3), "{}", signal.1);
    assert_eq!(
        (away.0, away.1.contains("nothing is stuck")),
        (Some(0), true)
    );
}
