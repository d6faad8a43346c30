//! Rows 1 to 9, 19, 20 and 25: the configuration from the command line, without a process.

use sidecar::flags::parse;

use super::*;

fn decided(line: &str, environment: &Environment) -> Result<Command, Exit> {
    let argv = std::iter::once("csi-provisioner").chain(line.split_whitespace());
    let values = parse(&SPEC, argv)?;
    decide(&values, environment).map(|(command, _)| command)
}

fn config(line: &str) -> Config {
    match decided(line, &Environment::default()) {
        Ok(Command::Run(config)) => *config,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn defaults_are_upstreams() {
    let config = config("");
    assert_eq!(config.csi_address, "/run/csi/socket");
    assert_eq!(config.timeout, Duration::from_secs(10));
    assert_eq!((config.threads, config.clone_threads), (100, 1));
    assert_eq!(config.sweep, Some(Duration::from_secs(300)));
    assert_eq!(config.settings, Settings::default());
    assert_eq!(
        (config.http, config.election, config.capacity),
        (None, None, None)
    );
}

/// Row, command line, whether NODE_NAME is set, exit code, and the message.
const ENDS: &[(&str, &str, bool, u8, &str)] = &[
    ("2", "--node-deployment", false, FATAL, "NODE_NAME"),
    (
        "2 version",
        "--node-deployment --version",
        false,
        FATAL,
        "NODE_NAME",
    ),
    (
        "3",
        "--metrics-address=:1 --http-endpoint=:2",
        false,
        1,
        "--http-endpoint",
    ),
    (
        "4",
        "--feature-gates=NoSuchGate=true",
        false,
        FATAL,
        "NoSuchGate",
    ),
    (
        "5",
        "--feature-gates=Topology",
        false,
        2,
        "expect string=bool",
    ),
    ("9", "-csi-address=/x", false, 2, "unknown shorthand"),
    (
        "19",
        "--leader-election-labels=a=b",
        false,
        2,
        "leader-election-labels",
    ),
    (
        "20",
        "--leader-election --leader-election-renew-deadline=20s",
        false,
        2,
        "lease-duration",
    ),
    ("1.5", "--enable-capacity", true, FATAL, "NAMESPACE"),
    (
        "threads",
        "--worker-threads=0",
        false,
        1,
        "--worker-threads",
    ),
    (
        "own",
        "--provisioning-protection=no",
        false,
        1,
        "--provisioning-protection",
    ),
];

#[test]
fn rows_1_to_9_19_20_and_25_errors_and_their_codes() {
    let node = Environment {
        node_name: "n1".into(),
        ..Environment::default()
    };
    let none = Environment::default();
    for &(row, line, on_node, code, text) in ENDS {
        let environment = if on_node { &node } else { &none };
        let exit = decided(line, environment).unwrap_err();
        let output = format!("{}{}", exit.stderr, exit.error.unwrap_or_default());
        assert_eq!(exit.code, code, "row {row}: {output}");
        assert!(output.contains(text), "row {row}: {output}");
    }
    assert_eq!(
        decided("--version", &none).unwrap(),
        Command::Version,
        "row 1"
    );
    assert_eq!(config("--enable-pprof").http, None, "row 25");
}

#[test]
fn rows_7_and_8_what_upstream_retired_is_passed_over_with_a_warning_each() {
    let line = "csi-provisioner --feature-gates=HonorPVReclaimPolicy=true --logtostderr --v=2";
    let values = parse(&SPEC, line.split(' ')).unwrap();
    let (command, of_gates) = decide(&values, &Environment::default()).unwrap();
    assert_eq!(command, Command::Run(Box::new(config(""))));
    assert_eq!(values.uint("v"), 2);
    assert_eq!((values.warnings().len(), of_gates.len()), (1, 1));
}

#[test]
fn row_53_a_prefix_with_which_no_object_can_be_named_ends_the_program() {
    let long = "a".repeat(217);
    for line in [
        "--volume-name-prefix=Pvc",
        "--volume-name-prefix=-pvc",
        "--volume-name-prefix=p_v",
        "--volume-name-prefix=pvc.",
        "--volume-name-uuid-length=0",
        &format!("--volume-name-prefix={long}"),
    ] {
        let exit = decided(line, &Environment::default()).unwrap_err();
        let error = exit.error.unwrap_or_default();
        assert_eq!(exit.code, 1, "{line}: {error}");
        assert!(
            error.contains("no PersistentVolume can be called"),
            "{error}"
        );
    }
    for prefix in ["p", "0", "a.b", "pvc-", &long[1..]] {
        let line = format!("--volume-name-prefix={prefix}");
        assert_eq!(config(&line).settings.volume_name_prefix, prefix);
    }
    // Row 54: the error is reported on each claim.
    assert_eq!(
        config("--volume-name-prefix=").settings.volume_name_prefix,
        ""
    );
}

#[test]
fn row_6_gates_add_up() {
    let config =
        config("--feature-gates=Topology=false --feature-gates=VolumeAttributesClass=false");
    let gates = config.settings.gates;
    assert!(!gates.topology && !gates.attributes_class && config.attributes_class_given);
    assert!(!self::config("").attributes_class_given);
}

#[test]
fn rows_19_21_and_22_leader_election() {
    let config = config("--leader-election --leader-election-labels=a:b,c:d --http-endpoint=:1");
    let labels = config.election.unwrap().labels;
    assert_eq!(labels, [("a".into(), "b".into()), ("c".into(), "d".into())]);
    assert!(config.http.unwrap().health, "row 21");
    let http = self::config("--leader-election --metrics-address=:1").http;
    assert!(!http.unwrap().health, "row 22");
}

#[test]
fn capacity_needs_its_environment() {
    let environment = Environment {
        namespace: "ns".into(),
        pod_name: "pod".into(),
        ..Environment::default()
    };
    let Ok(Command::Run(config)) = decided("--enable-capacity", &environment) else {
        panic!("it has what it needs");
    };
    let capacity = config.capacity.unwrap();
    assert_eq!(
        (capacity.owner_level, &*capacity.pod_name),
        (Some(1), "pod")
    );
    let line = "--enable-capacity --capacity-ownerref-level=-1";
    let environment = Environment {
        pod_name: String::new(),
        ..environment
    };
    let Ok(Command::Run(config)) = decided(line, &environment) else {
        panic!("no owner, no pod");
    };
    assert_eq!(config.capacity.unwrap().owner_level, None);
}

#[test]
fn every_flag_is_compared_with_upstreams() {
    let document = include_str!("../../../docs/parity.md");
    let section = document
        .split("\n## ")
        .find(|part| part.starts_with("csi-provisioner"));
    assert_eq!(SPEC.missing_from(section.unwrap()), [] as [&str; 0]);
}
