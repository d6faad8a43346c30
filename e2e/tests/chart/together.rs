//! `sidecars: together`: one container, and everything else as with separate ones.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use e2e::api::text;
use e2e::chart::{self, Release, title};
use e2e::cluster::Cluster;
use e2e::suite::{self, Verdict};
use serde_json::Value;
use together::plan::split::{Line, split};
use together::programs::ALL;

use super::rendered::{SIDECARS, items, key};

const TOGETHER: &str = "sidecars=together";

/// Names of the containers that run all sidecars in one process.
pub(super) const PROCESSES: [&str; 2] = ["csi-sidecars", "csi-node-sidecars"];

/// Values that only apply to one container each, removed from the files so that these render together.
const OF_ONE_CONTAINER: [(&str, &[&str]); 3] = [
    ("ci/driver-ceph-rbd-values.yaml", &["registrar.log=null"]),
    ("ci/everything-values.yaml", &["resizer.log=null"]),
    ("ci/one-image-values.yaml", &["resizer.image="]),
];

/// The objects of a values file, rendered separate and together.
struct Pair {
    separate: Vec<Value>,
    together: Vec<Value>,
}

/// Calls `check` with every file of the matrix, rendered both ways, with additional values.
fn pairs(more: &[&str], mut check: impl FnMut(&str, &Pair) -> Result<()>) -> Result<()> {
    for file in chart::matrix("csi-sidecars")? {
        let of_one = { OF_ONE_CONTAINER.iter() }
            .filter(|(of, _)| *of == file)
            .flat_map(|(_, set)| *set);
        let set: Vec<_> = more.iter().chain(of_one).copied().collect();
        let render = |mode| {
            let mut set = set.clone();
            set.push(mode);
            let release = Release {
                chart: "csi-sidecars",
                namespace: "storage",
                file: &file,
                set: &set,
            };
            release.objects()
        };
        let pair = Pair {
            separate: render("sidecars=separate")?,
            together: render(TOGETHER)?,
        };
        check(&file, &pair).with_context(|| file.clone())?;
    }
    Ok(())
}

/// Whether the container runs one sidecar.
fn ours(name: &str) -> bool {
    SIDECARS.contains(&name) && !PROCESSES.contains(&name)
}

/// Values of each flag in order, by program and flag.
type Flags = BTreeMap<(String, String), Vec<String>>;

/// Adds `--name=value`, where a boolean flag without value is true.
fn add(flags: &mut Flags, program: &str, argument: &str) {
    let bare = argument.trim_start_matches('-');
    let (name, value) = bare.split_once('=').unwrap_or((bare, "true"));
    // The addresses differ on purpose.
    if name != "http-endpoint" {
        let of = (program.to_owned(), name.to_owned());
        flags.entry(of).or_default().push(value.to_owned());
    }
}

fn arguments(container: &Value) -> Vec<&str> {
    let arguments = items(container, "/args");
    arguments.filter_map(Value::as_str).collect()
}

fn containers(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let containers = items(object, "/spec/template/spec/containers");
    containers.filter_map(|it| Some((text(it, "/name")?, it)))
}

/// Splits the command line of one process: programs, by file name, and their flags.
pub(super) fn parts(arguments: &[&str]) -> Result<Vec<(&'static str, Vec<String>)>> {
    // The process's own address belongs to no controller.
    let of_controllers = arguments.iter().copied();
    let of_controllers = of_controllers.filter(|it| !it.starts_with("--http-endpoint="));
    let parts = match split(of_controllers, ALL) {
        Ok(Line::Run(parts)) => parts,
        Ok(other) => bail!("{other:?}"),
        Err(exit) => bail!("{}: {arguments:?}", exit.stderr),
    };
    let file = |name| {
        let program = ALL.iter().find(|it| it.name == name);
        let others = program.into_iter().flat_map(|it| it.others).copied();
        others
            .into_iter()
            .find(|it| it.starts_with("csi-"))
            .unwrap_or(name)
    };
    let parts = parts.into_iter();
    Ok(parts.map(|it| (file(it.name), it.arguments)).collect())
}

/// The flags of each program in a pod.
fn told(object: &Value) -> Result<Flags> {
    let mut flags = Flags::new();
    for (name, container) in containers(object) {
        let arguments = arguments(container);
        if PROCESSES.contains(&name) {
            for (program, arguments) in parts(&arguments)? {
                for argument in &arguments {
                    add(&mut flags, program, argument);
                }
            }
        } else if ours(name) {
            for argument in arguments {
                add(&mut flags, name, argument);
            }
        }
    }
    Ok(flags)
}

/// The command line of one process, split as the program splits it, has the flags of the single
/// containers.
pub(super) fn flags(_: &Cluster) -> Result<Verdict> {
    let mut compared = 0;
    // Flags for all programs are not compared.
    let plain = ["together.extraArgs=null"];
    pairs(&plain, |_, pair| {
        for object in &pair.separate {
            let name = title(object);
            let other = pair.together.iter().find(|it| title(it) == name);
            let (separate, together) = (told(object)?, told(other.context(name.clone())?)?);
            ensure!(
                separate == together,
                "{name}:\n  separate {separate:?}\n  together {together:?}"
            );
            compared += separate.len();
        }
        Ok(())
    })?;
    ensure!(compared > 150, "only {compared} flags");
    suite::say(&format!("    {compared} flags land where they did"));
    any_flag()?;
    Ok(Verdict::Passed)
}

