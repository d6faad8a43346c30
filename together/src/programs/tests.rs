//! The command line with the programs' own flag tables.

use sidecar::flags::standard::{AUTOMAXPROCS, LEADER_ELECTION, LOGGING, SECURE_HTTP, TRACING, WHY};
use sidecar::flags::{Flag, Values, parse};

use super::*;
use crate::plan::split::{Line, Part, name_in_process, split};

/// Rejected command lines end with code 2 and print nothing on standard output.
fn cut(line: &str) -> Result<Line, String> {
    split(line.split_whitespace(), ALL).map_err(|exit| {
        assert_eq!((exit.code, exit.stdout.as_str()), (2, ""));
        exit.stderr
    })
}

fn parts(line: &str) -> Vec<Part> {
    match cut(line) {
        Ok(Line::Run(parts)) => parts,
        other => panic!("{line}: {other:?}"),
    }
}

/// The values that each program parses from its part.
fn read(line: &str) -> Vec<(&'static str, Values)> {
    let read = |part: Part| {
        let program = named(part.name).unwrap();
        let argv = std::iter::once("csi-sidecars".to_owned()).chain(part.arguments);
        (part.name, parse(program.spec, argv).unwrap())
    };
    parts(line).into_iter().map(read).collect()
}

fn of<'a>(read: &'a [(&'static str, Values)], name: &str) -> &'a Values {
    let (_, values) = read.iter().find(|(of, _)| *of == name).unwrap();
    values
}

fn chosen(list: &str) -> Vec<&'static str> {
    let parts = parts(&format!("--controllers={list}"));
    parts.into_iter().map(|part| part.name).collect()
}

/// TLS would make the programs for nodes half as large again.
#[test]
fn o_61_programs_of_the_node_have_no_metrics_over_tls() {
    let on_nodes = [&PROCESS, LIVENESSPROBE.spec, REGISTRAR.spec];
    for flag in SECURE_HTTP {
        for spec in on_nodes {
            assert_eq!(spec.find(flag.name), None);
        }
        let line = format!("--{}=x", flag.name);
        let refused = split(["--controllers=livenessprobe", &*line], NODE).unwrap_err();
        let said = format!("there is no flag --{}", flag.name);
        assert!(refused.stderr.contains(&said), "{}", refused.stderr);
    }
}

/// Flags that are given once for all controllers.
fn is_once(flag: &Flag) -> bool {
    let tables = [
        LEADER_ELECTION,
        LOGGING,
        AUTOMAXPROCS,
        SECURE_HTTP,
        TRACING,
        WHY,
    ];
    let once = [
        "version",
        "kubeconfig",
        "master",
        "csi-address",
        "http-endpoint",
        "metrics-address",
        "metrics-path",
    ];
    let mut shared = tables.iter().copied().flatten();
    once.contains(&flag.name) || shared.any(|other| other.name == flag.name)
}

const THREE: &str = "--controllers=attacher,provisioner,resizer";

#[test]
fn the_proposals_own_command_line_reaches_each_controller() {
    let read = read(
        "--csi-address=/csi/csi.sock --controllers=attacher,provisioner,resizer --leader-election \
         --leader-election-namespace=kube-system --timeout=30s --attacher-timeout=20s \
         --attacher-worker-threads=7 --feature-gates=Topology=true",
    );
    let names: Vec<_> = read.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["provisioner", "attacher", "resizer"]);
    for (name, values) in &read {
        let timeout = if *name == "attacher" { "20s" } else { "30s" };
        assert_eq!(values.duration("timeout").to_string(), timeout, "{name}");
        assert_eq!(values.string("csi-address"), "/csi/csi.sock");
        assert!(values.bool("leader-election"));
        assert_eq!(values.string("leader-election-namespace"), "kube-system");
    }
    assert_eq!(of(&read, "attacher").uint("worker-threads"), 7);
    let topology = ("Topology".to_owned(), true);
    assert_eq!(of(&read, "provisioner").gates("feature-gates"), [topology]);
    assert!(!of(&read, "attacher").is_set("feature-gates"));
    assert!(!of(&read, "resizer").is_set("feature-gates"));
}

#[test]
fn a_3_without_a_list_of_controllers_it_says_which_there_are() {
    for line in [
        "--csi-address=/x",
        "--controllers=",
        "--controllers=,",
        "--controllers=atacher",
        "--controllers=attacher,-attacher",
    ] {
        let text = cut(line).unwrap_err();
        for program in ALL {
            assert!(text.contains(program.name), "{line}: {text}");
        }
    }
    assert!(
        cut("--controllers=atacher")
            .unwrap_err()
            .contains("\"atacher\"")
    );
}

