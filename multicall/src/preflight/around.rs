//! Checks across several containers or workloads.

use std::collections::BTreeMap;

use sidecar::flags::{Kind, Values};
use sidecar::names::names_driver;

use super::container::{Container, Identity, containers, template};
use super::flags;
use super::input::{Input, list, text};
use super::program::Program;
use super::verdict::{Answer, Plan, Remark, Verdict};

/// A port that a container listens on in its node's network.
struct Listener {
    workload: String,
    container: String,
    port: String,
}

/// `Deployment csi/controller`.
pub(crate) fn called(workload: &super::input::Object) -> String {
    format!("{} {}/{}", workload.kind, workload.namespace, workload.name)
}

/// The value of a flag as text; empty if the program does not have the flag.
fn shown(values: &Values, program: &Program, flag: &str) -> String {
    match program.spec.find(flag).map(|flag| flag.kind) {
        Some(Kind::Int) => values.int(flag).to_string(),
        Some(_) => values.string(flag).to_owned(),
        None => String::new(),
    }
}

/// P-15: pods in the node's network that listen on the same port.
pub(crate) fn ports(input: &Input) -> Vec<Remark> {
    let mut listeners = Vec::new();
    for workload in input.workloads() {
        let on_host = template(workload)
            .pointer("/hostNetwork")
            .and_then(serde_json::Value::as_bool);
        if on_host != Some(true) {
            continue;
        }
        for container in containers(input, workload) {
            let Some(program) = container.program() else {
                continue;
            };
            let Ok((values, _)) = flags::read(program, &container) else {
                continue;
            };
            for flag in ["http-endpoint", "metrics-address", "health-port"] {
                // The livenessprobe's port has a default, which an endpoint overrides.
                let idle = flag == "health-port"
                    && (!values.has(flag) || !shown(&values, program, "http-endpoint").is_empty());
                if idle || !values.has(flag) {
                    continue;
                }
                let address = shown(&values, program, flag);
                let port = address.rsplit(':').next().unwrap_or_default().to_owned();
                if !matches!(&*port, "" | "0") {
                    listeners.push(Listener {
                        workload: called(workload),
                        container: container.name.to_owned(),
                        port,
                    });
                }
            }
        }
    }
    let mut by_port: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in &listeners {
        let name = format!("{} of {}", one.container, one.workload);
        by_port.entry(&one.port).or_default().push(name);
    }
    let collisions = by_port.into_iter().filter(|(_, names)| names.len() > 1);
    let remarks = collisions.map(|(port, names)| {
        Remark::new("P-15", Verdict::Change, format!("{} use port {port} of the node, so only one of them can start on each node; upstream's programs have the same conflict", names.join(" and ")))
            .way("give each another port")
    });
    remarks.collect()
}

fn text_of(value: Option<&serde_json::Value>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// The metrics that a monitor keeps of its scrapes; dropped ones need not exist.
fn kept(monitor: &serde_json::Value) -> String {
    let endpoints = list(monitor, "/spec/endpoints").iter();
    let endpoints = endpoints.chain(list(monitor, "/spec/podMetricsEndpoints"));
    let relabelings = endpoints.flat_map(|endpoint| list(endpoint, "/metricRelabelings"));
    let keeps = relabelings.filter(|one| text(one, "/action") == "keep");
    keeps
        .map(|one| text(one, "/regex"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// P-21: metrics of Go's runtime that monitors and rules of the input refer to.
pub(crate) fn metrics(input: &Input) -> Vec<Remark> {
    const FAMILIES: &[&str] = &["go_", "promhttp_", "apiserver_", "registered_metrics_total"];
    let kinds = ["ServiceMonitor", "PodMonitor", "PrometheusRule"];
    let mut remarks = Vec::new();
    for object in kinds.iter().flat_map(|kind| input.of_kind(kind)) {
        let spec = match &*object.kind {
            "PrometheusRule" => text_of(object.value.pointer("/spec")),
            _ => kept(&object.value),
        };
        let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words: Vec<_> = spec.split(|c| !of_name(c)).collect();
        words.retain(|word| FAMILIES.iter().any(|family| word.starts_with(family)));
        words.sort_unstable();
        words.dedup();
        if !words.is_empty() {
            remarks.push(
                Remark::new(
                    "P-21",
                    Verdict::Loss,
                    format!(
                        "{} names {}, which our programs do not have",
                        called(object),
                        words.join(", ")
                    ),
                )
                .way("leave them out: they are about Go's runtime")
                .at(words.first().and_then(|word| input.place(object, word))),
            );
        }
    }
    remarks
}

/// P-22: sidecars of one pod that could share one process.
pub(crate) fn together(plan: &Plan, all: &[Container<'_>]) -> Option<Remark> {
    let apart = all
        .iter()
        .filter(|one| matches!(one.identity, Identity::Sidecar(_)));
    let names: Vec<_> = { apart.filter_map(Container::program) }
        .map(|program| program.controller)
        .filter(|name| !name.is_empty())
        .collect();
    let several = names
        .iter()
        .filter(|name| **name != "livenessprobe")
        .count()
        > 1;
    several.then(|| {
        Remark::note("P-22", format!("{} sidecars of this pod could be one process, which takes less memory (docs/figures/measured.md)", names.len()))
            .way(format!("image: {}, args: [\"--controllers={}\", and their flags]", plan.image("csi-sidecars"), names.join(",")))
    })
}

/// P-23: going back to upstream's images.
pub(crate) fn back(all: &[Container<'_>]) -> Option<Remark> {
    let provisioner = all.iter().find(|one| {
        one.program()
            .is_some_and(|program| program.name == "csi-provisioner")
    })?;
    let given = provisioner.arguments.iter().find_map(|one| {
        one.trim_start_matches('-')
            .strip_prefix("leader-election-namespace=")
    });
    let namespace = given.unwrap_or(&provisioner.workload.namespace);
    Some(
        Remark::note("P-23", format!("the way back is the same command with upstream's image; what stays behind are Leases named DRIVER-journal-0 in namespace {namespace}, which upstream's ignores and which do no harm"))
            .way(format!("see docs/swap.md, Going back; kubectl get leases -n {namespace}")),
    )
}

/// P-2: containers that are none of our sidecars, a line each.
pub(crate) fn others(all: &[Container<'_>]) -> Vec<String> {
    let left = |one: &&Container<'_>| matches!(one.identity, Identity::Other | Identity::Foreign);
    all.iter()
        .filter(left)
        .map(|one| one.name.to_owned())
        .collect()
}

/// Whether a workload belongs to a driver: it mounts the driver's directory, or contains its name.
pub(crate) fn is_of(workload: &super::input::Object, driver: &str) -> bool {
    // JSON escapes a script's line ends as backslash and letter.
    let spec = template(workload).to_string().replace("\\n", " ");
    names_driver(&spec, driver)
}

/// P-2: the answers lack the sidecars of the driver's controller.
pub(crate) fn incomplete(driver: &str, answers: &[Answer]) -> Option<Remark> {
    let of_controller = ["csi-provisioner", "csi-attacher", crate::NAME];
    let found = answers
        .iter()
        .any(|one| of_controller.contains(&one.program));
    (!found).then(|| {
        Remark::new("P-2", Verdict::Unknown, format!("no csi-provisioner or csi-attacher was found beside the workloads that name {driver}, so its controller was not checked"))
            .way("name the controller's workload: csi-sidecars preflight deployment/CONTROLLER -n NAMESPACE")
    })
}
