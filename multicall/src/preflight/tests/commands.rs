//! Images and command lines.

use super::super::container::Identity;
use super::super::report::human;
use super::super::verdict::Verdict::{Cannot, Change, Swap, Unknown};
use super::*;

const TODAY: &str = include_str!("../../../tests/testdata/command-lines.tsv");
const OLDER: &str = include_str!("../../../tests/testdata/command-lines-older.tsv");

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn p_1_programs_are_known_by_image_or_command_whatever_the_registry() {
    for (image, command, program, inside) in [
        (
            "registry.k8s.io/sig-storage/csi-provisioner:v5.0.1",
            "",
            "csi-provisioner",
            false,
        ),
        (
            "public.ecr.aws/eks-distro/kubernetes-csi/external-provisioner:v5.0.1-eks-1-30-8",
            "",
            "csi-provisioner",
            false,
        ),
        (
            "quay.io/openshift/ose-csi-external-attacher-rhel9@sha256:0123",
            "",
            "csi-attacher",
            false,
        ),
        (
            "my.registry:5000/mirror/csi-external-resizer:v1",
            "",
            "csi-resizer",
            false,
        ),
        (
            "gke.gcr.io/k8s-csi-snapshotter",
            "",
            "csi-snapshotter",
            false,
        ),
        (
            "docker.io/longhornio/csi-node-driver-registrar:v2.12.0-20241105",
            "",
            "csi-node-driver-registrar",
            false,
        ),
        (
            "registry.k8s.io/sig-storage/livenessprobe:v2.14.0",
            "",
            "livenessprobe",
            false,
        ),
        (
            "docker.io/longhornio/livenessprobe:v2",
            "",
            "livenessprobe",
            false,
        ),
        (
            "mcr.microsoft.com/oss/kubernetes-csi/csi-liveness-probe:v1",
            "",
            "livenessprobe",
            false,
        ),
        (
            "registry.k8s.io/sig-storage/csi-external-health-monitor-controller:v0.18.0",
            "",
            "csi-external-health-monitor-controller",
            false,
        ),
        (
            "registry.k8s.io/sig-storage/snapshot-controller:v8.2.0",
            "",
            "snapshot-controller",
            false,
        ),
        (
            "ghcr.io/topolvm/topolvm-with-sidecar:0.36.4",
            "[/csi-provisioner]",
            "csi-provisioner",
            true,
        ),
        (
            "ghcr.io/topolvm/topolvm-with-sidecar:0.36.4",
            "[/livenessprobe]",
            "livenessprobe",
            true,
        ),
        (
            "registry.k8s.io/sig-storage/csi-attacher:v1",
            "[/csi-attacher]",
            "csi-attacher",
            false,
        ),
        (
            "registry.k8s.io/sig-storage/nfs-subdir-external-provisioner:v4",
            "",
            "",
            false,
        ),
        ("rancher/local-path-provisioner:v0.0.30", "", "", false),
        ("example/my-csi-attacher-driver:v1", "", "", false),
    ] {
        let command = if command.is_empty() {
            String::new()
        } else {
            format!("command: {command},")
        };
        let text = deployment(
            &format!("image: \"{image}\", {command} args: [--kubelet-registration-path=/p]"),
            "",
        );
        let input = Input::parse("", text, "csi");
        let workload = input.workloads().next().unwrap();
        let all = containers(&input, workload);
        let named = all[0].program().map_or("", |program| program.name);
        assert_eq!(named, program, "{image}");
        assert_eq!(
            matches!(all[0].identity, Identity::Inside(_)),
            inside,
            "{image}"
        );
    }
    let inside = "image: ghcr.io/topolvm/topolvm-with-sidecar:0.36.4, command: [/csi-resizer]";
    tells(
        &deployment(inside, ""),
        "P-1",
        Cannot,
        &[
            "image: REGISTRY/csi-resizer:VERSION",
            "command: [\"/csi-resizer\"]",
        ],
    );
}

#[test]
fn p_2_what_has_no_successor_here_is_left_alone_and_said() {
    let text = format!(
        "kind: Deployment
metadata: {{name: controller, namespace: csi}}
spec: {{template: {{spec: {{containers: [
  {{name: health, image: registry.k8s.io/sig-storage/csi-external-health-monitor-agent:v0.1.0}},
  {{name: metadata, image: registry.k8s.io/sig-storage/csi-snapshot-metadata:v0.2.0}},
  {{name: modifier, image: public.ecr.aws/ebs-csi-driver/volume-modifier-for-k8s:v0.5.1}},
  {{name: validator, image: registry.k8s.io/sig-storage/volume-data-source-validator:v1}},
  {{name: driver, image: example/driver:v1}},
  {{name: csi-attacher, image: registry.k8s.io/sig-storage/csi-attacher:v4.8.0}}]}}}}}}{ADMIN}"
    );
    let report = report(&text);
    assert_eq!(report.answers.len(), 1, "{report:?}");
    let left =
        "Left alone in Deployment csi/controller: health, metadata, modifier, validator, driver\n";
    assert!(human(&report).contains(left), "{}", human(&report));
}