#[test]
fn names_stars_and_exceptions_choose() {
    let pod = [
        "provisioner",
        "attacher",
        "resizer",
        "snapshotter",
        "health-monitor",
        "livenessprobe",
    ];
    assert_eq!(chosen("*"), pod);
    assert_eq!(
        chosen("*,-resizer,-snapshotter,-health-monitor"),
        ["provisioner", "attacher", "livenessprobe"]
    );
    for name in [
        "health-monitor",
        "external-health-monitor",
        "csi-external-health-monitor-controller",
    ] {
        assert_eq!(chosen(name), ["health-monitor"]);
    }
    assert_eq!(
        chosen("csi-attacher,external-resizer"),
        ["attacher", "resizer"]
    );
    for name in [
        "registrar",
        "node-driver-registrar",
        "csi-node-driver-registrar",
    ] {
        assert_eq!(chosen(name), ["node-driver-registrar"]);
    }
}

#[test]
fn a_5_a_misspelt_flag_is_answered_with_the_right_one() {
    let text = cut(&format!("{THREE} --attacher-worker-thread=7")).unwrap_err();
    assert!(text.contains("--attacher-worker-threads"), "{text}");
    let text = cut(&format!("{THREE} --timeuot=7s")).unwrap_err();
    assert!(text.contains("did you mean --timeout?"), "{text}");
    let text = cut(&format!("{THREE} --nothing-of-the-kind=7")).unwrap_err();
    assert!(text.contains("--help"), "{text}");
}

#[test]
fn two_names_of_one_thing_are_both_taken() {
    for (line, others) in [
        ("--resizer-workers=3", false),
        ("--resizer-worker-threads=3", false),
        ("--worker-threads=3", true),
        ("--workers=3", true),
    ] {
        let read = read(&format!("{THREE} {line}"));
        assert_eq!(of(&read, "resizer").int("workers"), 3, "{line}");
        for name in ["attacher", "provisioner"] {
            let set = of(&read, name).is_set("worker-threads");
            assert_eq!(set, others, "{line}: {name}");
        }
    }
}

#[test]
fn a_7_both_names_of_the_resync_reach_all_that_have_one() {
    for line in ["--resync=1m", "--resync-period=1m"] {
        let read = read(&format!("{THREE} {line}"));
        assert_eq!(of(&read, "attacher").duration("resync").to_string(), "1m0s");
        let resizer = of(&read, "resizer").duration("resync-period");
        assert_eq!(resizer.to_string(), "1m0s");
    }
}

#[test]
fn a_8_a_flag_of_a_controller_that_is_not_chosen_says_so() {
    for (flag, owners) in [
        ("--provisioner-timeout=5s", "provisioner, which is not"),
        (
            "--cloning-protection-threads=5",
            "provisioner, which is not",
        ),
        (
            "--extra-create-metadata",
            "provisioner, snapshotter, none of which is",
        ),
    ] {
        let text = cut(&format!("--controllers=attacher {flag}")).unwrap_err();
        assert!(text.contains(&format!("{owners} chosen")), "{text}");
    }
}

#[test]
fn a_9_what_holds_for_all_is_not_said_for_one() {
    for (line, flag) in [
        ("--provisioner-csi-address=/x", "--csi-address"),
        ("--attacher-leader-election=false", "--leader-election"),
        ("--resizer-v=5", "--v"),
    ] {
        let text = cut(&format!("{THREE} {line}")).unwrap_err();
        assert!(
            text.contains(&format!("{flag} is said once for all")),
            "{text}"
        );
    }
}

#[test]
fn a_10_every_flag_of_every_program_is_known() {
    for program in ALL {
        for flag in program.spec.flags() {
            let (name, default) = (flag.name, flag.default);
            // Flags accepted without effect take any value.
            let value = if flag.kind.is_boolean() && default.is_empty() {
                "true"
            } else {
                default
            };
            let own = format!("--{}-{name}={value}", program.name);
            let controllers = format!("--controllers={}", program.name);
            let listens = ["http-endpoint", "health-port"].contains(&name);
            let cut = |argument: &str| split([controllers.as_str(), argument], ALL);
            if is_once(flag) && !(program.has_own_listener && listens) {
                assert!(cut(&own).is_err(), "{own}");
            } else {
                let expected = format!("--{name}={value}");
                let arguments = match cut(&own) {
                    Ok(Line::Run(parts)) => parts[0].arguments.clone(),
                    other => panic!("{own}: {other:?}"),
                };
                assert_eq!(arguments, [expected]);
            }
            // Also without the prefix, except for a program's own listener.
            if program.has_own_listener && (listens || name.starts_with("metrics-")) {
                continue;
            }
            let common = format!("--{name}={value}");
            match cut(&common) {
                Ok(Line::Run(parts)) => assert_eq!(parts[0].arguments, [common]),
                Ok(Line::Version) => assert_eq!(name, "version"),
                other => {
                    // `--version=false` requests nothing.
                    panic!("{common}: {other:?}");
                }
            }
        }
    }
}

