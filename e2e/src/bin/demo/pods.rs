//! The pods of the charts: bound by the scheduler, prepared by kubelets, run by the demonstration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::process::{self, Process};
use e2e::wait;
use rustix::process::Signal;
use serde_json::Value;

use crate::container::{Container, Node, items};
use crate::release::NAMESPACE;
use crate::{DRIVER, SOON};

/// Zones of the nodes, in their order.
const ZONES: [&str; 3] = ["north", "north", "south"];

/// Number of nodes.
pub(crate) const NODES: u32 = 3;

/// The kubelet directory of every node, like `/var/lib/kubelet` in a real cluster: one DaemonSet
/// serves all nodes.
pub(crate) fn kubelet_dir(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("kubelet")
}

/// The nodes, each with its kubelet's directory at [`kubelet_dir`].
pub(crate) fn nodes(cluster: &Cluster) -> Result<Vec<Node>> {
    let common = kubelet_dir(cluster);
    std::fs::create_dir_all(&common)?;
    let mut nodes = Vec::new();
    for (index, zone) in ZONES.into_iter().enumerate() {
        let (name, kubelet_dir) = cluster.node(index)?;
        // Private: otherwise later mounts would appear twice, which confuses kubelets.
        let script = "mount --bind \"$0\" \"$1\" && mount --make-private \"$1\"";
        let mut mount = cluster.on_node(&name, "/bin/sh");
        mount.args(["-c", script]).arg(&kubelet_dir).arg(&common);
        process::output(&mut mount)?;
        nodes.push(Node {
            name,
            kubelet_dir,
            zone,
        });
    }
    Ok(nodes)
}

/// Waits until every pod of the charts is bound to a node and has its volumes.
pub(crate) fn until_prepared(api: &Api) -> Result<Vec<Value>> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    // The driver's controllers, the snapshot-controller, and one pod per node.
    let wanted = 2 + ZONES.len();
    let what = format!("{wanted} pods of the charts run");
    let pods = wait::until(SOON, &what, || {
        let list = api.get(&path)?;
        let running = items(&list, "/items").filter(|pod| {
            // Containers start only after their volumes are mounted.
            text(pod, "/status/phase") == Some("Running")
        });
        let running: Vec<_> = running.cloned().collect();
        Ok((running.len() == wanted).then_some(running))
    });
    pods.with_context(|| {
        let list = api.get(&path).unwrap_or_default();
        let names = items(&list, "/items").filter_map(|pod| text(pod, "/metadata/name"));
        let events = names.map(|name| api.events(NAMESPACE, name));
        events.collect::<Vec<_>>().join("\n")
    })
}

/// A running program of the charts.
#[derive(Debug)]
pub(crate) struct Program {
    /// Name of the container.
    pub(crate) name: String,
    pod: String,
    pub(crate) process: Process,
}

impl Program {
    fn must_run(&mut self) -> Result<()> {
        let ended = self.process.must_run();
        ended.with_context(|| format!("{} of pod {} has ended", self.name, self.pod))
    }
}

/// All programs of the charts; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Programs {
    all: Vec<Program>,
}

impl Programs {
    /// Starts the containers of these pods, drivers first, since sidecars wait for them.
    pub(crate) fn start(cluster: &Cluster, nodes: &[Node], pods: &[Value]) -> Result<Self> {
        let mut programs = Self { all: Vec::new() };
        for drivers in [true, false] {
            for pod in pods {
                programs.start_pod(cluster, nodes, pod, drivers)?;
            }
        }
        Ok(programs)
    }

    fn start_pod(
        &mut self,
        cluster: &Cluster,
        nodes: &[Node],
        pod: &Value,
        drivers: bool,
    ) -> Result<()> {
        let node = text(pod, "/spec/nodeName").unwrap_or_default();
        let node = nodes.iter().find(|it| it.name == node);
        let node = node.context("a pod on a node that nobody knows")?;
        let dir = pod_dir(cluster, node, pod);
        for spec in items(pod, "/spec/containers") {
            let container = Container {
                cluster,
                node,
                pod,
                spec,
                dir: &dir,
            };
            let name = container.name()?;
            if (name == "driver") != drivers {
                continue;
            }
            let process = container.start()?;
            self.all.push(Program {
                name: name.to_owned(),
                pod: text(pod, "/metadata/name").unwrap_or_default().to_owned(),
                process,
            });
        }
        Ok(())
    }

