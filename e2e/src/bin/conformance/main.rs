//! `make conformance`: Kubernetes' own storage suite against this project's sidecars and driver on a real node.
//! `make conformance-mock`: its specs about the mock driver that it contains.
//!
//! `REGISTRAR`, `ATTACHER`, `PROVISIONER`, `RESIZER`, `SNAPSHOTTER` and `SNAPSHOT_CONTROLLER` name other programs,
//! `HOSTPATHPLUGIN` names csi-driver-host-path, `DRIVER` the folder of any other driver. `SIDECARS=together` runs the
//! controllers beside the driver in one process.

mod definition;
mod ginkgo;
mod mock;
mod report;
mod selection;
mod subject;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use e2e::suite::{reasons, say};
use e2e::{image, program, real};

use crate::ginkgo::Suite;
use crate::selection::{Present, Selection};
use crate::subject::Subject;
use crate::system::System;

fn main() -> ExitCode {
    match conformance() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("{}\nconformance: FAILED", reasons(&error)));
            ExitCode::FAILURE
        }
    }
}

fn selection(present: Present) -> Result<Selection> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => Ok(Selection::all(present)),
        ["--quick"] => Ok(Selection::quick(present)),
        ["--focus", focus] => Ok(Selection::focused(present, focus)),
        ["--mock"] => Ok(Selection::mock("")),
        ["--mock", focus] => Ok(Selection::mock(focus)),
        other => {
            bail!("usage: conformance [--quick | --focus REGEX | --mock [REGEX]], not {other:?}")
        }
    }
}

fn present() -> Result<Present> {
    let together = program::are_together()?;
    if together {
        program::all_in_one()?;
    }
    Ok(Present {
        resizer: together || program::resizer().is_ok(),
        snapshots: (together || program::snapshotter().is_ok())
            && program::snapshot_controller().is_ok(),
    })
}

fn conformance() -> Result<bool> {
    let begun = Instant::now();
    let present = present()?;
    let selection = selection(present)?;
    if !present.resizer {
        say("  no csi-resizer here: specs that expand or modify volumes are left out");
    }
    if !present.snapshots {
        say(
            "  no csi-snapshotter or no snapshot-controller here: specs with snapshots are left out",
        );
    }
    let subject = Subject::selected(present)?;
    let cluster = real::up(&["--audit=off"])?;
    let api = cluster.api()?;
    let mut images = real::basic_images()?;
    image::agnhost(&mut images, &real::busybox(), &tool("agnhost")?)?;
    image::gnu(&mut images, &real::busybox())?;
    real::load(&cluster, &images)?;
    let mut system = if selection.is_mock() {
        mock::load_images(&cluster)?;
        System::default()
    } else {
        System::start(&cluster, &api, &subject, present)?
    };
    say(&format!(
        "  a node, a driver and its sidecars after {:.1} s",
        begun.elapsed().as_secs_f64()
    ));
    let begun = Instant::now();
    let suite = Suite::new(&cluster, &api, &selection, &subject.definition)?;
    let report = suite.run()?;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    if !report.failures.is_empty() {
        say(&report.lines());
    }
    say(&format!(
        "conformance: {}, {minutes:.1} minutes",
        report.counts()
    ));
    // This check comes last: an ended program explains the failures.
    system.must_run()?;
    drop(system);
    cluster.down()?;
    ensure!(
        report.passed + report.failures.len() > 0,
        "no spec was selected"
    );
    Ok(report.failures.is_empty())
}

/// A tool that `make conformance` builds from the pinned Kubernetes.
fn tool(name: &str) -> Result<PathBuf> {
    let path = program::root().join("build").join(name);
    ensure!(
        path.is_file(),
        "{} is missing: start this with `make conformance`",
        path.display()
    );
    Ok(path)
}