#[test]
fn o_73_a_flag_is_shown_under_the_name_that_sets_it() {
    for (program, flag, name) in [
        ("provisioner", "csi-address", Some("csi-address")),
        ("provisioner", "tls-cert-file", Some("tls-cert-file")),
        ("provisioner", "timeout", Some("provisioner-timeout")),
        ("resizer", "workers", Some("resizer-workers")),
        ("livenessprobe", "v", Some("v")),
        (
            "livenessprobe",
            "http-endpoint",
            Some("livenessprobe-http-endpoint"),
        ),
        ("livenessprobe", "metrics-path", None),
        ("attacher", "extra-create-metadata", None),
    ] {
        let shown = name_in_process(named(program).unwrap(), flag);
        assert_eq!(shown.as_deref(), name, "{program} --{flag}");
    }
    for program in ALL {
        for (flag, kind, default) in program.spec.table() {
            let Some(name) = name_in_process(program, flag) else {
                continue;
            };
            // Flags accepted without effect take any value.
            let value = if kind.is_boolean() && default.is_empty() {
                "true"
            } else {
                default
            };
            let controllers = format!("--controllers={}", program.name);
            let argument = format!("--{name}={value}");
            let arguments = match split([controllers.as_str(), argument.as_str()], ALL) {
                Ok(Line::Run(parts)) => parts[0].arguments.clone(),
                other => panic!("{argument}: {other:?}"),
            };
            assert_eq!(arguments, [format!("--{flag}={value}")]);
        }
    }
}

#[test]
fn each_gate_goes_to_those_that_know_it() {
    let line =
        "--feature-gates=Topology=false,AnnotateFsResize=false,ReleaseLeaderElectionOnExit=true";
    let read = read(&format!("{THREE} {line}"));
    let gates = |name: &str| {
        let gates = of(&read, name).gates("feature-gates").into_iter();
        gates
            .map(|(name, on)| format!("{name}={on}"))
            .collect::<Vec<_>>()
    };
    let all = "ReleaseLeaderElectionOnExit=true";
    assert_eq!(gates("provisioner"), ["Topology=false", all]);
    assert_eq!(gates("resizer"), ["AnnotateFsResize=false", all]);
    assert_eq!(gates("attacher"), [all]);
    // The first program reports in its own words that there is no such gate.
    let parts = parts(&format!("{THREE} --feature-gates=Nonsense=true"));
    let told: Vec<_> = parts.iter().map(|part| part.arguments.len()).collect();
    assert_eq!(told, [1, 0, 0]);
}

#[test]
fn a_gate_that_nobody_knows_is_told_whoever_has_a_list_of_its_own() {
    let line = "--provisioner-feature-gates=Topology=true --attacher-feature-gates=AllBeta=true \
                --resizer-feature-gates=AnnotateFsResize=true --feature-gates=Nonsense=true,AllAlpha=true";
    let read = read(&format!("{THREE} {line}"));
    let gates = |name| of(&read, name).gates("feature-gates").into_iter();
    let mut told: Vec<_> = gates("provisioner").map(|(name, _)| name).collect();
    told.sort();
    assert_eq!(told, ["Nonsense", "Topology"]);
    assert_eq!(gates("resizer").count(), 1);
}

/// `--health-monitor-` is a prefix, while `--health-port` has none.
#[test]
fn flags_of_the_health_monitor_are_told_from_those_of_others() {
    let read = read(
        "--controllers=attacher,health-monitor,livenessprobe --timeout=30s --health-monitor-timeout=20s \
         --monitor-interval=2m --health-monitor-worker-threads=3 --livenessprobe-health-port=9808",
    );
    let monitor = of(&read, "health-monitor");
    assert_eq!(monitor.duration("timeout").to_string(), "20s");
    assert_eq!(monitor.duration("monitor-interval").to_string(), "2m0s");
    assert_eq!(monitor.uint("worker-threads"), 3);
    let attacher = of(&read, "attacher");
    assert_eq!(attacher.duration("timeout").to_string(), "30s");
    assert!(!attacher.is_set("worker-threads"));
    let text = cut("--controllers=health-monitor --enable-otel-tracing").unwrap_err();
    assert!(text.contains("none of which is chosen"), "{text}");
}

