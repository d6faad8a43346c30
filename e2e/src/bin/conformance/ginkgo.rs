//! Runs the suite's own processes, and repeats what one of them did not finish.
//!
//! A spec that fails has failed: it is never repeated. But the suite's process can end in the middle
//! of specs that it then says nothing about. In Kubernetes 1.36 and 1.37 a failure in some goroutines of
//! volume-lifecycle-performance and pvc-deletion-performance does that, because nothing recovers
//! the panic: deletions of claims that the API server does not answer well, and a handler that sees
//! a claim bound before its creation was answered.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::process::{self, Process};
use e2e::suite::say;
use e2e::{program, wait};
use serde_json::Value;

use crate::report::Report;
use crate::selection::{Part, Selection};
use crate::tool;

/// A spec that hangs must not hold the run for ever.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Namespaces that a process has left behind are emptied by controllers.
const CLEANUP: Duration = Duration::from_secs(180);

/// What is needed to start the suite.
pub(crate) struct Suite<'a> {
    cluster: &'a Cluster,
    api: &'a Api,
    selection: &'a Selection,
    dir: PathBuf,
    kubectl: PathBuf,
    definition: PathBuf,
}

impl<'a> Suite<'a> {
    /// `definition` is what the suite is told about the driver.
    pub(crate) fn new(
        cluster: &'a Cluster,
        api: &'a Api,
        selection: &'a Selection,
        definition: &str,
    ) -> Result<Self> {
        // What an earlier run said must not be taken for this one's.
        let _ = std::fs::remove_dir_all(kept());
        let dir = cluster.dir().join("run");
        let file = dir.join("driver.json");
        std::fs::write(&file, definition)?;
        let kubectl = dir.join("kubectl");
        symlink(program::cluster()?, &kubectl)?;
        Ok(Self {
            cluster,
            api,
            selection,
            dir,
            kubectl,
            definition: file,
        })
    }

    /// Runs all selected specs.
    pub(crate) fn run(&self) -> Result<Report> {
        let mut report = Report::default();
        for part in self.selection.parts {
            report.join(self.part(*part)?);
        }
        Ok(report)
    }

    fn part(&self, part: Part) -> Result<Report> {
        let why = match self.attempt(part, "")? {
            Outcome::Finished(report) => return Ok(report),
            Outcome::Ended(why) => why,
        };
        let name = part.name();
        say(&format!(
            "  REPEATED  the suite's process ended by itself among its {name} specs:\n            {why}"
        ));
        self.remove_leftovers()?;
        match self.attempt(part, "-again")? {
            Outcome::Finished(report) => Ok(Report {
                repeated: 1,
                ..report
            }),
            Outcome::Ended(why) => {
                bail!("the suite's process ended by itself among its {name} specs twice: {why}")
            }
        }
    }

    fn attempt(&self, part: Part, suffix: &str) -> Result<Outcome> {
        let name = format!("suite-{}{suffix}", part.name());
        let report = format!("{name}.json");
        let mut run = Process::start(&name, self.command(part, &report)?, &self.dir)?;
        // Its exit code says no more than the report, if there is one.
        let code = run.exit_code(LIMIT + Duration::from_secs(60))?;
        let report = self.dir.join(report);
        keep(&self.dir.join(format!("{name}.log")))?;
        if !report.exists() {
            return Ok(Outcome::Ended(reason(&run, code)));
        }
        keep(&report)?;
        let json = std::fs::read_to_string(&report)?;
        let json: Value = serde_json::from_str(&json).unwrap_or_default();
        Ok(match Report::read(&json) {
            Some(report) => Outcome::Finished(report),
            None => Outcome::Ended(reason(&run, code)),
        })
    }

    fn command(&self, part: Part, report: &str) -> Result<Command> {
        let mut ginkgo = Command::new(tool("ginkgo")?);
        ginkgo.current_dir(&self.dir);
        ginkgo.args(part.flags());
        ginkgo.args([
            "--no-color",
            "--silence-skips",
            "--output-interceptor-mode=none",
        ]);
        ginkgo.arg(format!("--json-report={report}"));
        ginkgo.arg(format!("--timeout={}s", LIMIT.as_secs()));
        ginkgo.arg(format!("--skip={}", self.selection.skip));
        ginkgo.arg(format!("--focus={}", self.selection.focus));
        ginkgo.arg(tool("storage.test")?).arg("--");
        ginkgo.args(["--provider=skeleton", "--num-nodes=1"]);
        let options = [
            ("kubeconfig", &self.cluster.kubeconfig()?),
            ("kubectl-path", &self.kubectl),
            ("kubelet-root-dir", &self.cluster.node(0)?.1),
            ("storage.testdriver", &self.definition),
        ];
        for (name, path) in options {
            ginkgo.arg(format!("--{name}={}", path.display()));
        }
        Ok(ginkgo)
    }

    /// What a process that ended had made would stand in the way of what comes after it.
    fn remove_leftovers(&self) -> Result<()> {
        let list = self
            .api
            .get("/api/v1/namespaces?labelSelector=e2e-framework")?;
        let items = list.pointer("/items").and_then(Value::as_array);
        let names = items.into_iter().flatten();
        let paths: Vec<_> = names
            .filter_map(|it| text(it, "/metadata/name"))
            .map(|name| format!("/api/v1/namespaces/{name}"))
            .collect();
        for path in &paths {
            self.api.delete(path)?;
        }
        for path in &paths {
            self.api.until_gone(CLEANUP, path)?;
        }
        wait::until_true(CLEANUP, "the volumes of the ended process are gone", || {
            let volumes = self.api.get("/api/v1/persistentvolumes")?;
            let items = volumes.pointer("/items").and_then(Value::as_array);
            Ok(items.is_some_and(Vec::is_empty))
        })
    }
}

enum Outcome {
    Finished(Report),
    /// The process said nothing about its specs; why, if it is known.
    Ended(String),
}

/// The panic that ended the process, or else the end of its log.
fn reason(run: &Process, code: i32) -> String {
    let log = plain(&run.log());
    let panics = |line: &&str| {
        ["panic:", "fatal error:", "signal:"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    // Where it happened is in the line after it.
    let mut lines = log.lines().map(str::trim).skip_while(|line| !panics(line));
    match (lines.next(), lines.next()) {
        (Some(panic), place) => {
            format!("exit code {code}: {panic} {}", place.unwrap_or_default())
        }
        (None, _) => format!("exit code {code}; {}", run.tail()),
    }
}

/// Without the colours that the suite gives a panic even where nobody wants them.
fn plain(log: &str) -> String {
    let mut parts = log.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

/// Keeps the suite's own words for whoever asks why.
fn keep(file: &Path) -> Result<()> {
    let target = kept();
    std::fs::create_dir_all(&target)?;
    let mut copy = Command::new("cp");
    copy.arg("--no-preserve=ownership").arg(file).arg(&target);
    process::output(&mut copy)
        .map(drop)
        .with_context(|| format!("cannot keep {}", file.display()))
}

fn kept() -> PathBuf {
    program::root().join("build").join("conformance")
}
