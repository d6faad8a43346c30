//! What is said and returned before anything is contacted.

use super::stage::{Stage, run};

#[tokio::test]
async fn c_1_version_and_help() {
    let end = run(&["--version"]).await;
    end.with_code(0);
    let line = end.stdout.trim_end().to_owned();
    let (program, version) = line.rsplit_once(' ').unwrap();
    assert!(
        program.ends_with("snapshot-controller") && !version.is_empty(),
        "{line}"
    );
    let end = run(&["--help"]).await;
    end.with_code(0);
    assert!(
        end.stderr.contains("ReleaseLeaderElectionOnExit"),
        "{}",
        end.stderr
    );
    assert!(
        !end.stderr.contains("CSIVolumeGroupSnapshot"),
        "{}",
        end.stderr
    );
}

#[tokio::test]
async fn c_2_c_3_what_is_refused() {
    for (row, arguments, code, text) in [
        (
            "C-2",
            &["--csi-address=x"][..],
            2,
            "flag provided but not defined: -csi-address",
        ),
        (
            "C-2",
            &["--leader-election-labels=a=b"],
            2,
            "flag provided but not defined",
        ),
        (
            "C-2",
            &["--metrics-address=:1"],
            2,
            "flag provided but not defined",
        ),
        (
            "C-3",
            &["--feature-gates=Foo=true"],
            1,
            "unrecognized feature gate: Foo",
        ),
        (
            "C-3",
            &["--feature-gates=Foo=true", "--version"],
            1,
            "unrecognized feature gate: Foo",
        ),
        (
            "C-3",
            &["--feature-gates=Foo"],
            2,
            "malformed pair, expect string=bool",
        ),
        ("Q43", &["--worker-threads=0"], 1, "--worker-threads=0"),
        ("S-10", &["--kubeconfig=/nonexistent"], 1, "/nonexistent"),
        ("S-10", &[], 1, "KUBERNETES_SERVICE_HOST"),
    ] {
        let end = run(arguments).await;
        end.with_code(code);
        assert!(end.stderr.contains(text), "{row}: {}", end.stderr);
        assert!(end.stdout.is_empty(), "{row}: {}", end.stdout);
    }
}

#[tokio::test]
async fn c_14_a_signal_ends_it_in_good_order() {
    for signal in [
        sidecar_testkit::process::Signal::INT,
        sidecar_testkit::process::Signal::TERM,
    ] {
        let stage = Stage::new().await;
        let mut process = stage.working(&["--http-endpoint=127.0.0.1:0"]).await;
        process.signal(signal);
        process.ended().await.with_code(0);
    }
}