#[test]
fn what_upstream_retired_is_passed_over_with_one_warning() {
    for (line, warned) in [
        ("--logtostderr --provisioner-log_dir=/x", "provisioner"),
        ("--attacher-log_dir /x --v=2", "attacher"),
        ("--connection-timeout=1s", "node-driver-registrar"),
        ("--snapshotter-connection-timeout=1s", "snapshotter"),
    ] {
        let line = format!(
            "--controllers=*,node-driver-registrar --node-driver-registrar-kubelet-registration-path=/p {line}"
        );
        let read = read(&line);
        let warned_by = |(_, values): &&(_, Values)| !values.warnings().is_empty();
        let names: Vec<_> = read
            .iter()
            .filter(warned_by)
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, [warned], "{line}");
    }
    for (line, hint) in [
        ("--enable-leader-election", "write --leader-election"),
        ("--resizer-csiTimeout=1s", "write --resizer-timeout"),
        ("--logtostder", "there is no flag --logtostder"),
    ] {
        let text = cut(&format!("--controllers=* {line}")).unwrap_err();
        assert!(text.contains(hint), "{text}");
    }
    let read = read(
        "--controllers=attacher,provisioner --feature-gates=HonorPVReclaimPolicy=true,StructuredAuthorizationConfiguration=true",
    );
    let gates = |name| of(&read, name).gates("feature-gates").len();
    assert_eq!((gates("provisioner"), gates("attacher")), (2, 0));
}

#[test]
fn who_is_named_is_told_from_who_is_meant_by_the_star() {
    let parts = parts("--controllers=*,resizer,-attacher");
    let named: Vec<_> = { parts.iter() }
        .filter(|part| part.is_named)
        .map(|part| part.name)
        .collect();
    assert_eq!(named, ["resizer"]);
    assert!(parts.iter().any(|part| part.name == "provisioner"));
}

#[test]
fn the_prefixed_form_wins_wherever_it_stands() {
    for line in [
        "--kube-api-qps=20 --attacher-kube-api-qps=50",
        "--attacher-kube-api-qps 50 --kube-api-qps 20",
    ] {
        let read = read(&format!("{THREE} {line}"));
        let qps = |name| of(&read, name).float("kube-api-qps");
        assert_eq!(
            [qps("provisioner"), qps("attacher"), qps("resizer")],
            [20.0, 50.0, 20.0]
        );
    }
}

#[test]
fn a_13_version_and_help_come_before_everything_else() {
    assert_eq!(cut("--version"), Ok(Line::Version));
    assert_eq!(
        cut(&format!("{THREE} --version=true --timeout=5s")),
        Ok(Line::Version)
    );
    let Ok(Line::Help(text)) = cut("--help") else {
        panic!("no help");
    };
    let sections: Vec<_> = text.lines().filter(|line| line.ends_with(':')).collect();
    assert_eq!(sections.len(), 2 + ALL.len());
    assert!(sections[1].starts_with("Once for all"));
    for (program, section) in ALL.iter().zip(&sections[2..]) {
        assert!(
            section.starts_with(&format!("For {};", program.name)),
            "{section}"
        );
        for flag in program.spec.flags().filter(|flag| !is_once(flag)) {
            let line = format!("  --{}-{}\n", program.name, flag.name);
            assert!(text.contains(&line), "{line}");
        }
    }
    for once in [
        "  --controllers\n",
        "  --csi-address\n",
        "  --leader-election\n",
        "  --v\n",
    ] {
        assert_eq!(text.matches(once).count(), 1, "{once}");
    }
}

#[test]
fn arguments_that_are_no_flags_are_refused_with_the_way_out() {
    for (line, way_out) in [
        ("-timeout=5s", "write --timeout=5s"),
        ("attacher", "flags begin with --"),
        ("--", "flags begin with --"),
        ("--=5", "flags begin with --"),
        ("--timeout", "--timeout=VALUE"),
        ("--health-port=9808", "write --livenessprobe-health-port"),
    ] {
        let text = cut(&format!("--controllers=* {line}")).unwrap_err();
        assert!(text.contains(way_out), "{line}: {text}");
    }
    assert!(cut(&format!("{THREE} -v=5")).is_ok());
}

#[test]
fn a_listener_for_old_probes_is_one_programs_own() {
    let line =
        "--controllers=*,-snapshotter --livenessprobe-http-endpoint=:9808 --http-endpoint=:8080";
    let read = read(line);
    assert_eq!(of(&read, "livenessprobe").string("http-endpoint"), ":9808");
    assert_eq!(of(&read, "provisioner").string("http-endpoint"), ":8080");
}
