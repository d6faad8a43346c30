//! Z-1 to Z-10 and Z-15 to Z-18: what is said and returned before anything is contacted.

use sidecar_testkit::Fault;

use super::stage::{PROGRAM, Stage, settle};

/// Row, arguments, exit code, and what the log says.
const ENDS: [(&str, &[&str], i32, &str); 14] = [
    (
        "Z-3",
        &["--feature-gates=Foo=true"],
        1,
        "unrecognized feature gate: Foo",
    ),
    ("Z-4", &["--feature-gates=Recover"], 2, "expect string=bool"),
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
    (
        "Z-6",
        &["--logtostderr"],
        2,
        "flag provided but not defined: -logtostderr",
    ),
    (
        "Z-7",
        &["--timeout=15"],
        2,
        "invalid value \"15\" for flag -timeout: parse error",
    ),
    (
        "Z-8",
        &["--metrics-address=:1", "--http-endpoint=:2"],
        1,
        "--http-endpoint",
    ),
    ("Z-9", &[], 1, "KUBERNETES_SERVICE_HOST"),
    ("Z-10", &["--kubeconfig=/nonexistent"], 1, "/nonexistent"),
    (
        "Z-16",
        &["--leader-election", "--leader-election-renew-deadline=20s"],
        2,
        "lease-duration",
    ),
    ("Z-17", &["--workers=0"], 1, "--workers"),
    ("Z-17", &["--workers=-1"], 1, "--workers"),
];

#[tokio::test]
async fn z_3_to_10_16_and_17_errors_and_their_codes() {
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
async fn z_8_and_15_end_before_the_driver_is_asked() {
    let stage = Stage::new().await;
    for (row, arguments, text) in [
        (
            "Z-8",
            &["--metrics-address=:1", "--http-endpoint=:2"][..],
            "--http-endpoint",
        ),
        (
            "Z-15",
            &["--kube-api-burst=0"],
            "burst is required to be greater than 0",
        ),
    ] {
        let ended = stage.start(arguments).end().await;
        assert_eq!(ended.code, Some(1), "{row}: {}", ended.log);
        assert!(ended.log.contains(text), "{row}: {}", ended.log);
        assert_eq!(stage.driver.connections(), 0, "{row}");
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

#[tokio::test]
async fn addresses_that_cannot_be_watched() {
    let stage = Stage::new().await;
    for address in ["dns:///host:1", "unix:/x", "run/csi.sock"] {
        let (kubeconfig, address) = (stage.kubeconfig(), format!("--csi-address={address}"));
        let ended = PROGRAM.start(&[&kubeconfig, &address]).end().await;
        assert_eq!(ended.code, Some(1), "{address}");
        assert!(ended.log.contains("unix://"), "{address}: {}", ended.log);
    }
}
