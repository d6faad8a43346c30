//! Everything around command lines: hooks, permissions, ports, variables, platforms, and odd input.

use super::super::report::{human, json};
use super::super::verdict::Verdict::{Cannot, Change, Loss, Swap, Unknown};
use super::*;

#[test]
fn p_10_hooks_and_probes_that_run_a_program() {
    let registrar =
        "image: r/csi-node-driver-registrar:v1, args: [--kubelet-registration-path=/p],";
    for (inside, verdict, words) in [
        (
            "lifecycle: {preStop: {exec: {command: [/bin/sh, -c, \"rm -rf /registration/x-reg.sock\"]}}}",
            Loss,
            "deletes its socket itself",
        ),
        (
            "lifecycle: {preStop: {exec: {command: [/bin/sh, -c, \"sleep 5\"]}}}",
            Loss,
            "lifecycle.preStop.sleep",
        ),
        (
            "lifecycle: {postStart: {exec: {command: [touch, /x]}}}",
            Change,
            "postStart",
        ),
        (
            "livenessProbe: {exec: {command: [/csi-node-driver-registrar, --kubelet-registration-path=/p, --mode=kubelet-registration-probe]}}",
            Swap,
            "works",
        ),
        (
            "livenessProbe: {exec: {command: [/csi-node-driver-registrar, --mode, kubelet-registration-probe]}}",
            Swap,
            "works",
        ),
        (
            "livenessProbe: {exec: {command: [grpc_health_probe]}}",
            Change,
            "httpGet",
        ),
        (
            "startupProbe: {exec: {command: [sh, -c, \"test -e /x\"]}}",
            Change,
            "httpGet",
        ),
    ] {
        tells(
            &deployment(&format!("{registrar} {inside}"), ""),
            "P-10",
            verdict,
            &[words],
        );
    }
}

/// A controller whose account has these rules, in a ClusterRole and in a Role of its namespace.
fn granted(program: &str, cluster: &str, own: &str) -> String {
    format!("kind: Deployment
metadata: {{name: controller, namespace: csi}}
spec: {{template: {{spec: {{serviceAccountName: a, containers: [{{name: c, image: r/{program}:v1}}]}}}}}}
---
kind: ClusterRole
metadata: {{name: r}}
rules: [{cluster}]
---
kind: Role
metadata: {{name: r, namespace: csi}}
rules: [{own}]
---
kind: ClusterRoleBinding
metadata: {{name: b}}
subjects: [{{kind: ServiceAccount, name: a, namespace: csi}}]
roleRef: {{kind: ClusterRole, name: r}}
---
kind: RoleBinding
metadata: {{name: b, namespace: csi}}
subjects: [{{kind: ServiceAccount, name: a, namespace: csi}}]
roleRef: {{kind: Role, name: r}}
")
}

/// The rules of upstream's ClusterRole for csi-provisioner.
const PROVISIONER: &str = r#"
  {apiGroups: [""], resources: [persistentvolumes], verbs: [get, list, watch, create, patch, delete]},
  {apiGroups: [""], resources: [persistentvolumeclaims], verbs: [get, list, watch, update]},
  {apiGroups: ["storage.k8s.io"], resources: [storageclasses], verbs: [get, list, watch]},
  {apiGroups: [""], resources: [events], verbs: [list, watch, create, update, patch]},
  {apiGroups: [""], resources: [secrets], verbs: [get, list]},
  {apiGroups: ["storage.k8s.io"], resources: [csinodes], verbs: [get, list, watch]},
  {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}"#;
const LEASES: &str = "{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, watch, list, delete, update, create]}";
/// The rules of older manifests for csi-snapshotter: they grant update of contents' status.
const SNAPSHOTTER: &str = r#"
  {apiGroups: [""], resources: [events], verbs: [list, watch, create, update, patch]},
  {apiGroups: [""], resources: [secrets], verbs: [get, list]},
  {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotclasses], verbs: [get, list, watch]},
  {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotcontents], verbs: [get, list, watch, update, patch]},
  {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshotcontents/status], verbs: [update]}"#;

