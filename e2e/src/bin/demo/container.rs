//! One container of a pod, as a process.
//!
//! The test cluster's kubelets mount a pod's volumes, but their container runtime starts nothing.
//! This module does a runtime's part for the chart's containers: it runs the sidecar's program in an
//! empty, read-only root directory, with the arguments, environment, mounts and token of its
//! container. The driver needs programs of the machine, so it gets no root directory of its own.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::process::Process;
use e2e::program;
use serde_json::Value;

/// The key of a node's zone in the driver's topology.
pub(crate) const ZONE: &str = "topology.demo.csi.example.com/zone";

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Script that builds a root directory only for this process, and becomes the program in it.
/// Arguments: host name, directory, program, (source, target, ro or rw)…, `--`, arguments of the
/// program.
const BECOME: &str = r#"set -eu
echo "$1" > /proc/sys/kernel/hostname
root=$2 program=$3
shift 3
mount -t tmpfs -o mode=755 none "$root"
entry=$root/${program##*/}
: > "$entry"
mount --bind "$program" "$entry"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount -o "bind,$3" "$1" "$root$2"
    shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" "/${program##*/}" "$@"
"#;

/// The directories of a node's kubelet.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its name, which is also the driver's node ID.
    pub(crate) name: String,
    /// The kubelet's directory.
    pub(crate) kubelet_dir: PathBuf,
    /// Its zone.
    pub(crate) zone: &'static str,
}

/// A container of a pod whose volumes kubelet has mounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Container<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) node: &'a Node,
    pub(crate) pod: &'a Value,
    pub(crate) spec: &'a Value,
    /// Folder for its log and other files.
    pub(crate) dir: &'a Path,
}

