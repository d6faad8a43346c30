//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str]) -> Result<Config, Exit> {
    let argv = ["livenessprobe"].iter().chain(args);
    decide(&sidecar::flags::parse(&SPEC, argv)?)
}

fn listener(address: &str, flag: &str) -> Listener {
    Listener {
        address: address.to_owned(),
        flag: flag.to_owned(),
    }
}

#[test]
fn defaults_are_upstreams() {
    let expected = Config {
        address: Address::Unix("/run/csi/socket".into()),
        timeout: Duration::from_secs(3),
        health: listener("0.0.0.0:9808", "--health-port=9808"),
        metrics: Metrics::None,
    };
    assert_eq!(decide_on(&[]), Ok(expected));
}

#[test]
fn where_health_and_metrics_are() {
    let path = || "/metrics".to_owned();
    for (row, args, health, metrics) in [
        (
            "L-4",
            &["--http-endpoint=127.0.0.1:1"][..],
            listener("127.0.0.1:1", "--http-endpoint=127.0.0.1:1"),
            Metrics::WithHealth(path()),
        ),
        (
            "L-6",
            &["--http-endpoint=:1", "--health-port=9808"],
            listener(":1", "--http-endpoint=:1"),
            Metrics::WithHealth(path()),
        ),
        (
            "L-8",
            &[
                "--health-port=1",
                "--metrics-address=:2",
                "--metrics-path=/m",
            ],
            listener("0.0.0.0:1", "--health-port=1"),
            Metrics::Apart(listener(":2", "--metrics-address=:2"), "/m".to_owned()),
        ),
        (
            "L-9",
            &["--health-port=1", "--metrics-path=nowhere"],
            listener("0.0.0.0:1", "--health-port=1"),
            Metrics::None,
        ),
    ] {
        let config = decide_on(args).unwrap();
        assert_eq!((config.health, config.metrics), (health, metrics), "{row}");
    }
}

#[test]
fn what_contradicts_itself_ends_with_1_and_names_the_flag() {
    for (row, args, flag) in [
        (
            "L-5",
            &["--http-endpoint=:1", "--health-port=9999"][..],
            "--health-port",
        ),
        // Compared by value, so that an empty port counts as another one.
        (
            "L-5",
            &["--http-endpoint=:1", "--health-port="],
            "--health-port",
        ),
        (
            "L-7",
            &["--http-endpoint=:1", "--metrics-address=:2"],
            "--metrics-address",
        ),
        ("", &["--csi-address="], "--csi-address"),
    ] {
        let exit = decide_on(args).unwrap_err();
        assert_eq!(exit.code, 1, "{row}");
        let line = exit.error.unwrap();
        assert!(line.contains(flag) && !line.contains('\n'), "{row}: {line}");
    }
}

#[test]
fn what_go_refuses_ends_with_2_and_says_why() {
    for (row, arg, word) in [
        ("", "--timeout=1s", "timeout"),
        ("", "--probe-timeout=5", "probe-timeout"),
        ("", "--automaxprocs=x", "automaxprocs"),
    ] {
        let exit = decide_on(&[arg]).unwrap_err();
        assert_eq!(exit.code, 2, "{row} {arg}");
        let first = exit.stderr.lines().next().unwrap();
        assert!(first.contains(word), "{row} {arg}: {first}");
    }
    let help = decide_on(&["--help"]).unwrap_err();
    assert_eq!((help.code, help.stdout.as_str()), (0, ""));
    for flag in SPEC.flags() {
        let name = format!("-{}", flag.name);
        assert!(help.stderr.contains(&name), "{name}");
    }
}

#[test]
fn what_go_accepts_is_accepted() {
    let timeout = |arg| decide_on(&[arg]).unwrap().timeout;
    assert_eq!(timeout("-probe-timeout=1m30s"), Duration::from_secs(90));
    assert_eq!(timeout("--probe-timeout=0"), Duration::ZERO, "L-19");
    assert_eq!(timeout("--probe-timeout=-1s"), Duration::ZERO, "L-19");
    for (text, address) in [
        ("/d/csi.sock", Address::Unix("/d/csi.sock".into())),
        ("unix:///d/csi.sock", Address::Unix("/d/csi.sock".into())),
        ("unix:/d/csi.sock", Address::Unix("/d/csi.sock".into())),
        ("127.0.0.1:1", Address::Tcp("127.0.0.1:1".to_owned())),
    ] {
        let config = decide_on(&["--csi-address", text]).unwrap();
        assert_eq!(config.address, address, "{text}");
    }
}

#[test]
fn names_types_and_defaults_are_those_of_the_table_in_the_specification() {
    let expected = [
        ("automaxprocs", Kind::BoolFunc, ""),
        ("csi-address", Kind::String, "/run/csi/socket"),
        ("health-port", Kind::String, "9808"),
        ("http-endpoint", Kind::String, ""),
        ("log-flush-frequency", Kind::Duration, "5s"),
        ("log-json-info-buffer-size", Kind::Quantity, "0"),
        ("log-json-split-stream", Kind::Bool, "false"),
        ("log-text-info-buffer-size", Kind::Quantity, "0"),
        ("log-text-split-stream", Kind::Bool, "false"),
        ("logging-format", Kind::String, "text"),
        ("metrics-address", Kind::String, ""),
        ("metrics-path", Kind::String, "/metrics"),
        ("probe-timeout", Kind::Duration, "3s"),
        ("v", Kind::Verbosity, "0"),
        // Upstream has none: O-68.
        ("version", Kind::Bool, "false"),
        ("vmodule", Kind::Vmodule, ""),
    ];
    assert_eq!(SPEC.table(), expected);
}

#[test]
fn every_flag_is_compared_with_upstream() {
    let document = include_str!("../../../docs/parity.md");
    let section = document
        .split("\n## ")
        .find(|section| section.starts_with("livenessprobe\n"));
    assert_eq!(SPEC.missing_from(section.unwrap()), [] as [&str; 0]);
}