#[test]
fn p_11_p_12_p_13_what_the_account_lacks() {
    for (text, row, verdict, words) in [
        (
            granted("csi-provisioner", PROVISIONER, LEASES),
            "P-12",
            Swap,
            "which only some drivers need",
        ),
        (
            granted("csi-provisioner", PROVISIONER, ""),
            "P-11",
            Loss,
            "verbs: [\"get\", \"create\", \"update\"]} in a Role in namespace csi",
        ),
        (
            granted("csi-snapshotter", SNAPSHOTTER, LEASES),
            "P-12",
            Change,
            "resources: [\"volumesnapshotcontents/status\"], verbs: [\"patch\"]} in a ClusterRole",
        ),
        (
            granted(
                "csi-provisioner",
                &PROVISIONER.replace("resources: [events]", "resources: [other]"),
                LEASES,
            ),
            "P-12",
            Loss,
            "no events on claims and volumes",
        ),
        (
            granted(
                "csi-provisioner",
                r#"{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}"#,
                "",
            ),
            "P-20",
            Swap,
            "",
        ),
        (
            granted("csi-provisioner", "", "").replace(
                "kind: ClusterRole\nmetadata: {name: r}",
                "kind: ClusterRole\nmetadata: {name: elsewhere}",
            ),
            "P-13",
            Unknown,
            "not in the input",
        ),
    ] {
        tells(&text, row, verdict, &[words]);
    }
}

/// The roles of five drivers: which permissions are missing, and whether that matters.
#[test]
fn p_11_p_12_roles_of_drivers() {
    let attributes = "get of volumeattributesclasses";
    for (driver, cluster, own, verdict, missing) in [
        (
            "hcloud",
            PROVISIONER.to_owned(),
            "",
            Loss,
            "provisioning journal",
        ),
        (
            "azuredisk",
            format!(
                "{PROVISIONER}, {{apiGroups: [storage.k8s.io], resources: [volumeattributesclasses, volumeattachments], verbs: [get, list, watch]}}"
            ),
            LEASES,
            Swap,
            "volumesnapshots",
        ),
        ("efs, nfs", PROVISIONER.to_owned(), LEASES, Swap, attributes),
    ] {
        let (whole, remarks) = said(&report(&granted("csi-provisioner", &cluster, own)));
        assert_eq!(whole, verdict, "{driver}: {remarks:?}");
        assert!(
            remarks.iter().any(|(_, says)| says.contains(missing)),
            "{driver}: {remarks:?}"
        );
    }
    let (whole, remarks) = said(&report(&granted("csi-snapshotter", SNAPSHOTTER, LEASES)));
    assert_eq!(whole, Change, "openebs lvm, zfs: {remarks:?}");
}

#[test]
fn p_13_an_api_servers_answers_count_more_than_roles() {
    let text = granted("csi-provisioner", PROVISIONER, LEASES);
    let input = Input::parse("", text, "csi");
    let question = roles::Question {
        group: "",
        resource: "persistentvolumes",
        verb: "delete",
        namespace: "",
        named: None,
    };
    let answers = BTreeMap::from([(roles::key(question), false)]);
    let reviews = Reviews::from([(("csi".to_owned(), "a".to_owned()), answers)]);
    let report = examine(&input, &reviews, &Plan::default(), None);
    assert_eq!(said(&report).0, Change);
}

#[test]
fn p_14_several_replicas_elect_one() {
    let of = |replicas: u32, arguments: &str| {
        let text = deployment(
            &format!("image: r/csi-attacher:v1, args: [{arguments}]"),
            "",
        );
        text.replace(
            "spec: {template",
            &format!("spec: {{replicas: {replicas}, template"),
        )
    };
    tells(
        &of(2, ""),
        "P-14",
        Change,
        &[
            "2 replicas without --leader-election",
            "same with upstream's",
        ],
    );
    assert_eq!(said(&report(&of(1, ""))).0, Swap);
    assert_eq!(said(&report(&of(2, "--leader-election"))).0, Swap);
    // A Role restricted to the one Lease.
    let named = format!(
        "{}, {}",
        LEASES.replace(
            "verbs: [get, watch, list, delete, update, create]",
            "verbs: [create]"
        ),
        LEASES.replace(
            "verbs: [get, watch, list, delete, update, create]",
            "resourceNames: [snapshot-controller-leader], verbs: [get, update]"
        )
    );
    let all = r#"{apiGroups: ["", "snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io"], resources: ["*"], verbs: ["*"]}"#;
    let text = granted("snapshot-controller", all, &named).replace(
        "image: r/snapshot-controller:v1",
        "image: r/snapshot-controller:v1, args: [--leader-election]",
    );
    assert_eq!(said(&report(&text)).0, Swap, "{text}");
    let text = text.replace("[snapshot-controller-leader]", "[x]");
    tells(&text, "P-14", Change, &["lacks get, update of leases"]);
    // The Role is in another namespace than the Lease.
    let text = granted(
        "csi-resizer",
        r#"{apiGroups: ["", "storage.k8s.io"], resources: ["*"], verbs: ["*"]}"#,
        LEASES,
    );
    let text = text.replace(
        "image: r/csi-resizer:v1",
        "image: r/csi-resizer:v1, args: [--leader-election, --leader-election-namespace=other]",
    );
    tells(&text, "P-14", Change, &["leases in other"]);
}

