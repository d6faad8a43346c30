//! The configurations that command lines produce.

use super::args::{Config, Http};
use super::*;

fn decided(line: &str) -> Result<Command, Exit> {
    match split_as(FILE, line.split_whitespace(), NODE)? {
        Line::Run(parts) => args::decide(FILE, parts),
        other @ (Line::Version | Line::Help(_)) => panic!("{line}: {other:?}"),
    }
}

fn config(line: &str) -> Config {
    match decided(line) {
        Ok(Command::Run(config)) => *config,
        other => panic!("{line}: {other:?}"),
    }
}

const BOTH: &str =
    "--controllers=node-driver-registrar,livenessprobe --kubelet-registration-path=/p/csi.sock";

#[test]
fn a_66_each_reads_its_part() {
    let config = config(&format!(
        "{BOTH} --csi-address=/csi/csi.sock --timeout=5s --probe-timeout=7s -v=5 \
         --plugin-registration-path=/r"
    ));
    let registrar = config.registrar.unwrap();
    assert_eq!(registrar.csi_address, "/csi/csi.sock");
    assert_eq!(
        (&*registrar.endpoint, &*registrar.directory),
        ("/p/csi.sock", "/r")
    );
    assert_eq!(registrar.timeout.as_secs(), 5);
    let livenessprobe = config.livenessprobe.unwrap().config;
    assert_eq!(livenessprobe.address.to_string(), "unix:///csi/csi.sock");
    assert_eq!(livenessprobe.timeout.as_secs(), 7);
    assert_eq!(config.log.verbosity, 5);
}

#[test]
fn a_58_listeners_are_those_of_the_process_and_those_asked_for() {
    let process = |flag: &str, has_health| {
        let address = flag.split('=').nth(1).unwrap().to_owned();
        Some(Http {
            address,
            flag: flag.to_owned(),
            has_health,
        })
    };
    let own = "--livenessprobe-http-endpoint=:9808";
    let by_default = Some("--livenessprobe-health-port=9808");
    let registrars = "--node-driver-registrar-http-endpoint=:9809";
    for (flags, http, livenessprobe, registrar) in [
        ("", None, by_default, None),
        (
            "--http-endpoint=:80",
            process("--http-endpoint=:80", true),
            None,
            None,
        ),
        (
            "--metrics-address=:80",
            process("--metrics-address=:80", false),
            by_default,
            None,
        ),
        (own, None, Some(own), None),
        (
            &format!("--http-endpoint=:80 {own} {registrars}"),
            process("--http-endpoint=:80", true),
            Some(own),
            Some(registrars),
        ),
        (
            "--http-endpoint=:80 --livenessprobe-health-port=9808 --node-driver-registrar-health-port=9809",
            process("--http-endpoint=:80", true),
            by_default,
            Some("--node-driver-registrar-health-port=9809"),
        ),
    ] {
        let config = config(&format!("{BOTH} {flags}"));
        assert_eq!(config.http, http, "{flags}");
        let listener = config.livenessprobe.unwrap();
        let listens = listener.listens.then_some(&*listener.config.health.flag);
        assert_eq!(listens, livenessprobe, "{flags}");
        let listens = config.registrar.unwrap().http.map(|http| http.flag);
        assert_eq!(listens.as_deref(), registrar, "{flags}");
    }
}

#[test]
fn one_path_of_metrics_for_all_listeners() {
    let config = config(&format!(
        "{BOTH} --http-endpoint=:80 --livenessprobe-http-endpoint=:9808 --metrics-path=/m"
    ));
    let livenessprobe = config.livenessprobe.unwrap().config;
    assert_eq!(config.metrics_path, "/m");
    assert_eq!(
        livenessprobe.metrics,
        livenessprobe::args::Metrics::WithHealth("/m".to_owned())
    );
}

#[test]
fn what_is_not_here_is_refused_with_what_is() {
    for (line, words) in [
        (
            "--controllers=attacher",
            &["\"attacher\"", "livenessprobe, node-driver-registrar"][..],
        ),
        ("--controllers=process", &["\"process\""]),
        (
            "",
            &[
                "--controllers is missing",
                "livenessprobe, node-driver-registrar",
            ],
        ),
        (
            "--controllers=livenessprobe --process-http-endpoint=:1",
            &["--process-http-endpoint"],
        ),
        (
            "--controllers=livenessprobe --kubelet-registration-path=/x",
            &["node-driver-registrar", "not chosen"],
        ),
        (
            "--controllers=registrar --http-endpoint=:1 --health-port=1",
            &["--health-port", "write --"],
        ),
    ] {
        let exit = decided(line).unwrap_err();
        assert_eq!(exit.code, 2, "{line}");
        assert!(
            exit.stderr.starts_with("csi-node-sidecars: "),
            "{}",
            exit.stderr
        );
        for word in words {
            assert!(exit.stderr.contains(word), "{line}: {}", exit.stderr);
        }
    }
    // The program's own message.
    let exit = decided("--controllers=registrar").unwrap_err();
    assert_eq!(exit.code, 1);
    assert!(
        exit.error
            .unwrap()
            .contains("--kubelet-registration-path is required")
    );
}

#[test]
fn a_star_is_both_and_help_says_so() {
    let config = config("--controllers=* --kubelet-registration-path=/p/csi.sock");
    assert!(config.livenessprobe.is_some() && config.registrar.is_some());
    let Ok(Line::Help(help)) = split_as(FILE, ["--help"], NODE) else {
        panic!("no help");
    };
    assert!(
        help.starts_with("Usage of csi-node-sidecars --controllers=LIST:"),
        "{help}"
    );
    assert!(
        help.contains("livenessprobe, node-driver-registrar; * is all of them"),
        "{help}"
    );
    assert!(help.contains("--livenessprobe-http-endpoint"), "{help}");
    assert!(!help.contains("process-"), "{help}");
}

#[test]
fn a_67_a_command_line_of_nodes_is_known_by_its_controllers() {
    for (line, expected) in [
        ("x --controllers=node-driver-registrar", true),
        (
            "x --controllers=registrar,livenessprobe --csi-address=/x",
            true,
        ),
        ("x -v 5 --controllers livenessprobe", true),
        ("x --controllers=attacher --controllers=livenessprobe", true),
        ("x --controllers=livenessprobe,attacher", false),
        ("x --controllers=*", false),
        ("x --controllers=process", false),
        ("x --controllers=,", false),
        ("x", false),
        ("", false),
    ] {
        let argv: Vec<_> = line.split_whitespace().map(OsString::from).collect();
        assert_eq!(is_asked_for(&argv), expected, "{line}");
    }
}

#[test]
fn warnings_are_said_once() {
    let config = config(&format!(
        "{BOTH} --metrics-address=:1 --livenessprobe-health-port=9808"
    ));
    let about = |name: &str| {
        let warnings = config.log.warnings.iter();
        warnings.filter(|warning| warning.contains(name)).count()
    };
    assert_eq!((about("metrics-address"), about("health-port")), (1, 1));
}
