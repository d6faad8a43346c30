//! The command line of preflight, typed by people.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command};
use sidecar::rt::Exit;

use super::verdict::Plan;

/// The output's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Human,
    Json,
}

/// The part of a cluster to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// These workloads, as resource and name.
    Workloads(Vec<(&'static str, String)>),
    /// All workloads of a driver.
    Driver(String),
}

/// The source of the manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// A file, or standard input.
    File(PathBuf),
    Cluster(What),
}

/// The command line.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) from: From,
    pub(crate) namespace: String,
    /// Only workloads of this driver.
    pub(crate) driver: Option<String>,
    pub(crate) plan: Plan,
    pub(crate) format: Format,
    pub(crate) kubeconfig: String,
}

const EXAMPLES: &str = "Examples:
  helm template RELEASE CHART -n NAMESPACE | csi-sidecars preflight - -n NAMESPACE
  csi-sidecars preflight manifests.yaml
  csi-sidecars preflight deployment/csi-controller daemonset/csi-node -n NAMESPACE
  csi-sidecars preflight --driver my.csi.example.com

Exit codes: 0 change the images and nothing else, 5 something is less than before, or unknown, 3 something has to be
changed first or the image cannot be changed, 1 not everything could be read, 2 command line. docs/swap.md has the
whole change.";

fn command() -> Command {
    let value = |name: &'static str, called: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(called).help(help)
    };
    let what = Arg::new("what").value_name("FILE|-|KIND/NAME").num_args(0..).help(
        "Rendered manifests in a file or on standard input (-), or workloads of a cluster: deployment/NAME, daemonset/NAME, statefulset/NAME",
    );
    let namespace = value(
        "namespace",
        "NAMESPACE",
        "Namespace of workloads, and of manifests that name none",
    );
    Command::new("preflight")
        .about("What changes if the images of a driver's sidecars change: flags, hooks, probes, permissions. It only reads.")
        .no_binary_name(true)
        .bin_name("csi-sidecars preflight")
        .arg(what)
        .arg(namespace.short('n').default_value("default"))
        .arg(value("driver", "NAME", "Workloads of this driver alone; without a file, all of the cluster"))
        .arg(value("images", "REGISTRY", "Where the new images are, for what is printed"))
        .arg(value("kubernetes", "VERSION", "Version of the cluster, such as 1.36, where it is not asked"))
        .arg(value("output", "FORMAT", "Form").short('o').value_parser(["human", "json"]).default_value("human"))
        .arg(value("kubeconfig", "FILE", "Kubeconfig file; $KUBECONFIG, ~/.kube/config or the pod's account unless given"))
        .after_help(EXAMPLES)
}

/// Reads the command line after `preflight`.
///
/// # Errors
/// The text to print, and exit code 2; for `--help`, 0.
pub(crate) fn parse(argv: Vec<OsString>) -> Result<Ask, Exit> {
    let matches = command().try_get_matches_from(argv).map_err(|error| {
        let text = error.render().to_string();
        if error.kind() != ErrorKind::DisplayHelp {
            return misused(text);
        }
        Exit {
            stdout: text,
            ..Exit::with_code(0)
        }
    })?;
    ask(&matches).map_err(|problem| {
        misused(format!(
            "error: {problem}\nSee: csi-sidecars preflight --help\n"
        ))
    })
}

fn misused(stderr: String) -> Exit {
    Exit {
        stderr,
        ..Exit::with_code(2)
    }
}

fn ask(matches: &ArgMatches) -> Result<Ask, String> {
    let given = |name: &str| matches.get_one::<String>(name).cloned();
    let text = |name: &str| given(name).unwrap_or_default();
    let words: Vec<&String> = matches.get_many("what").into_iter().flatten().collect();
    let driver = given("driver");
    let namespace = text("namespace");
    if !sidecar::names::is_label(&namespace) {
        return Err(format!(
            "--namespace={namespace:?}: not a valid name of a namespace"
        ));
    }
    let kubernetes = match given("kubernetes") {
        None => None,
        Some(version) => Some(
            minor(&version).ok_or_else(|| format!("--kubernetes={version:?}: write it as 1.36"))?,
        ),
    };
    Ok(Ask {
        from: from(&words, driver.as_ref())?,
        namespace,
        driver,
        plan: Plan {
            registry: text("images"),
            kubernetes,
        },
        format: match &*text("output") {
            "json" => Format::Json,
            _ => Format::Human,
        },
        kubeconfig: text("kubeconfig"),
    })
}

/// The minor version: 36 of `v1.36.3`.
pub(crate) fn minor(version: &str) -> Option<u32> {
    let rest = version.trim_start_matches('v').strip_prefix("1.")?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

fn from(words: &[&String], driver: Option<&String>) -> Result<From, String> {
    let workload = |word: &str| -> Option<(&'static str, String)> {
        let (kind, name) = word.split_once('/')?;
        let kind = match &*kind.to_ascii_lowercase() {
            "deployment" | "deployments" | "deploy" => "deployments",
            "daemonset" | "daemonsets" | "ds" => "daemonsets",
            "statefulset" | "statefulsets" | "sts" => "statefulsets",
            _ => return None,
        };
        sidecar::names::is_subdomain(name).then(|| (kind, name.to_owned()))
    };
    let workloads: Vec<_> = words.iter().filter_map(|word| workload(word)).collect();
    match (words, driver) {
        ([], Some(driver)) => Ok(From::Cluster(What::Driver(driver.clone()))),
        ([], None) => Err("name a file, - for standard input, a workload such as deployment/NAME, or --driver NAME".to_owned()),
        _ if workloads.len() == words.len() => Ok(From::Cluster(What::Workloads(workloads))),
        ([file], _) => Ok(From::File(file.as_str().into())),
        _ => Err(format!(
            "{}: one file, or workloads such as deployment/NAME; put several files together with cat",
            words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ")
        )),
    }
}
