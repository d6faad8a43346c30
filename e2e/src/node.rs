//! A driver and its registrar on one node, as a driver's DaemonSet would run them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use csi_test_driver::control::client::Client;
use serde_json::Value;

use crate::api::{Api, text};
use crate::cluster::Cluster;
use crate::process::{self, Process};
use crate::{program, wait};

/// The place of one driver's programs on one node.
#[derive(Debug)]
pub struct Seat<'a> {
    /// The cluster with the nodes' mount namespaces; `None` for a node without kubelet.
    cluster: Option<&'a Cluster>,
    /// The node whose mount namespace is used; differs from `node` for a node without kubelet.
    place: String,
    /// CSI driver name.
    pub driver: String,
    /// Name of the Node; also the node ID that the driver reports.
    pub node: String,
    kubelet_dir: PathBuf,
    /// Logs, records and driver state.
    pub dir: PathBuf,
    /// Directory of driver state and record: the processes of one driver share it.
    storage: PathBuf,
}

impl<'a> Seat<'a> {
    /// Creates the directories that a DaemonSet would mount.
    pub fn new(cluster: &'a Cluster, index: usize, driver: &str) -> Result<Self> {
        let (node, kubelet_dir) = cluster.node(index)?;
        Self::on(cluster, &node, kubelet_dir, driver)
    }

    /// Like [`Seat::new`], on a node that was added later.
    pub fn on(
        cluster: &'a Cluster,
        node: &str,
        kubelet_dir: PathBuf,
        driver: &str,
    ) -> Result<Self> {
        let dir = cluster.dir().join("run").join(format!("{driver}-{node}"));
        Self {
            cluster: Some(cluster),
            place: node.to_owned(),
            driver: driver.to_owned(),
            node: node.to_owned(),
            kubelet_dir,
            storage: dir.clone(),
            dir,
        }
        .prepare()
    }

    /// The pod of a driver's controller service. It runs on the first node and ends with it, but that
    /// node's kubelet does not know it.
    pub fn controller(cluster: &'a Cluster, driver: &str) -> Result<Self> {
        let dir = cluster.dir().join("run").join(driver);
        Self {
            cluster: Some(cluster),
            place: cluster.node(0)?.0,
            driver: driver.to_owned(),
            node: cluster.node(0)?.0,
            kubelet_dir: dir.clone(),
            storage: dir.clone(),
            dir,
        }
        .prepare()
    }

    /// Shares the volumes and the record of another process of the driver.
    #[must_use]
    pub fn sharing(self, other: &Seat<'_>) -> Self {
        Self {
            storage: other.storage.clone(),
            ..self
        }
    }

    /// A node that is only an API object: its kubelet directory is below `dir`, and another program
    /// than kubelet registers drivers there.
    pub fn without_kubelet(dir: &Path, node: &str, driver: &str) -> Result<Self> {
        let kubelet_dir = dir.join(node);
        let dir = dir.join(format!("{driver}-{node}"));
        let (driver, node) = (driver.to_owned(), node.to_owned());
        let seat = Self {
            cluster: None,
            place: String::new(),
            driver,
            node,
            kubelet_dir,
            storage: dir.clone(),
            dir,
        };
        fs::create_dir_all(seat.registry())?;
        seat.prepare()
    }

    /// Like [`Seat::without_kubelet`], in the mount namespace of the cluster's first node, where
    /// mounts end with the cluster.
    pub fn with_mounts(cluster: &'a Cluster, node: &str, driver: &str) -> Result<Self> {
        let seat = Self::without_kubelet(&cluster.dir().join("run"), node, driver)?;
        let place = cluster.node(0)?.0;
        Ok(Self {
            cluster: Some(cluster),
            place,
            ..seat
        })
    }

    fn prepare(self) -> Result<Self> {
        fs::create_dir_all(&self.dir)?;
        fs::create_dir_all(self.plugin_dir())?;
        Ok(self)
    }

