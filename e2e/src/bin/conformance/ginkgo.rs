//! Runs the suite's processes, and repeats the specs that one of them did not finish.
//!
//! A spec that has failed is never repeated. But the suite's process can end in the middle of specs
//! without a report. In Kubernetes 1.36 and 1.37 failures in some goroutines of
//! volume-lifecycle-performance and pvc-deletion-performance do that, because nothing recovers the
//! panic: deletions of claims with an error from the API server, and a handler that sees a claim bound
//! before the response to its creation.

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

/// Time limit of a process, for a spec that hangs.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Time limit for controllers to empty the namespaces that a process has left behind.
const CLEANUP: Duration = Duration::from_secs(180);

/// The suite's inputs.
pub(crate) struct Suite<'a> {
    cluster: &'a Cluster,
    api: &'a Api,
    selection: &'a Selection,
    dir: PathBuf,
    kubectl: PathBuf,
    definition: PathBuf,
}

impl<'a> Suite<'a> {
    /// `definition` is the driver's definition.
    pub(crate) fn new(
        cluster: &'a Cluster,
        api: &'a Api,
        selection: &'a Selection,
        definition: &str,
    ) -> Result<Self> {
        // Nobody must take the output of an earlier run for this one's.
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
        // If there is a report, the exit code adds nothing to it.
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

    /// Removes what an ended process has created: it would disturb later specs.
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
    /// The process ended without a report; the reason, if known.
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
    // The line after the panic names its place.
    let mut lines = log.lines().map(str::trim).skip_while(|line| !panics(line));
    match (lines.next(), lines.next()) {
        (Some(panic), place) => {
            format!("exit code {code}: {panic} {}", place.unwrap_or_default())
        }
        (None, _) => format!("exit code {code}; {}", run.tail()),
    }
}

/// Removes the colours that the suite gives a panic even with colours off.
fn plain(log: &str) -> String {
    let mut parts = log.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

/// Keeps a log of the suite after the run.
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
