//! The command line of csi-node-agent.
//!
//! The program has no counterpart upstream; flags that kubelet or csi-plugin-manager also have use
//! the same names.

use registrar::kubelet::args as manager;
use sidecar::flags::standard::{AUTOMAXPROCS, HTTP_ENDPOINT, KUBE_API, LOGGING, VERSION};
use sidecar::flags::{Dialect, Exit, Flag, Kind, Spec, Values, retired};

use crate::run::Config;

static FLAGS: &[Flag] = &[
    Flag::new(
        "run-pods",
        Kind::Bool,
        "true",
        "Set the pods of the node to Running once their volumes are mounted, and remove deleted \
         pods once their volumes are unmounted, as a kubelet would. No container is ever started.",
    ),
    Flag::new(
        "selinux",
        Kind::Bool,
        "false",
        "Mount persistent volumes with the SELinux label of the pod, if the driver's CSIDriver \
         object has seLinuxMount and the pod's seLinuxChangePolicy is not Recursive, as kubelet \
         does on a machine with SELinux.",
    ),
];

/// All flags; they follow the rules of Go's `flag` package, as in the registrar.
pub static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        manager::FLAGS,
        FLAGS,
        KUBE_API,
        HTTP_ENDPOINT,
        VERSION,
        AUTOMAXPROCS,
        LOGGING,
    ],
    retired: &retired::NONE,
};

/// The command to run.
pub type Command = manager::Command<Config>;

/// Turns the parsed flags into a command; `node_name` is the environment variable `NODE_NAME`.
///
/// # Errors
/// Exit code 1 and a line that names the flag and the remedy.
pub fn decide(values: &Values, node_name: Option<&str>) -> Result<Command, Exit> {
    let (registration, http) = match manager::decide(values, node_name)? {
        manager::Command::Version => return Ok(Command::Version),
        manager::Command::Run { config, http } => (config, http),
    };
    Ok(Command::Run {
        config: Config {
            registration,
            root: manager::absolute(values, "kubelet-root-dir")?,
            run_pods: values.bool("run-pods"),
            se_linux: values.bool("selinux"),
        },
        http,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use sidecar::flags::parse;

    fn decided(argv: &[&str]) -> Result<Command, String> {
        let argv = ["csi-node-agent"].iter().chain(argv);
        let values = parse(&SPEC, argv).unwrap();
        decide(&values, None).map_err(|exit| {
            assert_eq!(exit.code, 1);
            exit.error.unwrap()
        })
    }

    #[test]
    fn the_node_its_directory_and_its_pods() {
        let Ok(Command::Run { config, http }) = decided(&["--node-name=n1"]) else {
            panic!("--node-name suffices");
        };
        assert_eq!(config.root, PathBuf::from("/var/lib/kubelet"));
        let registry = PathBuf::from("/var/lib/kubelet/plugins_registry");
        assert_eq!(config.registration.registry, registry);
        assert!(config.run_pods && !config.se_linux && http.is_none());
        let argv = ["--node-name=n1", "--run-pods=false", "--selinux"];
        let Ok(Command::Run { config, .. }) = decided(&argv) else {
            panic!("known flags");
        };
        assert!(!config.run_pods && config.se_linux);
    }

    #[test]
    fn errors_name_the_flag() {
        let rows: [(&[&str], &str); 3] = [
            (&[], "--node-name is required"),
            (&["--node-name=N1"], "--node-name=\"N1\""),
            (
                &[
                    "--node-name=n1",
                    "--kubelet-root-dir=k",
                    "--plugin-registration-dir=/r",
                ],
                "--kubelet-root-dir=\"k\"",
            ),
        ];
        for (argv, expected) in rows {
            let error = decided(argv).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(decided(&["--version"]), Ok(Command::Version));
    }
}