/// A program's own additional arguments accept every flag that is not given once for the whole process,
/// and refuse those that are.
fn any_flag() -> Result<()> {
    let mut refused = BTreeSet::new();
    for program in ALL {
        let section = match program.name {
            "node-driver-registrar" => "registrar",
            "health-monitor" => "healthMonitor",
            other => other,
        };
        let is_once = |flag: &str| {
            let argument = format!("--{}-{flag}=1", program.name);
            let line = ["--controllers=*", "--controllers=registrar", &argument];
            split(line, ALL).is_err_and(|exit| exit.stderr.contains("said once"))
        };
        let (once, own): (Vec<_>, Vec<_>) = { program.spec.flags() }
            .map(|flag| flag.name)
            .partition(|flag| is_once(flag) || ["http-endpoint", "health-port"].contains(flag));
        let render = |flags: &[&str]| {
            let given: Vec<_> = flags.iter().map(|flag| format!("--{flag}=7")).collect();
            let extra = format!("{section}.extraArgs={{{}}}", given.join(","));
            let enabled = format!("{section}.enabled=true");
            let release = Release {
                chart: "csi-sidecars",
                namespace: "storage",
                file: "ci/minimal-values.yaml",
                set: &[TOGETHER, &enabled, &extra],
            };
            release.yaml()
        };
        let rendered = render(&own)?;
        for flag in own {
            let argument = format!("--{}-{flag}=7", program.name);
            ensure!(rendered.contains(&argument), "no {argument}");
        }
        for flag in once {
            if refused.insert(flag) {
                let error = render(&[flag]).err().with_context(|| flag.to_owned())?;
                let error = format!("{error:#}");
                ensure!(error.contains("together.extraArgs"), "{flag}: {error}");
            }
        }
    }
    ensure!(refused.len() > 20, "only {refused:?}");
    Ok(())
}

/// One container and one port; accounts, roles, permissions and everything else of the pods are the
/// same.
pub(super) fn objects(_: &Cluster) -> Result<Verdict> {
    let mut seen = BTreeSet::new();
    pairs(&[], |file, pair| {
        let separate: BTreeSet<_> = pair.separate.iter().map(key).collect();
        let together: BTreeSet<_> = pair.together.iter().map(key).collect();
        ensure!(separate == together, "{separate:?}, {together:?}");
        for object in &pair.together {
            let name = key(object);
            let before = pair.separate.iter().find(|it| key(it) == name);
            same(object, before.context("is there")?).with_context(|| name.0)?;
            seen.extend(text(object, "/kind").map(str::to_owned));
        }
        ensure!(
            file.contains("library") || pair.together.iter().any(has_process),
            "no process"
        );
        Ok(())
    })?;
    for kind in ["Deployment", "DaemonSet", "ClusterRole", "Service"] {
        ensure!(seen.contains(kind), "no {kind}");
    }
    Ok(Verdict::Passed)
}

fn has_process(object: &Value) -> bool {
    containers(object).any(|(name, _)| PROCESSES.contains(&name))
}

fn same(together: &Value, separate: &Value) -> Result<()> {
    match text(together, "/kind").unwrap_or_default() {
        "Service" => {
            let names: Vec<_> = { items(together, "/spec/ports") }
                .map(|it| (text(it, "/name"), text(it, "/targetPort")))
                .collect();
            ensure!(names == [(Some("sidecars"), Some("sidecars"))], "{names:?}");
        }
        "PodMonitor" => {
            let endpoints: Vec<_> = items(together, "/spec/podMetricsEndpoints").collect();
            ensure!(endpoints.len() == 1, "{endpoints:?}");
        }
        "ServiceMonitor" => {
            let endpoints: Vec<_> = items(together, "/spec/endpoints").collect();
            ensure!(endpoints.len() == 1, "{endpoints:?}");
            ensure!(text(together, "/spec/endpoints/0/port") == Some("sidecars"));
        }
        "Pod" => {
            let names: Vec<_> = items(together, "/spec/containers").collect();
            ensure!(names.len() == 1, "helm test asks more than one port");
        }
        // Their expressions name ports, and metrics that only one process has.
        "PrometheusRule" | "NetworkPolicy" => {}
        "Deployment" | "StatefulSet" | "DaemonSet" => pods(together, separate)?,
        _ => ensure!(together == separate, "{together} is not {separate}"),
    }
    Ok(())
}

/// Compares two workloads except for the containers of the sidecars.
fn pods(together: &Value, separate: &Value) -> Result<()> {
    let names: Vec<_> = containers(together).map(|(name, _)| name).collect();
    ensure!(!names.iter().any(|name| ours(name)), "{names:?}");
    let processes = names.iter().filter(|name| PROCESSES.contains(name));
    ensure!(processes.count() <= 1, "{names:?}");
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(list) = object.pointer_mut("/spec/template/spec/containers") {
            let list = list.as_array_mut();
            list.into_iter().for_each(|list| {
                list.retain(|it| {
                    let name = text(it, "/name").unwrap_or_default();
                    !PROCESSES.contains(&name) && !ours(name)
                });
            });
        }
        object
    };
    let (together, separate) = (rest(together), rest(separate));
    ensure!(together == separate, "{together} is not {separate}");
    Ok(())
}
