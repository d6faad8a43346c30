//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str]) -> Result<(Command, Vec<String>), Exit> {
    let argv = ["csi-resizer"].iter().chain(args);
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
        resync: Duration::from_mins(10),
        pacing: Pacing {
            workers: 10,
            retry_start: Duration::from_secs(1),
            retry_max: Duration::from_mins(5),
        },
        timeout: Duration::from_secs(10),
        timeouts: Timeouts {
            resize: Duration::from_secs(10),
            modify: Duration::from_secs(10),
        },
        csi_address: "/run/csi/socket".to_owned(),
        settings: Settings::default(),
        attributes_class_given: false,
        http: None,
        election: None,
    };
    assert_eq!(config(&[]), (expected, Vec::new()));
}

/// Section 1.4: first the version, then the addresses, then the gates.
#[test]
fn the_order_of_checks_decides() {
    let both = ["--metrics-address=:1", "--http-endpoint=:2"];
    let gate = "--feature-gates=Foo=true";
    let unknown = "unrecognized feature gate: Foo";
    let election = "--leader-election";
    let deadline = "--leader-election-renew-deadline=20s";
    for (row, args, expected) in [
        ("Z-1", &["--version"][..], Ok(())),
        ("Z-2", &["--version", gate], Ok(())),
        (
            "Z-2 and all else",
            &["--version", gate, both[0], both[1], "--workers=0"],
            Ok(()),
        ),
        ("Z-3", &[gate], Err((1, unknown))),
        (
            "Z-3 after Z-8",
            &[gate, both[0], both[1]],
            Err((1, "--http-endpoint")),
        ),
        (
            "Z-8",
            &both,
            Err((1, "--metrics-address and --http-endpoint")),
        ),
        (
            "Z-16",
            &[election, deadline],
            Err((2, "leader-election-renew-deadline")),
        ),
        (
            "Z-16 after Z-3",
            &[election, deadline, gate],
            Err((1, unknown)),
        ),
        ("Z-17", &["--workers=0"], Err((1, "--workers=0"))),
        ("Z-17", &["--workers=-1"], Err((1, "--workers=-1"))),
        (
            "1.3",
            &["--feature-gates=Topology=true"],
            Err((1, "unrecognized feature gate: Topology")),
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
    // Without leader election its durations are not checked.
    assert_eq!(config(&[deadline]).0.election, None);
}

#[test]
fn section_1_3_gates() {
    let gates = |args: &[&str]| {
        let (config, warnings) = config(args);
        let gates = config.settings.gates;
        let on = [gates.annotate, gates.attributes_class];
        (on, config.attributes_class_given, warnings.len())
    };
    for (text, on, given, warnings) in [
        ("AnnotateFsResize=false", [false, true], false, 0),
        ("VolumeAttributesClass=false", [true, false], true, 1),
        ("VolumeAttributesClass=true", [true, true], true, 1),
        ("AllBeta=false", [false, true], false, 0),
        (
            "AllAlpha=true,ReleaseLeaderElectionOnExit=true",
            [true, true],
            false,
            0,
        ),
        ("WatchList=true", [true, true], false, 1),
    ] {
        let flag = format!("--feature-gates={text}");
        assert_eq!(gates(&[&flag]), (on, given, warnings), "{text}");
    }
}

#[test]
fn n_22_recovery_cannot_be_switched_off_any_more() {
    for value in ["true", "false"] {
        let flag = format!("--feature-gates=RecoverVolumeExpansionFailure={value}");
        let (config, warnings) = config(&[&flag]);
        assert_eq!(config.settings, Settings::default());
        let warning = format!(
            "Feature gate RecoverVolumeExpansionFailure={value} was retired in csi-resizer v2.3.0 \
             and has no effect"
        );
        assert_eq!(warnings, [warning]);
    }
}

#[test]
fn n_20a_20b_20c_20d_and_20e_timeouts_of_both_calls() {
    const RESIZE: &str = "--resize-timeout=300s";
    const MODIFY: &str = "--modify-timeout=1800s";
    for (row, args, resize, modify, ignored) in [
        ("N-20a", &[][..], 10, 10, 0),
        ("N-20b", &[RESIZE, MODIFY], 300, 1800, 0),
        ("N-20c", &[RESIZE, MODIFY, "--timeout=120s"], 120, 120, 2),
        ("N-20d", &[RESIZE, MODIFY, "--timeout=10s"], 10, 10, 2),
        ("N-20e", &[RESIZE], 300, 10, 0),
        ("N-20e", &[MODIFY], 10, 1800, 0),
        ("--timeout alone", &["--timeout=20s"], 20, 20, 0),
        ("its older name", &[RESIZE, "--csiTimeout=20s"], 20, 20, 1),
    ] {
        let (config, warnings) = config(args);
        let expected = Timeouts {
            resize: Duration::from_secs(resize),
            modify: Duration::from_secs(modify),
        };
        assert_eq!(config.timeouts, expected, "{row}");
        let told =
            { warnings.iter() }.filter(|line| line.contains("has no effect beside --timeout"));
        assert_eq!(told.count(), ignored, "{row}: {warnings:?}");
    }
}

#[test]
fn z_18_zero_intervals_are_accepted() {
    let args = [
        "--resync-period=0s",
        "--retry-interval-start=0s",
        "--retry-interval-max=6s",
    ];
    let (config, _) = config(&args);
    assert_eq!(
        (config.resync, config.pacing.retry_start),
        (Duration::ZERO, Duration::ZERO)
    );
    assert_eq!(config.settings.infeasible_wait, Duration::from_secs(6));
}

#[test]
fn flags_that_decisions_see() {
    let (config, _) = config(&[
        "--handle-volume-inuse-error=false",
        "-extra-modify-metadata",
    ]);
    assert!(!config.settings.handle_in_use && config.settings.extra_modify_metadata);
}