/// One Deployment per command line, as a manifest.
fn manifests(table: &str, arguments: usize) -> (String, Vec<Vec<&str>>) {
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .collect();
    let variables = [
        "HEALTH_PORT",
        "POD_IP",
        "NAMESPACE",
        "PDCSI_NAMESPACE",
        "POD_NAMESPACE",
        "ADDRESS",
        "CSI_ENDPOINT",
        "DRIVER_REG_SOCK_PATH",
        "PLUGIN_REG_DIR",
        "POD_NAME",
        "NODE_NAME",
    ];
    let values = [
        "9898",
        "192.0.2.1",
        "ns",
        "ns",
        "ns",
        "/csi/csi.sock",
        "/csi/csi.sock",
        "/var/lib/kubelet/plugins/d/csi.sock",
        "/registration",
        "pod",
        "node",
    ];
    let env: Vec<_> = variables
        .iter()
        .zip(values)
        .map(|(name, value)| format!("{{name: {name}, value: \"{value}\"}}"))
        .collect();
    let mut text = ADMIN.to_owned();
    for (number, row) in rows.iter().enumerate() {
        // A row contains a required flag only if its chart was rendered completely.
        let own: Vec<String> = serde_json::from_str(row[arguments]).unwrap();
        let required = crate::command_lines::required(row[0]).into_iter();
        let line: Vec<_> = required.map(str::to_owned).chain(own).collect();
        let (line, env) = (serde_json::to_string(&line).unwrap(), env.join(", "));
        text.push_str(&format!(
            "---\nkind: Deployment\nmetadata: {{name: d{number}, namespace: csi}}\nspec: {{template: {{spec: {{containers: [{{name: c, image: r/{}:v1, env: [{env}], args: {line}}}]}}}}}}\n",
            row[0]
        ));
    }
    (text, rows)
}

