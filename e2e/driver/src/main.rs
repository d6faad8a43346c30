//! The program: runs the driver, or one of its verbs.
//!
//! # Layout
//! `csi-test-driver --flags` runs the driver (`run`); `ctl`, `state`, `cleanup` and `check` are
//! verbs for people and scripts (`csi_test_driver::verb`).

use std::ffi::OsString;
use std::process::ExitCode;

use csi_test_driver::args::{Config, SPEC};
use csi_test_driver::{run, verb};
use sidecar::rt::{self, Exit};

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let name = argv
        .get(1)
        .and_then(|word| word.to_str())
        .unwrap_or_default();
    match verb::find(name) {
        Some(verb) => rt::finish(&verb::run(verb, argv.get(2..).unwrap_or_default())),
        None => match configure(argv) {
            Ok(config) => rt::run(async {
                run::run(config)
                    .await
                    .map_err(|error| Exit::failure(1, format_args!("{error:#}")))
            }),
            Err(exit) => rt::finish(&exit),
        },
    }
}

fn configure(argv: Vec<OsString>) -> Result<Config, Exit> {
    let values = sidecar::flags::parse(&SPEC, argv)?;
    if values.bool("version") {
        return Err(Exit::version(values.program()));
    }
    let log = sidecar::log::Config::from_flags(&values)?;
    let config = Config::from_flags(&values)?;
    sidecar::log::init(&log, &["csi_test_driver"]);
    Ok(config)
}