#[test]
fn p_15_ports_of_the_node_are_wanted_once() {
    let of = |kind: &str, name: &str, arguments: &str, host: bool| {
        format!(
            "---\nkind: {kind}\nmetadata: {{name: {name}, namespace: csi}}\nspec: {{template: {{spec: {{hostNetwork: {host}, containers: [{{name: probe, image: r/livenessprobe:v2, args: [{arguments}]}}]}}}}}}\n"
        )
    };
    for (first, second, collides) in [
        (
            of("Deployment", "controller", "", true),
            of("DaemonSet", "node", "", true),
            true,
        ),
        (
            of("Deployment", "controller", "--health-port=9810", true),
            of("DaemonSet", "node", "\"--http-endpoint=:9810\"", true),
            true,
        ),
        (
            of("Deployment", "controller", "--health-port=9810", true),
            of("DaemonSet", "node", "", true),
            false,
        ),
        (
            of("Deployment", "controller", "", false),
            of("DaemonSet", "node", "", true),
            false,
        ),
        (
            of("DaemonSet", "one-driver", "", true),
            of("DaemonSet", "another", "", true),
            true,
        ),
    ] {
        let report = report(&format!("{first}{second}{ADMIN}"));
        let told = report.around.iter().find(|one| one.row == "P-15");
        assert_eq!(told.is_some(), collides, "{first}{second}");
        if let Some(told) = told {
            assert!(
                told.text.contains("Deployment csi/controller")
                    || told.text.contains("DaemonSet csi/another"),
                "{}",
                told.text
            );
            assert_eq!(report.code(), 3);
        }
    }
}

#[test]
fn p_16_variables_that_programs_of_go_read() {
    let of = |program: &str, name: &str, value: &str| {
        deployment(
            &format!("image: r/{program}:v1, env: [{{name: {name}, value: \"{value}\"}}]"),
            "",
        )
    };
    for (program, name, value, verdict, words) in [
        (
            "csi-attacher",
            "HTTPS_PROXY",
            "https://proxy:1",
            Change,
            "ends at its start",
        ),
        (
            "csi-attacher",
            "https_proxy",
            "socks5://proxy:1",
            Change,
            "ends at its start",
        ),
        ("csi-attacher", "GOMEMLIMIT", "100MiB", Swap, "no effect"),
        ("csi-attacher", "GODEBUG", "x=1", Swap, "no effect"),
        (
            "csi-resizer",
            "ENABLE_VAC_FALLBACK",
            "true",
            Swap,
            "no effect",
        ),
    ] {
        tells(&of(program, name, value), "P-16", verdict, &[words, name]);
    }
    for (program, value) in [
        ("csi-attacher", "http://proxy:1"),
        ("livenessprobe", "https://proxy:1"),
    ] {
        let (verdict, remarks) = said(&report(&of(program, "HTTPS_PROXY", value)));
        assert_eq!(verdict, Swap, "{program}: {remarks:?}");
    }
}

