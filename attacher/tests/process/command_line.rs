//! Rows 4 to 14: messages and exit codes before any connection.

use super::stage::{PROGRAM, Stage};

/// Row, arguments, exit code, and a text of the log.
const ENDS: [(&str, &[&str], i32, &str); 9] = [
    (
        "4",
        &["--version", "--feature-gates=Foo=true"],
        1,
        "unrecognized feature gate: Foo",
    ),
    ("5", &["--help"], 0, "worker-threads"),
    ("5 -h", &["-h"], 0, "worker-threads"),
    (
        "10",
        &["--worker-threads=-1"],
        2,
        "invalid value \"-1\" for flag -worker-threads",
    ),
    (
        "13",
        &[
            "--feature-gates=MutableCSINodeAllocatableCount=false",
            "--version",
        ],
        0,
        "GA",
    ),
    (
        "14",
        &["--feature-gates=ContextualLogging=true"],
        1,
        "unrecognized feature gate",
    ),
    (
        "1.2 master",
        &["--master=x"],
        2,
        "flag provided but not defined: -master",
    ),
    (
        "1.2 pprof",
        &["--enable-pprof"],
        2,
        "flag provided but not defined: -enable-pprof",
    ),
    ("77", &["--version", "--logging-format=xml"], 1, "logging"),
];

#[tokio::test]
async fn rows_4_5_10_13_and_14_errors_and_their_codes() {
    for (row, arguments, code, text) in ENDS {
        let ended = PROGRAM.run(arguments).await;
        assert_eq!(ended.code, Some(code), "row {row}: {}", ended.log);
        assert!(ended.log.contains(text), "row {row}: {}", ended.log);
        let prints_version = row == "13";
        assert_eq!(
            !ended.stdout.is_empty(),
            prints_version,
            "row {row}: {}",
            ended.stdout
        );
    }
}

#[tokio::test]
async fn rows_8_and_9_worker_threads_are_checked_after_the_kubeconfig() {
    let stage = Stage::new().await;
    let ended = stage.start(&["--worker-threads=0"]).end().await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("worker-threads"), "{}", ended.log);
    assert!(stage.driver.calls().is_empty());
    let ended = PROGRAM
        .run(&["--worker-threads=0", "--kubeconfig=/nonexistent"])
        .await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("/nonexistent"), "{}", ended.log);
}
