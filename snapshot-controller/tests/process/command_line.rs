//! Messages and exit codes before any connection.

use super::stage::PROGRAM;

#[tokio::test]
async fn c_1_help() {
    let end = PROGRAM.run(&["--help"]).await;
    assert_eq!(end.code, Some(0));
    assert!(
        end.log.contains("ReleaseLeaderElectionOnExit"),
        "{}",
        end.log
    );
    assert!(!end.log.contains("CSIVolumeGroupSnapshot"), "{}", end.log);
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
            &["--feature-gates=Foo=true", "--version"],
            1,
            "unrecognized feature gate: Foo",
        ),
    ] {
        let end = PROGRAM.run(arguments).await;
        end.says(row, code, text);
        assert!(end.stdout.is_empty(), "{row}: {}", end.stdout);
    }
}