    /// Number of programs.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Fails if one of them has ended, with the reason.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        self.all.iter_mut().try_for_each(Program::must_run)
    }

    /// Waits as long as all programs run.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let found = wait::until(SOON, what, || match self.must_run() {
            Ok(()) => Ok(probe()?.map(Ok)),
            Err(ended) => Ok(Some(Err(ended))),
        });
        found.with_context(|| self.controllers())?
    }

    /// Like [`Programs::until`]; a failure includes the events of this object.
    pub(crate) fn until_about<T>(
        &mut self,
        api: &Api,
        object: &str,
        what: &str,
        probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let found = self.until(what, probe);
        match self.must_run() {
            // Events do not show why a program has ended.
            Err(_) => found,
            Ok(()) => found.with_context(|| api.events("default", object)),
        }
    }

    /// The ends of the controllers' logs.
    fn controllers(&self) -> String {
        let names = [
            "csi-provisioner",
            "csi-attacher",
            "csi-resizer",
            "csi-snapshotter",
            "csi-sidecars",
            "snapshot-controller",
        ];
        let ours = self
            .all
            .iter()
            .filter(|it| names.contains(&it.name.as_str()));
        let tails: Vec<_> = ours.map(|it| it.process.tail()).collect();
        tails.join("\n    ")
    }

    /// Resident memory of all processes, by program.
    pub(crate) fn memory(&self) -> Result<BTreeMap<String, Vec<u64>>> {
        let mut memory = BTreeMap::<_, Vec<_>>::new();
        for program in &self.all {
            let resident = program.process.resident()?;
            memory
                .entry(program.name.clone())
                .or_default()
                .push(resident);
        }
        Ok(memory)
    }

    /// Terminates all sidecars as kubelet does; fails unless each exits properly.
    pub(crate) fn stop_sidecars(&mut self) -> Result<()> {
        let mut sidecars: Vec<_> = { self.all.iter_mut() }
            .filter(|it| it.name != "driver")
            .collect();
        for sidecar in &sidecars {
            sidecar.process.signal(Signal::TERM)?;
        }
        for sidecar in &mut sidecars {
            let code = sidecar.process.exit_code(SOON)?;
            let (name, pod) = (&sidecar.name, &sidecar.pod);
            // Like upstream's, livenessprobe has nothing to clean up and dies of the signal.
            let died = name == "livenessprobe" && code == 128 + 15;
            ensure!(
                code == 0 || died,
                "{name} of pod {pod}: exit code {code}\n{}",
                sidecar.process.tail()
            );
        }
        Ok(())
    }
}

/// Directory of a pod's logs; short, because the driver's socket lies below it.
fn pod_dir(cluster: &Cluster, node: &Node, pod: &Value) -> PathBuf {
    let label = |key: &str| text(pod, &format!("/metadata/labels/app.kubernetes.io~1{key}"));
    let name = match (label("name"), label("component")) {
        (Some("snapshot-controller"), _) => "snapshots",
        (_, Some("controller")) => "controller",
        _ => &node.name,
    };
    Path::new(cluster.dir()).join("run").join("pods").join(name)
}

/// Waits until every node's kubelet has registered the driver in its CSINode.
pub(crate) fn until_registered(api: &Api, nodes: &[Node], programs: &mut Programs) -> Result<()> {
    for node in nodes {
        let what = format!("{DRIVER} is in CSINode {}", node.name);
        programs.until(&what, || Ok(entry(api, node)?.map(drop)))?;
    }
    Ok(())
}

/// Waits until no CSINode lists the driver.
pub(crate) fn until_unregistered(api: &Api, nodes: &[Node]) -> Result<()> {
    for node in nodes {
        let what = format!("{DRIVER} is out of CSINode {}", node.name);
        wait::until_true(SOON, &what, || Ok(entry(api, node)?.is_none()))?;
    }
    Ok(())
}

/// The driver's entry in the CSINode of a node.
pub(crate) fn entry(api: &Api, node: &Node) -> Result<Option<Value>> {
    let csinode = api.find(&format!("/apis/storage.k8s.io/v1/csinodes/{}", node.name))?;
    let csinode = csinode.unwrap_or_default();
    let mut drivers = items(&csinode, "/spec/drivers");
    let entry = drivers.find(|entry| text(entry, "/name") == Some(DRIVER));
    Ok(entry.cloned())
}
