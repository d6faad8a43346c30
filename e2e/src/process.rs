//! A program that a scenario has started: its log, its exit, and the guarantee that it does not
//! outlive the harness.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::wait;

/// The process groups of all running programs.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn running(change: impl FnOnce(&mut Vec<Pid>)) {
    change(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Kills everything that was started here, before an exit that runs no destructors.
pub(crate) fn kill_all() {
    running(|groups| {
        for group in groups.drain(..) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    });
}

/// A running program; dropping it kills its process group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// Bytes in the log that earlier programs of this name have written.
    earlier: usize,
}

impl Process {
    /// Starts `command` in a process group of its own. Standard output and error go to
    /// `<dir>/<name>.log`, after those of earlier programs of this name.
    pub fn start(name: &str, mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let earlier = usize::try_from(file.metadata()?.len())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}: {command:?}"))?;
        let process = Self {
            name: name.to_owned(),
            child,
            log,
            earlier,
        };
        let group = process.pid()?;
        running(|groups| groups.push(group));
        Ok(process)
    }

    fn pid(&self) -> Result<Pid> {
        let raw = i32::try_from(self.child.id())?;
        Pid::from_raw(raw).ok_or_else(|| anyhow!("{} has no process id", self.name))
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program, but not to its children.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the exit and returns the exit code; death by a signal is `128 + signal`.
    pub fn exit_code(&mut self, limit: Duration) -> Result<i32> {
        let what = format!("{} ends", self.name);
        let status = wait::until(limit, &what, || self.ended()).with_context(|| self.tail())?;
        Ok(status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Fails if the program has ended, with the end of the log.
    pub fn must_run(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}\n{}", self.name, self.tail()),
        }
    }

    /// The whole log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The log without the lines of earlier programs of its name.
    pub fn own_log(&self) -> String {
        let log = self.log();
        log.get(self.earlier..).unwrap_or_default().to_owned()
    }

    /// Waits until the log contains `text`.
    pub fn logs(&mut self, limit: Duration, text: &str) -> Result<()> {
        let what = format!("{} logs {text:?}", self.name);
        wait::until_true(limit, &what, || Ok(self.log().contains(text)))
            .with_context(|| self.tail())
    }

    /// The last lines of the log, for messages.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let from = lines.len().saturating_sub(15);
        let shown = lines.get(from..).unwrap_or_default().join("\n    ");
        format!("last lines of {}:\n    {shown}", self.log.display())
    }

    /// Resident set in bytes.
    pub fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let line = line.with_context(|| format!("{} has no resident set", self.name))?;
        let kib = line.trim().trim_end_matches(" kB").trim();
        Ok(kib.parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(pid) = self.pid() {
            running(|groups| groups.retain(|group| *group != pid));
            // Both may have ended already; then there is nothing to do.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Time after which a terminated program counts as hanging.
const END: Duration = Duration::from_secs(60);

/// Running programs.
#[derive(Debug)]
pub struct Programs(Vec<Process>);

impl Programs {
    /// Takes these processes.
    pub fn of(processes: Vec<Process>) -> Self {
        Self(processes)
    }

    /// Their process IDs.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(Process::id)
    }

    /// Fails if one has ended, with the end of its log.
    pub fn must_run(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Process::must_run)
    }

    /// The ends of all logs.
    pub fn tails(&self) -> String {
        let tails: Vec<_> = self.0.iter().map(Process::tail).collect();
        tails.join("\n")
    }

    /// Terminates them as kubelet does.
    pub fn stop(self) -> Result<()> {
        for mut process in self.0 {
            process.signal(Signal::TERM)?;
            process.exit_code(END)?;
        }
        Ok(())
    }
}

/// Runs a command to its end and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !done.status.success() {
        let error = String::from_utf8_lossy(&done.stderr);
        bail!("{command:?} ended with {}: {}", done.status, error.trim());
    }
    Ok(String::from_utf8(done.stdout)?)
}
