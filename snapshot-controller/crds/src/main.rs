//! Writes the CRDs of the snapshot API into the given folder.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1);
    let folder = PathBuf::from(folder.context("usage: snapshot-crds FOLDER")?);
    fs::create_dir_all(&folder)?;
    for definition in snapshot_crds::all() {
        let file = folder.join(&definition.file);
        let text = snapshot_crds::text(&definition)?;
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}
