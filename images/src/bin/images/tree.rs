//! The crates that a program is linked from.
//!
//! They come from `cargo tree` for exactly this package, its features and the target:
//! `cargo metadata` resolves the union of the whole workspace, including tests and other systems.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use oci_archive::catalogue::Entry;

/// A crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression; empty if the crate declares none.
    pub(crate) license: String,
    pub(crate) repository: String,
    /// SHA-256 of the crate file; `None` for members of this workspace.
    pub(crate) checksum: Option<String>,
    /// Keys of its dependencies.
    pub(crate) needs: BTreeSet<String>,
}

/// Crates by `name@version`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Key of the package that the program is built from.
    pub(crate) root: String,
    pub(crate) crates: BTreeMap<String, Crate>,
}

/// Reads the crates of a program from cargo.
pub(crate) fn of(entry: &Entry, target: &str) -> Result<Tree> {
    // Procedural macros run in the compiler and are not part of the program.
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--locked", "--quiet", "--charset", "ascii"]);
    cargo.args(["--package", entry.package, "--features", entry.features]);
    cargo.args(["--target", target, "--edges", "normal,no-proc-macro"]);
    cargo.args(["--prefix", "depth", "--format", "|{p}|{l}|{r}|"]);
    let output = cargo.output().context("cannot run cargo")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("cargo tree of {}: {}", entry.package, said.trim());
    }
    let lock = Path::new("Cargo.lock");
    let lock = std::fs::read_to_string(lock)
        .context("cannot read Cargo.lock: start this in the root of the repository")?;
    parse(&String::from_utf8_lossy(&output.stdout), &checksums(&lock))
}

/// Parses lines of the form `depth|name vVERSION (where)|license|repository|`.
fn parse(lines: &str, checksums: &BTreeMap<String, String>) -> Result<Tree> {
    let mut tree = Tree::default();
    // The keys from the root down to the previous line.
    let mut above: Vec<String> = Vec::new();
    for line in lines.lines() {
        let found = line_of_tree(line);
        let (depth, mut found) =
            found.with_context(|| format!("not a line of cargo tree: {line}"))?;
        let key = format!("{}@{}", found.name, found.version);
        found.checksum = checksums.get(&key).cloned();
        above.truncate(depth);
        match above.last().and_then(|parent| tree.crates.get_mut(parent)) {
            Some(parent) => drop(parent.needs.insert(key.clone())),
            None => tree.root.clone_from(&key),
        }
        above.push(key.clone());
        // A repeated crate is listed without its dependencies: the first occurrence counts.
        tree.crates.entry(key).or_insert(found);
    }
    anyhow::ensure!(!tree.root.is_empty(), "cargo tree names no package");
    Ok(tree)
}

fn line_of_tree(line: &str) -> Option<(usize, Crate)> {
    let mut fields = line.split('|');
    let depth = fields.next()?.parse().ok()?;
    let mut package = fields.next()?.split(' ');
    let found = Crate {
        name: package.next()?.to_owned(),
        version: package.next()?.strip_prefix('v')?.to_owned(),
        // Before SPDX expressions a slash meant "or".
        license: fields.next()?.replace(" / ", "/").replace('/', " OR "),
        repository: fields.next()?.to_owned(),
        ..Crate::default()
    };
    Some((depth, found))
}

/// The checksums of Cargo.lock by `name@version`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let start = format!("{name} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(&start));
            line.map(|value| value.trim_end_matches('"'))
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            found.insert(format!("{name}@{version}"), checksum.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
0|attacher v0.1.0 (/src/attacher)|Apache-2.0||
1|tonic v0.14.9|MIT|https://example.com/tonic|
2|fnv v1.0.7|Apache-2.0 / MIT|https://example.com/fnv|
1|tokio v1.54.1|MIT|https://example.com/tokio|
1|fnv v1.0.7|Apache-2.0 / MIT|https://example.com/fnv| (*)
";

    const LOCK: &str = r#"version = 4

[[package]]
name = "fnv"
version = "1.0.7"
source = "registry"
checksum = "abc"

[[package]]
name = "attacher"
version = "0.1.0"
dependencies = [
 "fnv",
]
"#;

    fn needs(tree: &Tree, key: &str) -> Vec<String> {
        tree.crates[key].needs.iter().cloned().collect()
    }

    #[test]
    fn who_needs_whom_follows_from_the_depths() {
        let tree = parse(LINES, &checksums(LOCK)).unwrap();
        assert_eq!(tree.root, "attacher@0.1.0");
        assert_eq!(
            needs(&tree, &tree.root),
            ["fnv@1.0.7", "tokio@1.54.1", "tonic@0.14.9"]
        );
        assert_eq!(needs(&tree, "tonic@0.14.9"), ["fnv@1.0.7"]);
        assert!(needs(&tree, "tokio@1.54.1").is_empty());
        assert_eq!(tree.crates.len(), 4);
    }

    #[test]
    fn checksums_come_from_the_lock_and_licences_are_expressions() {
        let tree = parse(LINES, &checksums(LOCK)).unwrap();
        let fnv = &tree.crates["fnv@1.0.7"];
        assert_eq!(fnv.checksum.as_deref(), Some("abc"));
        assert_eq!(fnv.license, "Apache-2.0 OR MIT");
        assert_eq!(tree.crates["attacher@0.1.0"].checksum, None);
    }

    #[test]
    fn lines_of_another_kind_are_named() {
        for lines in ["error: no", "0|attacher", ""] {
            assert!(parse(lines, &BTreeMap::new()).is_err(), "{lines}");
        }
    }
}