impl Container<'_> {
    pub(crate) fn name(&self) -> Result<&str> {
        text(self.spec, "/name").context("a container without name")
    }

    fn pod_name(&self) -> Result<&str> {
        text(self.pod, "/metadata/name").context("a pod without name")
    }

    /// Whether its pod uses the machine's network.
    fn on_host_network(&self) -> bool {
        self.pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true))
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Result<Process> {
        let name = self.name()?;
        std::fs::create_dir_all(self.dir.join(name))?;
        let mut command = match name {
            "driver" => self.driver()?,
            "csi-attacher" => self.sidecar(&program::attacher()?)?,
            "csi-provisioner" => self.sidecar(&program::provisioner()?)?,
            "csi-resizer" => self.sidecar(&program::resizer()?)?,
            "csi-snapshotter" => self.sidecar(&program::snapshotter()?)?,
            "snapshot-controller" => self.sidecar(&program::snapshot_controller()?)?,
            "csi-node-driver-registrar" => self.sidecar(&program::registrar()?)?,
            "livenessprobe" => self.sidecar(&program::livenessprobe()?)?,
            "csi-sidecars" => self.sidecar(&program::all_in_one()?)?,
            "csi-node-sidecars" => self.sidecar(&program::node_sidecars()?)?,
            other => bail!("the chart has a container {other}, and nobody knows its program"),
        };
        command.args(self.arguments()?);
        if name == "driver" {
            // A real driver would learn the topology from its machine or data centre.
            command.arg(format!("--topology={ZONE}={}", self.node.zone));
        }
        Process::start(name, command, self.dir)
    }

    fn sidecar(&self, program: &Path) -> Result<Command> {
        let mut command = self.cluster.on_node(&self.node.name, "unshare");
        command.args(["--mount", "--uts"]);
        if !self.on_host_network() {
            // Pods of all nodes use the same ports.
            command.arg("--net");
        }
        command.args(["/bin/sh", "-c", BECOME, "sh", self.pod_name()?]);
        command.arg(self.dir.join(self.name()?)).arg(program);
        for (source, target, mode) in self.mounts()? {
            command.arg(source).args([&*target, mode]);
        }
        command.arg("--").env_clear().env("PATH", PATH);
        command.envs(self.environment()?);
        Ok(command)
    }

    /// A short link to the pod's directory, whose path would exceed the limit of a socket's address.
    fn short(&self) -> PathBuf {
        self.dir.join("driver").join("csi")
    }

    fn driver(&self) -> Result<Command> {
        let mounts = self.mounts()?;
        let socket = mounts.iter().find(|(_, inside, _)| inside == "/csi");
        let (source, ..) = socket.context("the driver's container has no /csi")?;
        symlink(source, self.short())?;
        let mut command = self.cluster.on_node(&self.node.name, program::driver()?);
        command.envs(self.environment()?);
        Ok(command)
    }

    /// Directories on the node, their paths in the container, and the mode of the mount.
    fn mounts(&self) -> Result<Vec<(PathBuf, String, &'static str)>> {
        let mut mounts = Vec::new();
        for mount in items(self.spec, "/volumeMounts") {
            let name = text(mount, "/name").context("a mount without name")?;
            let inside = text(mount, "/mountPath").context("a mount without path")?;
            let read_only = mount.pointer("/readOnly") == Some(&Value::Bool(true));
            let mode = if read_only { "ro" } else { "rw" };
            mounts.push((self.volume(name)?, inside.to_owned(), mode));
        }
        Ok(mounts)
    }

    /// The directory where kubelet has mounted a volume of the pod.
    fn volume(&self, name: &str) -> Result<PathBuf> {
        let mut volumes = items(self.pod, "/spec/volumes");
        let volume = volumes.find(|volume| text(volume, "/name") == Some(name));
        let volume = volume.with_context(|| format!("the pod has no volume {name}"))?;
        if let Some(path) = text(volume, "/hostPath/path") {
            return Ok(path.into());
        }
        let uid = text(self.pod, "/metadata/uid").context("a pod without uid")?;
        let volumes = self.node.kubelet_dir.join("pods").join(uid).join("volumes");
        for (source, folder) in [
            ("emptyDir", "kubernetes.io~empty-dir"),
            ("projected", "kubernetes.io~projected"),
        ] {
            if volume.get(source).is_some() {
                return Ok(volumes.join(folder).join(name));
            }
        }
        bail!("a volume of a kind that no pod of the chart has: {volume}")
    }

    fn environment(&self) -> Result<BTreeMap<String, String>> {
        let api_server = self.cluster.state("/apiServer")?;
        let address = api_server.trim_start_matches("https://");
        let (host, port) = address
            .split_once(':')
            .context("address of the API server")?;
        let mut variables = BTreeMap::new();
        for (name, value) in [
            ("KUBERNETES_SERVICE_HOST", host),
            ("KUBERNETES_SERVICE_PORT", port.trim_end_matches('/')),
        ] {
            variables.insert(name.to_owned(), value.to_owned());
        }
        for variable in items(self.spec, "/env") {
            let name = text(variable, "/name").context("a variable without name")?;
            let value = match text(variable, "/valueFrom/fieldRef/fieldPath") {
                Some(field) => text(self.pod, &format!("/{}", field.replace('.', "/"))),
                None => text(variable, "/value"),
            };
            let value = value.with_context(|| format!("the value of {name}"))?;
            variables.insert(name.to_owned(), value.to_owned());
        }
        if self.name()? == "driver"
            && let Some(endpoint) = variables.get_mut("CSI_ENDPOINT")
        {
            *endpoint = format!("unix://{}/csi.sock", self.short().display());
        }
        Ok(variables)
    }

    /// The arguments, with `$(NAME)` replaced as kubelet does.
    fn arguments(&self) -> Result<Vec<String>> {
        let variables = self.environment()?;
        let arguments = items(self.spec, "/args").filter_map(Value::as_str);
        Ok(arguments
            .map(|argument| {
                let mut argument = argument.to_owned();
                for (name, value) in &variables {
                    argument = argument.replace(&format!("$({name})"), value);
                }
                argument
            })
            .collect())
    }
}

/// The elements of a list that may be absent.
pub(crate) fn items<'v>(
    value: &'v Value,
    pointer: &str,
) -> impl Iterator<Item = &'v Value> + use<'v> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}
