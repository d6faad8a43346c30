use super::*;
use crate::flags::standard::{HTTP_ENDPOINT, LEADER_ELECTION, METRICS, SECURE_HTTP};
use crate::flags::{Dialect, Spec, parse, retired};

const SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[HTTP_ENDPOINT, LEADER_ELECTION, METRICS, SECURE_HTTP],
    retired: &retired::NONE,
};

static ALL: Spec = SPEC;

fn read(arguments: &[&str]) -> Result<Option<Secure>, String> {
    let line = std::iter::once("csi-test").chain(arguments.iter().copied());
    Secure::from_flags(&parse(&ALL, line.map(str::to_owned)).unwrap())
}

const ENDPOINT_FLAG: &str = "--secure-http-endpoint=:8443";
const BOTH: [&str; 3] = [
    ENDPOINT_FLAG,
    "--tls-cert-file=/tls/tls.crt",
    "--tls-private-key-file=/tls/tls.key",
];

#[test]
fn o_40_without_the_flags_there_is_nothing() {
    for arguments in [
        &[][..],
        &["--http-endpoint=:8080"],
        &["--tls-min-version=VersionTLS13"],
    ] {
        assert_eq!(read(arguments), Ok(None), "{arguments:?}");
    }
    static BARE: Spec = Spec {
        tables: &[HTTP_ENDPOINT],
        ..SPEC
    };
    let values = parse(&BARE, ["csi-test".to_owned()]).unwrap();
    assert_eq!(
        Secure::from_flags(&values),
        Ok(None),
        "a program that has none"
    );
}

#[test]
fn o_41_what_contradicts_itself_names_its_flag() {
    for (arguments, named) in [
        (&[ENDPOINT_FLAG][..], "--tls-cert-file must name"),
        (&[BOTH[0], BOTH[1]], "--tls-private-key-file must name"),
        (&[BOTH[0], BOTH[2]], "--tls-cert-file must name"),
        (
            &[BOTH[1]],
            "--tls-cert-file=/tls/tls.crt: has no effect without",
        ),
        (
            &["--client-ca-file=/ca"],
            "--client-ca-file=/ca: has no effect without",
        ),
        (
            &[BOTH[0], BOTH[1], BOTH[2], "--tls-min-version=1.2"],
            "--tls-min-version=1.2",
        ),
    ] {
        let problem = read(arguments).unwrap_err();
        assert!(problem.contains(named), "{arguments:?}: {problem}");
    }
}

#[test]
fn what_the_flags_ask_for() {
    let asked = read(&BOTH).unwrap().unwrap();
    assert_eq!((&*asked.http.address, asked.http.health), (":8443", false));
    assert_eq!(asked.open.len(), 4);
    let more = [
        BOTH[0],
        BOTH[1],
        BOTH[2],
        "--leader-election",
        "--metrics-path=/m",
        "--client-ca-file=/ca",
        "--tls-min-version=VersionTLS13",
        "--authorization-always-allow-paths= /a ,,/b/*",
    ];
    let asked = read(&more).unwrap().unwrap();
    assert_eq!(asked.http.metrics_path.as_deref(), Some("/m"));
    assert!(asked.http.health && asked.files.authority.is_some());
    assert_eq!(asked.tls.version, Version::Tls13);
    assert_eq!(asked.open, ["/a", "/b/*"]);
}
