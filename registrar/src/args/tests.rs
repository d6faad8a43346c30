//! Flags and their combinations, without a process.

use super::*;

fn decide_on(args: &[&str]) -> Result<Command, Exit> {
    let argv = ["registrar"].iter().chain(args);
    decide(&sidecar::flags::parse(&SPEC, argv)?)
}

fn config(args: &[&str]) -> Config {
    match decide_on(&[&["--kubelet-registration-path=/p"], args].concat()) {
        Ok(Command::Register(config)) => *config,
        other => panic!("{args:?}: {other:?}"),
    }
}

fn refused(args: &[&str]) -> Exit {
    decide_on(args).unwrap_err()
}

const PATH: &str = "--kubelet-registration-path=/p";

#[test]
fn defaults_are_upstreams() {
    let expected = Config {
        csi_address: "/run/csi/socket".to_owned(),
        endpoint: "/p".to_owned(),
        directory: "/registration".to_owned(),
        timeout: Duration::from_secs(1),
        mode: String::new(),
        http: None,
        remove_taint: Vec::new(),
        node_name: String::new(),
        connection_timeout: false,
    };
    assert_eq!(config(&[]), expected);
}

#[test]
fn the_order_of_checks_decides() {
    let both = ["--health-port=1", "--http-endpoint=:2"];
    for (row, args, expected) in [
        ("R-1", &["--version"][..], Ok(Command::Version)),
        (
            "R-1",
            &["--version", "--mode=kubelet-registration-probe"],
            Ok(Command::Version),
        ),
        (
            "R-4",
            &[PATH, "--mode=kubelet-registration-probe"],
            Ok(Command::Probe),
        ),
        (
            "R-5",
            &[PATH, "--mode=kubelet-registration-probe", both[0], both[1]],
            Ok(Command::Probe),
        ),
        ("R-2", &[], Err("--kubelet-registration-path")),
        (
            "R-2",
            &["--kubelet-registration-path="],
            Err("--kubelet-registration-path"),
        ),
        (
            "R-3",
            &["--mode=kubelet-registration-probe"],
            Err("--kubelet-registration-path"),
        ),
        ("R-6", &[PATH, both[0], both[1]], Err("--health-port")),
    ] {
        match (decide_on(args), expected) {
            (Ok(command), Ok(expected)) => assert_eq!(command, expected, "{row}"),
            (Err(exit), Err(flag)) => {
                assert_eq!(exit.code, 1, "{row}");
                let line = exit.error.unwrap();
                assert!(line.contains(flag) && !line.contains('\n'), "{row}: {line}");
            }
            (result, _) => panic!("{row}: {result:?}"),
        }
    }
}

#[test]
fn a_port_that_is_not_positive_is_none() {
    let http = |args| config(args).http.map(|http| (http.address, http.flag));
    let of = |address: &str, flag: &str| Some((address.to_owned(), flag.to_owned()));
    assert_eq!(http(&["--health-port=0"]), None);
    assert_eq!(http(&["--health-port=-5"]), None, "R-7");
    assert_eq!(
        http(&["--health-port=-5", "--http-endpoint=127.0.0.1:9"]),
        of("127.0.0.1:9", "--http-endpoint=127.0.0.1:9"),
        "R-7"
    );
    assert_eq!(
        http(&["--health-port=9809"]),
        of(":9809", "--health-port=9809")
    );
    assert!(!config(&["--health-port=1"]).http.unwrap().pprof);
    assert!(
        config(&["--health-port=1", "--enable-pprof"])
            .http
            .unwrap()
            .pprof
    );
}

#[test]
fn other_modes_are_normal_operation() {
    for mode in ["registration", "foo", ""] {
        assert_eq!(config(&["--mode", mode]).mode, mode, "R-8");
    }
}

#[test]
fn what_go_refuses_ends_with_2_and_says_why() {
    for (row, arg, word) in [
        ("R-9", "--nope", "nope"),
        ("R-10", "--timeout=5", "timeout"),
        ("R-10", "--health-port=abc", "health-port"),
        ("R-52", "--automaxprocs=x", "automaxprocs"),
        ("", "--connection-timeout=x", "connection-timeout"),
        ("", "--csi-adress=/x", "csi-adress"),
        (
            "",
            "--kubelet_registration_path=/x",
            "kubelet_registration_path",
        ),
    ] {
        let exit = refused(&[PATH, arg]);
        assert_eq!(exit.code, 2, "{row} {arg}");
        let first = exit.stderr.lines().next().unwrap();
        assert!(first.contains(word), "{row} {arg}: {first}");
        assert!(exit.stderr.contains("Usage of registrar:"), "{row} {arg}");
    }
    let help = refused(&["--help"]);
    assert_eq!((help.code, help.stdout.as_str()), (0, ""), "R-11");
    for flag in SPEC.flags() {
        assert!(
            help.stderr.contains(&format!("-{}", flag.name)),
            "{}",
            flag.name
        );
    }
}

#[test]
fn what_go_accepts_is_accepted() {
    let dashes = config(&["-csi-address=/d/csi.sock", "-timeout", "1m30s"]);
    assert_eq!(dashes.csi_address, "/d/csi.sock", "R-12");
    assert_eq!(dashes.timeout, Duration::from_secs(90), "R-12");
    assert_eq!(config(&["stray", "--http-endpoint=:1"]).http, None, "R-13");
    for arg in ["--automaxprocs", "--automaxprocs=false"] {
        assert_eq!(config(&[arg]), config(&[]), "R-52");
    }
    assert!(
        config(&["--connection-timeout=10s"]).connection_timeout,
        "R-49"
    );
    assert_eq!(config(&["--timeout=0"]).timeout, Duration::ZERO);
    assert_eq!(config(&["--timeout=-1s"]).timeout, Duration::ZERO);
    assert_eq!(
        config(&["--timeout=1s", "--timeout=2s"]).timeout,
        Duration::from_secs(2)
    );
}

#[test]
fn names_types_and_defaults_are_those_of_the_table_in_the_specification() {
    let expected = [
        ("automaxprocs", Kind::BoolFunc, ""),
        ("connection-timeout", Kind::Duration, "0"),
        ("csi-address", Kind::String, "/run/csi/socket"),
        ("enable-pprof", Kind::Bool, "false"),
        ("health-port", Kind::Int, "0"),
        ("http-endpoint", Kind::String, ""),
        ("kubelet-registration-path", Kind::String, ""),
        ("log-flush-frequency", Kind::Duration, "5s"),
        ("log-json-info-buffer-size", Kind::Quantity, "0"),
        ("log-json-split-stream", Kind::Bool, "false"),
        ("log-text-info-buffer-size", Kind::Quantity, "0"),
        ("log-text-split-stream", Kind::Bool, "false"),
        ("logging-format", Kind::String, "text"),
        ("mode", Kind::String, ""),
        // Ours only: O-114.
        ("node-name", Kind::String, ""),
        ("plugin-registration-path", Kind::String, "/registration"),
        ("remove-taint", Kind::Strings, ""),
        ("timeout", Kind::Duration, "1s"),
        ("v", Kind::Verbosity, "0"),
        ("version", Kind::Bool, "false"),
        ("vmodule", Kind::Vmodule, ""),
    ];
    assert_eq!(SPEC.table(), expected);
}
