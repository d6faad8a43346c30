use super::*;

fn parsed(line: &str) -> Result<Ask, Exit> {
    parse(line.split(' ').map(OsString::from))
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
