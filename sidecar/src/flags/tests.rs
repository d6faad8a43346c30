//! Rows 69 to 77 and 85, 88, 93 of the common specification and; diagnostics and
//! layout compared with Go 1.26's `flag` and pflag 1.0.10.

use super::*;

const OWN: &[Flag] = &[
    Flag::new("timeout", Kind::Duration, "15s", "Timeout."),
    Flag::new("worker-threads", Kind::Uint, "10", "Threads."),
    Flag::new("max-entries", Kind::Int, "0", "Entries."),
];

static GONE: Retired = Retired {
    program: "prog",
    releases: &[(
        "v2.0.0",
        &[
            Flag::new("gone", Kind::Bool, "", "").noted(Note::Retired),
            Flag::new("hinted", Kind::String, "", "look elsewhere").noted(Note::Retired),
            Flag::new("time-out", Kind::Duration, "", "").noted(Note::Renamed("timeout")),
        ],
    )],
};

const COMMON: &[&[Flag]] = &[
    OWN,
    standard::LOGGING,
    standard::AUTOMAXPROCS,
    standard::VERSION,
    standard::CSI_ADDRESS,
    standard::HTTP_ENDPOINT,
    standard::METRICS,
    standard::KUBE_API,
    standard::LEADER_ELECTION,
    standard::FEATURE_GATES,
];

static GO: Spec = Spec {
    dialect: Dialect::Go,
    tables: COMMON,
    retired: &GONE,
};

static PFLAG: Spec = Spec {
    dialect: Dialect::Pflag,
    tables: COMMON,
    retired: &GONE,
};

fn line(arguments: &str) -> impl Iterator<Item = &str> {
    std::iter::once("prog").chain(arguments.split(' ').filter(|argument| !argument.is_empty()))
}

fn go(arguments: &str) -> Values {
    parse(&GO, line(arguments)).unwrap()
}

fn pflag(arguments: &str) -> Values {
    parse(&PFLAG, line(arguments)).unwrap()
}

/// The diagnostic; checks its position, the exit code and that stdout stays empty.
fn refused(spec: &'static Spec, arguments: &str) -> String {
    let exit = parse(spec, line(arguments)).expect_err(arguments);
    assert_eq!(
        (exit.code, exit.stdout.as_str(), exit.error),
        (2, "", None),
        "{arguments}"
    );
    let usage = help::usage(spec, "prog");
    let diagnostic = match spec.dialect {
        Dialect::Go => exit.stderr.strip_suffix(&usage),
        Dialect::Pflag => exit.stderr.strip_prefix(&usage),
    };
    diagnostic.unwrap().trim_end().to_owned()
}

#[test]
fn defaults() {
    let values = go("");
    assert_eq!(values.string("csi-address"), "/run/csi/socket");
    assert_eq!(
        values
            .duration("leader-election-lease-duration")
            .to_string(),
        "15s"
    );
    assert_eq!(
        values
            .duration("leader-election-renew-deadline")
            .to_string(),
        "10s"
    );
    assert_eq!(
        values.duration("leader-election-retry-period").to_string(),
        "5s"
    );
    assert_eq!(values.string("metrics-path"), "/metrics");
    assert!((values.float("kube-api-qps") - 5.0).abs() < f64::EPSILON);
    assert_eq!(values.int("kube-api-burst"), 10);
    assert!(!values.bool("leader-election"));
    assert!(values.pairs("leader-election-labels").is_empty());
    assert_eq!(values.program(), "prog");
    assert!(values.warnings().is_empty());
}

#[test]
fn the_tables_are_sound() {
    let mut names: Vec<_> = GO.flags().map(|flag| flag.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "every name once");
    for flag in GO.flags().filter(|flag| !flag.default.is_empty()) {
        assert!(
            value::read(flag.kind, flag.default).is_ok(),
            "{}",
            flag.name
        );
    }
}

#[test]
fn row_69_one_dash_is_as_good_as_two() {
    let values = go("-leader-election -v=5 -csi-address /x");
    assert!(values.bool("leader-election"));
    assert_eq!(values.uint("v"), 5);
    assert_eq!(values.string("csi-address"), "/x");
}

#[test]
fn row_70_pflag_takes_one_dash_for_shorthands() {
    let text = refused(&PFLAG, "-leader-election -v=5 -csi-address /x");
    assert_eq!(
        text,
        "unknown shorthand flag: 'l' in -leader-election\ndid you mean --leader-election?"
    );
}

