//! S-1 to S-10 and S-16 to S-18: what is said and returned before anything is contacted.

use super::stage::{Program, Stage, program};

/// Row, arguments, exit code, and what the log says.
const ENDS: [(&str, &[&str], i32, &str); 19] = [
    ("S-2", &["--help"], 0, "ReleaseLeaderElectionOnExit"),
    (
        "S-3",
        &["--feature-gates=Foo=true"],
        1,
        "unrecognized feature gate: Foo",
    ),
    (
        "S-3",
        &["--feature-gates=Foo=true", "--version"],
        1,
        "unrecognized feature gate: Foo",
    ),
    (
        "S-4",
        &["--feature-gates=Foo"],
        2,
        "malformed pair, expect string=bool",
    ),
    (
        "S-5",
        &["--connection-timeout=1s"],
        2,
        "flag provided but not defined: -connection-timeout",
    ),
    (
        "S-5",
        &["--csi-timeout=1s"],
        2,
        "flag provided but not defined: -csi-timeout",
    ),
    (
        "S-5",
        &["--snapshotter=x"],
        2,
        "flag provided but not defined: -snapshotter",
    ),
    (
        "S-5",
        &["--workers=3"],
        2,
        "flag provided but not defined: -workers",
    ),
    (
        "S-5",
        &["--enable-volume-group-snapshots"],
        2,
        "flag provided but not defined: -enable-volume-group-snapshots",
    ),
    (
        "S-5",
        &["--logtostderr"],
        2,
        "flag provided but not defined: -logtostderr",
    ),
    (
        "S-6",
        &["--timeout=15"],
        2,
        "invalid value \"15\" for flag -timeout: parse error",
    ),
    ("S-8", &["--node-deployment"], 1, "NODE_NAME"),
    ("S-10", &[], 1, "KUBERNETES_SERVICE_HOST"),
    ("S-10", &["--kubeconfig=/nonexistent"], 1, "/nonexistent"),
    (
        "S-16",
        &["--snapshot-name-prefix="],
        1,
        "Snapshot name prefix cannot be of length 0",
    ),
    (
        "S-17",
        &["--snapshot-name-uuid-length=33"],
        1,
        "--snapshot-name-uuid-length",
    ),
    (
        "S-17",
        &["--snapshot-name-uuid-length=-2"],
        1,
        "--snapshot-name-uuid-length",
    ),
    (
        "S-17",
        &["--snapshot-name-uuid-length=0"],
        1,
        "--snapshot-name-uuid-length",
    ),
    ("S-18", &["--worker-threads=0"], 1, "--worker-threads"),
];

#[tokio::test]
async fn s_2_to_6_s_8_s_10_s_16_to_18_errors_and_their_codes() {
    for (row, arguments, code, text) in ENDS {
        let ended = Program::start(arguments, &[]).end().await;
        assert_eq!(ended.code, Some(code), "{row}: {}", ended.log);
        assert!(ended.log.contains(text), "{row}: {}", ended.log);
        assert_eq!(ended.stdout, "", "{row}");
    }
}

#[tokio::test]
async fn s_1_version() {
    let stage = Stage::new().await;
    let ended = stage.start(&["--version"]).end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let expected = format!("{} ", program());
    assert!(ended.stdout.starts_with(&expected), "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().count(), 1);
    assert_eq!(stage.driver.connections(), 0, "no CSI contact");
    assert!(stage.api.requests().is_empty(), "no API contact");
}

#[tokio::test]
async fn s_7_s_9_end_before_anything_is_asked() {
    let stage = Stage::new().await;
    for (row, arguments, text) in [
        (
            "S-7",
            &["--node-deployment", "--leader-election"][..],
            "Leader election cannot happen when node-deployment is set to true",
        ),
        (
            "S-9",
            &["--metrics-address=:1", "--http-endpoint=:2"],
            "only one of --metrics-address and --http-endpoint can be set",
        ),
    ] {
        let ended = stage.start(arguments).end().await;
        assert_eq!(ended.code, Some(1), "{row}: {}", ended.log);
        assert!(ended.log.contains(text), "{row}: {}", ended.log);
        assert_eq!(stage.driver.connections(), 0, "{row}");
        assert!(stage.api.requests().is_empty(), "{row}");
    }
}
