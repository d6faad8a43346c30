//! Rows 1 to 11 and 19, 20, 25: what is said and returned before anything is contacted.

use std::time::Duration;

use super::stage::{PROGRAM, Stage};

/// Row, arguments, exit code, and what the log says.
const ENDS: [(&str, &[&str], i32, &str); 18] = [
    ("2", &["--node-deployment"], 255, "NODE_NAME"),
    (
        "2 version",
        &["--node-deployment", "--version"],
        255,
        "NODE_NAME",
    ),
    (
        "3",
        &["--metrics-address=:1", "--http-endpoint=:2"],
        1,
        "--http-endpoint",
    ),
    (
        "4",
        &["--feature-gates=NoSuchGate=true"],
        255,
        "--feature-gates: unrecognized feature gate: NoSuchGate",
    ),
    ("5", &["--feature-gates=Topology"], 2, "expect string=bool"),
    (
        "7",
        &["--feature-gates=HonorPVReclaimPolicy=true"],
        255,
        "HonorPVReclaimPolicy",
    ),
    ("8", &["--logtostderr"], 2, "unknown flag: --logtostderr"),
    ("9", &["-csi-address=/x"], 2, "unknown shorthand flag"),
    (
        "19",
        &["--leader-election-labels=a=b"],
        2,
        "leader-election-labels",
    ),
    (
        "20",
        &["--leader-election", "--leader-election-renew-deadline=20s"],
        2,
        "lease-duration",
    ),
    (
        "1.2 removed",
        &["--enable-leader-election"],
        2,
        "use --leader-election",
    ),
    (
        "1.2 removed",
        &["--provisioner=test-driver"],
        2,
        "the driver says its name itself",
    ),
    (
        "1.2 misspelt",
        &["--volume_name_prefix=x"],
        2,
        "did you mean --volume-name-prefix?",
    ),
    ("1.1 help", &["--help"], 0, "worker-threads"),
    (
        "1.1 duration",
        &["--timeout=15"],
        2,
        "invalid argument \"15\"",
    ),
    ("1.5 capacity", &["--enable-capacity"], 255, "NAMESPACE"),
    (
        "1.5 client",
        &["--kubeconfig=/nonexistent"],
        255,
        "/nonexistent",
    ),
    (
        "own",
        &["--provisioning-protection=sometimes"],
        1,
        "--provisioning-protection",
    ),
];

#[tokio::test]
async fn rows_2_to_9_19_and_20_errors_and_their_codes() {
    for (row, arguments, code, text) in ENDS {
        let ended = PROGRAM.start(arguments).end().await;
        assert_eq!(ended.code, Some(code), "row {row}: {}", ended.log);
        assert!(ended.log.contains(text), "row {row}: {}", ended.log);
        assert_eq!(ended.stdout, "", "row {row}");
    }
}

#[tokio::test]
async fn row_1_version() {
    for arguments in [
        &["--version"][..],
        &["--version", "--feature-gates=Topology=false"],
        &["--leader-election", "false", "--version"],
    ] {
        let ended = PROGRAM.start(arguments).end().await;
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.log);
        let expected = format!("{} ", PROGRAM.path());
        assert!(ended.stdout.starts_with(&expected), "{}", ended.stdout);
        assert_eq!(ended.stdout.lines().count(), 1);
    }
}

#[tokio::test]
async fn row_10_the_variable_overrides_the_flag() {
    let stage = Stage::new().await;
    let variable = [("KUBECONFIG", "/nonexistent-variable")];
    let ended = stage.start_in(&[], &variable).end().await;
    assert_eq!(ended.code, Some(255));
    assert!(ended.log.contains("/nonexistent-variable"), "{}", ended.log);
}

#[tokio::test]
async fn row_11_addresses_that_cannot_be_watched() {
    let stage = Stage::new().await;
    for address in ["dns:///host:1", "unix:/x", "run/csi.sock"] {
        let (kubeconfig, address) = (stage.kubeconfig(), format!("--csi-address={address}"));
        let ended = PROGRAM.start(&[&kubeconfig, &address]).end().await;
        assert_eq!(ended.code, Some(1), "{address}");
        assert!(ended.log.contains("unix://"), "{address}: {}", ended.log);
        assert!(ended.took < Duration::from_secs(10));
    }
}
