//! `csi-sidecars preflight`, the built program: on files, standard input, and a model API server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong here is a failed test"
)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::kind::Kind;

const PROGRAM: &str = env!("CARGO_BIN_EXE_csi-sidecars");
const ACCOUNT: &str = "system:serviceaccount:csi:controller";

fn preflight(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(PROGRAM)
        .arg("preflight")
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program closes the pipe if it exits before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "controller", "namespace": "csi"},
        "spec": {"template": {"spec": {
            "serviceAccountName": "controller",
            "volumes": [{"name": "socket", "hostPath": {"path": "/var/lib/kubelet/plugins/my.csi.example.com"}}],
            "containers": [{
                "name": "csi-resizer", "image": "registry.k8s.io/sig-storage/csi-resizer:v1.13.1",
                "env": [{"name": "T", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "timeout"}}}],
                "args": ["--timeout=$(T)", "--leader-election"],
            }],
        }}},
    })
}

/// A workload, the ConfigMaps of its variables, and an account that may do everything.
fn manifests(workload: &Value) -> String {
    json!({"kind": "List", "items": [
        workload,
        {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "csi"}, "data": {"timeout": "90s"}},
        {
            "kind": "ClusterRoleBinding", "metadata": {"name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "controller", "namespace": "csi"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        },
    ]})
    .to_string()
}

#[test]
fn p_4_standard_input_files_and_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    let manifest = manifests(&deployment());
    let alone = deployment().to_string();
    std::fs::write(&file, &manifest).unwrap();
    let file = file.display().to_string();
    for (arguments, input, code, said) in [
        (
            &["-"][..],
            &*manifest,
            0,
            "csi-resizer (csi-resizer): swap\n",
        ),
        (&[&*file], "", 0, "1 swap, 0 swap with loss"),
        (&["-", "-o", "json"], &manifest, 0, "\"verdict\": \"swap\""),
        (
            &["-"],
            &manifest.replace("--leader-election", "--nonsense"),
            3,
            "cannot",
        ),
        (&["-"], &manifest.replace("$(T)", "soon"), 3, "change first"),
        // The input lacks its variable and its roles.
        (&["-"], &alone, 5, "not checked"),
        (
            &["-"],
            &alone.replace("$(T)", "9s"),
            5,
            "some permissions are unknown",
        ),
        (
            &["-"],
            &format!("{manifest}\n---\nkind: Role\n: {{["),
            1,
            "Not read: standard input:4",
        ),
        (
            &["-"],
            "kind: Deployment\n: {[",
            1,
            "Not read: standard input:2",
        ),
        (&["-"], "", 1, "standard input: no Deployment"),
        (
            &["-"],
            "kind: Deployment\nmetadata: {name: x}\nspec: {}\n",
            1,
            "no sidecar was found",
        ),
        (&["/nowhere"], "", 1, "/nowhere: "),
        (&[], "", 2, "name a file"),
        (&["--help"], "", 0, "Usage: csi-sidecars preflight"),
        (
            &["deployment/x", "--kubeconfig=/nowhere"],
            "",
            1,
            "--kubeconfig=/nowhere: ",
        ),
        (&["deployment/x"], "", 1, "KUBERNETES_SERVICE_HOST"),
    ] {
        let output = preflight(arguments, input);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {all}");
        assert!(all.contains(said), "{arguments:?}: {all}");
    }
}

/// Our program's message when started with a command line: refused at once, or a later failure.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn p_3_the_verdict_is_what_starting_the_program_says() {
    for (program, arguments, refused) in [
        ("csi-attacher", &["--timeout=soon"][..], true),
        ("csi-attacher", &["--nonsense"], true),
        (
            "csi-attacher",
            &["--logtostderr", "--leader-election-type=leases"],
            false,
        ),
        (
            "csi-provisioner",
            &["--feature-gates=HonorPVReclaimPolicy=true"],
            false,
        ),
        ("csi-provisioner", &["--feature-gates=Nonsense=true"], true),
        ("csi-provisioner", &["--enable-capacity"], true),
        ("csi-resizer", &["--workers=0"], true),
        ("csi-resizer", &["--worker-threads=3"], true),
        (
            "csi-snapshotter",
            &["--enable-volume-group-snapshots=true"],
            false,
        ),
        ("snapshot-controller", &["--worker-threads=0"], true),
    ] {
        let mut object = deployment();
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        container["image"] = format!("r/{program}:v1").into();
        container["args"] = json!(arguments);
        let said = preflight(&["-"], &manifests(&object));
        assert_eq!(
            said.status.code(),
            Some(if refused { 3 } else { 0 }),
            "{program} {arguments:?}: {}",
            text(&said.stdout)
        );
        let started = Command::new(PROGRAM)
            .arg(program)
            .args(arguments)
            .args(
                [
                    "--kubeconfig=/nonexistent",
                    "--csi-address=/nonexistent/csi.sock",
                ]
                .iter()
                .filter(|one| program != "snapshot-controller" || one.starts_with("--kube")),
            )
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut started = started.unwrap();
        let begun = Instant::now();
        // A program that waits for its driver has accepted its flags; one that has not ends, however busy the machine is.
        let limit = Duration::from_secs(if refused { 60 } else { 2 });
        let status = loop {
            let status = started.try_wait().unwrap();
            if status.is_some() || begun.elapsed() > limit {
                break status;
            }
            // A program that has accepted its flags prints nothing.
            std::thread::sleep(Duration::from_millis(20));
        };
        let _ = started.kill();
        let errors = text(&started.wait_with_output().unwrap().stderr);
        let ended = status.is_some() && !errors.contains("/nonexistent");
        assert_eq!(ended, refused, "{program} {arguments:?}: {errors}");
        if ended {
            let words = text(&said.stdout);
            let line = errors
                .lines()
                .find(|line| !line.is_empty() && !line.starts_with("Usage"))
                .unwrap_or_default();
            let line = line.split(" err=").next().unwrap_or_default();
            let first: String = line
                .rsplit("] ")
                .next()
                .unwrap_or_default()
                .trim_matches('"')
                .chars()
                .take(20)
                .collect();
            assert!(
                words.contains(first.trim_matches('"')),
                "{program} {arguments:?}: {first:?} in {words}"
            );
        }
    }
}

