//! `upstream FOLDER`: collects what another project's controllers print: a file per help text, and one per `/metrics`
//! of an idle controller. `ATTACHER`, `PROVISIONER` and so on name the programs. `make upstream` compares such folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use e2e::cluster::{Cluster, Options};
use e2e::controller::{
    ATTACHER, Controller, PROVISIONER, RESIZER, Route, SNAPSHOT_CONTROLLER, SNAPSHOTTER, Sidecar,
};
use e2e::node::{Seat, http_get};
use e2e::suite::{reasons, say};
use e2e::{snapshots, wait};
use sidecar_testkit::free_address;

/// The controllers, with the variables that name their programs.
const CONTROLLERS: [(Sidecar, &str); 5] = [
    (ATTACHER, "ATTACHER"),
    (PROVISIONER, "PROVISIONER"),
    (RESIZER, "RESIZER"),
    (SNAPSHOTTER, "SNAPSHOTTER"),
    (SNAPSHOT_CONTROLLER, "SNAPSHOT_CONTROLLER"),
];

/// Time for a controller's first requests and calls, which the metrics count.
const QUIET: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match look() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{}\nupstream: FAILED", reasons(&error)));
            ExitCode::FAILURE
        }
    }
}

fn look() -> Result<()> {
    let folder = env::args_os().nth(1).context("usage: upstream FOLDER")?;
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    let named = |variable| env::var_os(variable).is_some_and(|path| !path.is_empty());
    let mut sidecars = Vec::new();
    for (sidecar, variable) in CONTROLLERS {
        if named(variable) {
            fs::write(file(&folder, sidecar, "help"), help(sidecar)?)?;
            sidecars.push(sidecar);
        }
    }
    ensure!(!sidecars.is_empty(), "no variable names a controller");
    let cluster = Cluster::up(&Options::default())?;
    snapshots::install(&cluster, &cluster.api()?)?;
    let seat = Seat::new(&cluster, 0, "upstream.test")?;
    let driver = seat.start_driver(&["--enable-attach=true", "--enable-topology=false"])?;
    for sidecar in sidecars {
        let metrics = metrics(&cluster, sidecar, &seat).with_context(|| sidecar.name)?;
        fs::write(file(&folder, sidecar, "metrics"), metrics)?;
    }
    drop(driver);
    cluster.down()
}

fn file(folder: &Path, sidecar: Sidecar, what: &str) -> PathBuf {
    folder.join(format!("{}.{what}.txt", sidecar.name))
}

/// The output of `--help`, without the program's path.
fn help(sidecar: Sidecar) -> Result<String> {
    let program = (sidecar.program)()?;
    let output = Command::new(&program).arg("--help").output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.replace(&*program.to_string_lossy(), sidecar.name))
}

/// Help and type of each metric, with the names of its labels.
fn metrics(cluster: &Cluster, sidecar: Sidecar, seat: &Seat<'_>) -> Result<String> {
    let controller = Controller::install(cluster, sidecar, seat)?;
    let address = free_address();
    let flag = format!("--http-endpoint={address}");
    let mut process = controller.start("0", Route::Direct, &[&flag])?;
    let limit = Duration::from_secs(30);
    let serves = || Ok(http_get(&address, "/metrics").is_ok_and(|(code, _)| code == 200));
    wait::until_true(limit, "it serves its metrics", serves).with_context(|| process.tail())?;
    std::thread::sleep(QUIET);
    process.must_run()?;
    let (_, text) = http_get(&address, "/metrics")?;
    let lines: BTreeSet<_> = text.lines().map(shape).collect();
    Ok(lines.into_iter().collect::<Vec<_>>().join("\n") + "\n")
}

/// A line of metrics without its values.
fn shape(line: &str) -> String {
    if line.starts_with('#') {
        return line.to_owned();
    }
    let name = line.split(['{', ' ']).next().unwrap_or_default();
    let mut labels: Vec<_> = line.split("=\"").collect();
    labels.pop();
    let labels = labels
        .iter()
        .filter_map(|text| text.rsplit([',', '{']).next());
    format!("{name} {}", labels.collect::<Vec<_>>().join(","))
}
