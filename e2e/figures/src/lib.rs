//! Records results of benchmarks with the command and the commit, and draws them.
//!
//! | file | |
//! |---|---|
//! | `record` | a file of results for each program, written by benchmarks |
//! | `plots` | chooses the results to draw |
//! | `captions` | legend and sources of a plot |
//! | `tables` | the page of all results, README's table, and that of each program's memory |
//! | `svg` | bars and lines as SVG, light and dark |
//! | `cast` | the demonstration: captured as an asciicast, played as SVG |

mod captions;
pub mod cast;
pub mod plots;
pub mod record;
mod svg;
pub mod tables;

use std::path::{Path, PathBuf};

/// `docs/figures`, where results, plots and the recording are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures")
}

/// README of the repository, which has a table of results.
pub fn readme() -> PathBuf {
    folder().join("../../README.md")
}