#[test]
fn p_3_p_4_p_5_p_6_command_lines_of_charts_are_judged_as_the_programs_judge_them() {
    for (table, arguments, refusal) in [(TODAY, 2, None), (OLDER, 3, Some(4))] {
        let (text, rows) = manifests(table, arguments);
        let report = report(&text);
        assert_eq!(report.answers.len(), rows.len());
        for (answer, row) in report.answers.iter().zip(&rows) {
            let refused = refusal
                .and_then(|column| row.get(column))
                .is_some_and(|flag| !flag.is_empty());
            let expected = if refused { Cannot } else { Swap };
            let remarks: Vec<_> = answer
                .remarks
                .iter()
                .filter(|one| one.verdict != Swap)
                .collect();
            assert_eq!(answer.verdict(), expected, "{row:?}: {remarks:?}");
            let fork = answer.remarks.iter().any(|one| one.row == "P-6");
            assert_eq!(fork, refused, "{row:?}");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn p_4_p_5_p_6_p_7_flags_and_gates_of_other_versions() {
    let of = |program: &str, arguments: &str| {
        deployment(&format!("image: r/{program}:v1, args: [{arguments}]"), "")
    };
    for (program, arguments, row, verdict, words) in [
        (
            "csi-provisioner",
            "\"--feature-gates=Topology=true,HonorPVReclaimPolicy=true\"",
            "P-4",
            Swap,
            &["HonorPVReclaimPolicy", "v6.2.0", "in.yaml:3"][..],
        ),
        (
            "csi-snapshotter",
            "--enable-volume-group-snapshots=true",
            "P-5",
            Swap,
            &["v8.2.0", "CSIVolumeGroupSnapshot"],
        ),
        (
            "csi-attacher",
            "--leader-election-type=leases",
            "P-5",
            Swap,
            &["v2.0.0", "take leader-election-type out"],
        ),
        (
            "csi-provisioner",
            "--provisioner=x",
            "P-5",
            Swap,
            &["v2.0.0"],
        ),
        (
            "csi-resizer",
            "--csiTimeout=90s",
            "P-5",
            Swap,
            &["read as --timeout"],
        ),
        (
            "csi-attacher",
            "--connection-timeout=15s",
            "P-5",
            Swap,
            &["v2.0.0"],
        ),
        ("csi-attacher", "--logtostderr", "P-5", Swap, &["v4.6.0"]),
        // That release calls the flag --workers.
        (
            "csi-resizer",
            "--worker-threads=10",
            "P-6",
            Cannot,
            &["worker-threads", "keep this image"],
        ),
        (
            "csi-provisioner",
            "--enable-hostlocal-placement=true",
            "P-6",
            Cannot,
            &["No release of upstream's csi-provisioner had that flag"],
        ),
        ("csi-resizer", "--resize-timeout=1m", "P-20", Swap, &[""]),
        (
            "csi-attacher",
            "--timeout=soon",
            "P-3",
            Change,
            &["ends with code 2", "timeout"],
        ),
        (
            "csi-attacher",
            "--worker-threads=-1",
            "P-3",
            Change,
            &["worker-threads"],
        ),
        (
            "csi-provisioner",
            "\"--feature-gates=Topology=false,Nonsense=true\"",
            "P-3",
            Change,
            &["unrecognized feature gate: Nonsense"],
        ),
        (
            "csi-snapshotter",
            "\"--metrics-address=:8080\"",
            "P-7",
            Swap,
            &["metrics-address"],
        ),
        (
            "csi-provisioner",
            "--feature-gates=Topology=true",
            "P-7",
            Swap,
            &["GA feature gate Topology"],
        ),
        (
            "livenessprobe",
            "\"--health-port=9809\"",
            "P-7",
            Swap,
            &["health-port"],
        ),
    ] {
        tells(&of(program, arguments), row, verdict, words);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn p_8_variables_are_put_in_and_what_is_not_known_is_said() {
    let of = |environment: &str, arguments: &str| {
        deployment(
            &format!("image: r/csi-attacher:v1, env: [{environment}], args: [{arguments}]"),
            "",
        )
    };
    let map = |text: String| {
        format!(
            "{text}---\nkind: ConfigMap\nmetadata: {{name: m, namespace: csi}}\ndata: {{t: 90s, bad: soon}}\n"
        )
    };
    let from_map =
        |key: &str| format!("{{name: T, valueFrom: {{configMapKeyRef: {{name: m, key: {key}}}}}}}");
    for (text, row, verdict, words) in [
        (
            of("{name: T, value: 90s}", "--timeout=$(T)"),
            "P-20",
            Swap,
            "",
        ),
        (
            of("{name: T, value: soon}", "--timeout=$(T)"),
            "P-3",
            Change,
            "soon",
        ),
        (
            of(
                "{name: A, value: so}, {name: T, value: $(A)on}",
                "--timeout=$(T)",
            ),
            "P-3",
            Change,
            "soon",
        ),
        (map(of(&from_map("t"), "--timeout=$(T)")), "P-20", Swap, ""),
        (
            map(of(&from_map("bad"), "--timeout=$(T)")),
            "P-3",
            Change,
            "soon",
        ),
        (
            of(&from_map("t"), "--timeout=$(T)"),
            "P-8",
            Unknown,
            "not checked",
        ),
        (
            of(
                "{name: T, valueFrom: {secretKeyRef: {name: s, key: t}}}",
                "--timeout=$(T)",
            ),
            "P-8",
            Unknown,
            "not checked",
        ),
        (
            of(
                "{name: N, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}",
                "--leader-election, --leader-election-namespace=$(N)",
            ),
            "P-20",
            Swap,
            "",
        ),
        // The flag disappears with its unknown value, and no other flag becomes the value.
        (
            of(&from_map("t"), "--timeout, $(T), --leader-election, --v=3"),
            "P-8",
            Unknown,
            "--timeout $(T)",
        ),
        (
            of(&from_map("t"), "--leader-election, $(T)"),
            "P-8",
            Unknown,
            "input: $(T)",
        ),
        // The missing map may define any variable.
        (
            of("", "--timeout=$(P_T)").replace(
                "env: []",
                "envFrom: [{prefix: P_, configMapRef: {name: elsewhere}}]",
            ),
            "P-8",
            Unknown,
            "ConfigMap elsewhere",
        ),
        (
            of("", "--timeout=$(P_T)").replace("env: []", "envFrom: [{secretRef: {name: hidden}}]"),
            "P-8",
            Unknown,
            "Secret hidden",
        ),
        (
            of("", "--default-fstype=$(X)").replace(
                "env: []",
                "envFrom: [{prefix: P_, configMapRef: {name: elsewhere}}]",
            ),
            "P-8",
            Swap,
            "no variable X",
        ),
        (
            of("", "--default-fstype=$(X)"),
            "P-8",
            Swap,
            "no variable X",
        ),
        (
            of("{name: X, value: ext4}", "--default-fstype=$$(X)"),
            "P-20",
            Swap,
            "",
        ),
    ] {
        tells(&text, row, verdict, &[words]);
    }
}

#[test]
fn p_9_a_shell_is_in_no_image_of_ours() {
    for (container, way) in [
        (
            "image: r/csi-attacher:v1, command: [sh, -c, \"exec /csi-attacher --v=5 --timeout=$T\"]",
            "args: [\"--v=5\", \"--timeout=$T\"]",
        ),
        (
            "image: r/csi-attacher:v1, command: [/bin/sh, -c], args: [\"/csi-attacher --v=5\"]",
            "args: [\"--v=5\"]",
        ),
        (
            "image: r/csi-attacher:v1, command: [/scripts/start.sh]",
            "command: [\"/csi-attacher\"]",
        ),
        (
            "image: example/driver:v1, command: [sh, -c, \"/csi-attacher --v=5\"]",
            "command: [\"/csi-attacher\"]",
        ),
    ] {
        tells(&deployment(container, ""), "P-9", Cannot, &[way]);
    }
    let list = "image: r/csi-attacher:v1, command: [/csi-attacher, --v=5], args: [--timeout=60s]";
    assert_eq!(said(&report(&deployment(list, ""))).0, Swap);
}
