//! Rows 1 to 15: what is said and returned before anything is contacted.

use super::stage::{PROGRAM, Stage};

#[tokio::test]
async fn rows_1_and_2_version() {
    let spellings: [&[&str]; 4] = [
        &["--version"],
        &["-version"],
        &["--version=true"],
        &["--version", "true"],
    ];
    for arguments in spellings {
        let ended = PROGRAM.run(arguments).await;
        assert_eq!(ended.code, Some(0), "{arguments:?}");
        assert!(
            ended.stdout.starts_with(&format!("{} ", PROGRAM.path())),
            "{}",
            ended.stdout
        );
        assert_eq!(ended.stdout.lines().count(), 1);
    }
}

/// Row, arguments, exit code, and what the log says.
const ENDS: [(&str, &[&str], i32, &str); 16] = [
    (
        "3",
        &["--version", "--bogus"],
        2,
        "flag provided but not defined: -bogus",
    ),
    (
        "4",
        &["--version", "--feature-gates=Foo=true"],
        1,
        "unrecognized feature gate: Foo",
    ),
    ("5", &["--help"], 0, "worker-threads"),
    ("5 -h", &["-h"], 0, "worker-threads"),
    (
        "6",
        &["--timeout=15"],
        2,
        "invalid value \"15\" for flag -timeout: parse error",
    ),
    (
        "10",
        &["--worker-threads=-1"],
        2,
        "invalid value \"-1\" for flag -worker-threads",
    ),
    (
        "11",
        &["--metrics-address=:1", "--http-endpoint=:2"],
        1,
        "--http-endpoint",
    ),
    ("12", &[], 1, "in-cluster configuration"),
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
        "15",
        &["--logtostderr"],
        2,
        "flag provided but not defined: -logtostderr",
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
    (
        "9.4 pair",
        &["--feature-gates=X"],
        2,
        "malformed pair, expect string=bool",
    ),
    ("77", &["--version", "--logging-format=xml"], 1, "logging"),
    ("84", &["--log-json-split-stream"], 1, "log"),
];

#[tokio::test]
async fn rows_3_to_6_and_10_to_15_errors_and_their_codes() {
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

#[tokio::test]
async fn common_88b_a_rate_without_burst_is_refused() {
    let stage = Stage::new().await;
    let ended = stage.start(&["--kube-api-burst=0"]).end().await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.log.contains("burst is required to be greater than 0"),
        "{}",
        ended.log
    );
    assert!(stage.driver.calls().is_empty());
}

#[tokio::test]
async fn bad_election_durations_and_paths_end_with_a_line() {
    let stage = Stage::new().await;
    let rows: [(&[&str], &str); 4] = [
        (
            &["--leader-election", "--leader-election-renew-deadline=20s"],
            "lease-duration",
        ),
        (
            &["--leader-election", "--leader-election-retry-period=9s"],
            "retry-period",
        ),
        (
            &["--http-endpoint=127.0.0.1:0", "--metrics-path="],
            "--metrics-path",
        ),
        (&["--http-endpoint=foo"], "missing port in address"),
    ];
    for (arguments, text) in rows {
        let ended = stage.start(arguments).end().await;
        assert!(ended.code.is_some_and(|code| code != 0), "{arguments:?}");
        assert!(ended.log.contains(text), "{arguments:?}: {}", ended.log);
    }
}
