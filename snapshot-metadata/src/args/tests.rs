use sidecar::flags::parse;

use super::*;

fn decided(arguments: &[&str], environment: &Environment) -> Result<(Command, Vec<String>), Exit> {
    let argv = std::iter::once("csi-snapshot-metadata").chain(arguments.iter().copied());
    let values = parse(&SPEC, argv.map(std::ffi::OsString::from))?;
    let (command, mut warnings) = decide(&values, environment)?;
    warnings.extend(values.warnings().iter().cloned());
    Ok((command, warnings))
}

const PAIR: [&str; 2] = ["--tls-cert=/c", "--tls-key=/k"];

fn config(arguments: &[&str]) -> Config {
    let arguments = [&PAIR[..], arguments].concat();
    match decided(&arguments, &Environment::default()).unwrap().0 {
        Command::Run(config) => *config,
        Command::Version => panic!("a version"),
    }
}

#[test]
fn defaults_are_upstream_s() {
    assert_eq!(
        config(&[]),
        Config {
            address: Address::parse("/run/csi/socket", OnLoss::Stop).unwrap(),
            timeout: Duration::from_mins(1),
            port: 50051,
            certificate: "/c".into(),
            key: "/k".into(),
            tls: Tls::default(),
            audience: None,
            longest: Duration::from_mins(10),
            streams: 64,
            grace: Duration::from_secs(25),
            rate: Rate::Adaptive,
            http: Some(Http {
                address: ":8080".to_owned(),
                flag: "--http-endpoint",
                metrics_path: Some("/metrics".to_owned()),
                health: false,
            }),
            snapshot_labels: false,
        }
    );
}

#[test]
fn cb_1_the_version_comes_before_any_check() {
    for arguments in [
        &["--version"][..],
        &["--version", "--port=0", "--tls-min-version=1"],
    ] {
        let (command, _) = decided(arguments, &Environment::default()).unwrap();
        assert_eq!(command, Command::Version);
    }
}

#[test]
fn cb_2_cb_3_cb_4_what_must_not_be() {
    let with = |argument: &'static str| vec![PAIR[0], PAIR[1], argument];
    for (arguments, code, text) in [
        (vec![], 1, "missing TLSCertFile"),
        (vec![PAIR[0]], 1, "missing TLSKeyFile"),
        (with("--foo"), 2, "foo"),
        (with("--port=0"), 1, "invalid GRPCPort"),
        (with("--port=-1"), 1, "invalid GRPCPort"),
        (with("--port=70000"), 1, "invalid GRPCPort"),
        (with("--timeout=0"), 1, "CSITimeout is required"),
        (with("--csi-address="), 1, "CSIAddress is required"),
        (with("--tls-min-version=1.2"), 1, "1.2"),
        (
            with("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"),
            1,
            "TLS_RSA_WITH_RC4_128_SHA",
        ),
        (with("--tls-curve-preferences=P256"), 1, "P256"),
        (with("--max-streams=0"), 1, "--max-streams=0"),
    ] {
        let exit = decided(&arguments, &Environment::default()).unwrap_err();
        let said = exit.error.clone().unwrap_or_default() + &exit.stderr;
        assert!(
            exit.code == code && said.contains(text),
            "{arguments:?}: {exit:?}"
        );
    }
}

#[test]
fn cb_8_the_environment_names_the_files() {
    let environment = Environment {
        certificate: Some("/e/c".to_owned()),
        key: Some("/e/k".to_owned()),
    };
    for (arguments, files) in [
        (&[][..], ["/e/c", "/e/k"]),
        (&["--tls-cert=/c"], ["/c", "/e/k"]),
    ] {
        let (command, _) = decided(arguments, &environment).unwrap();
        let Command::Run(config) = command else {
            panic!("a version")
        };
        assert_eq!(
            [&config.certificate, &config.key],
            files.map(std::path::Path::new)
        );
    }
}

#[test]
fn durations_of_a_call() {
    for (minutes, seconds) in [
        ("1", 60),
        ("0", 600),
        ("-3", 600),
        ("9223372036854775807", 99_960),
    ] {
        let flag = format!("--max-streaming-duration-min={minutes}");
        assert_eq!(config(&[&flag]).longest, Duration::from_secs(seconds));
    }
}

#[test]
fn metrics_and_the_http_server() {
    let http = |arguments: &[&str]| config(arguments).http;
    assert_eq!(http(&["--http-endpoint="]), None);
    let without = http(&["--disable-metrics"]).unwrap();
    assert_eq!((&*without.address, without.metrics_path), (":8080", None));
}

#[test]
fn flags_of_klog_are_taken_with_a_warning() {
    let arguments = [
        &PAIR[..],
        &["--logtostderr=true", "--log_dir=/x", "--stderrthreshold=2"],
    ]
    .concat();
    let (_, warnings) = decided(&arguments, &Environment::default()).unwrap();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
}