fn served() -> FakeApi {
    let api = FakeApi::new();
    for (group, resource, kind, namespaced) in [
        ("apps", "deployments", "Deployment", true),
        ("apps", "daemonsets", "DaemonSet", true),
        ("apps", "statefulsets", "StatefulSet", true),
        ("", "configmaps", "ConfigMap", true),
        (
            "rbac.authorization.k8s.io",
            "clusterroles",
            "ClusterRole",
            false,
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterrolebindings",
            "ClusterRoleBinding",
            false,
        ),
        ("rbac.authorization.k8s.io", "roles", "Role", true),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            "RoleBinding",
            true,
        ),
    ] {
        let kind = Kind::new(group, "v1", resource, kind);
        api.serve_kind(if namespaced { kind.namespaced() } else { kind });
    }
    api.insert(deployment());
    api.insert(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "csi"}, "data": {"timeout": "90s"}}));
    let rbac = "rbac.authorization.k8s.io/v1";
    api.insert(json!({
        "apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "controller"},
        "rules": [{"apiGroups": [""], "resources": ["persistentvolumes", "persistentvolumeclaims", "persistentvolumeclaims/status", "events", "pods", "secrets"], "verbs": ["*"]}],
    }));
    api.insert(json!({
        "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "controller"},
        "subjects": [{"kind": "ServiceAccount", "name": "controller", "namespace": "csi"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "controller"},
    }));
    api
}

async fn asked(api: &FakeApi, arguments: &'static [&'static str]) -> (Option<i32>, String) {
    let server = api.serve().await;
    let file = format!("--kubeconfig={}", server.kubeconfig().display());
    let run = move || {
        let mut all = arguments.to_vec();
        all.push(&file);
        preflight(&all, "")
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    drop(server);
    (
        output.status.code(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p_12_p_13_p_14_workloads_and_roles_of_a_cluster() {
    let by_name = &["deployment/controller", "-n", "csi"][..];
    let by_driver = &["--driver", "my.csi.example.com"][..];
    for arguments in [by_name, by_driver] {
        let api = served();
        let (code, said) = asked(&api, arguments).await;
        // The account must not write the Lease of its election.
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("no replica can lead") && said.contains("in namespace csi"),
            "{said}"
        );
        assert!(
            !said.contains("not checked, since"),
            "the ConfigMap is read: {said}"
        );
        assert!(api.writes().is_empty(), "it only reads");
        let secrets = api
            .requests()
            .iter()
            .any(|request| format!("{request:?}").contains("secrets"));
        assert!(!secrets, "Secrets are never asked for");
    }
    let (code, said) = asked(&served(), &["--driver", "other.csi.example.com"]).await;
    assert_eq!(
        (code, said.contains("no sidecar was found")),
        (Some(1), true),
        "{said}"
    );
    let (code, said) = asked(&served(), &["deployment/none", "-n", "csi"]).await;
    assert_eq!(
        (code, said.contains("kubectl get deployments -n csi")),
        (Some(1), true),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p_13_where_roles_may_not_be_listed_the_api_server_is_asked() {
    let seen = [
        Allow::new("apps", "deployments", "get,list"),
        Allow::new("", "configmaps", "get"),
    ];
    let reviews = Allow::new("authorization.k8s.io", "subjectaccessreviews", "create");
    for (may_ask, granted, code, words) in [
        (true, true, 0, "csi-resizer (csi-resizer): swap\n"),
        (true, false, 3, "change first"),
        (false, false, 5, "unknown"),
    ] {
        let api = served();
        let more = may_ask.then(|| reviews.clone());
        api.allow_only(seen.iter().cloned().chain(more));
        if granted {
            api.grant(ACCOUNT, Allow::new("", "*", "*"));
            api.grant(ACCOUNT, Allow::new("coordination.k8s.io", "leases", "*"));
            api.grant(ACCOUNT, Allow::new("storage.k8s.io", "*", "*"));
        }
        let (ended, said) = asked(&api, &["deployment/controller", "-n", "csi"]).await;
        assert_eq!(ended, Some(code), "{may_ask} {granted}: {said}");
        assert!(said.contains(words), "{may_ask} {granted}: {said}");
    }
}
