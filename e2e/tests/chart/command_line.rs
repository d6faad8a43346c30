//! The programs accept the command lines that the charts give them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use e2e::api::text;
use e2e::chart::Release;
use e2e::cluster::Cluster;
use e2e::program;
use e2e::suite::Verdict;
use serde_json::Value;

use super::rendered::{SIDECARS, each, items};
use super::together::{PROCESSES, parts};

fn program(name: &str) -> Result<PathBuf> {
    match name {
        "csi-attacher" => program::attacher(),
        "csi-provisioner" => program::provisioner(),
        "csi-resizer" => program::resizer(),
        "csi-snapshotter" => program::snapshotter(),
        "csi-external-health-monitor-controller" => program::health_monitor(),
        "snapshot-controller" => program::snapshot_controller(),
        "csi-node-driver-registrar" => program::registrar(),
        "livenessprobe" => program::livenessprobe(),
        other => bail!("{other} is no sidecar"),
    }
}

/// Runs a program with this command line and `--version`, which it prints only if it understands all flags. The
/// livenessprobe has no version, but its help.
pub(super) fn ask(name: &str, arguments: &[&str]) -> Result<()> {
    if PROCESSES.contains(&name) {
        for (name, arguments) in parts(arguments)? {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            ask(name, &arguments)?;
        }
        return Ok(());
    }
    let last = match name {
        "livenessprobe" => "--help",
        _ => "--version",
    };
    let mut command = Command::new(program(name)?);
    command.args(arguments).arg(last).env("NODE_NAME", "node");
    let done = command.output().with_context(|| name.to_owned())?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(
        done.status.success(),
        "{name} {arguments:?}: {}",
        said.trim()
    );
    Ok(())
}

/// a gate that will be removed makes its program warn at every start, and fail once it is removed. So no default
/// names one.
pub(super) fn gateless(_: &Cluster) -> Result<Verdict> {
    for (chart, set) in [
        ("csi-sidecars", &["resizer.enabled=true"][..]),
        (
            "csi-sidecars",
            &["resizer.enabled=true", "sidecars=together"],
        ),
        ("snapshot-controller", &[]),
    ] {
        let release = Release {
            chart,
            namespace: "storage",
            file: "ci/minimal-values.yaml",
            set,
        };
        let rendered = release.yaml()?;
        ensure!(rendered.contains("args:"), "{chart}: {rendered}");
        if let Some(line) = rendered.lines().find(|it| it.contains("feature-gates")) {
            bail!("{chart} {set:?}: {}", line.trim());
        }
    }
    Ok(Verdict::Passed)
}

pub(super) fn understood(_: &Cluster) -> Result<Verdict> {
    let mut lines = BTreeSet::new();
    let collected = std::cell::RefCell::new(&mut lines);
    each(|release| {
        for object in release.objects()? {
            for container in items(&object, "/spec/template/spec/containers") {
                let name = text(container, "/name").unwrap_or_default();
                if SIDECARS.contains(&name) {
                    let arguments = items(container, "/args").filter_map(Value::as_str);
                    let arguments: Vec<_> = arguments.map(str::to_owned).collect();
                    collected.borrow_mut().insert((name.to_owned(), arguments));
                }
            }
        }
        Ok(())
    })?;
    for (name, arguments) in &lines {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        ask(name, &arguments)?;
        let mut wrong = arguments.clone();
        wrong.push("--no-such-flag=1");
        ensure!(ask(name, &wrong).is_err(), "{name} takes any flag");
    }
    ensure!(lines.len() > 10, "only {} command lines", lines.len());
    Ok(Verdict::Passed)
}
