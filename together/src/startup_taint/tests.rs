//! Rows O-100 and O-114: the flags.

use super::*;

fn config(flags: &[&str]) -> Config {
    let argv = ["csi-node-sidecars", "--kubelet-registration-path=/p"];
    let argv = argv.iter().chain(flags).map(|word| (*word).to_owned());
    let values = sidecar::flags::parse(&registrar::args::SPEC, argv).unwrap();
    match registrar::args::decide(&values).unwrap() {
        registrar::args::Command::Register(config) => *config,
        other @ (registrar::args::Command::Version | registrar::args::Command::Probe) => {
            panic!("{other:?}")
        }
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

fn asked(
    flags: &[&str],
    variables: Variables<'_>,
) -> Result<Option<(Vec<Wanted>, String)>, String> {
    let variable = |name: &str| {
        let mut all = variables.iter().filter(|(key, _)| *key == name);
        all.next().map(|(_, value)| (*value).to_owned())
    };
    read(&config(flags), variable)
}

#[test]
fn o_114_the_flag_that_is_at_fault_is_named() {
    let node = [("NODE_NAME", "n1")];
    for (flags, variables, words) in [
        (
            &["--remove-taint=a"][..],
            &[][..],
            &[
                "--node-driver-registrar-remove-taint=a:",
                "--node-driver-registrar-node-name",
            ][..],
        ),
        (
            &["--remove-taint=a"],
            &[("NODE_NAME", "")],
            &["--node-driver-registrar-node-name", "NODE_NAME"],
        ),
        (
            &["--remove-taint=a", "--remove-taint=b c"],
            &node,
            &["remove-taint=b c:", "no key"],
        ),
        (
            &["--remove-taint=a:Never"],
            &node,
            &["remove-taint=a:Never:", "no effect"],
        ),
        (
            &["--remove-taint=a", "--node-name=a/../b"],
            &node,
            &["\"a/../b\" is not the name of a Node"],
        ),
    ] {
        let problem = asked(flags, variables).unwrap_err();
        for word in words {
            assert!(problem.contains(word), "{flags:?}: {problem}");
        }
    }
}

#[test]
fn o_100_o_114_the_nodes_name() {
    let both = [("CSI_NODE_NAME", "csi"), ("KUBE_NODE_NAME", "kube")];
    for (flags, variables, expected) in [
        (&[][..], &[][..], None),
        (&["--remove-taint="], &[], None),
        (&["--node-name=n1"], &[], None),
        (&["--remove-taint=a", "--node-name=n1"], &both, Some("n1")),
        (&["--remove-taint=a"], &both, Some("kube")),
        (
            &["--remove-taint=a"],
            &[("NODE_NAME", ""), ("CSI_NODE_NAME", "csi")],
            Some("csi"),
        ),
        (
            &["--remove-taint=a"],
            &[("NODE_NAME", "n"), ("CSI_NODE_NAME", "csi")],
            Some("n"),
        ),
    ] {
        let asked = asked(flags, variables).unwrap();
        let node = asked.map(|(_, node)| node);
        assert_eq!(node.as_deref(), expected, "{flags:?}");
    }
}
