//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str], node_name: Option<&str>) -> Result<(Command, Vec<String>), Exit> {
    let argv = ["csi-snapshotter"].iter().chain(args);
    decide(&sidecar::flags::parse(&SPEC, argv)?, node_name)
}

fn config(args: &[&str]) -> (Config, Vec<String>) {
    match decide_on(args, Some("n1")) {
        Ok((Command::Run(config), warnings)) => (*config, warnings),
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn defaults_are_upstreams() {
    let whole = |prefix: &str| Name {
        prefix: prefix.to_owned(),
        length: None,
    };
    let expected = Config {
        resync: Duration::from_mins(15),
        pacing: Pacing {
            workers: 10,
            retry_start: Duration::from_secs(1),
            retry_max: Duration::from_mins(5),
        },
        timeout: Duration::from_mins(1),
        csi_address: "/run/csi/socket".to_owned(),
        node: None,
        settings: Settings {
            name: whole("snapshot"),
            extra_create_metadata: false,
            get_snapshot: false,
            topology: false,
            retry_max: Duration::from_mins(5),
        },
        groups: Some(whole("groupsnapshot")),
        http: None,
        election: None,
    };
    assert_eq!(config(&[]), (expected, Vec::new()));
}

/// Row, arguments, `NODE_NAME`, exit code, and the words of the line.
type Refused = (
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
    u8,
    &'static str,
);

const REFUSED: &[Refused] = &[
    (
        "S-3",
        &["--feature-gates=Foo=true"],
        None,
        1,
        "unrecognized feature gate: Foo",
    ),
    (
        "S-3 before S-1",
        &["--feature-gates=Foo=true", "--version"],
        None,
        1,
        "unrecognized feature gate: Foo",
    ),
    (
        "S-4",
        &["--feature-gates=Foo"],
        None,
        2,
        "malformed pair, expect string=bool",
    ),
    ("S-5", &["--csi-timeout=1s"], None, 2, UNDEFINED),
    ("S-5", &["--workers=3"], None, 2, UNDEFINED),
    ("2.4", &["--resync=1m"], None, 2, UNDEFINED),
    ("S-6", &["--timeout=15"], None, 2, "timeout"),
    (
        "S-7",
        &["--node-deployment", "--leader-election"],
        Some("n1"),
        1,
        "Leader election cannot happen when node-deployment is set to true",
    ),
    (
        "S-7 before S-8",
        &["--node-deployment", "--leader-election"],
        None,
        1,
        "Leader election cannot happen when node-deployment is set to true",
    ),
    ("S-8", &["--node-deployment"], None, 1, "NODE_NAME"),
    ("S-8", &["--node-deployment"], Some(""), 1, "NODE_NAME"),
    (
        "S-8 before S-9",
        &[
            "--node-deployment",
            "--metrics-address=:1",
            "--http-endpoint=:2",
        ],
        None,
        1,
        "NODE_NAME",
    ),
    (
        "S-9",
        &["--metrics-address=:1", "--http-endpoint=:2"],
        None,
        1,
        "only one of --metrics-address and --http-endpoint can be set",
    ),
    (
        "S-16",
        &["--snapshot-name-prefix="],
        None,
        1,
        "Snapshot name prefix cannot be of length 0",
    ),
    (
        "S-17",
        &["--snapshot-name-uuid-length=33"],
        None,
        1,
        "--snapshot-name-uuid-length=33",
    ),
    (
        "S-17",
        &["--snapshot-name-uuid-length=-2"],
        None,
        1,
        "--snapshot-name-uuid-length=-2",
    ),
    (
        "S-17",
        &["--snapshot-name-uuid-length=0"],
        None,
        1,
        "--snapshot-name-uuid-length=0",
    ),
    (
        "S-17 of groups",
        &["--groupsnapshot-name-uuid-length=33"],
        None,
        1,
        "--groupsnapshot-name-uuid-length=33",
    ),
    (
        "S-18",
        &["--worker-threads=0"],
        None,
        1,
        "--worker-threads=0",
    ),
    (
        "S-18",
        &["--worker-threads=-1"],
        None,
        1,
        "--worker-threads=-1",
    ),
    (
        "2.5 row 21",
        &["--leader-election", "--leader-election-renew-deadline=20s"],
        None,
        2,
        "leader-election-renew-deadline",
    ),
];

const UNDEFINED: &str = "flag provided but not defined";

#[test]
fn s_3_to_9_s_16_to_18_refused() {
    for (row, args, node_name, code, text) in REFUSED {
        let exit = decide_on(args, *node_name).expect_err(row);
        let said = format!("{}{}", exit.stderr, exit.error.clone().unwrap_or_default());
        assert_eq!(exit.code, *code, "{row}: {exit:?}");
        assert!(said.contains(text), "{row}: {said}");
    }
}

#[test]
fn s_1_version_before_everything_but_gates() {
    let late = ["--version", "--worker-threads=0", "--node-deployment"];
    let decided = decide_on(&late, None).unwrap();
    assert_eq!(decided, (Command::Version, Vec::new()));
}

#[test]
fn s_2_help_names_the_gates_that_upstream_names() {
    let exit = decide_on(&["--help"], None).unwrap_err();
    assert_eq!(exit.code, 0);
    let usage = exit.stderr;
    assert!(usage.contains("ReleaseLeaderElectionOnExit"), "{usage}");
    assert!(!usage.contains("CSIVolumeGroupSnapshot"), "{usage}");
}

#[test]
fn s_20_the_gate_of_groups() {
    let (off, warnings) = config(&["--feature-gates=CSIVolumeGroupSnapshot=false"]);
    assert_eq!(off.groups, None, "S-20");
    assert!(
        warnings[0].contains("GA feature gate"),
        "S-20: {warnings:?}"
    );
    // Whether an empty prefix ends the process depends on the look for group kinds.
    let (empty, _) = config(&["--groupsnapshot-name-prefix="]);
    assert_eq!(empty.groups.unwrap().prefix, "");
}

#[test]
fn s_26_intervals_of_zero_are_accepted() {
    let (config, _) = config(&["--resync-period=0s", "--retry-interval-start=0s"]);
    assert_eq!(config.resync, Duration::ZERO);
    assert_eq!(config.pacing.retry_start, Duration::ZERO);
}

#[test]
fn s_17_short_names_earn_a_warning() {
    for (args, warned) in [
        ("--snapshot-name-uuid-length=8", true),
        ("--snapshot-name-uuid-length=32", false),
        ("--snapshot-name-uuid-length=-1", false),
        ("--groupsnapshot-name-uuid-length=31", true),
    ] {
        let (_, warnings) = config(&[args]);
        assert_eq!(!warnings.is_empty(), warned, "{args}: {warnings:?}");
    }
}

#[test]
fn s_104_the_node_is_named_by_the_environment() {
    let (config, _) = config(&["--node-deployment"]);
    assert_eq!(config.node.as_deref(), Some("n1"));
    assert_eq!(config.election, None);
}
