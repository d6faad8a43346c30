//! S-1 to S-10 and S-16 to S-18: messages and exit codes before any connection.

use super::stage::{PROGRAM, Stage};

/// Row, arguments, exit code, and a text of the log.
const ENDS: [(&str, &[&str], i32, &str); 11] = [
    ("S-2", &["--help"], 0, "ReleaseLeaderElectionOnExit"),
    (
        "S-3",
        &["--feature-gates=Foo=true", "--version"],
        1,
        "unrecognized feature gate: Foo",
    ),
    (
        "S-5",
        &["--csi-timeout=1s"],
        2,
        "flag provided but not defined: -csi-timeout",
    ),
    (
        "S-5",
        &["--snapshotter=x", "--feature-gates=Foo=true"],
        1,
        "Flag --snapshotter was retired in csi-snapshotter v2.0.0",
    ),
    (
        "S-5",
        &["--workers=3"],
        2,
        "flag provided but not defined: -workers",
    ),
    (
        "S-5",
        &[
            "--enable-volume-group-snapshots",
            "--feature-gates=Foo=true",
        ],
        1,
        "Flag --enable-volume-group-snapshots was retired in csi-snapshotter v8.2.0",
    ),
    ("S-8", &["--node-deployment"], 1, "NODE_NAME"),
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
];

#[tokio::test]
async fn s_2_s_3_s_5_s_8_s_16_s_17_errors_and_their_codes() {
    for (row, arguments, code, text) in ENDS {
        let ended = PROGRAM.start(arguments).end().await;
        assert_eq!(ended.code, Some(code), "{row}: {}", ended.log);
        assert!(ended.log.contains(text), "{row}: {}", ended.log);
        assert_eq!(ended.stdout, "", "{row}");
    }
}

#[tokio::test]
async fn s_7_ends_before_anything_is_asked() {
    let stage = Stage::new().await;
    let both = ["--node-deployment", "--leader-election"];
    let ended = stage.start(&both).end().await;
    let text = "Leader election cannot happen when node-deployment is set to true";
    ended.says("S-7", 1, text);
    assert_eq!(stage.driver.connections(), 0);
    assert!(stage.api.requests().is_empty());
}