#[test]
fn row_71_and_r_13_go_stops_at_the_first_word() {
    let values = go("--leader-election false --timeout=1x");
    assert!(values.bool("leader-election"));
    assert_eq!(values.duration("timeout").to_string(), "15s");
    for stop in ["--", "word", "-"] {
        assert!(
            !go(&format!("{stop} --leader-election")).bool("leader-election"),
            "{stop}"
        );
    }
}

#[test]
fn pflag_goes_on_behind_a_word() {
    let values = pflag("--leader-election false --version");
    assert!(values.bool("leader-election") && values.bool("version"));
    assert!(!pflag("-- --version").bool("version"));
    assert!(pflag("- --version").bool("version"));
}

#[test]
fn row_111_what_go_ignores_is_at_least_warned_about() {
    let values = go("stray --nope");
    assert_eq!(
        values.warnings(),
        ["Argument \"stray\" is not a flag: it and everything behind it are ignored"]
    );
    assert!(go("-- stray").warnings().is_empty());
    assert_eq!(
        pflag("stray --version more").warnings(),
        [
            "Argument \"stray\" is not a flag: it is ignored",
            "Argument \"more\" is not a flag: it is ignored"
        ]
    );
    assert!(pflag("-- stray").warnings().is_empty());
}

#[test]
fn row_72_and_r_10_durations() {
    assert_eq!(
        go("--timeout=1m30s").duration("timeout").to_string(),
        "1m30s"
    );
    assert_eq!(
        go("--timeout=0").duration("timeout"),
        crate::duration::GoDuration::ZERO
    );
    for (argument, value) in [
        ("--timeout=15", "15"),
        ("--timeout=", ""),
        ("-timeout x", "x"),
    ] {
        assert_eq!(
            refused(&GO, argument),
            format!(
                "invalid value \"{value}\" for flag -timeout: parse error\n\
                 a duration needs a unit: 5s, 500ms, 1m30s"
            )
        );
    }
    assert_eq!(
        refused(&PFLAG, "--timeout=15"),
        "invalid argument \"15\" for \"--timeout\" flag: time: missing unit in duration \"15\""
    );
}

#[test]
fn row_73_go_literals() {
    assert_eq!(go("--kube-api-burst=0x10").int("kube-api-burst"), 16);
    assert_eq!(go("--kube-api-burst=-1").int("kube-api-burst"), -1);
    assert_eq!(go("--worker-threads=1_0").uint("worker-threads"), 10);
}

#[test]
fn row_74_numbers_that_are_none() {
    assert_eq!(
        refused(&GO, "--kube-api-qps=abc"),
        "invalid value \"abc\" for flag -kube-api-qps: parse error"
    );
    assert_eq!(
        refused(&GO, "--kube-api-qps=1e999"),
        "invalid value \"1e999\" for flag -kube-api-qps: value out of range"
    );
    assert_eq!(
        refused(&GO, "--max-entries=99999999999999999999"),
        "invalid value \"99999999999999999999\" for flag -max-entries: value out of range"
    );
    assert_eq!(
        refused(&GO, "--worker-threads=-1"),
        "invalid value \"-1\" for flag -worker-threads: parse error"
    );
    assert_eq!(
        refused(&PFLAG, "--worker-threads=-1"),
        "invalid argument \"-1\" for \"--worker-threads\" flag: \
         strconv.ParseUint: parsing \"-1\": invalid syntax"
    );
    for value in ["1__0", "_1", "1_", "1_.5", "0x1p4"] {
        assert!(
            parse(&GO, ["prog", "--kube-api-qps", value]).is_err(),
            "{value}"
        );
    }
    assert!((go("--kube-api-qps=1_0").float("kube-api-qps") - 10.0).abs() < f64::EPSILON);
    assert!((go("--kube-api-qps=1e1").float("kube-api-qps") - 10.0).abs() < f64::EPSILON);
}

#[test]
fn row_75_the_last_one_wins() {
    assert_eq!(
        go("--timeout=1s --timeout=2s")
            .duration("timeout")
            .to_string(),
        "2s"
    );
    assert!(!go("--version --version=false").bool("version"));
}

#[test]
fn row_76_and_r_9_unknown_flags() {
    assert_eq!(
        refused(&GO, "--csi_address=/x"),
        "flag provided but not defined: -csi_address\ndid you mean -csi-address?"
    );
    assert_eq!(
        refused(&GO, "--nope"),
        "flag provided but not defined: -nope"
    );
    assert_eq!(refused(&GO, "-v5"), "flag provided but not defined: -v5");
    assert_eq!(refused(&PFLAG, "--nope"), "unknown flag: --nope");
    assert_eq!(
        refused(&PFLAG, "--timeuot=3s"),
        "unknown flag: --timeuot\ndid you mean --timeout?"
    );
    assert_eq!(
        refused(&GO, "--gon"),
        "flag provided but not defined: -gon",
        "what is retired is no suggestion"
    );
}