#[test]
fn p_17_p_18_p_20_p_24_resources_platforms_rates_and_our_own() {
    let plain = |more: &str| format!("image: r.example.com/x/csi-attacher:v1, {more}");
    let windows = "nodeSelector: {kubernetes.io/os: windows},";
    let arm = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}]}}},";
    for (container, spec, row, verdict, words) in [
        (
            plain("resources: {limits: {memory: 20Mi}}"),
            "",
            "P-17",
            Swap,
            "raise it to 32 MB",
        ),
        (
            plain("resources: {limits: {memory: 1Gi}}"),
            "",
            "P-17",
            Swap,
            "memory limit 1073 MB",
        ),
        (plain(""), windows, "P-18", Cannot, "Windows"),
        (plain(""), arm, "P-18", Loss, "arm64"),
        (
            plain("args: [--kube-api-qps=20]"),
            "",
            "P-20",
            Swap,
            "--kube-api-qps stay the limits",
        ),
        (plain(""), "", "P-20", Swap, "there is no limit"),
    ] {
        tells(&deployment(&container, spec), row, verdict, &[words]);
    }
    let text = deployment(&plain(""), "");
    let old = Plan {
        kubernetes: Some(29),
        ..Plan::default()
    };
    let (verdict, remarks) = said(&examined(&text, &old));
    assert!(
        verdict == Loss
            && remarks
                .iter()
                .any(|(row, says)| *row == "P-18" && says.contains("1.29")),
        "{remarks:?}"
    );
    let ours = Plan {
        registry: "r.example.com/x/".to_owned(),
        ..Plan::default()
    };
    let (_, remarks) = said(&examined(&text, &ours));
    assert!(remarks.iter().any(|(row, _)| *row == "P-24"), "{remarks:?}");
    let together = report(&deployment(
        "image: r/csi-sidecars:v1, args: [--controllers=attacher]",
        "",
    ));
    let (verdict, remarks) = said(&together);
    assert!(verdict == Swap && remarks[0].0 == "P-24", "{remarks:?}");
    let (oldest, newest) = pod::TRIED;
    let tried = include_str!("../../../../docs/compatibility.md");
    for minor in oldest..=newest {
        assert!(
            tried.contains(&format!("\n| 1.{minor}.")),
            "P-18: 1.{minor} was tried"
        );
    }
}

#[test]
fn p_19_rows_of_parity_apply_to_what_is_in_use() {
    let parity = include_str!("../../../../docs/parity.md");
    for (container, rows) in [
        (
            "image: r/csi-provisioner:v1, args: [--enable-capacity], env: [{name: NAMESPACE, value: csi}, {name: POD_NAME, value: p}]",
            &["QP6"][..],
        ),
        (
            "image: r/csi-attacher:v1, args: [--csi-address=/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock]",
            &["QA1", "QA2"],
        ),
        (
            "image: r/csi-resizer:v1, args: [--csi-address=/var/lib/kubelet/plugins/disk.csi.azure.com/csi.sock]",
            &["QR1"],
        ),
        (
            "image: r/csi-attacher:v1, args: [--csi-address=/csi/csi.sock]",
            &[],
        ),
    ] {
        let (verdict, remarks) = said(&report(&deployment(container, "")));
        let told = remarks.iter().find(|(row, _)| *row == "P-19");
        assert_eq!(verdict, Swap, "{remarks:?}");
        assert_eq!(told.is_some(), !rows.is_empty(), "{container}: {remarks:?}");
        for row in rows {
            assert!(told.unwrap().1.contains(row), "{told:?}");
            assert!(
                parity.contains(&format!("{row}:")) || parity.contains(&format!("({row})")),
                "{row}"
            );
        }
    }
}

#[test]
fn p_21_metrics_and_profiles_of_go() {
    let controller = deployment("image: r/csi-attacher:v1", "");
    for (kind, spec, named) in [
        (
            "ServiceMonitor",
            "{endpoints: [{metricRelabelings: [{sourceLabels: [__name__], regex: \"go_goroutines|csi_sidecar.*\", action: keep}]}]}",
            "go_goroutines",
        ),
        (
            "PodMonitor",
            "{podMetricsEndpoints: [{metricRelabelings: [{regex: \"go_.*\", action: drop}]}]}",
            "",
        ),
        (
            "PrometheusRule",
            "{groups: [{rules: [{expr: \"rate(promhttp_metric_handler_requests_total[5m]) > 1\"}]}]}",
            "promhttp_metric_handler_requests_total",
        ),
        (
            "ServiceMonitor",
            "{endpoints: [{metricRelabelings: [{regex: \"csi_sidecar.*\", action: keep}]}]}",
            "",
        ),
    ] {
        let report = report(&format!(
            "{controller}---\nkind: {kind}\nmetadata: {{name: m, namespace: csi}}\nspec: {spec}\n"
        ));
        let told = report.around.iter().find(|one| one.row == "P-21");
        assert_eq!(told.is_some(), !named.is_empty(), "{spec}");
        assert!(
            told.is_none_or(|told| told.text.contains(named)),
            "{told:?}"
        );
        assert_eq!(report.code(), if named.is_empty() { 0 } else { 5 });
    }
    let profiles = "image: r/csi-node-driver-registrar:v1, args: [--kubelet-registration-path=/p, --enable-pprof]";
    tells(&deployment(profiles, ""), "P-21", Loss, &["no Go profiles"]);
}

