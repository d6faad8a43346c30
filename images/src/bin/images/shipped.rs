//! One shipped image: the program, its components, its licences and its origin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use oci_archive::catalogue::Entry;
use oci_archive::{Archive, Image, Layer, Program, sha256};

use crate::licences::{self, Sources};
use crate::sbom::{self, Subject};
use crate::system::Toolchain;
use crate::tree;

/// Upstream's PATH with the root directory in front: the proposal for one process (KEP 4958) runs
/// `csi-sidecars` without a path.
const PATH: &str = "/:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Settings that all images of one run share.
pub(crate) struct Release {
    /// Folder with the programs.
    pub(crate) programs: PathBuf,
    /// Folder for archives and SBOMs.
    pub(crate) out: PathBuf,
    /// Prefix of an image's name, such as `registry.example.com/storage`.
    pub(crate) registry: String,
    /// Version and tag.
    pub(crate) tag: String,
    /// The version in the programs: `git describe` of the revision.
    pub(crate) program_version: String,
    /// The commit; empty if the programs do not come from one.
    pub(crate) revision: String,
    /// URL of the source.
    pub(crate) source: String,
    /// The target triple of the programs.
    pub(crate) target: String,
    /// RFC 3339; `None` omits times.
    pub(crate) created: Option<String>,
}

/// A row of the closing table.
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) platform: String,
    pub(crate) program: u64,
    pub(crate) archive: u64,
    pub(crate) digest: String,
}

/// Whether a program contains this version, and not a longer one that begins with it.
///
/// Like upstream's, livenessprobe has no `--version`, and a program for another architecture cannot run
/// here: so the text is searched for.
fn says(program: &[u8], version: &str) -> bool {
    let after = |at: usize| program.get(at + version.len()..).unwrap_or_default();
    let mut places = program
        .windows(version.len().max(1))
        .enumerate()
        .filter(|(_, window)| *window == version.as_bytes());
    places.any(|(at, _)| !continues(after(at)))
}

/// Whether `git describe` continues here: with `-dirty`, or with `-N-gHASH` after a tag.
fn continues(rest: &[u8]) -> bool {
    let Some(rest) = rest.strip_prefix(b"-") else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let counted = digits > 0 && rest.get(digits..).is_some_and(|it| it.starts_with(b"-g"));
    counted || rest.starts_with(b"dirty")
}

/// Builds an image; writes `NAME-ARCHITECTURE.oci.tar` and `NAME-ARCHITECTURE.cdx.json`.
pub(crate) fn make(
    entry: &Entry,
    release: &Release,
    toolchain: &Toolchain,
    sources: &Sources,
) -> Result<Made> {
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
    ensure!(
        says(program.content(), &release.program_version),
        "{} was not built as version {}, and what is written about it would be about another program: \
         `make images` builds it again",
        file.display(),
        release.program_version
    );
    let subject = Subject {
        name: entry.name,
        version: &release.tag,
        sha256: &sha256(program.content()),
        revision: &release.revision,
        created: release.created.as_deref(),
    };
    let crates = tree::of(entry, &release.target)?;
    let document = sbom::document(&subject, &crates, toolchain);
    let document = format!("{document:#}\n");
    let about = licences::Subject {
        name: entry.name,
        version: &release.tag,
        source: &release.source,
        revision: &release.revision,
    };
    let texts = licences::files(&about, &crates, toolchain, sources)?;
    let image = Image {
        architecture: architecture.to_owned(),
        layers: vec![root(entry, &program)?, described(entry, &document, &texts)?],
        entrypoint: vec![format!("/{}", entry.name)],
        environment: vec![format!("PATH={PATH}")],
        // Like upstream's images. A pod's own user overrides it, and the registrar needs root.
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

/// Go's spelling of a triple's architecture.
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
        // The program chooses its role by the name that it is called by.
        layer.link(&format!("/{link}"), entry.name)?;
    }
    Ok(layer)
}

/// The SBOM, at the path where scanners of pulled images look for it, and the licences.
fn described(entry: &Entry, document: &str, licences: &BTreeMap<String, Vec<u8>>) -> Result<Layer> {
    let mut layer = Layer::new();
    for directory in ["/usr", "/usr/share", "/usr/share/sbom"] {
        layer.directory(directory, 0o755)?;
    }
    let file = format!("/usr/share/sbom/{}.cdx.json", entry.name);
    layer.file(&file, document.as_bytes(), 0o644)?;
    layer.directory("/licenses", 0o755)?;
    let folders = licences
        .keys()
        .filter_map(|file| Some(file.rsplit_once('/')?.0));
    for folder in folders.collect::<BTreeSet<_>>() {
        layer.directory(&format!("/licenses/{folder}"), 0o755)?;
    }
    for (file, text) in licences {
        layer.file(&format!("/licenses/{file}"), text, 0o644)?;
    }
    Ok(layer)
}

/// Pre-defined annotation keys of the OCI image specification; unknown values are omitted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fr_15_a_program_says_its_version_and_not_one_that_begins_like_it() {
        for (program, version, expected) in [
            ("..0123456789ab..", "0123456789ab", true),
            ("..0123456789ab-dirty..", "0123456789ab", false),
            ("..0123456789ab-dirty..", "0123456789ab-dirty", true),
            ("..v1.2.3..", "v1.2.3", true),
            ("..v1.2.3-4-gabc..", "v1.2.3", false),
            ("..v1.2.3-4-gabc..v1.2.3", "v1.2.3", true),
            ("..v1.2.3-rest", "v1.2.3", true),
            ("..v1.2.3", "v1.2.4", false),
            ("", "v1", false),
            ("v1", "", false),
        ] {
            let found = says(program.as_bytes(), version);
            assert_eq!(found, expected, "{version:?} in {program:?}");
        }
    }
}