#[test]
fn what_go_calls_bad_syntax() {
    for argument in ["---x", "--=x", "-=x"] {
        assert_eq!(
            refused(&GO, argument),
            format!("bad flag syntax: {argument}")
        );
    }
    assert_eq!(refused(&PFLAG, "---x"), "bad flag syntax: ---x");
}

#[test]
fn the_first_mistake_is_the_one_reported() {
    assert!(refused(&GO, "--timeout=x --nope").starts_with("invalid value"));
    assert!(refused(&GO, "--nope --timeout=x").starts_with("flag provided"));
    assert!(refused(&GO, "--timeout=x --help").starts_with("invalid value"));
    assert!(refused(&GO, "--max-entries=x --timeout=y").contains("-max-entries"));
}

#[test]
fn a_missing_value() {
    assert_eq!(
        refused(&GO, "--timeout"),
        "flag needs an argument: -timeout"
    );
    assert_eq!(
        refused(&PFLAG, "--timeout"),
        "flag needs an argument: --timeout"
    );
    assert_eq!(refused(&PFLAG, "-v"), "flag needs an argument: 'v' in -v");
}

#[test]
fn the_next_argument_is_the_value_whatever_it_looks_like() {
    for value in ["--version", "-x", "--", "a=b"] {
        let values = go(&format!("--csi-address {value}"));
        assert_eq!(values.string("csi-address"), value);
        assert!(!values.bool("version"));
    }
    assert_eq!(go("--csi-address=").string("csi-address"), "");
    assert_eq!(go("--csi-address=a=b").string("csi-address"), "a=b");
}

#[test]
fn booleans() {
    for (word, expected) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("true", true),
        ("TRUE", true),
        ("True", true),
        ("0", false),
        ("f", false),
        ("F", false),
        ("false", false),
        ("FALSE", false),
        ("False", false),
    ] {
        for spec in [&GO, &PFLAG] {
            let values = parse(spec, line(&format!("--version={word}"))).unwrap();
            assert_eq!(values.bool("version"), expected, "{word}");
        }
    }
    for word in ["yes", "tRUE", ""] {
        let text = refused(&GO, &format!("--version={word}"));
        assert_eq!(
            text,
            format!("invalid boolean value \"{word}\" for -version: parse error")
        );
    }
}

#[test]
fn rows_85_and_r_52_automaxprocs() {
    for (argument, expected) in [
        ("--automaxprocs", true),
        ("--automaxprocs=true", true),
        ("--automaxprocs=", true),
        ("--automaxprocs=false", false),
        ("", false),
    ] {
        assert_eq!(go(argument).bool("automaxprocs"), expected, "{argument}");
        assert_eq!(pflag(argument).bool("automaxprocs"), expected, "{argument}");
    }
    assert_eq!(
        refused(&GO, "--automaxprocs=bad"),
        "invalid boolean value \"bad\" for -automaxprocs: \
         strconv.ParseBool: parsing \"bad\": invalid syntax"
    );
}

#[test]
fn pflag_shorthand_of_v() {
    for arguments in ["-v 5", "-v=5", "--v=5", "-v5", "--v 5"] {
        assert_eq!(pflag(arguments).uint("v"), 5, "{arguments}");
    }
    assert!(
        refused(&PFLAG, "-v=").contains("parsing \"=\""),
        "as in pflag"
    );
    let text = refused(&PFLAG, "-version");
    assert_eq!(
        text,
        "invalid argument \"ersion\" for \"-v, --v\" flag: \
         strconv.ParseUint: parsing \"ersion\": invalid syntax"
    );
}

#[test]
fn verbosity_has_31_bits() {
    assert_eq!(go("-v=2147483647").uint("v"), 2_147_483_647);
    for value in ["-1", "x", "", "0x1", "2147483648", "99999999999"] {
        assert!(
            refused(&GO, &format!("-v={value}")).starts_with("invalid value"),
            "{value}"
        );
    }
}

#[test]
fn r_11_help_is_on_stderr_and_no_mistake() {
    for (spec, arguments) in [
        (&GO, &["-h", "-help", "--help", "--h"][..]),
        (&PFLAG, &["-h", "--help", "-help"][..]),
    ] {
        for argument in arguments {
            let exit = parse(spec, line(argument)).unwrap_err();
            assert_eq!((exit.code, exit.stdout.as_str()), (0, ""), "{argument}");
            assert_eq!(exit.stderr, help::usage(spec, "prog"));
        }
    }
}

