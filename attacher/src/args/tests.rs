//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str]) -> Result<(Command, Vec<String>), Exit> {
    let argv = ["csi-attacher"].iter().chain(args);
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
        resync: Duration::from_mins(10),
        timeout: Duration::from_secs(15),
        pacing: Pacing {
            workers: 10,
            retry_start: Duration::from_secs(1),
            retry_max: Duration::from_mins(5),
        },
        max_entries: 0,
        reconcile: Duration::from_mins(1),
        default_fs_type: String::new(),
        response_limit: None,
        csi_address: "/run/csi/socket".to_owned(),
        error_codes: true,
        http: None,
        election: None,
    };
    assert_eq!(config(&[]), expected);
}

/// Section 1.3: the gates come before the version, the version before the addresses.
#[test]
fn the_order_of_checks_decides() {
    let both = ["--metrics-address=:1", "--http-endpoint=:2"];
    let gate = "--feature-gates=Foo=true";
    let election = "--leader-election";
    let deadline = "--leader-election-renew-deadline=20s";
    for (row, args, expected) in [
        ("1", &["--version"][..], Ok(())),
        ("1", &["--version", both[0], both[1]], Ok(())),
        (
            "4",
            &["--version", gate],
            Err((1, "unrecognized feature gate: Foo")),
        ),
        (
            "4",
            &[gate, both[0], both[1]],
            Err((1, "unrecognized feature gate: Foo")),
        ),
        (
            "11",
            &both,
            Err((1, "--metrics-address and --http-endpoint")),
        ),
        (
            "14",
            &["--feature-gates=ContextualLogging=true"],
            Err((1, "ContextualLogging")),
        ),
        (
            "a gate of the API server",
            &["--feature-gates=WatchList=true,AllBeta=false", "--version"],
            Ok(()),
        ),
        (
            "a gate that was locked in the API server, and is retired",
            &["--feature-gates=APIServerTracing=false", "--version"],
            Ok(()),
        ),
        (
            "durations",
            &[election, deadline],
            Err((2, "leader-election-renew-deadline")),
        ),
        (
            "durations after addresses",
            &[election, deadline, both[0], both[1]],
            Err((1, "--http")),
        ),
    ] {
        match (decide_on(args), expected) {
            (Ok((Command::Version, _)), Ok(())) => {}
            (Err(exit), Err((code, text))) => {
                assert_eq!(exit.code, code, "{row}: {exit:?}");
                let error = exit.error.unwrap_or_default();
                assert!(error.contains(text), "{row}: {error}");
            }
            (other, _) => panic!("row {row} {args:?}: {other:?}"),
        }
    }
    // Without election nobody reads its durations.
    assert_eq!(config(&[deadline]).election, None);
}

#[test]
fn row_13_a_gate_that_will_go_is_honoured_with_a_warning() {
    let args = ["--feature-gates=MutableCSINodeAllocatableCount=false"];
    let (command, warnings) = decide_on(&args).unwrap();
    let Command::Run(config) = command else {
        panic!("{command:?}");
    };
    assert!(!config.error_codes);
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("GA feature gate")),
        "{warnings:?}"
    );
}

#[test]
fn rows_127_and_128_where_the_health_of_election_is_served() {
    for (args, flag, health) in [
        (&["--http-endpoint=:1"][..], "--http-endpoint", false),
        (
            &["--http-endpoint=:1", "--leader-election"],
            "--http-endpoint",
            true,
        ),
        (&["--metrics-address=:1"], "--metrics-address", false),
        (
            &["--metrics-address=:1", "--leader-election"],
            "--metrics-address",
            false,
        ),
    ] {
        let expected = Http {
            address: ":1".to_owned(),
            flag,
            metrics_path: Some("/metrics".to_owned()),
            health,
        };
        assert_eq!(config(args).http, Some(expected), "{args:?}");
    }
}

#[test]
fn numbers_that_do_not_fit_become_the_nearest_that_do() {
    for (text, entries) in [
        ("7", 7),
        ("-1", -1),
        ("2147483648", i32::MAX),
        ("-2147483649", i32::MIN),
    ] {
        let flag = format!("--max-entries={text}");
        assert_eq!(config(&[&flag]).max_entries, entries);
    }
    for (text, limit) in [("20", Some(20)), ("0", None), ("-5", None)] {
        let flag = format!("--max-grpc-log-length={text}");
        assert_eq!(config(&[&flag]).response_limit, limit, "row 136");
    }
}
