//! The smaller story, on an existing cluster: registers and unregisters a driver.
//!
//! Nothing is known about that cluster's nodes. So the demonstration creates a Node object of its
//! own, and `csi-plugin-manager` does kubelet's part; no volume is created and nothing is mounted.
//! Both objects are removed at the end, even after a failure.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::api::Api;
use e2e::node::Seat;
use e2e::process::Process;
use e2e::story::Story;
use e2e::suite::say;
use e2e::{object, program};
use rustix::process::Signal;

use crate::tally::mebibytes;
use crate::{DRIVER, SOON};

/// Removes the demonstration's objects from the user's cluster, even after a failure.
struct Guest<'a> {
    api: &'a Api,
    node: String,
}

impl Guest<'_> {
    fn paths(&self) -> [String; 2] {
        [
            format!("/apis/storage.k8s.io/v1/csinodes/{}", self.node),
            format!("/api/v1/nodes/{}", self.node),
        ]
    }

    fn leave(&self) -> Result<()> {
        let left = self.paths().map(|path| self.api.delete(&path));
        left.into_iter().collect()
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        for path in self.paths() {
            if let Err(error) = self.api.delete(&path) {
                say(&format!(
                    "  could not delete {path}: {}",
                    error.root_cause()
                ));
            }
        }
    }
}

/// Runs the story.
pub(crate) fn tell(kubeconfig: &Path) -> Result<()> {
    say(
        "  on your cluster: registration alone. The whole life of a volume takes a node where this",
    );
    say("  program may mount; `make demo` without KUBECONFIG shows it on a cluster of its own.\n");
    let mut story = Story::default();
    let api = Api::from_kubeconfig(kubeconfig)?;
    let version = story.step("the API server answers", || api.get("/version"))?;
    let version = version.get("gitVersion").and_then(|it| it.as_str());
    story.note(version.unwrap_or("version unknown"));
    let guest = Guest {
        api: &api,
        node: format!("csi-demo-{}", std::process::id()),
    };
    let what = format!(
        "node object {} is created (no kubelet stands behind it)",
        guest.node
    );
    story.step(&what, || {
        api.create("/api/v1/nodes", &object::node(&guest.node))
    })?;
    let lines = registered(&mut story, &api, kubeconfig, &guest.node)?;
    story.step("the demonstration's objects are removed", || guest.leave())?;
    say("");
    for line in lines {
        say(&format!("  {line}"));
    }
    let (steps, took) = story.total();
    let took = took.as_secs_f64();
    say(&format!("\ndemo: PASSED, {steps} steps in {took:.1} s"));
    Ok(())
}

/// Registers and unregisters the driver; returns the closing lines.
fn registered(story: &mut Story, api: &Api, kubeconfig: &Path, node: &str) -> Result<Vec<String>> {
    let dir = tempfile::Builder::new().prefix("csi").tempdir_in("/tmp")?;
    let seat = Seat::without_kubelet(dir.path(), node, DRIVER)?;
    let mut command = Command::new(program::plugin_manager()?);
    command.arg(format!("--node-name={}", seat.node));
    command.arg(format!(
        "--kubelet-root-dir={}",
        seat.kubelet_dir().display()
    ));
    command.arg(format!("--kubeconfig={}", kubeconfig.display()));
    let mut manager = story.step("csi-plugin-manager started in the kubelet's place", || {
        Process::start("plugin-manager", command, &seat.dir)
    })?;
    let driver = story.step("the driver serves its socket", || seat.start_driver(&[]))?;
    let mut registrar = story.step("csi-node-driver-registrar started", || {
        seat.start_registrar(&[])
    })?;
    let what = format!("{DRIVER} is in CSINode {}", seat.node);
    let entry = story.step(&what, || {
        let entry = seat.until_registered(api, &mut registrar);
        manager.must_run()?;
        entry.with_context(|| manager.tail())
    })?;
    story.note(&entry.to_string());
    let mut lines = Vec::new();
    for (name, process) in [
        ("csi-node-driver-registrar", &registrar),
        ("csi-plugin-manager", &manager),
        ("driver", &driver),
    ] {
        let memory = mebibytes(process.resident()?);
        lines.push(format!("resident memory  {name:<28} {memory:6.1} MiB"));
    }
    story.step("the registrar got SIGTERM and took its socket away", || {
        registrar.signal(Signal::TERM)?;
        let code = registrar.exit_code(SOON)?;
        ensure!(code == 0, "exit code {code}\n{}", registrar.tail());
        Ok(())
    })?;
    story.step(&format!("{DRIVER} is out of CSINode {}", seat.node), || {
        manager.must_run()?;
        seat.until_unregistered(api)
    })?;
    lines.push(format!("calls to driver  {}", calls(&seat)?));
    Ok(lines)
}

fn calls(seat: &Seat<'_>) -> Result<String> {
    if program::driver_is_foreign() {
        return Ok("not recorded by this driver".to_owned());
    }
    let counted = ["GetPluginInfo", "NodeGetInfo"].map(|method| {
        let number = seat.calls(method)?;
        Ok(format!("{number} {method}"))
    });
    Ok(counted.into_iter().collect::<Result<Vec<_>>>()?.join(", "))
}
