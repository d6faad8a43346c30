//! The test cluster: `csi-cluster up`, its verbs, and its end.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::api::{Api, text};
use crate::{process, program, wait};

/// Start options of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of nodes, each a real kubelet in a mount namespace of its own.
    pub nodes: u32,
    /// Further flags of `csi-cluster up`.
    pub flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            flags: Vec::new(),
        }
    }
}

/// A running cluster. Dropping it takes everything down; [`Cluster::down`] also reports leftovers.
#[derive(Debug)]
pub struct Cluster {
    program: PathBuf,
    dir: TempDir,
    supervisor: Child,
    /// The cluster ends when this pipe closes, so it cannot outlive a killed test program.
    leash: Option<ChildStdin>,
    state: Value,
}

impl Cluster {
    /// Starts a cluster and waits until its nodes are ready.
    pub fn up(options: &Options) -> Result<Self> {
        let program = program::cluster()?;
        // Socket paths are limited to 107 bytes, and kubelet's lie deep below this directory. In an enclosure, the
        // directory is deleted with the enclosure.
        let parent = env::var_os("CSI_CLUSTER_ENCLOSURE").unwrap_or_else(|| "/tmp".into());
        let dir = tempfile::Builder::new().prefix("csi").tempdir_in(parent)?;
        let mut supervisor = Command::new(&program)
            .arg("up")
            .arg("--dir")
            .arg(dir.path())
            .arg("--nodes")
            .arg(options.nodes.to_string())
            .args(&options.flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(dir.path().with_extension("up.log"))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let leash = supervisor.stdin.take();
        let stdout = supervisor
            .stdout
            .take()
            .context("csi-cluster has no standard output")?;
        let mut cluster = Self {
            program,
            dir,
            supervisor,
            leash,
            state: Value::Null,
        };
        match cluster.until_ready(stdout) {
            Ok(state) => {
                cluster.state = state;
                Ok(cluster)
            }
            Err(error) => {
                let log = cluster.up_log();
                let _ = fs::remove_file(cluster.dir.path().with_extension("up.log"));
                Err(error.context(format!("the test cluster did not start\n{log}")))
            }
        }
    }

    /// The line that `csi-cluster up` prints when everything is ready; an error if it failed.
    fn until_ready(&self, stdout: ChildStdout) -> Result<Value> {
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // The receiver is gone if the user has stopped the program.
            let _ = sender.send(read.map(|_| line));
        });
        // csi-cluster has a limit of its own, and reports what did not get ready.
        let limit = Duration::from_secs(600);
        let line = wait::until(limit, "csi-cluster up ends", || match printed.try_recv() {
            Ok(line) => Ok(Some(line)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("the reader of its output has ended"),
        })?;
        Ok(serde_json::from_str(&line?)?)
    }

    fn up_log(&self) -> String {
        fs::read_to_string(self.dir.path().with_extension("up.log")).unwrap_or_default()
    }

    /// The directory with everything of the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A field of the JSON line that `csi-cluster up` printed.
    pub fn state(&self, pointer: &str) -> Result<&str> {
        text(&self.state, pointer).with_context(|| format!("csi-cluster reports no {pointer}"))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        Ok(self.state("/kubeconfig")?.into())
    }

    /// A client with the administrator's credentials.
    pub fn api(&self) -> Result<Api> {
        Api::from_kubeconfig(&self.kubeconfig()?)
    }

    /// Starts another node and waits until it is ready; returns its kubelet directory.
    pub fn add_node(&self, name: &str) -> Result<PathBuf> {
        self.add(&["ctl", "add-node", name], name)
    }

    /// Like [`Cluster::add_node`]; kubelet registers the node with a taint of this key, which keeps off pods that do
    /// not tolerate it.
    pub fn add_tainted_node(&self, name: &str, key: &str) -> Result<PathBuf> {
        self.add(&["ctl", "add-node", "--taint", key, name], name)
    }

    fn add(&self, verb: &[&str], name: &str) -> Result<PathBuf> {
        self.run(verb)?;
        let state: Value = serde_json::from_str(&self.run(&["ctl", "status"])?)?;
        let nodes = state.pointer("/nodes").and_then(Value::as_array);
        let mut nodes = nodes.into_iter().flatten();
        let node = nodes.find(|node| text(node, "/name") == Some(name));
        let dir = node.and_then(|node| text(node, "/kubeletDir"));
        let dir = dir.with_context(|| format!("csi-cluster reports no node {name}"))?;
        Ok(dir.into())
    }

    /// Like [`Cluster::add_node`], several nodes at once.
    pub fn add_nodes(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        thread::scope(|scope| {
            let add = |name| scope.spawn(move || self.add_node(name));
            let running: Vec<_> = names.iter().copied().map(add).collect();
            let dirs = running.into_iter().map(|one| match one.join() {
                Ok(dir) => dir,
                Err(panic) => resume_unwind(panic),
            });
            dirs.collect()
        })
    }

    /// Ends all processes on a node and deletes its Node object.
    pub fn remove_node(&self, name: &str) -> Result<()> {
        self.run(&["ctl", "remove-node", name]).map(drop)
    }

    /// Name and kubelet directory of a node.
    pub fn node(&self, index: usize) -> Result<(String, PathBuf)> {
        let name = self.state(&format!("/nodes/{index}/name"))?;
        let dir = self.state(&format!("/nodes/{index}/kubeletDir"))?;
        Ok((name.to_owned(), dir.into()))
    }

    /// A `csi-cluster` command line for this cluster.
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let (first, rest) = verb.split_first().unwrap_or((&"help", &[]));
        command.arg(first).arg("--dir").arg(self.dir()).args(rest);
        command
    }

    /// Runs a verb to its end.
    pub fn run(&self, verb: &[&str]) -> Result<String> {
        process::output(&mut self.command(verb))
    }

    /// A command line that runs `program` in a node's mount namespace, where it shares kubelet's mounts. It ends with
    /// its caller.
    pub fn on_node(&self, node: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(&["exec-in-node", node, "--"]);
        command.arg(program);
        command
    }

    /// Loads an archive of images into the container runtime of a real node.
    pub fn import(&self, archive: &Path) -> Result<()> {
        let path = archive.to_string_lossy();
        self.run(&["import-images", &path]).map(drop)
    }

    /// Kills a component and restarts it: `kube-apiserver`, `etcd`, a node's name, …
    pub fn restart(&self, component: &str) -> Result<()> {
        self.run(&["ctl", "restart", component]).map(drop)
    }

    /// Copies all logs to the folder in `KEEP_LOGS`: nothing else of a cluster survives.
    fn keep_logs(&self) -> Result<()> {
        let Some(target) = env::var_os("KEEP_LOGS").filter(|dir| !dir.is_empty()) else {
            return Ok(());
        };
        fs::create_dir_all(&target)?;
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(self.dir().join("log"));
        copy.arg(self.dir().join("run")).arg(&target);
        process::output(&mut copy).map(drop)
    }

    /// Takes everything down; fails if a process, mount or loop device is left.
    pub fn down(mut self) -> Result<()> {
        self.keep_logs()?;
        drop(self.leash.take());
        let limit = Duration::from_secs(60);
        let status = wait::until(limit, "the test cluster goes down", || {
            Ok(self.supervisor.try_wait()?)
        })?;
        if !status.success() {
            bail!(
                "the test cluster left something behind: {status}\n{}",
                self.up_log()
            );
        }
        let _ = fs::remove_file(self.dir.path().with_extension("up.log"));
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.leash.take());
        let limit = Duration::from_secs(60);
        let _ = wait::until(limit, "", || Ok(self.supervisor.try_wait()?));
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}
