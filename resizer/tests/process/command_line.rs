//! Z-1 to Z-18: messages and exit codes before any connection.

use sidecar_testkit::Fault;

use super::stage::{PROGRAM, Stage, settle};

/// Row, arguments, exit code, and a text of the log.
const ENDS: [(&str, &[&str], i32, &str); 5] = [
    ("Z-5", &["--help"], 0, "AnnotateFsResize"),
    ("Z-5", &["--help"], 0, "ReleaseLeaderElectionOnExit"),
    (
        "Z-6",
        &["--worker-threads=3"],
        2,
        "flag provided but not defined: -worker-threads",
    ),
    (
        "Z-6",
        &["--csi-timeout=3s"],
        2,
        "flag provided but not defined: -csi-timeout",
    ),
    ("Z-17", &["--workers=-1"], 1, "--workers"),
];

#[tokio::test]
async fn z_5_6_and_17_errors_and_their_codes() {
    for (row, arguments, code, text) in ENDS {
        let ended = PROGRAM.start(arguments).end().await;
        assert_eq!(ended.code, Some(code), "{row}: {}", ended.log);
        assert!(ended.log.contains(text), "{row}: {}", ended.log);
        assert_eq!(ended.stdout, "", "{row}");
    }
}

#[tokio::test]
async fn z_1_and_2_version() {
    for arguments in [
        &["--version"][..],
        &["--version", "--feature-gates=Foo=true"],
    ] {
        let ended = PROGRAM.start(arguments).end().await;
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.log);
        let expected = format!("{} ", PROGRAM.path());
        assert!(ended.stdout.starts_with(&expected), "{}", ended.stdout);
        assert_eq!(ended.stdout.lines().count(), 1);
    }
}

#[tokio::test]
async fn z_18_intervals_of_zero_work() {
    let stage = Stage::new().await;
    stage.api.fault(
        Fault::on("PATCH", "*/persistentvolumes/pv1")
            .answer(500)
            .times(3),
    );
    let zero = ["--resync-period=0s", "--retry-interval-start=0s"];
    let _program = stage.started(&zero).await;
    stage.grow("2Gi");
    stage.until_capacity("2Gi").await;
    settle().await;
    assert_eq!(stage.size(), "2Gi");
}
