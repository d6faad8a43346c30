//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str]) -> Result<(Command, Vec<String>), Exit> {
    let argv = ["csi-external-health-monitor-controller"]
        .iter()
        .chain(args);
    decide(&sidecar::flags::parse(&SPEC, argv)?)
}

fn config(args: &[&str]) -> (Config, Vec<String>) {
    match decide_on(args) {
        Ok((Command::Run(config), warnings)) => (*config, warnings),
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn defaults_are_upstreams() {
    let expected = Config {
        timeout: Duration::from_secs(15),
        pacing: Pacing {
            workers: 10,
            retry_start: Duration::from_secs(1),
            retry_max: Duration::from_mins(5),
        },
        settings: Settings {
            interval: Duration::from_mins(1),
            list_interval: Duration::from_mins(5),
            workers: 10,
        },
        csi_address: "/run/csi/socket".to_owned(),
        http: None,
        election: None,
    };
    assert_eq!(config(&[]), (expected, Vec::new()));
}

#[test]
fn h_1_to_3_and_72_what_is_accepted_and_what_is_not() {
    let error = |args: &[&str]| match decide_on(args) {
        Err(exit) => (i32::from(exit.code), exit.error.unwrap_or_default()),
        Ok(other) => panic!("{args:?}: {other:?}"),
    };
    assert!(
        matches!(decide_on(&["--version"]), Ok((Command::Version, _))),
        "H-1"
    );
    assert_eq!(error(&["--foo"]).0, 2, "H-1");
    assert_eq!(error(&["--worker-threads=-1"]).0, 2, "H-1");
    let (code, line) = error(&["--worker-threads=0"]);
    let expected = "Option --worker-threads must be greater than zero";
    assert_eq!((code, line.as_str()), (1, expected), "H-2");
    for (flag, given) in [
        ("--monitor-interval=0", "--monitor-interval=0s"),
        ("--monitor-interval=-1m", "--monitor-interval=-1m0s"),
        ("--list-volumes-interval=0s", "--list-volumes-interval=0s"),
    ] {
        let line = format!("{given}: must be greater than zero");
        assert_eq!(error(&[flag]), (1, line));
    }
    let (code, line) = error(&["--metrics-address=:1", "--http-endpoint=:2"]);
    assert_eq!((code, line.contains("--http-endpoint")), (1, true), "H-2");
    let gate = "--feature-gates=ReleaseLeaderElectionOnExit=true";
    assert_eq!(config(&[gate]), config(&[]), "H-3");
    let gate = "--feature-gates=APIServerIdentity=true";
    assert_eq!(config(&[gate]).0, config(&[]).0, "H-3");
    let accepted = [
        "--volume-list-add-interval=1s",
        "--resync=1s",
        "--node-list-add-interval=1s",
    ];
    assert_eq!(config(&accepted), config(&[]));
    let (watcher, warnings) = config(&["--enable-node-watcher"]);
    assert_eq!(watcher, config(&[]).0, "H-72");
    assert!(
        warnings[0].contains("--enable-node-watcher"),
        "H-72: {warnings:?}"
    );
}