#[test]
fn row_56_labels() {
    let labels = |values: &Values| values.pairs("leader-election-labels");
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let flag = "--leader-election-labels";
    assert_eq!(
        labels(&go(&format!("{flag}=a:b,c:d"))),
        owned(&[("a", "b"), ("c", "d")])
    );
    let repeated = go(&format!("{flag}=a:b {flag}=c:"));
    assert_eq!(
        labels(&repeated),
        owned(&[("a", "b"), ("c", "")]),
        "accumulates"
    );
    for value in ["a=b", "", "a:b:", "a:b,", "a"] {
        let text = refused(&GO, &format!("{flag}={value}"));
        assert!(text.contains("exactly one colon"), "{text}");
    }
}

#[test]
fn feature_gates() {
    let gates = |arguments: &[&str]| {
        let line = std::iter::once("prog").chain(arguments.iter().copied());
        parse(&GO, line).map(|values| values.gates("feature-gates"))
    };
    let owned = |pairs: &[(&str, bool)]| -> Vec<(String, bool)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    };
    assert_eq!(gates(&["--feature-gates="]), Ok(Vec::new()));
    assert_eq!(
        gates(&["--feature-gates= A = true ,,B=0", "--feature-gates=C=T"]),
        Ok(owned(&[("A", true), ("B", false), ("C", true)]))
    );
    for (value, reason) in [
        ("A", "malformed pair, expect string=bool"),
        (
            "A=x",
            "invalid value of A: x, err: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
    ] {
        assert_eq!(
            refused(&GO, &format!("--feature-gates={value}")),
            format!("invalid value \"{value}\" for flag -feature-gates: {reason}")
        );
    }
}

#[test]
fn vmodule_and_sizes() {
    let values = go("--vmodule=run=3,attach*=5 --log-text-info-buffer-size=1.5Ki");
    assert_eq!(
        values.levels("vmodule"),
        [("run".to_owned(), 3), ("attach*".to_owned(), 5)]
    );
    assert_eq!(values.int("log-text-info-buffer-size"), 1536);
    assert!(refused(&GO, "--vmodule=run").contains("filename=N"));
    assert!(refused(&GO, "--log-text-info-buffer-size=x").contains("is not a quantity"));
}

#[test]
fn row_79_one_listener_has_one_address() {
    let address = |arguments: &str| {
        let values = go(arguments);
        standard::http_address(&values).map(|address| address.map(str::to_owned))
    };
    assert_eq!(address(""), Ok(None));
    assert_eq!(address("--http-endpoint=:1"), Ok(Some(":1".to_owned())));
    assert_eq!(address("--metrics-address=:2"), Ok(Some(":2".to_owned())));
    let exit = address("--http-endpoint=:1 --metrics-address=:2").unwrap_err();
    assert_eq!(exit.code, 1);
    let error = exit.error.unwrap();
    assert!(error.contains("--metrics-address") && error.contains("--http-endpoint"));
}

#[test]
fn row_88_given_is_told_from_default() {
    let values = go("--kube-api-qps=5");
    assert!(values.is_set("kube-api-qps"));
    assert!(!values.is_set("kube-api-burst"));
}

