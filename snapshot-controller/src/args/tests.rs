//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str]) -> Result<(Command, Vec<String>), Exit> {
    let argv = ["snapshot-controller"].iter().chain(args);
    decide(&sidecar::flags::parse(&SPEC, argv)?)
}

fn config(args: &[&str]) -> Config {
    match decide_on(args) {
        Ok((Command::Run(config), warnings)) if warnings.is_empty() => *config,
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn defaults_are_upstreams() {
    let expected = Config {
        resync: Duration::from_mins(15),
        pacing: Pacing {
            workers: 10,
            retry_start: Duration::from_secs(1),
            retry_max: Duration::from_mins(5),
        },
        crd_timeout: Duration::from_secs(30),
        settings: Settings {
            distributed: false,
            keep_mode: true,
            topology: false,
        },
        groups: true,
        http: None,
        election: None,
    };
    assert_eq!(config(&[]), expected);
}

#[test]
fn every_flag_says_what_it_means() {
    let all = config(&[
        "--resync-period=0s",
        "--worker-threads=3",
        "--retry-interval-start=0s",
        "--retry-interval-max=10s",
        "--retry-crd-interval-max=100ms",
        "--enable-distributed-snapshotting",
        "--prevent-volume-mode-conversion=false",
        "--http-endpoint=:8080",
        "--metrics-path=/m",
        "--leader-election",
        "--leader-election-namespace=ns",
        "--leader-election-lease-duration=20s",
        "--kube-api-qps=7",
        "--kube-api-burst=8",
        "--automaxprocs",
    ]);
    assert_eq!((all.resync, all.pacing.workers), (Duration::ZERO, 3));
    assert_eq!(all.pacing.retry_start, Duration::ZERO);
    assert_eq!(all.pacing.retry_max, Duration::from_secs(10));
    // A shorter interval is raised to a second (C-5).
    assert_eq!(all.crd_timeout, Duration::from_secs(1));
    assert!(all.settings.distributed && !all.settings.keep_mode);
    let http = all.http.unwrap();
    assert_eq!(
        (&*http.address, http.metrics_path.as_deref()),
        (":8080", Some("/m"))
    );
    assert!(http.health);
    let election = all.election.unwrap();
    assert_eq!((&*election.namespace, election.labels.len()), ("ns", 0));
    // Without leader election the server has no health check for it.
    assert!(!config(&["--http-endpoint=:1"]).http.unwrap().health);
}

#[test]
fn c_1_version_and_help() {
    let (command, _) = decide_on(&["--version", "--worker-threads=0"]).unwrap();
    assert_eq!(command, Command::Version);
    let exit = decide_on(&["--help"]).unwrap_err();
    assert_eq!(exit.code, 0);
    assert!(exit.stderr.contains("ReleaseLeaderElectionOnExit"));
    assert!(!exit.stderr.contains("CSIVolumeGroupSnapshot"));
}

#[test]
fn c_2_flags_of_others_are_refused() {
    for arg in [
        "--csi-address=x",
        "--leader-election-labels=a=b",
        "--metrics-address=:1",
        "--connection-timeout=1s",
        "--csi-timeout=1s",
        "--snapshotter=x",
        "--create-snapshotcontent-retrycount=1",
        "--create-snapshotcontent-interval=1s",
        "--workers=3",
        "--resync=1m",
    ] {
        let exit = decide_on(&[arg]).unwrap_err();
        assert_eq!(exit.code, 2, "{arg}");
        let text = "flag provided but not defined";
        assert!(exit.stderr.contains(text), "{arg}: {}", exit.stderr);
    }
}

/// Section 2.5: parsing first, then the gates, the version, and everything else.
#[test]
fn c_3_the_order_of_checks_decides() {
    let gate = "--feature-gates=Foo=true";
    let unknown = "unrecognized feature gate: Foo";
    let timing = "--leader-election-renew-deadline=20s";
    for (args, code, text) in [
        (&[gate][..], 1, unknown),
        (&[gate, "--version"], 1, unknown),
        (&[gate, "--worker-threads=0"], 1, unknown),
        (
            &["--feature-gates=Foo"],
            2,
            "malformed pair, expect string=bool",
        ),
        (&["--resync-period=15"], 2, "parse error"),
        (
            &["--worker-threads=0"],
            1,
            "--worker-threads=0: must be greater than zero",
        ),
        (
            &["--worker-threads=-1"],
            1,
            "--worker-threads=-1: must be greater than zero",
        ),
        (
            &["--leader-election", timing],
            2,
            "leader-election-renew-deadline",
        ),
    ] {
        let exit = decide_on(args).unwrap_err();
        assert_eq!(exit.code, code, "{args:?}: {exit:?}");
        let output = format!("{}{}", exit.stderr, exit.error.unwrap_or_default());
        assert!(output.contains(text), "{args:?}: {output}");
    }
    // Without leader election its durations are not checked.
    assert_eq!(config(&[timing]).election, None);
}

#[test]
fn c_9_gates_are_honoured_and_a_general_one_with_a_warning() {
    let (command, warnings) = decide_on(&["--feature-gates=CSIVolumeGroupSnapshot=false"]).unwrap();
    let Command::Run(config) = command else {
        panic!("{command:?}");
    };
    assert!(!config.groups);
    let warned = |text: &str| warnings.iter().any(|warning| warning.contains(text));
    assert!(warned("GA feature gate"), "{warnings:?}");
    let (command, _) = decide_on(&["--feature-gates=VolumeSnapshotTopology=true"]).unwrap();
    let Command::Run(config) = command else {
        panic!("{command:?}");
    };
    assert!(config.settings.topology && config.groups);
}
