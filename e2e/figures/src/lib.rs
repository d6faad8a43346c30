//! What benchmarks measured, kept with the command and the commit, and drawn.
//!
//! | file | |
//! |---|---|
//! | `record` | a file of results for each program, which benchmarks write |
//! | `plots` | which results are drawn, and how they are picked |
//! | `captions` | legend and sources of a plot |
//! | `tables` | the page of all results, and README's table |
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

/// README of the repository, whose table is one of results.
pub fn readme() -> PathBuf {
    folder().join("../../README.md")
}
