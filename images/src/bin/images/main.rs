//! `images`: builds the container images of all programs, without a container engine.
//!
//! Run by `make images` in the root of the repository. Writes OCI archives and SBOMs; prints the
//! table for a release.

mod licences;
mod sbom;
mod shipped;
mod system;
mod tree;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgMatches, Command};
use oci_archive::catalogue::{Entry, IMAGES};

use crate::licences::Sources;
use crate::shipped::{Made, Release};
use crate::system::Toolchain;

fn main() -> ExitCode {
    let (text, code) = match run(std::env::args_os()) {
        Ok(table) => (table, ExitCode::SUCCESS),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "images: {error:#}");
            (String::new(), ExitCode::FAILURE)
        }
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

fn command() -> Command {
    let option = |name: &'static str, value: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .default_value(value)
    };
    let needed = |name: &'static str, value: &'static str| {
        Arg::new(name).long(name).value_name(value).required(true)
    };
    let text = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("TEXT")
            .default_value("")
    };
    Command::new("images")
        .about("Writes an OCI archive and an SBOM for every program")
        .after_help("SOURCE_DATE_EPOCH, in seconds, is the time that the images carry.")
        .args([
            option("programs", "bin").help("Folder with the static programs"),
            option("out", "build/images").help("Folder for what is written"),
            option("registry", "localhost/csi-sidecars").help("Registry and path before the names"),
            needed("tag", "VERSION").help("Version and tag"),
            needed("program-version", "TEXT")
                .help("Version that the programs were built with, and say they are"),
            needed("target", "TRIPLE").help("What the programs were built for"),
            text("revision").help("Commit that they were built from"),
            text("source").help("URL of the source"),
            Arg::new("images")
                .value_name("NAME")
                .num_args(0..)
                .help("Only these images"),
        ])
}

fn run(argv: impl IntoIterator<Item = OsString>) -> Result<String> {
    let arguments = match command().try_get_matches_from(argv) {
        Ok(arguments) => arguments,
        Err(told) if !told.use_stderr() => return Ok(told.to_string()),
        Err(error) => bail!("{error}"),
    };
    let release = release(&arguments)?;
    let wanted = wanted(&arguments)?;
    let toolchain = Toolchain::here(&release.target)?;
    let sources = Sources::here(&release.target)?;
    std::fs::create_dir_all(&release.out)
        .with_context(|| format!("cannot create {}", release.out.display()))?;
    let made = wanted.into_iter().map(|entry| {
        shipped::make(entry, &release, &toolchain, &sources)
            .with_context(|| format!("image {}", entry.name))
    });
    let made = made.collect::<Result<Vec<_>>>()?;
    Ok(table(&release, &made))
}

fn release(arguments: &ArgMatches) -> Result<Release> {
    let text = |name: &str| {
        let value = arguments.get_one::<String>(name);
        value.cloned().unwrap_or_default()
    };
    let tag = text("tag");
    ensure!(
        is_tag(&tag),
        "--tag={tag} cannot be the tag of an image: at most 128 letters, digits, '_', '.' and '-', \
         and neither of the last two first"
    );
    Ok(Release {
        programs: PathBuf::from(text("programs")),
        out: PathBuf::from(text("out")),
        registry: text("registry").trim_end_matches('/').to_owned(),
        tag,
        program_version: text("program-version"),
        revision: text("revision"),
        source: text("source"),
        target: text("target"),
        created: created(std::env::var_os("SOURCE_DATE_EPOCH"))?,
    })
}

/// Checks a tag against the OCI distribution specification.
fn is_tag(tag: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    tag.len() <= 128 && tag.chars().all(fits) && !tag.is_empty() && !tag.starts_with(['.', '-'])
}

/// The time of the source, RFC 3339.
fn created(epoch: Option<OsString>) -> Result<Option<String>> {
    let Some(epoch) = epoch.filter(|epoch| !epoch.is_empty()) else {
        return Ok(None);
    };
    let text = epoch.to_string_lossy();
    let seconds = text.parse().ok();
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let time = time.with_context(|| {
        format!("SOURCE_DATE_EPOCH={text} is not a number of seconds since 1970")
    })?;
    Ok(Some(time.to_string()))
}

fn wanted(arguments: &ArgMatches) -> Result<Vec<&'static Entry>> {
    let names: Vec<&String> = arguments
        .get_many("images")
        .map(Iterator::collect)
        .unwrap_or_default();
    for name in &names {
        if !IMAGES.iter().any(|entry| entry.name == name.as_str()) {
            let known: Vec<_> = IMAGES.iter().map(|entry| entry.name).collect();
            bail!("there is no image {name}; there are: {}", known.join(", "));
        }
    }
    let all = IMAGES.iter();
    Ok(all
        .filter(|entry| names.is_empty() || names.iter().any(|name| *name == entry.name))
        .collect())
}

fn table(release: &Release, made: &[Made]) -> String {
    let mut text = format!(
        "{:<27} {:<12} {:>10} {:>10}  digest\n",
        "image", "platform", "program", "archive"
    );
    for one in made {
        let _ = writeln!(
            text,
            "{:<27} {:<12} {:>10} {:>10}  {}",
            one.name,
            one.platform,
            megabytes(one.program),
            megabytes(one.archive),
            one.digest
        );
    }
    let _ = writeln!(
        text,
        "{} archives and SBOMs in {}, tagged {}/NAME:{}",
        made.len(),
        release.out.display(),
        release.registry,
        release.tag
    );
    text
}

/// Megabytes with two decimals.
fn megabytes(bytes: u64) -> String {
    let hundredths = (bytes + 5_000) / 10_000;
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_what_registries_take() {
        for tag in ["0.1.0", "v1", "5e1d-dirty", "_x"] {
            assert!(is_tag(tag), "{tag}");
        }
        let long = "x".repeat(129);
        for tag in ["", ".1", "-1", "1+x", "a/b", "a:b", "ü", long.as_str()] {
            assert!(!is_tag(tag), "{tag}");
        }
    }

    #[test]
    fn the_time_is_that_of_the_source_or_none() {
        assert_eq!(created(None).unwrap(), None);
        let time = created(Some("1700000000".into())).unwrap();
        assert_eq!(time.as_deref(), Some("2023-11-14T22:13:20Z"));
        for wrong in ["now", "1e3", "99999999999999999999"] {
            let error = created(Some(wrong.into())).unwrap_err().to_string();
            assert!(error.starts_with("SOURCE_DATE_EPOCH="), "{error}");
        }
    }
}
