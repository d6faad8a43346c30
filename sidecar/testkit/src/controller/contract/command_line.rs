//! The command line: output and exit code before anything is contacted.

use super::super::{Dialect, Ended, Program, Stage};

/// Generates the tests of the command line.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_command_lines {
    ($program:path) => {
        #[tokio::test]
        async fn version_and_help_are_printed_and_nothing_is_contacted() {
            $crate::controller::contract::command_line::version_and_help(&$program).await;
        }

        #[tokio::test]
        async fn common_76_a_flag_that_is_not_there_is_named() {
            $crate::controller::contract::command_line::unknown(&$program).await;
        }

        #[tokio::test]
        async fn common_74_a_value_that_cannot_be_read_names_its_flag() {
            $crate::controller::contract::command_line::unreadable(&$program).await;
        }

        #[tokio::test]
        async fn common_56_59_60_78_79_81_84_and_88b_what_cannot_be_is_refused() {
            $crate::controller::contract::command_line::refused(&$program).await;
        }
    };
}

/// Name and type of each flag in the help text.
async fn flags(program: &'static Program) -> Vec<(String, String)> {
    let help = program.run(&["--help"]).await;
    help.says("--help", 0, "leader-election");
    assert_eq!(help.stdout, "");
    let before = match program.dialect {
        Dialect::Go => "  -",
        Dialect::Pflag => "--",
    };
    let lines = help.log.lines().filter_map(|line| {
        let is_flag = line.starts_with("  -") || line.starts_with("      --");
        let (_, flag) = line.split_once(before).filter(|_| is_flag)?;
        let mut words = flag.split_whitespace();
        let name = words.next()?.to_owned();
        Some((name, words.next().unwrap_or_default().to_owned()))
    });
    let flags: Vec<_> = lines.collect();
    assert!(flags.len() > 20, "{}", help.log);
    flags
}

/// `--version`, `--help`.
pub async fn version_and_help(program: &'static Program) {
    let stage = Stage::new(program).await;
    let go: &[&[&str]] = match program.dialect {
        Dialect::Go => &[&["-version"], &["--version", "true"]],
        Dialect::Pflag => &[],
    };
    let all: [&[&str]; 2] = [&["--version"], &["--leader-election", "--version=true"]];
    for arguments in all.iter().chain(go) {
        let ended = stage.start(arguments).end().await;
        ended.says("version", 0, "");
        let name = format!("{} ", program.path());
        assert!(ended.stdout.starts_with(&name), "{}", ended.stdout);
        assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    }
    let flags = flags(program).await;
    for flag in ["version", "feature-gates", "kubeconfig", program.workers] {
        let flag = flag.trim_start_matches('-');
        assert!(flags.iter().any(|(name, _)| name == flag), "{flag}");
    }
    assert_eq!(stage.driver.connections(), 0, "no contact to the driver");
    assert!(stage.api.requests().is_empty(), "nor to the API server");
}

/// Unknown flags; one that upstream retired is ignored with a warning.
pub async fn unknown(program: &'static Program) {
    for (flag, more) in [
        ("bogus", &[][..]),
        ("bogus", &["--version"]),
        ("csi_address", &[]),
    ] {
        let given = format!("--{flag}=/x");
        let arguments: Vec<&str> = more.iter().copied().chain([given.as_str()]).collect();
        let ended = program.run(&arguments).await;
        let text = match program.dialect {
            Dialect::Go => format!("flag provided but not defined: -{flag}"),
            Dialect::Pflag => format!("unknown flag: --{flag}"),
        };
        ended.says(flag, 2, &text);
        assert_eq!(ended.stdout, "", "{flag}");
    }
    // Gates are checked after logging is set up.
    let ended = program
        .run(&["--logtostderr", "--feature-gates=Foo=true"])
        .await;
    let warning = "has no effect: the log always goes to stderr";
    ended.says("a retired flag", program.fatal, warning);
    let ended = program.run(&["--feature-gates=Foo=true"]).await;
    let text = "unrecognized feature gate: Foo";
    ended.says("a gate", program.fatal, text);
    let ended = program.run(&["--feature-gates=Foo"]).await;
    ended.says("a gate", 2, "expect string=bool");
}