    /// A command line that runs in this node's mount namespace, where it shares kubelet's mounts.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self.cluster {
            Some(cluster) => cluster.on_node(&self.place, program),
            None => Command::new(program),
        }
    }

    fn plugin_dir(&self) -> PathBuf {
        self.kubelet_dir.join("plugins").join(&self.driver)
    }

    /// The kubelet's directory of registration sockets.
    pub fn registry(&self) -> PathBuf {
        self.kubelet_dir.join("plugins_registry")
    }

    /// The kubelet's root directory.
    pub fn kubelet_dir(&self) -> &Path {
        &self.kubelet_dir
    }

    /// The driver's socket.
    pub fn socket(&self) -> PathBuf {
        self.plugin_dir().join("csi.sock")
    }

    /// The registrar's socket.
    pub fn registration_socket(&self) -> PathBuf {
        self.registry().join(format!("{}-reg.sock", self.driver))
    }

    /// The file with one line per answered call.
    pub fn record(&self) -> PathBuf {
        self.storage.join("calls.jsonl")
    }

    /// The driver's control socket: faults, settings, state.
    pub fn control(&self) -> Client {
        Client::new(self.dir.join("control.sock"))
    }

    /// Command line of the driver, with flags that csi-driver-host-path accepts too.
    pub fn driver_command(&self, flags: &[&str]) -> Result<Command> {
        let mut command = self.command(program::driver()?);
        command
            .arg(format!("--drivername={}", self.driver))
            .arg(format!("--endpoint=unix://{}", self.socket().display()))
            .arg(format!(
                "--statedir={}",
                self.storage.join("state").display()
            ))
            .arg(format!("--nodeid={}", self.node));
        if !program::driver_is_foreign() {
            command.arg(format!("--record={}", self.record().display()));
            command.arg(format!(
                "--control=unix:{}",
                self.control().path().display()
            ));
        }
        command.args(flags);
        Ok(command)
    }

    /// Starts the driver and waits for its socket.
    pub fn start_driver(&self, flags: &[&str]) -> Result<Process> {
        self.start_as_driver(self.driver_command(flags)?)
    }

    /// Starts a command as the driver and waits for its socket.
    pub fn start_as_driver(&self, command: Command) -> Result<Process> {
        let driver = Process::start("driver", command, &self.dir)?;
        self.await_driver(&driver)?;
        Ok(driver)
    }

    fn await_driver(&self, driver: &Process) -> Result<()> {
        let limit = Duration::from_secs(90);
        wait::until_true(limit, "the driver serves its socket", || {
            // The file alone may be a killed driver's.
            Ok(UnixStream::connect(self.socket()).is_ok())
        })
        .with_context(|| driver.tail())
    }

    /// Command line of the registrar, as in a driver's manifest.
    pub fn registrar_command(&self, flags: &[&str]) -> Result<Command> {
        let mut command = self.command(program::registrar()?);
        command
            .arg(format!("--csi-address={}", self.socket().display()))
            .arg(format!(
                "--kubelet-registration-path={}",
                self.socket().display()
            ))
            .arg(format!(
                "--plugin-registration-path={}",
                self.registry().display()
            ))
            .arg("-v=2")
            // The default second is short for a driver on a busy machine, and a registrar ends when it has passed.
            .arg("--timeout=1m")
            .args(flags);
        Ok(command)
    }

    /// Starts the registrar.
    pub fn start_registrar(&self, flags: &[&str]) -> Result<Process> {
        Process::start("registrar", self.registrar_command(flags)?, &self.dir)
    }

    /// The driver's entry in this node's CSINode object.
    pub fn csinode_entry(&self, api: &Api) -> Result<Option<Value>> {
        let csinode = api.find(&format!("/apis/storage.k8s.io/v1/csinodes/{}", self.node))?;
        let drivers = csinode.as_ref().and_then(|it| it.pointer("/spec/drivers"));
        let drivers = drivers
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        Ok(drivers
            .iter()
            .find(|entry| text(entry, "/name") == Some(&self.driver))
            .cloned())
    }

    /// Waits until kubelet has registered the driver in CSINode.
    pub fn until_registered(&self, api: &Api, registrar: &mut Process) -> Result<Value> {
        let what = format!("{} is in CSINode {}", self.driver, self.node);
        let entry = wait::until(Duration::from_secs(20), &what, || {
            // An ended registrar will never register: waiting longer would only hide the reason.
            Ok(match registrar.must_run() {
                Ok(()) => self.csinode_entry(api)?.map(Ok),
                Err(ended) => Some(Err(ended)),
            })
        });
        entry.with_context(|| registrar.tail())?
    }

    /// Waits until kubelet has removed the driver from CSINode.
    pub fn until_unregistered(&self, api: &Api) -> Result<()> {
        let what = format!("{} is out of CSINode {}", self.driver, self.node);
        wait::until_true(Duration::from_secs(20), &what, || {
            Ok(self.csinode_entry(api)?.is_none())
        })
    }

    /// Mount points below `path` as the node sees them.
    pub fn mounts_below(&self, path: &Path) -> Result<Vec<String>> {
        let mut cat = self.command("/bin/cat");
        let table = process::output(cat.arg("/proc/self/mountinfo"))?;
        let prefix = path.to_string_lossy().into_owned();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        Ok(points
            .filter(|point| point.starts_with(&prefix))
            .map(str::to_owned)
            .collect())
    }

    /// Runs a program to its end on the node.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        process::output(self.command(program).args(arguments))
    }

    /// Number of times the driver has answered the CSI method so far (`NodePublishVolume`, …).
    pub fn calls(&self, method: &str) -> Result<usize> {
        let record = fs::read_to_string(self.record()).unwrap_or_default();
        let mut calls = 0;
        for line in record.lines() {
            let line: Value = serde_json::from_str(line)?;
            let full = text(&line, "/method").unwrap_or_default();
            calls += usize::from(full.rsplit('/').next() == Some(method));
        }
        Ok(calls)
    }
}

/// GET over plain HTTP; status code and body.
pub fn http_get(address: &str, path: &str) -> Result<(u16, String)> {
    http(address, "GET", path, "")
}

/// A request over plain HTTP; status code and body.
pub fn http(address: &str, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .context("an HTTP answer without a body")?;
    Ok((
        status.context("an HTTP answer without a status")?,
        body.to_owned(),
    ))
}
