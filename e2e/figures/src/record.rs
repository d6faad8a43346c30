//! Results of benchmarks: `docs/figures/recorded/PROGRAM.json`, written by `make bench` and `make chaos`.
//!
//! A run replaces the earlier one of the same profile, scale and program. Only runs that `make` starts are recorded,
//! since `make` tells their command (`FIGURES_COMMAND`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Our program, in [`Run::of`].
pub const OURS: &str = "ours";

/// Our single programs, which are compared with one process.
pub const FIVE: &str = "five programs";

/// A run: one profile of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name of the profile, such as `large`.
    pub profile: String,
    /// [`OURS`], or the program beside it.
    pub of: String,
    /// Version that another program prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Commit of the harness, and so of our program; with `-dirty` if files other than documents were changed. Some
    /// measurements of other programs are older than these records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that repeats the run.
    pub command: String,
    /// The machine, and its load at the beginning.
    pub machine: String,
    /// Part of the full size of the cluster.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub scale: f64,
    /// Values by name.
    pub figures: BTreeMap<String, f64>,
}

fn whole() -> f64 {
    1.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_whole(scale: &f64) -> bool {
    *scale == 1.0
}

/// Origin of results, the same for all results of one process.
#[derive(Debug, Clone)]
pub struct Provenance {
    pub(crate) command: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
    pub(crate) scale: f64,
}

impl Provenance {
    /// Notes the load, so call it before the measurement. `None` if `make` did not set the command.
    ///
    /// # Errors
    ///
    /// git is missing, or `SCALE` is not a number.
    pub fn now() -> Result<Option<Self>> {
        let Some(command) = environment("FIGURES_COMMAND") else {
            return Ok(None);
        };
        let scale = environment("SCALE").map_or(Ok(1.0), |scale| scale.parse())?;
        Ok(Some(Self {
            command,
            commit: commit()?,
            machine: machine(),
            scale,
        }))
    }

    /// A run of these values, without those that are not finite.
    pub fn run(
        &self,
        profile: &str,
        of: &str,
        version: Option<String>,
        figures: impl IntoIterator<Item = (String, f64)>,
    ) -> Run {
        let numbers = figures.into_iter().filter(|(_, value)| value.is_finite());
        Run {
            profile: profile.to_owned(),
            of: of.to_owned(),
            version,
            commit: Some(self.commit.clone()),
            command: self.command.clone(),
            machine: self.machine.clone(),
            scale: self.scale,
            figures: numbers.collect(),
        }
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(env!("CARGO_MANIFEST_DIR"));
    let output = command.args(arguments).output().context("git")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn commit() -> Result<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // Earlier results of the same run change only documents.
    let documents = [":(top,exclude)docs", ":(top,exclude)README.md"];
    let changed = ["status", "--porcelain", "--", ":/"];
    let changed = git(&[&changed[..], &documents[..]].concat())?;
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    Ok(commit + dirty)
}

fn machine() -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo");
    let kilobytes: u64 = { memory.split_whitespace().nth(1) }
        .and_then(|it| it.parse().ok())
        .unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "{cores} cores, {} GiB, Linux {}, load {}",
        kilobytes.div_ceil(1 << 20),
        kernel.trim(),
        load.split(' ').next().unwrap_or_default()
    )
}

/// A program's version: the last word that `--version` prints.
pub fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let last = said.lines().next()?.split_whitespace().last()?;
    output.status.success().then(|| last.to_owned())
}

/// All runs, by program.
pub type Records = BTreeMap<String, Vec<Run>>;

/// Adds runs to the file of a program and returns its path.
///
/// # Errors
///
/// The file cannot be read or written.
pub fn add(folder: &Path, program: &str, runs: Vec<Run>) -> Result<PathBuf> {
    let file = folder.join(format!("{program}.json"));
    let mut all = if file.exists() {
        read_one(&file)?
    } else {
        Vec::new()
    };
    for run in runs {
        all.retain(|it| key(it) != key(&run));
        all.push(run);
    }
    all.sort_by(|a, b| {
        let by_name = (&a.profile, &a.of).cmp(&(&b.profile, &b.of));
        by_name.then(a.scale.total_cmp(&b.scale))
    });
    fs::create_dir_all(folder)?;
    fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
    Ok(file)
}

fn key(run: &Run) -> (&str, &str, u64) {
    (&run.profile, &run.of, run.scale.to_bits())
}

/// Reads all files of a folder.
///
/// # Errors
///
/// A file cannot be read.
pub fn read(folder: &Path) -> Result<Records> {
    let mut records = Records::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = entry?.path();
        let program = file.file_stem().context("a file without name")?;
        records.insert(program.to_string_lossy().into_owned(), read_one(&file)?);
    }
    Ok(records)
}

fn read_one(file: &Path) -> Result<Vec<Run>> {
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(profile: &str, of: &str, scale: f64, value: f64) -> Run {
        let provenance = Provenance {
            command: "make bench".to_owned(),
            commit: "0123456789ab".to_owned(),
            machine: machine(),
            scale,
        };
        let figures = [("RSS, MB".to_owned(), value), ("no".to_owned(), f64::NAN)];
        provenance.run(profile, of, None, figures)
    }

    #[test]
    fn a_run_replaces_the_earlier_one_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let first = vec![
            run("large", OURS, 1.0, 1.0),
            run("large", OURS, 0.5, 2.0),
            run("large", "upstream", 1.0, 3.0),
        ];
        add(folder, "csi-attacher", first).unwrap();
        let again = vec![run("large", OURS, 1.0, 4.0)];
        add(folder, "csi-attacher", again).unwrap();
        let all = read(folder).unwrap();
        let values: Vec<_> = { all["csi-attacher"].iter() }
            .map(|it| (it.of.as_str(), it.scale, it.figures["RSS, MB"]))
            .collect();
        assert_eq!(
            values,
            [(OURS, 0.5, 2.0), (OURS, 1.0, 4.0), ("upstream", 1.0, 3.0)]
        );
        let figures = &all["csi-attacher"][0].figures;
        assert_eq!(figures.len(), 1, "what is no number is no figure");
    }

    #[test]
    fn the_commit_and_the_machine_are_known() {
        assert!(commit().unwrap().len() >= 12);
        assert!(!machine().contains(" 0 GiB"), "{}", machine());
    }
}
