use super::audit::{CALL, GRACE};
use super::*;

fn parsed(line: &str) -> Result<Ask, Exit> {
    match parse(line.split(' ').map(OsString::from))? {
        Task::Why(ask) => Ok(*ask),
        Task::Audit(ask) => panic!("{ask:?}"),
        Task::Preflight(arguments) => panic!("{arguments:?}"),
    }
}

fn audited(line: &str) -> Result<AuditAsk, Exit> {
    let parsed = parse(line.split(' ').map(OsString::from))?;
    match parsed {
        Task::Audit(ask) => Ok(*ask),
        Task::Why(_) | Task::Preflight(_) => panic!("{line}"),
    }
}

#[test]
fn an_audit_needs_an_address_and_has_defaults() {
    let ask = audited("kubectl-csi audit --csi-address /csi/csi.sock").unwrap();
    assert_eq!((ask.grace, ask.timeout), (GRACE, CALL));
    assert_eq!((ask.driver, &*ask.owned), (None, ""));
    let line = "kubectl-csi audit --csi-address=/s --driver=T --grace=1m --owned-by=prod- --csi-timeout=30s -o json --context=c";
    let ask = audited(line).unwrap();
    let seconds = (ask.grace.as_secs(), ask.timeout.as_secs());
    assert_eq!(seconds, (60, 30));
    assert_eq!((ask.driver.as_deref(), &*ask.owned), (Some("T"), "prod-"));
    assert_eq!((ask.format, &*ask.access.context), (Format::Json, "c"));
    for (flags, said) in [
        ("", "--csi-address: name the socket"),
        (
            " --csi-address=/s --grace=15x",
            "--grace=\"15x\": a duration needs a unit",
        ),
        (
            " --csi-address=/s --csi-timeout=0",
            "--csi-timeout: a call needs some time",
        ),
        (" --csi-address=/s --offline=x", "--offline"),
        (" --csi-address=/s pv/x", "pv/x"),
    ] {
        let exit = audited(&format!("kubectl-csi audit{flags}")).unwrap_err();
        assert_eq!(exit.code, 2, "{flags}");
        assert!(exit.stderr.contains(said), "{flags}: {}", exit.stderr);
    }
}

#[test]
fn what_is_behind_preflight_is_passed_on() {
    for (line, expected) in [
        ("kubectl-csi preflight", &[][..]),
        ("kubectl-csi preflight - -n csi", &["-", "-n", "csi"]),
        ("kubectl-csi preflight --help", &["--help"]),
        (
            "kubectl-csi preflight deployment/x -o json",
            &["deployment/x", "-o", "json"],
        ),
    ] {
        let Ok(Task::Preflight(arguments)) = parse(line.split(' ').map(OsString::from)) else {
            panic!("{line}");
        };
        assert_eq!(arguments, expected, "{line}");
    }
}

#[test]
fn w_37_subjects_are_written_as_for_kubectl() {
    for (line, kind, namespace, name) in [
        (
            "kubectl-csi why pod/web-0 -n shop",
            Kind::Pod,
            "shop",
            "web-0",
        ),
        (
            "kubectl-csi why -n shop pvc data",
            Kind::Claim,
            "shop",
            "data",
        ),
        ("csi-why pv/pvc-1", Kind::Volume, "", "pvc-1"),
        (
            "/usr/bin/csi-why --namespace=shop volumeattachment/csi-0a",
            Kind::Attachment,
            "",
            "csi-0a",
        ),
        (
            "kubectl-csi why node worker-1 -n shop",
            Kind::Node,
            "",
            "worker-1",
        ),
    ] {
        let subject = parsed(line).unwrap().subject.unwrap();
        assert_eq!(
            (subject.kind, &*subject.namespace, &*subject.name),
            (kind, namespace, name),
            "{line}"
        );
    }
    let ask = parsed("kubectl-csi why -A -o json --context c --as-group a --as-group b").unwrap();
    assert!(ask.subject.is_none() && ask.everywhere && ask.format == Format::Json);
    assert_eq!((&*ask.access.context, ask.access.as_groups.len()), ("c", 2));
}