#[test]
fn p_22_p_23_hints_that_are_no_part_of_the_verdict() {
    let text = format!("kind: Deployment
metadata: {{name: controller, namespace: csi}}
spec: {{template: {{spec: {{containers: [
  {{name: csi-provisioner, image: r/csi-provisioner:v1, args: [--leader-election-namespace=kube-system]}},
  {{name: csi-attacher, image: r/csi-attacher:v1}},
  {{name: liveness, image: r/livenessprobe:v1}}]}}}}}}{ADMIN}");
    let report = report(&text);
    assert_eq!(report.code(), 0, "{report:?}");
    let all = human(&report);
    assert!(
        all.contains("--controllers=provisioner,attacher,livenessprobe"),
        "{all}"
    );
    assert!(all.contains("kubectl get leases -n kube-system"), "{all}");
}

#[test]
fn p_25_much_and_strange_input_is_passed_over() {
    let mut text = deployment("image: r/csi-attacher:v1", "");
    let begun = std::time::Instant::now();
    for number in 0..10_000 {
        text.push_str(&format!("---\n# Source: chart/templates/x.yaml\napiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: t{number}}}\nspec: {{a: &a [1, 2], b: *a}}\n"));
    }
    text.push_str("---\nkind: CustomResourceDefinition\nspec: \"");
    text.push_str(&"x".repeat(10 << 20));
    text.push_str("\"\n---\nNOTES:\nThank you for installing: {{ this is no YAML\n");
    // Aliases that would expand to gigabytes, one that refers to nothing, and one to itself.
    let mut bomb =
        "---\nkind: Role\nmetadata: {name: m}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        bomb.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            vec![below; 10].join(", ")
        ));
    }
    text.push_str(&bomb);
    text.push_str("---\nkind: Role\nmetadata: *nothing\n---\nkind: Role\nself: &s [*s]\n---\nkind: Role\n: {[\n");
    let input = Input::parse("in", text, "csi");
    let report = examine(&input, &Reviews::new(), &Plan::default(), None);
    assert!(
        begun.elapsed().as_secs() < 20,
        "{:?}, not optimized",
        begun.elapsed()
    );
    // The unreadable roles may be the account's: no verdict is certain.
    assert_eq!((report.answers.len(), report.code()), (1, 1));
    assert_eq!(report.passed_over, 10_002);
    assert_eq!(report.unreadable.len(), 4, "{:?}", report.unreadable);
}

#[test]
fn p_25_an_object_is_read_however_it_is_written() {
    let plain = "kind: Deployment\nmetadata: {name: d, namespace: csi}\nspec: {template: {spec: {containers: [{name: c, image: r/csi-attacher:v1}]}}}\n";
    let flow = r#"{"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "r/csi-attacher:v1"}]}}}}"#;
    let indented: String = plain.lines().map(|line| format!("  {line}\n")).collect();
    for text in [
        plain.to_owned(),
        format!("\u{feff}{plain}"),
        format!("kind: Thing\n---\n{flow}\n"),
        format!("{{\"kind\": \"Thing\"}}\n---\n{flow}\n"),
        format!("{{\"kind\": \"Thing\"}}\n{flow}\n"),
        format!("--- {flow}\n"),
        format!("kind: Thing\n--- # Source: x\n{plain}"),
        format!("\u{feff}---\n{plain}"),
        indented,
        plain.replace("kind: Deployment", "\"kind\": Deployment"),
        plain.replace("kind: Deployment", "kind : Deployment"),
        plain.replace("kind: Deployment", "kind: !!str Deployment"),
        plain.replace("kind: Deployment", "kind:\n  Deployment"),
        plain.replace("metadata:", "metadata: {name: x}\nmetadata:"),
    ] {
        let input = Input::parse("in", text.clone(), "csi");
        assert_eq!(input.unreadable, [""; 0], "{text}");
        let names: Vec<_> = input.workloads().map(|one| &*one.name).collect();
        assert_eq!(names, ["d"], "{text}");
    }
    for text in [
        "spec: {kind: nested}\n",
        "kinds of things: [",
        "{\"kind\": \"Deployment\",",
        "{\"metadata\": {\"kind\": 1}}",
        "kind: List\nitems: [{metadata: {name: x}}]\n",
    ] {
        let input = Input::parse("in", format!("{plain}---\n{text}"), "csi");
        assert_eq!(input.unreadable.len(), 1, "{text}: {:?}", input.unreadable);
        let report = examine(&input, &Reviews::new(), &Plan::default(), None);
        assert_eq!(report.code(), 1, "{text}");
    }
}