#[test]
fn rows_93_and_110_flags_without_effect() {
    for spec in [&GO, &PFLAG] {
        let values = parse(spec, line("--gone=anything --gone --hinted --version")).unwrap();
        assert_eq!(
            values.warnings(),
            [
                "Flag --gone was retired in prog v2.0.0 and has no effect",
                "Flag --hinted was retired in prog v2.0.0 and has no effect: look elsewhere",
            ]
        );
        assert!(!values.bool("version"), "it was the value of another flag");
        assert!(!values.has("gone"));
        let values = parse(spec, line("--time-out=3s")).unwrap();
        assert_eq!(values.duration("timeout").to_string(), "3s");
        assert_eq!(
            values.warnings(),
            ["Flag --time-out was retired in prog v2.0.0: it is read as --timeout"]
        );
        assert!(refused(spec, "--hinted").contains("flag needs an argument"));
    }
    let values = go("--metrics-address=:1");
    assert_eq!(values.string("metrics-address"), ":1", "still works");
    assert_eq!(
        values.warnings(),
        ["Flag --metrics-address has been deprecated, use --http-endpoint instead"]
    );
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_not_utf8() {
    use std::os::unix::ffi::OsStringExt;
    let raw = OsString::from_vec(b"--csi-address=/\xff".to_vec());
    for spec in [&GO, &PFLAG] {
        let exit = parse(spec, [OsString::from("prog"), raw.clone()]).unwrap_err();
        assert_eq!(exit.code, 2);
        assert!(exit.stderr.contains("not valid UTF-8"));
    }
    let value = OsString::from_vec(b"/\xff".to_vec());
    let line = [
        OsString::from("prog"),
        OsString::from("-csi-address"),
        value,
    ];
    assert!(
        parse(&GO, line)
            .unwrap_err()
            .stderr
            .contains("csi-address is not valid UTF-8")
    );
}

#[test]
fn no_arguments_at_all() {
    let none: [&str; 0] = [];
    assert_eq!(parse(&GO, none).unwrap().program(), "");
}

#[test]
fn a_document_can_be_checked_against_the_table() {
    let document = "| `--timeout` | `--worker-threads` | --max-entries |";
    let spec = Spec {
        tables: &[OWN],
        ..GO
    };
    assert_eq!(spec.missing_from(document), ["max-entries"]);
}

/// The flags of the program that wrote the golden files, with Go 1.26 and pflag 1.0.10.
const GOLDEN: &[Flag] = &[
    Flag::new(
        "leader-election",
        Kind::Bool,
        "false",
        "Enables leader election.",
    ),
    Flag::new(
        "csi-address",
        Kind::String,
        "/run/csi/socket",
        "Address.\nSecond line",
    ),
    Flag::new("max", Kind::Int, "0", "Max"),
    Flag::new("worker-threads", Kind::Uint, "10", "Threads"),
    Flag::new("kube-api-qps", Kind::Float, "5", "QPS"),
    Flag::new("timeout", Kind::Duration, "15s", "Timeout"),
    Flag::new("x", Kind::Bool, "true", "one letter"),
    Flag::new("y", Kind::Int, "3", "one letter int"),
    Flag::new("empty", Kind::String, "", "Empty `PATH` of x"),
    Flag::new("automaxprocs", Kind::BoolFunc, "", "auto"),
];

#[test]
fn help_has_the_layout_of_both_packages() {
    for (dialect, expected) in [
        (Dialect::Go, include_str!("testdata/help-go.txt")),
        (Dialect::Pflag, include_str!("testdata/help-pflag.txt")),
    ] {
        let spec = Spec {
            dialect,
            tables: const { &[GOLDEN] },
            retired: &retired::NONE,
        };
        assert_eq!(help::usage(&spec, "prog"), expected);
    }
}

#[test]
fn integers_are_gos_literals() {
    // Texts, and the results of strconv.ParseInt and ParseUint with base 0 in Go 1.26.
    for line in include_str!("testdata/integers.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let text = columns[0];
        let shown = |value: Result<Value, Reason>| match value {
            Ok(Value::Int(number)) => number.to_string(),
            Ok(Value::Uint(number)) => number.to_string(),
            Ok(other) => panic!("{other:?}"),
            Err(Reason::Syntax(_)) => "invalid syntax".to_owned(),
            Err(Reason::Range(_)) => "value out of range".to_owned(),
            Err(Reason::Custom(reason)) => reason,
        };
        assert_eq!(shown(value::read(Kind::Int, text)), columns[1], "{text}");
        assert_eq!(shown(value::read(Kind::Uint, text)), columns[2], "{text}");
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_people_type_panics(arguments in prop::collection::vec("\\PC{0,12}", 0..6)) {
            for spec in [&GO, &PFLAG] {
                let line = std::iter::once("prog".to_owned()).chain(arguments.clone());
                if let Err(exit) = parse(spec, line) {
                    prop_assert!(exit.code == 2 || exit.code == 0);
                }
            }
        }

        #[test]
        fn flags_in_any_order_of_known_names_are_read(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "--timeout=3s", "-timeout", "3s", "--v=1", "-v", "--version", "--nope", "--",
                    "-", "x", "--leader-election-labels=a:b", "--feature-gates", "A=true", "-h",
                ]),
                0..8,
            )
        ) {
            for spec in [&GO, &PFLAG] {
                let result = parse(spec, std::iter::once("prog").chain(words.iter().copied()));
                if let Ok(values) = result {
                    prop_assert!(!words.is_empty() || !values.is_set("timeout"));
                    let timeout = values.duration("timeout").to_string();
                    prop_assert!(timeout == "15s" || timeout == "3s");
                }
            }
        }
    }
}
