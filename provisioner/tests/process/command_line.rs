//! Rows 1, 2, 7, 8, 9 and 10: messages and exit codes before any connection.

use super::stage::{PROGRAM, Stage};

/// Row, arguments, exit code, and a text of the log.
const ENDS: [(&str, &[&str], i32, &str); 10] = [
    ("2", &["--node-deployment"], 255, "NODE_NAME"),
    (
        "2 version",
        &["--node-deployment", "--version"],
        255,
        "NODE_NAME",
    ),
    (
        "7",
        &[
            "--feature-gates=HonorPVReclaimPolicy=true",
            "--kubeconfig=/nonexistent",
        ],
        255,
        "Feature gate HonorPVReclaimPolicy=true was retired in csi-provisioner v6.2.0",
    ),
    (
        "8",
        &["--logtostderr", "--node-deployment"],
        255,
        "Flag --logtostderr was retired in csi-provisioner v5.2.0 and has no effect",
    ),
    ("9", &["-csi-address=/x"], 2, "unknown shorthand flag"),
    (
        "1.2 retired",
        &["--provisioner=test-driver", "--enable-capacity"],
        255,
        "the driver says its name itself",
    ),
    (
        "1.2 misspelt",
        &["--volume_name_prefix=x"],
        2,
        "did you mean --volume-name-prefix?",
    ),
    ("1.1 help", &["--help"], 0, "worker-threads"),
    ("1.5 capacity", &["--enable-capacity"], 255, "NAMESPACE"),
    (
        "own",
        &["--provisioning-protection=sometimes"],
        1,
        "--provisioning-protection",
    ),
];

#[tokio::test]
async fn rows_2_7_8_and_9_errors_and_their_codes() {
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
