use super::*;

fn parsed(line: &str) -> Result<Ask, Exit> {
    match parse(line.split(' ').map(OsString::from))? {
        Task::Why(ask) => Ok(*ask),
        Task::Preflight(arguments) => panic!("{arguments:?}"),
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
        ("kubectl-csi why secret/x", "\"secret\" is no kind"),
        ("kubectl-csi why pod/../x", "is no name of an object"),
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
        ("kubectl-csi why pod/a -n A_b", "no name of a namespace"),
        ("kubectl-csi why -n A_b", "no name of a namespace"),
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
    for line in [
        "kubectl-csi why --help",
        "kubectl-csi completion bash",
        "kubectl-csi completion zsh",
        "kubectl-csi completion fish",
        "kubectl-csi manual",
    ] {
        let text = parsed(line).unwrap_err().stdout.replace('\\', "");
        for flag in FLAGS {
            assert!(
                text.contains(&format!("-{}", flag.name))
                    || text.contains(&format!("-l {}", flag.name)),
                "{line}: {}",
                flag.name
            );
        }
    }
}
