//! The command line of csi-plugin-manager, and its configuration.
//!
//! The program has no counterpart upstream; flags that kubelet has as well have the same names.

use std::path::PathBuf;

use sidecar::flags::standard::{AUTOMAXPROCS, HTTP_ENDPOINT, KUBE_API, LOGGING, VERSION};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};

use super::run::Config;

/// The flags of the registration loop.
pub static FLAGS: &[Flag] = &[
    Flag::new(
        "node-name",
        Kind::String,
        "",
        "Name of the Node whose drivers are registered. It must exist, see --register-node. \
         Defaults to the environment variable NODE_NAME.",
    ),
    Flag::new(
        "register-node",
        Kind::Bool,
        "false",
        "Create the Node if it does not exist, unschedulable, because nothing runs pods on it.",
    ),
    Flag::new(
        "kubelet-root-dir",
        Kind::String,
        "/var/lib/kubelet",
        "Directory of the kubelet that this program stands in for. Registration sockets are \
         expected in its sub-directory plugins_registry, which is created if need be.",
    ),
    Flag::new(
        "plugin-registration-dir",
        Kind::String,
        "",
        "Directory of the registration sockets, instead of the one in --kubelet-root-dir.",
    ),
];

/// All flags, with the rules of Go's `flag` package as in the registrar.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        FLAGS,
        KUBE_API,
        HTTP_ENDPOINT,
        VERSION,
        AUTOMAXPROCS,
        LOGGING,
    ],
    retired: &retired::NONE,
};

/// The command of a program that stands in for a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<C = Config> {
    /// Print the version.
    Version,
    /// Run the kubelet's part that the program implements.
    Run {
        /// The configuration.
        config: C,
        /// `--http-endpoint`, if the server is enabled.
        http: Option<String>,
    },
}

/// The command that the flags select; `node_name` is the environment variable `NODE_NAME`.
///
/// # Errors
/// Exit code 1 and a line that names the flag and the way out.
pub fn decide(values: &Values, node_name: Option<&str>) -> Result<Command, Exit> {
    if values.bool("version") {
        return Ok(Command::Version);
    }
    let flag = values.string("node-name");
    let node = if flag.is_empty() {
        node_name.unwrap_or_default()
    } else {
        flag
    };
    if node.is_empty() {
        return Err(Exit::failure(
            1,
            "--node-name is required (or the environment variable NODE_NAME): \
             the name of the Node whose drivers are to be registered",
        ));
    }
    if !is_object_name(node) {
        return Err(Exit::failure(
            1,
            format_args!(
                "--node-name={node:?}: not the name of a Node, which has at most 253 characters \
                 and consists of lower case letters, digits, '-' and '.'; see kubectl get nodes"
            ),
        ));
    }
    let endpoint = values.string("http-endpoint");
    Ok(Command::Run {
        config: Config {
            node: node.to_owned(),
            registry: registry(values)?,
            register_node: values.bool("register-node"),
        },
        http: (!endpoint.is_empty()).then(|| endpoint.to_owned()),
    })
}

fn registry(values: &Values) -> Result<PathBuf, Exit> {
    // Drivers and metrics get the socket's path.
    if values.string("plugin-registration-dir").is_empty() {
        Ok(absolute(values, "kubelet-root-dir")?.join("plugins_registry"))
    } else {
        absolute(values, "plugin-registration-dir")
    }
}

/// The directory that a flag names.
///
/// # Errors
/// The path is relative.
pub fn absolute(values: &Values, flag: &str) -> Result<PathBuf, Exit> {
    let given = values.string(flag);
    let path = PathBuf::from(given);
    if !path.is_absolute() {
        return Err(Exit::failure(
            1,
            format_args!("--{flag}={given:?}: must be an absolute path, it starts with a slash"),
        ));
    }
    Ok(path)
}

/// A lower case RFC 1123 subdomain, the rule for names of Nodes. It also makes the name safe as a
/// part of a URL's path.
fn is_object_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|c| edge(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecar::flags::parse;

    fn decided(argv: &[&str], variable: Option<&str>) -> Result<Command, String> {
        let argv = ["csi-plugin-manager"].iter().chain(argv);
        let values = parse(&SPEC, argv).unwrap();
        decide(&values, variable).map_err(|exit| {
            assert_eq!(exit.code, 1);
            exit.error.unwrap()
        })
    }

    fn run(node: &str, registry: &str) -> Result<Command, String> {
        let config = Config {
            node: node.to_owned(),
            registry: registry.into(),
            register_node: false,
        };
        Ok(Command::Run { config, http: None })
    }

    #[test]
    fn the_node_and_the_directory() {
        let usual = "/var/lib/kubelet/plugins_registry";
        assert_eq!(decided(&["--node-name=n1"], None), run("n1", usual));
        assert_eq!(decided(&[], Some("n2")), run("n2", usual));
        assert_eq!(decided(&["-node-name", "n1"], Some("n2")), run("n1", usual));
        let root = ["--node-name=n1", "--kubelet-root-dir=/k/"];
        assert_eq!(decided(&root, None), run("n1", "/k/plugins_registry"));
        let directory = [
            "--node-name=n1",
            "--kubelet-root-dir=k",
            "--plugin-registration-dir=/r",
        ];
        assert_eq!(decided(&directory, None), run("n1", "/r"));
    }

    #[test]
    fn errors_name_the_flag() {
        let rows: [(&[&str], &str); 8] = [
            (&[], "--node-name is required"),
            (&["--node-name=N1"], "--node-name=\"N1\""),
            (&["--node-name=a/../b"], "--node-name=\"a/../b\""),
            (&["--node-name=.a"], "--node-name="),
            (&["--node-name=a?x=y"], "--node-name="),
            (
                &["--node-name=n1", "--kubelet-root-dir="],
                "--kubelet-root-dir=\"\"",
            ),
            (
                &["--node-name=n1", "--kubelet-root-dir=k"],
                "--kubelet-root-dir=\"k\"",
            ),
            (
                &["--node-name=n1", "--plugin-registration-dir=r"],
                "--plugin-registration-dir=\"r\"",
            ),
        ];
        for (argv, expected) in rows {
            let error = decided(argv, None).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let long = format!("--node-name={}", "a".repeat(254));
        assert!(
            decided(&[&long], None)
                .unwrap_err()
                .starts_with("--node-name=")
        );
    }

    #[test]
    fn version_needs_nothing_else() {
        assert_eq!(decided(&["--version"], None), Ok(Command::Version));
    }
}
