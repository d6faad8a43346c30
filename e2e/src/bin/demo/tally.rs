//! The closing table: memory, requests and calls of each program.

use std::collections::BTreeMap;
use std::fmt::Write;

use e2e::calls::Calls;
use e2e::requests::{Request, Requests};
use e2e::suite::say;

use crate::release::Sidecars;

/// The sidecars in the order of their work, with the calls that only they make. Controllers in one
/// process use their own names as user agents, except for leases.
const SIDECARS: [(&str, &[&str]); 9] = [
    ("csi-node-driver-registrar", &[]),
    ("livenessprobe", &[]),
    ("csi-node-sidecars", &[]),
    ("csi-sidecars", &[]),
    ("csi-provisioner", &["CreateVolume", "DeleteVolume"]),
    (
        "csi-attacher",
        &["ControllerPublishVolume", "ControllerUnpublishVolume"],
    ),
    ("csi-resizer", &["ControllerExpandVolume"]),
    ("csi-snapshotter", &["CreateSnapshot", "DeleteSnapshot"]),
    ("snapshot-controller", &[]),
];

const IDENTITY: [&str; 4] = [
    "Probe",
    "GetPluginInfo",
    "GetPluginCapabilities",
    "ControllerGetCapabilities",
];

/// Bytes as mebibytes, for people.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The table's lines and sums.
#[derive(Debug)]
pub(crate) struct Tally {
    lines: Vec<String>,
    processes: usize,
    memory: u64,
    requests: u64,
    identity: usize,
}

impl Tally {
    /// Collects resident memory by program, the controllers' requests to the API server, and the driver's
    /// record.
    pub(crate) fn new(
        sidecars: Sidecars,
        memory: &BTreeMap<String, Vec<u64>>,
        requests: &Requests,
        calls: &Calls,
    ) -> Self {
        let mut lines = vec![
            line(
                "",
                "memory",
                ["API requests:", "", "", ""],
                "calls to the driver",
            ),
            line("", "", ["reads", "writes", "leases", "permissions"], ""),
        ];
        let is_alone = |name: &str| !["csi-sidecars", "csi-node-sidecars"].contains(&name);
        for (name, methods) in SIDECARS {
            let memory = memory.get(name).map_or(&[][..], Vec::as_slice);
            // With one process, a controller has requests but no process of its own.
            let is_shown = match sidecars {
                Sidecars::Separate => is_alone(name),
                Sidecars::Together => !memory.is_empty() || name.starts_with("csi-"),
            };
            if !is_shown || name == "csi-node-driver-registrar" && memory.is_empty() {
                continue;
            }
            let asked = asked(name, requests);
            let columns = asked.each_ref().map(String::as_str);
            let calls = counted(calls, methods);
            lines.push(line(name, &resident(memory), columns, &calls));
        }
        lines.push(String::new());
        lines.push(format!(
            "all programs, on starting and probing: {}",
            counted(calls, &IDENTITY)
        ));
        lines.push(format!("kubelets: {}", of_kubelets(calls)));
        let ours: Vec<_> = { memory.iter() }
            .filter(|(name, _)| name.as_str() != "driver")
            .flat_map(|(_, each)| each.iter().copied())
            .collect();
        Self {
            lines,
            processes: ours.len(),
            memory: ours.iter().sum(),
            requests: requests.count(|_| true),
            identity: IDENTITY.iter().map(|it| calls.of(it).count()).sum(),
        }
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        say("");
        for line in &self.lines {
            say(format!("  {line}").trim_end());
        }
    }
}

impl Tally {
    /// Prints the sums of this story beside those of another.
    pub(crate) fn print_beside(&self, other: &Self) {
        say("");
        let line = |what: &str, other: &str, own: &str| {
            say(&format!("  {what:<42}{other:>10}{own:>14}"));
        };
        line("all sidecars of the story", "separate", "one process");
        let numbers = [
            (
                "processes",
                other.processes.to_string(),
                self.processes.to_string(),
            ),
            (
                "requests to the API server",
                other.requests.to_string(),
                self.requests.to_string(),
            ),
            (
                "calls on starting and probing",
                other.identity.to_string(),
                self.identity.to_string(),
            ),
        ];
        let (separate, own) = (mebibytes(other.memory), mebibytes(self.memory));
        line(
            "memory, pages shared with others included",
            &format!("{separate:.1} MiB"),
            &format!("{own:.1} MiB"),
        );
        for (what, separate, own) in numbers {
            line(what, &separate, &own);
        }
    }
}

/// The largest process and the number of processes.
fn resident(memory: &[u64]) -> String {
    let most = memory.iter().copied().max().map_or(0.0, mebibytes);
    match memory.len() {
        0 => String::new(),
        1 => format!("{most:.1} MiB"),
        number => format!("{most:.1} MiB × {number}"),
    }
}

fn line(program: &str, memory: &str, requests: [&str; 4], calls: &str) -> String {
    let [reads, writes, leases, permissions] = requests;
    format!("{program:<27}{memory:>13}{reads:>15}{writes:>8}{leases:>8}{permissions:>13}   {calls}")
}

/// Reads, writes, requests on leases, and checks of its own permissions, which every controller makes at
/// its start. The programs share a service account, like containers of a pod, and differ in their user
/// agents.
fn asked(program: &str, requests: &Requests) -> [String; 4] {
    let agent = format!("{program}/");
    let count = |chosen: &dyn Fn(&Request) -> bool| {
        requests.count(|it| it.user_agent.starts_with(&agent) && chosen(it))
    };
    let all = count(&|_| true);
    let leases = count(&|it| it.resource == "leases");
    let permissions = count(&|it| it.resource == "selfsubjectaccessreviews");
    let reads = count(&|it| {
        it.resource != "leases" && ["get", "list", "watch"].contains(&it.verb.as_str())
    });
    let writes = all - leases - permissions - reads;
    [reads, writes, leases, permissions].map(|number| number.to_string())
}

fn counted(calls: &Calls, methods: &[&str]) -> String {
    let mut text = String::new();
    for method in methods {
        let number = calls.of(method).count();
        if number > 0 {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a text cannot fail.
            let _ = write!(text, "{separator}{number} {method}");
        }
    }
    text
}

/// Calls of the node service.
fn of_kubelets(calls: &Calls) -> String {
    let methods: std::collections::BTreeSet<_> = { calls.iter() }
        .map(|call| call.method.as_str())
        .filter(|method| method.starts_with("Node"))
        .collect();
    counted(calls, &methods.into_iter().collect::<Vec<_>>())
}
