//! The built program, against a model API server and with files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong here is a failed test"
)]

#[path = "worlds/world.rs"]
mod world;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::kind::Kind as ServedKind;
use world::{World, rows};

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
            "none of the causes",
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

fn served(world: &World) -> FakeApi {
    let api = FakeApi::new();
    // What the model does not know by itself.
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
    // The worlds' now is not today's: the node has been away for longer, and that is the same cause.
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
