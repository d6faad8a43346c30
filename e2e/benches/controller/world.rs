//! The cluster of all measurements: etcd and kube-apiserver, controllers only where they are needed
//! (they take processor time), and one driver.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use csi_test_driver::control::client::Client as Control;
use e2e::cluster::{Cluster, Options};
use e2e::node::Seat;
use e2e::process::Process;
use e2e::requests::AuditLog;
use e2e::snapshots;
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

use crate::contender::Contender;
use crate::load::Load;

/// Name of the driver.
pub(crate) const DRIVER: &str = "bench.csi.example.com";

/// No effective rate limit.
pub(crate) const UNLIMITED: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=10000"];

/// Namespace of the service accounts.
const NAMESPACE: &str = "bench";

/// Whether kube-controller-manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controllers {
    /// kube-controller-manager binds and protects claims.
    Running,
    /// kube-controller-manager does not run.
    Stopped,
}

/// A running cluster.
pub(crate) struct World {
    pub(crate) load: Load,
    pub(crate) cluster: Cluster,
}

impl World {
    pub(crate) fn up(controllers: Controllers) -> Result<Self> {
        let flags = [
            "--controllers=storage",
            "--audit-mode=batch",
            "--proxy=on",
            // The server's priority and fairness must not hold the measured programs back.
            "--apiserver-arg=--enable-priority-and-fairness=false",
            "--apiserver-arg=--max-requests-inflight=2000",
            "--apiserver-arg=--max-mutating-requests-inflight=1000",
        ];
        let cluster = Cluster::up(&Options {
            nodes: 0,
            flags: flags.map(str::to_owned).to_vec(),
        })?;
        cluster.run(&["ctl", "stop", "kube-scheduler"])?;
        if controllers == Controllers::Stopped {
            cluster.run(&["ctl", "stop", "kube-controller-manager"])?;
        }
        let load = Load::new(&cluster.kubeconfig()?)?;
        let binding = json!({
            "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": format!("system:serviceaccounts:{NAMESPACE}")}],
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        load.create(bindings, std::iter::once(binding))?;
        Ok(Self { load, cluster })
    }

    /// The cluster with the snapshot API.
    pub(crate) fn with_snapshots(controllers: Controllers) -> Result<Self> {
        let world = Self::up(controllers)?;
        snapshots::install(&world.cluster, &world.cluster.api()?)?;
        Ok(world)
    }

    /// The driver, which answers at once and lists nothing.
    pub(crate) fn driver(&self) -> Result<Driver> {
        let seat = Seat::without_kubelet(self.cluster.dir(), "bench", DRIVER)?;
        let process = seat.start_driver(&[
            "--enable-attach=true",
            "--accept-any-node=true",
            "--sync=false",
            "--mounts=fake",
            "--enable-topology=false",
            "--disable-node-expansion=true",
        ])?;
        let control = Control::new(seat.dir.join("control.sock"));
        let plain = json!({"capabilities": {"controller": ["CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "EXPAND_VOLUME"]}});
        control.set(&plain)?;
        Ok(Driver {
            control,
            socket: seat.socket(),
            record: seat.record(),
            _process: process,
        })
    }

    /// Starts a program with these flags, beside the driver unless it needs none.
    pub(crate) fn start<'a>(
        &self,
        contender: &Contender,
        driver: impl Into<Option<&'a Driver>>,
        route: Route,
        flags: &[&str],
    ) -> Result<Process> {
        let file = self.kubeconfig(contender, route)?;
        let mut command = Command::new(&contender.path);
        if let Some(driver) = driver.into() {
            command.arg(format!("--csi-address={}", driver.socket.display()));
        }
        command
            .arg(format!("--kubeconfig={}", file.display()))
            .args(contender.flags)
            .args(flags);
        self.run(contender.name, command)
    }

    /// Starts a program under another host name, which tells replicas apart. Needs root.
    pub(crate) fn start_elsewhere(
        &self,
        contender: &Contender,
        driver: &Driver,
        route: Route,
    ) -> Result<Process> {
        let file = self.kubeconfig(contender, route)?;
        let script = "echo elsewhere > /proc/sys/kernel/hostname; exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--uts", "/bin/sh", "-c", script, "sh"])
            .arg(&contender.path)
            .arg(format!("--csi-address={}", driver.socket.display()))
            .arg(format!("--kubeconfig={}", file.display()))
            .arg("--leader-election=true")
            .args(contender.flags);
        self.run("elsewhere", command)
    }

    /// Starts a command in the environment of a pod.
    pub(crate) fn spawn(&self, name: &str, mut command: Command) -> Result<Process> {
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("POD_NAMESPACE", NAMESPACE);
        Process::start(name, command, self.cluster.dir())
    }

    /// Starts a command and checks that it keeps running.
    fn run(&self, name: &str, command: Command) -> Result<Process> {
        let mut process = self.spawn(name, command)?;
        std::thread::sleep(Duration::from_millis(300));
        process.must_run()?;
        Ok(process)
    }

    pub(crate) fn kubeconfig(&self, contender: &Contender, route: Route) -> Result<PathBuf> {
        let (suffix, flag) = match route {
            Route::Direct => ("direct", None),
            Route::Proxy => ("proxy", Some("--proxy")),
        };
        let file = self
            .cluster
            .dir()
            .join(format!("{}.{suffix}", contender.name));
        if !file.exists() {
            let account = format!("{NAMESPACE}/{}", contender.name);
            let path = file.to_string_lossy();
            let mut verb = vec!["kubeconfig", "--serviceaccount", &account, "--create"];
            verb.extend(flag);
            verb.extend(["-o", &path]);
            self.cluster.run(&verb)?;
        }
        Ok(file)
    }

    /// Deletes the leases, so that the next program need not wait until they expire.
    pub(crate) fn free_leases(&self) -> Result<()> {
        let base = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        let leases = self.load.get(&base)?;
        let items = leases.pointer("/items").and_then(Value::as_array);
        let names = items.into_iter().flatten().filter_map(|lease| {
            let name = lease.pointer("/metadata/name")?.as_str()?;
            Some(format!("{base}/{name}"))
        });
        self.load.delete(names).map(drop)
    }

    /// Counts a program's requests to the API server from now on.
    pub(crate) fn audit(&self, contender: &Contender) -> Result<AuditLog<'_>> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{}", contender.name);
        AuditLog::of(&self.cluster, &user)
    }

    /// Stops everything and fails if anything is left.
    pub(crate) fn down(self) -> Result<()> {
        self.cluster.down()
    }
}

/// The way from a program to the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route {
    /// Without a proxy.
    Direct,
    /// Through the fault proxy.
    Proxy,
}

/// The running driver.
pub(crate) struct Driver {
    pub(crate) control: Control,
    pub(crate) socket: PathBuf,
    pub(crate) record: PathBuf,
    _process: Process,
}

impl Driver {
    /// A connection for calls.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let address = format!("unix:{}", self.socket.display());
        Ok(Endpoint::from_shared(address)?.connect().await?)
    }

    /// Creates volumes. Returns their handles.
    pub(crate) fn volumes(&self, count: usize) -> Result<Vec<String>> {
        let names: Vec<String> = (0..count).map(|number| format!("bench-{number}")).collect();
        Ok(self.control.make_volumes(&names, 1 << 20)?)
    }
}
