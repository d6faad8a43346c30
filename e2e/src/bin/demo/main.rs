//! `make demo`: the sidecars' work, seen from outside.
//!
//! By default it shows the whole life of volumes, on a test cluster of its own (`whole`). With
//! `--kubeconfig FILE` it shows a driver's registration on the cluster of that file (`guest`).
//!
//! After success, failure or Ctrl-C it takes down everything that it has started, and says so.

mod begin;
mod container;
mod guest;
mod pods;
mod release;
mod snapshot;
mod stuck;
mod tally;
mod traced;
mod whole;
mod workload;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::interrupt;
use e2e::program;
use e2e::suite::{reasons, say};

/// The driver's name.
const DRIVER: &str = "demo.csi.example.com";

/// Time limit of a step.
const SOON: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let kubeconfig = match arguments().and_then(ready) {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => {
            say(&format!("demo: {error:#}"));
            return ExitCode::from(2);
        }
    };
    let told = match kubeconfig {
        None => whole::tell(),
        Some(file) => guest::tell(&file),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => verdict(&error),
    }
}

/// Prints the verdict of a demonstration that did not pass.
fn verdict(error: &anyhow::Error) -> ExitCode {
    match interrupt::behind(error) {
        Some(stopped) => {
            say(&format!("\ndemo: STOPPED, {stopped}"));
            ExitCode::from(stopped.exit_code())
        }
        None => {
            say(&format!("\n{}\n\ndemo: FAILED", reasons(error)));
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Option<PathBuf>> {
    let mut arguments = std::env::args().skip(1);
    match (
        arguments.next().as_deref(),
        arguments.next(),
        arguments.next(),
    ) {
        (None, ..) => Ok(None),
        (Some("--kubeconfig"), Some(file), None) if Path::new(&file).is_file() => {
            ensure!(
                !whole::is_traced()?,
                "TRACES=1 needs a cluster of the demonstration's own"
            );
            Ok(Some(file.into()))
        }
        (Some("--kubeconfig"), Some(file), None) => bail!("--kubeconfig {file}: no such file"),
        _ => bail!("usage: demo [--kubeconfig FILE]"),
    }
}

/// Fails unless this machine meets the demonstration's requirements, which `make demo` has checked
/// before it built anything. From here on signals are recorded.
fn ready(kubeconfig: Option<PathBuf>) -> Result<Option<PathBuf>> {
    let mut script = Command::new(program::root().join("e2e/needs.sh"));
    script.arg(if kubeconfig.is_some() {
        "guest"
    } else {
        "whole"
    });
    let status = script.status().context("cannot start e2e/needs.sh")?;
    ensure!(status.success(), "this machine lacks what is listed above");
    interrupt::listen()?;
    Ok(kubeconfig)
}