#[test]
fn w_35_a_line_that_makes_no_sense_ends_with_2_and_names_what_is_wrong() {
    for (line, said) in [
        (
            "kubectl-csi why web-0",
            "write KIND/NAME, for example pod/web-0",
        ),
        ("kubectl-csi why secret/x", "\"secret\": unknown kind"),
        ("kubectl-csi why pod/../x", "not a valid name of an object"),
        ("kubectl-csi why pod/a pod/b", "one object at a time"),
        ("kubectl-csi why pod a b", "unexpected"),
        ("kubectl-csi why pod/a -A", "name its namespace"),
        ("kubectl-csi why --watch", "--watch: name what to watch"),
        (
            "kubectl-csi why pod/a --watch --offline f",
            "--watch: a file",
        ),
        ("kubectl-csi why pod/a -o yaml", "yaml"),
        ("kubectl-csi why pod/a --nonsense", "--nonsense"),
        (
            "kubectl-csi why pod/a -n A_b",
            "not a valid name of a namespace",
        ),
        ("kubectl-csi why -n A_b", "not a valid name of a namespace"),
        (
            "kubectl-csi why pod/a --request-timeout soon",
            "a duration needs a unit",
        ),
        ("kubectl-csi audit", "audit"),
        ("kubectl-csi", "Usage"),
    ] {
        let exit = parsed(line).unwrap_err();
        assert_eq!((exit.code, &*exit.stdout), (2, ""), "{line}");
        assert!(exit.stderr.contains(said), "{line}: {}", exit.stderr);
    }
}

#[test]
fn w_37_the_program_calls_itself_as_it_was_called() {
    for (line, said, not) in [
        (
            "kubectl-csi why --help",
            "Usage: kubectl csi why [OPTIONS]",
            "kubectl-csi why",
        ),
        (
            "kubectl-csi --help",
            "Usage: kubectl csi <COMMAND>",
            "kubectl-csi <",
        ),
        (
            "/usr/bin/kubectl-csi why --nonsense",
            "Usage: kubectl csi why",
            "/usr/bin",
        ),
        (
            "kubectl-csi why web-0",
            "See: kubectl csi why --help",
            "csi-why",
        ),
        (
            "csi-why --help",
            "Usage: csi-why [OPTIONS]",
            "kubectl csi why",
        ),
        ("csi-why --help", "csi-why -A", "kubectl csi why"),
        ("/usr/bin/csi-why --nonsense", "Usage: csi-why", "/usr/bin"),
        ("csi-why web-0", "See: csi-why --help", "kubectl csi"),
    ] {
        let exit = parsed(line).unwrap_err();
        let text = format!("{}{}", exit.stdout, exit.stderr);
        assert!(text.contains(said) && !text.contains(not), "{line}: {text}");
    }
}

#[test]
fn w_30_help_has_the_commands_of_a_dump() {
    let help = parsed("kubectl-csi why --help").unwrap_err().stdout;
    for command in crate::model::dumps() {
        assert!(help.contains(&command), "{command}: {help}");
    }
}

#[test]
fn help_version_manual_and_scripts_are_printed() {
    for (line, said) in [
        ("kubectl-csi --help", "why"),
        ("kubectl-csi why --help", "--offline"),
        ("csi-why --help", "--offline"),
        ("kubectl-csi audit --help", "Exit codes: 0 nothing differs"),
        ("kubectl-csi version", "kubectl-csi "),
        ("kubectl-csi manual", ".SH EXAMPLES"),
        ("kubectl-csi completion bash", "complete -F"),
        ("kubectl-csi completion zsh", "#compdef"),
        ("kubectl-csi completion fish", "complete -c csi-why"),
    ] {
        let exit = parsed(line).unwrap_err();
        assert_eq!((exit.code, &*exit.stderr), (0, ""), "{line}");
        assert!(exit.stdout.contains(said), "{line}");
    }
}

#[test]
fn every_flag_is_in_help_manual_and_scripts() {
    let why: Vec<&Flag> = FLAGS.iter().collect();
    let audit: Vec<&Flag> = audit().collect();
    let both: Vec<&Flag> = why.iter().chain(&audit).copied().collect();
    for (line, flags) in [
        ("kubectl-csi why --help", &why),
        ("kubectl-csi audit --help", &audit),
        ("kubectl-csi completion bash", &both),
        ("kubectl-csi completion zsh", &both),
        ("kubectl-csi completion fish", &both),
        ("kubectl-csi manual", &both),
    ] {
        let text = parsed(line).unwrap_err().stdout.replace('\\', "");
        for flag in flags {
            assert!(
                text.contains(&format!("-{}", flag.name))
                    || text.contains(&format!("-l {}", flag.name)),
                "{line}: {}",
                flag.name
            );
        }
    }
}