/// Controllers often have their driver's socket in an emptyDir and do not state the driver's name.
#[test]
fn p_2_the_controller_of_a_driver_is_found_beside_its_node_plugin() {
    let workload = |kind: &str, namespace: &str, image: &str, spec: &str| {
        format!(
            "---\nkind: {kind}\nmetadata: {{name: {image}, namespace: {namespace}}}\nspec: {{template: {{spec: {{{spec} containers: [{{name: c, image: r/{image}:v1, args: [--kubelet-registration-path=/p]}}]}}}}}}\n"
        )
    };
    let folder =
        "volumes: [{name: v, hostPath: {path: /var/lib/kubelet/plugins/my.csi.example.com}}],";
    let node = workload("DaemonSet", "csi", "csi-node-driver-registrar", folder);
    let controller = workload("Deployment", "csi", "csi-provisioner", "");
    let other = workload("Deployment", "elsewhere", "csi-attacher", "");
    let asked = |text: &str| {
        let input = Input::parse("in", text.to_owned(), "csi");
        let report = examine(
            &input,
            &Reviews::new(),
            &Plan::default(),
            Some("my.csi.example.com"),
        );
        let programs: Vec<_> = report.answers.iter().map(|one| one.program).collect();
        (programs, human(&report), report.code())
    };
    let (programs, _, _) = asked(&format!("{node}{controller}{other}"));
    assert_eq!(programs, ["csi-node-driver-registrar", "csi-provisioner"]);
    let (programs, said, code) = asked(&format!("{node}{other}"));
    assert_eq!(programs, ["csi-node-driver-registrar"]);
    assert!(
        said.contains("no csi-provisioner or csi-attacher was found"),
        "{said}"
    );
    assert!(code >= 3, "{code}: {said}");
    // A name that merely contains the driver's is another driver's.
    let text = node.replace("my.csi.example.com", "not.my.csi.example.com");
    assert_eq!(asked(&text).0, [""; 0]);
}

#[test]
fn p_25_nothing_in_manifests_repaints_a_terminal_or_is_a_secret() {
    let text = deployment(
        "image: r/csi-attacher:v1, args: [\"--timeout=a\\u001b[2J\"], env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: p}}}]",
        "",
    );
    let text = format!(
        "{text}---\nkind: Secret\nmetadata: {{name: s, namespace: csi}}\nstringData: {{p: planted}}\n"
    );
    let report = report(&text);
    let printed = format!("{}{}", human(&report), json(&report));
    assert!(
        !printed.contains('\u{1b}') && !printed.contains("planted"),
        "{printed}"
    );
}

#[test]
fn p_27_documents() {
    let swap = include_str!("../../../../docs/swap.md");
    let (_, change) = swap.split_once("## The change\n").unwrap();
    let begin: String = change.lines().take(12).collect::<Vec<_>>().join("\n");
    assert!(begin.contains("csi-sidecars preflight"), "{begin}");
    let changes = include_str!("../../../../CHANGELOG.md");
    for program in program::PROGRAMS {
        assert!(changes.contains(program.name), "{}", program.name);
    }
}

#[test]
fn a_command_line_that_makes_no_sense_names_what_is_wrong() {
    for (line, said) in [
        ("", "name a file"),
        ("a.yaml b.yaml", "put several files together"),
        ("deployment/x a.yaml", "one file, or workloads"),
        (
            "- --kubernetes=new",
            "--kubernetes=\"new\": write it as 1.36",
        ),
        ("- -n A_b", "not a valid name of a namespace"),
        ("- -o yaml", "yaml"),
        ("- --nonsense", "--nonsense"),
    ] {
        let argv = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(OsString::from);
        let exit = args::parse(argv.collect()).unwrap_err();
        assert_eq!((exit.code, &*exit.stdout), (2, ""), "{line}");
        assert!(exit.stderr.contains(said), "{line}: {}", exit.stderr);
    }
    assert_eq!(args::minor("v1.36.3"), Some(36));
    assert_eq!(args::minor("1.9+"), Some(9));
    assert_eq!(args::minor("2.0"), None);
}