/// Malformed values of each flag whose type the help names.
pub async fn unreadable(program: &'static Program) {
    let mut tried = 0;
    for (name, kind) in flags(program).await {
        let values: &[&str] = match kind.as_str() {
            "duration" => &["15", "", "1x"],
            "int" | "uint" | "float" => &["abc", ""],
            _ => continue,
        };
        for value in values {
            let argument = format!("--{name}={value}");
            let ended = program.run(&[&argument]).await;
            let text = match program.dialect {
                Dialect::Go => format!("invalid value \"{value}\" for flag -{name}: parse error"),
                Dialect::Pflag => format!("invalid argument \"{value}\" for \"--{name}\" flag"),
            };
            ended.says(&argument, 2, &text);
            assert_eq!(ended.stdout, "", "{argument}");
        }
        tried += 1;
    }
    assert!(tried > 8, "{tried} flags");
}

/// Row, flag that the program must have, arguments, and text of the last line.
const REFUSED: [(&str, &str, &[&str], &str); 14] = [
    (
        "56",
        "leader-election-labels",
        &["--leader-election-labels=a=b"],
        "leader-election-labels",
    ),
    (
        "56",
        "leader-election-labels",
        &["--leader-election-labels=="],
        "leader-election-labels",
    ),
    (
        "56",
        "leader-election-labels",
        &["--leader-election-labels=a:b:"],
        "leader-election-labels",
    ),
    (
        "59",
        "leader-election",
        &["--leader-election", "--leader-election-renew-deadline=20s"],
        "lease-duration",
    ),
    (
        "60",
        "leader-election",
        &["--leader-election", "--leader-election-retry-period=9s"],
        "retry-period",
    ),
    (
        "78",
        "http-endpoint",
        &["--http-endpoint=foo"],
        "missing port in address",
    ),
    (
        "79",
        "metrics-address",
        &["--metrics-address=:1", "--http-endpoint=:2"],
        "--http-endpoint",
    ),
    (
        "81",
        "metrics-path",
        &["--http-endpoint=127.0.0.1:0", "--metrics-path="],
        "--metrics-path",
    ),
    (
        "logging",
        "logging-format",
        &["--logging-format=xml"],
        "logging",
    ),
    (
        "84",
        "log-json-split-stream",
        &["--log-json-split-stream"],
        "log",
    ),
    (
        "88b",
        "kube-api-burst",
        &["--kube-api-burst=0"],
        "burst is required to be greater than 0",
    ),
    (
        "address",
        "csi-address",
        &["--csi-address=unix:/x"],
        "unix://",
    ),
    (
        "address",
        "csi-address",
        &["--csi-address=run/csi.sock"],
        "unix://",
    ),
    (
        "address",
        "csi-address",
        &["--csi-address=dns:///host:1"],
        "unix://",
    ),
];

/// Well-formed values that are refused.
pub async fn refused(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let flags = flags(program).await;
    for (row, flag, arguments, text) in REFUSED {
        let before = stage.driver.connections();
        if flags.iter().any(|(name, _)| name == flag) {
            ends_with(&stage.start(arguments).end().await, row, text);
        }
        if ["79", "88b"].contains(&row) {
            assert_eq!(stage.driver.connections(), before, "row {row}");
        }
    }
    let workers = format!("{}=0", program.workers);
    ends_with(
        &stage.start(&[&workers]).end().await,
        "workers",
        program.workers,
    );
    let nowhere = program.run(&["--kubeconfig=/nonexistent"]).await;
    ends_with(&nowhere, "kubeconfig", "/nonexistent");
    assert_eq!(nowhere.code, Some(program.fatal), "{}", nowhere.log);
    ends_with(
        &program.run(&[]).await,
        "no cluster",
        "KUBERNETES_SERVICE_HOST",
    );
}

#[track_caller]
fn ends_with(ended: &Ended, row: &str, text: &str) {
    assert!(
        ended.code.is_some_and(|code| code != 0),
        "row {row}: {ended:?}"
    );
    assert!(ended.log.contains(text), "row {row}: {}", ended.log);
    assert!(!ended.log.contains("panicked"), "row {row}: {}", ended.log);
    assert_eq!(ended.stdout, "", "row {row}");
}
