//! One image as it is shipped: the program, what it is made of, and who made it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use oci_archive::catalogue::Entry;
use oci_archive::{Archive, Image, Layer, Program, sha256};

use crate::sbom::{self, Subject, Toolchain};
use crate::tree;

/// What all images of one run have in common.
pub(crate) struct Release {
    /// Folder with the programs.
    pub(crate) programs: PathBuf,
    /// Folder for archives and SBOMs.
    pub(crate) out: PathBuf,
    /// `registry.example.com/storage`: what stands before an image's name.
    pub(crate) registry: String,
    /// Version and tag.
    pub(crate) tag: String,
    /// Commit.
    pub(crate) revision: String,
    /// Where the source is.
    pub(crate) source: String,
    /// Triple that the programs were built for.
    pub(crate) target: String,
    /// RFC 3339; none leaves times out.
    pub(crate) created: Option<String>,
}

/// A line of the closing table.
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) platform: String,
    pub(crate) program: u64,
    pub(crate) archive: u64,
    pub(crate) digest: String,
}

/// Makes an image; writes `NAME-ARCHITECTURE.oci.tar` and `NAME-ARCHITECTURE.cdx.json`.
pub(crate) fn make(entry: &Entry, release: &Release, toolchain: &Toolchain) -> Result<Made> {
    let file = release.programs.join(entry.name);
    if !file.is_file() {
        bail!("{} is missing: `make images` builds it", file.display());
    }
    let program = Program::read(&file)?;
    let architecture = program.architecture();
    ensure!(
        Some(architecture) == processor(&release.target),
        "{} is for {architecture}, and --target={} is not",
        file.display(),
        release.target
    );
    let subject = Subject {
        name: entry.name,
        version: &release.tag,
        sha256: &sha256(program.content()),
        created: release.created.as_deref(),
    };
    let crates = tree::of(entry, &release.target)?;
    let document = sbom::document(&subject, &crates, toolchain);
    let document = format!("{document:#}\n");
    let image = Image {
        architecture: architecture.to_owned(),
        layers: vec![root(entry, &program)?, described(entry, &document)?],
        entrypoint: vec![format!("/{}", entry.name)],
        // Upstream's images say the same; the user of a pod counts, and the registrar needs root.
        user: "0".to_owned(),
        labels: labels(entry, release),
        created: release.created.clone(),
        ..Image::default()
    };
    let mut archive = Archive::new();
    let name = format!("{}/{}:{}", release.registry, entry.name, release.tag);
    let digest = archive.add(&[&name], image)?;
    let stem = format!("{}-{architecture}", entry.name);
    let written = release.out.join(format!("{stem}.oci.tar"));
    archive.write(&written)?;
    let beside = release.out.join(format!("{stem}.cdx.json"));
    std::fs::write(&beside, document)
        .with_context(|| format!("cannot write {}", beside.display()))?;
    let size = std::fs::metadata(&written).context("the archive is gone")?;
    Ok(Made {
        name: entry.name,
        platform: format!("linux/{architecture}"),
        program: u64::try_from(program.content().len())?,
        archive: size.len(),
        digest,
    })
}

/// Go's name of a triple's processor.
fn processor(target: &str) -> Option<&'static str> {
    match target.split('-').next() {
        Some("x86_64") => Some("amd64"),
        Some("aarch64") => Some("arm64"),
        _ => None,
    }
}

fn root(entry: &Entry, program: &Program) -> Result<Layer> {
    let mut layer = Layer::new();
    layer.file(&format!("/{}", entry.name), program.content(), 0o755)?;
    for link in entry.links {
        // What runs is told by the name that it was called by.
        layer.link(&format!("/{link}"), entry.name)?;
    }
    Ok(layer)
}

/// What the program is made of, where scanners of pulled images look for it.
fn described(entry: &Entry, document: &str) -> Result<Layer> {
    let mut layer = Layer::new();
    for directory in ["/usr", "/usr/share", "/usr/share/sbom"] {
        layer.directory(directory, 0o755)?;
    }
    let file = format!("/usr/share/sbom/{}.cdx.json", entry.name);
    layer.file(&file, document.as_bytes(), 0o644)?;
    Ok(layer)
}

/// Pre-defined annotation keys of the OCI image specification; what is not known is left out.
fn labels(entry: &Entry, release: &Release) -> BTreeMap<String, String> {
    let created = release.created.clone().unwrap_or_default();
    [
        ("title", entry.name),
        ("description", entry.title),
        ("version", release.tag.as_str()),
        ("revision", release.revision.as_str()),
        ("source", release.source.as_str()),
        ("licenses", "Apache-2.0"),
        ("created", created.as_str()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| {
        let key = format!("org.opencontainers.image.{key}");
        (key, value.to_owned())
    })
    .collect()
}
