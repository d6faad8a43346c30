//! The licence texts of everything that is linked into a program, and a NOTICE: files in the image
//! below `/licenses`.
//!
//! They come from the places where the linker found the libraries: the folders of the crates, Rust's
//! own, and the distribution's packages. The same libraries give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::system::{Part, Toolchain};
use crate::tree::{Crate, Tree};

/// Debian's folder of licences that its packages refer to.
const COMMON: &str = "/usr/share/common-licenses/";

/// Text for crates with this licence but without a file of its text.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
";

/// The source folder and the authors of each crate.
pub(crate) struct Sources {
    crates: BTreeMap<String, (PathBuf, String)>,
    /// This project's licence, the Apache License 2.0.
    apache: String,
}

impl Sources {
    /// Reads them from cargo.
    pub(crate) fn here(target: &str) -> Result<Self> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["metadata", "--locked", "--quiet", "--format-version", "1"]);
        cargo.args(["--all-features", "--filter-platform", target]);
        let output = cargo.output().context("cannot run cargo")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("cargo metadata: {}", said.trim());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        let packages = metadata.get("packages").and_then(Value::as_array);
        let crates = packages.into_iter().flatten().filter_map(source);
        Ok(Self {
            crates: crates.collect(),
            apache: std::fs::read_to_string("LICENSE")
                .context("cannot read LICENSE: start this in the root of the repository")?,
        })
    }

    /// The licence texts of a crate, by file.
    fn texts(&self, key: &str, found: &Crate) -> Result<BTreeMap<String, String>> {
        let source = self.crates.get(key);
        let (folder, authors) = source.with_context(|| format!("cargo metadata has no {key}"))?;
        let mut texts = BTreeMap::new();
        collect(folder, folder, &mut texts)?;
        if texts.is_empty() {
            let (name, text) = match found.license.as_str() {
                license if license.contains("Apache-2.0") => ("Apache-2.0", self.apache.clone()),
                "MIT" => ("MIT", format!("Copyright (c) {authors}\n\n{MIT}")),
                other => bail!("crate {key} has no file with its licence, {other:?}"),
            };
            texts.insert(name.to_owned(), text);
        }
        Ok(texts)
    }
}

fn source(package: &Value) -> Option<(String, (PathBuf, String))> {
    let text = |name: &str| package.get(name).and_then(Value::as_str);
    let folder = Path::new(text("manifest_path")?).parent()?.to_owned();
    let authors = package.get("authors").and_then(Value::as_array);
    let authors = authors.into_iter().flatten().filter_map(Value::as_str);
    let mut authors = authors.collect::<Vec<_>>().join(", ");
    if authors.is_empty() {
        authors = format!("the authors of {}", text("name")?);
    }
    let key = format!("{}@{}", text("name")?, text("version")?);
    Some((key, (folder, authors)))
}

/// Files with a licence or a notice, including those of code that a crate has copied, but not those
/// of its tests.
fn collect(folder: &Path, root: &Path, texts: &mut BTreeMap<String, String>) -> Result<()> {
    let unreadable = || format!("cannot read {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let path = entry.path();
        if entry.file_type().with_context(unreadable)?.is_dir() {
            let other = ["tests", "benches", "examples", "fuzz", "target", ".git"];
            if !other.contains(&name.as_str()) {
                collect(&path, root, texts)?;
            }
        } else if is_text(&name) {
            let bytes =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
            let name = path.strip_prefix(root).unwrap_or(&path);
            texts.insert(name.display().to_string(), text);
        }
    }
    Ok(())
}

fn is_text(name: &str) -> bool {
    let names = [
        "license",
        "licence",
        "copying",
        "copyright",
        "notice",
        "unlicense",
    ];
    let code = [".rs", ".go", ".py", ".toml", ".html", ".tmpl"];
    names.iter().any(|start| name.starts_with(start)) && !code.iter().any(|end| name.ends_with(end))
}

/// The subject of the texts.
pub(crate) struct Subject<'a> {
    /// The program and its version.
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// URL and commit of the source; may be empty.
    pub(crate) source: &'a str,
    pub(crate) revision: &'a str,
}

/// The files by their name below `/licenses`.
pub(crate) fn files(
    subject: &Subject<'_>,
    tree: &Tree,
    toolchain: &Toolchain,
    sources: &Sources,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let (crates, number) = crates(subject, tree, sources)?;
    files.insert("crates.txt".to_owned(), crates.into_bytes());
    files.insert("LICENSE".to_owned(), sources.apache.clone().into_bytes());
    let mut notice = notice(subject, number);
    for part in &toolchain.parts {
        let texts = match part.name.as_str() {
            "rust-std" => BTreeMap::from([(
                "rust-std.html".to_owned(),
                standard_library(&toolchain.sysroot)?,
            )]),
            _ => packaged(part)?,
        };
        let Part {
            name,
            version,
            license,
            purl,
            ..
        } = part;
        let _ = writeln!(notice, "- {name} {version} ({license}), {purl}");
        for file in texts.keys().filter(|file| !file.starts_with("common/")) {
            let _ = writeln!(notice, "  {file}");
        }
        if texts.is_empty() {
            let _ = writeln!(
                notice,
                "  its texts were not found where the program was built"
            );
        }
        files.extend(texts);
    }
    notice.push_str(RELINK);
    files.insert("NOTICE".to_owned(), notice.into_bytes());
    Ok(files)
}

const RELINK: &str = "
To link the program with other versions of these libraries, build it from its source, on a machine that has them.
";

fn notice(subject: &Subject<'_>, crates: usize) -> String {
    let Subject {
        name,
        version,
        source,
        revision,
    } = subject;
    let mut text =
        format!("{name} {version}, licensed under the Apache License, Version 2.0: LICENSE\n");
    for (what, value) in [("source", source), ("commit", revision)] {
        if !value.is_empty() {
            let _ = writeln!(text, "{what}: {value}");
        }
    }
    let _ = write!(
        text,
        "\nThe program contains, linked statically,\n\n- {crates} crates\n  crates.txt\n"
    );
    text
}

/// Each text once, after the crates that use it.
fn crates(subject: &Subject<'_>, tree: &Tree, sources: &Sources) -> Result<(String, usize)> {
    // By their words: crates break the lines of the same text differently.
    let mut texts: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut number = 0;
    // A crate without a checksum is a member of this workspace.
    for (key, found) in tree.crates.iter().filter(|(_, it)| it.checksum.is_some()) {
        number += 1;
        for (file, text) in sources.texts(key, found)? {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let user = format!(
                "{} {} ({}): {file}",
                found.name, found.version, found.license
            );
            texts
                .entry(words)
                .or_insert_with(|| (text, Vec::new()))
                .1
                .push(user);
        }
    }
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    let line = "=".repeat(80);
    let mut page = format!(
        "Licences of the crates in {}, each text once.\n",
        subject.name
    );
    for (text, users) in texts {
        let _ = write!(
            page,
            "\n{line}\n{}\n{line}\n\n{}\n",
            users.join("\n"),
            text.trim_matches('\n')
        );
    }
    Ok((page, number))
}

/// Rust's own page, without repeated texts.
fn standard_library(sysroot: &Path) -> Result<Vec<u8>> {
    let file = sysroot.join("share/doc/rust/COPYRIGHT-library.html");
    let page = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "cannot read {}, which comes with the Rust of rustup",
            file.display()
        )
    })?;
    Ok(without_repetitions(&page).into_bytes())
}

fn without_repetitions(page: &str) -> String {
    let mut seen = BTreeSet::new();
    let mut kept = String::new();
    let mut rest = page;
    while let Some((before, text, after)) = next_text(rest) {
        kept.push_str(before);
        let repeated = !seen.insert(text);
        let _ = write!(
            kept,
            "<pre>{}</pre>",
            if repeated { "as above" } else { text }
        );
        rest = after;
    }
    kept.push_str(rest);
    kept
}

fn next_text(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once("<pre>")?;
    let (text, after) = rest.split_once("</pre>")?;
    Some((before, text, after))
}

/// The texts in the distribution's package of a library.
fn packaged(part: &Part) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut texts = BTreeMap::new();
    for package in &part.packages {
        let debian = PathBuf::from(format!("/usr/share/doc/{package}/copyright"));
        let others = std::fs::read_dir(format!("/usr/share/licenses/{package}"));
        let others = others.into_iter().flatten().flatten().map(|it| it.path());
        for file in others.chain([debian]).filter(|file| file.is_file()) {
            let text =
                std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            for (name, text) in referred(&String::from_utf8_lossy(&text))? {
                texts.insert(format!("common/{name}"), text);
            }
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            texts.insert(format!("{}/{name}", part.name), text);
        }
        if !texts.is_empty() {
            break;
        }
    }
    Ok(texts)
}

/// The licences that a text only refers to.
fn referred(text: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for rest in text.split(COMMON).skip(1) {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c)));
        let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let name = name.trim_end_matches('.');
        ensure!(!name.is_empty(), "a licence without a name");
        let file = format!("{COMMON}{name}");
        let text = std::fs::read(&file).with_context(|| format!("cannot read {file}"))?;
        found.insert(name.to_owned(), text);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fa_8_a_crate_gives_the_files_of_its_licences_and_of_what_it_has_copied() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("LICENSE-MIT", "mine\r\n"),
            ("NOTICE", "notice"),
            ("src/licenses.rs", "code"),
            ("third_party/fiat/LICENSE", "theirs"),
            ("tests/LICENSE", "of a test"),
            ("README.md", "no"),
        ] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut texts = BTreeMap::new();
        collect(dir.path(), dir.path(), &mut texts).unwrap();
        let texts: Vec<_> = texts
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                ("LICENSE-MIT", "mine\n"),
                ("NOTICE", "notice"),
                ("third_party/fiat/LICENSE", "theirs"),
            ]
        );
    }

    fn sources(dir: &Path) -> Sources {
        let crates = ["a", "b", "c"].map(|name| {
            let folder = dir.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            (
                format!("{name}@1.0.0"),
                (folder, format!("author of {name}")),
            )
        });
        Sources {
            crates: crates.into(),
            apache: "the Apache License".to_owned(),
        }
    }

    fn tree(licenses: &[(&str, &str)]) -> Tree {
        let crates = licenses.iter().map(|(name, license)| {
            let found = Crate {
                name: (*name).to_owned(),
                version: "1.0.0".to_owned(),
                license: (*license).to_owned(),
                checksum: Some("x".to_owned()),
                ..Crate::default()
            };
            (format!("{name}@1.0.0"), found)
        });
        Tree {
            root: "a@1.0.0".to_owned(),
            crates: crates.collect(),
        }
    }

    const SUBJECT: Subject<'_> = Subject {
        name: "csi-attacher",
        version: "1",
        source: "",
        revision: "",
    };

    #[test]
    fn fa_8_a_text_that_several_crates_have_is_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let sources = sources(dir.path());
        std::fs::write(dir.path().join("a/LICENSE"), "you may\nuse it").unwrap();
        std::fs::write(dir.path().join("b/LICENSE"), "you may use\n  it\n").unwrap();
        let tree = tree(&[("a", "MIT"), ("b", "MIT"), ("c", "MIT")]);
        let (page, number) = crates(&SUBJECT, &tree, &sources).unwrap();
        assert_eq!(number, 3);
        assert!(
            page.contains("a 1.0.0 (MIT): LICENSE\nb 1.0.0 (MIT): LICENSE\n"),
            "{page}"
        );
        assert_eq!(page.matches("you may").count(), 1);
        // The crate has no file: its named licence is given in full, with its authors.
        assert!(page.contains("c 1.0.0 (MIT): MIT\n"), "{page}");
        assert!(
            page.contains("Copyright (c) author of c\n\nPermission is hereby"),
            "{page}"
        );
    }

    #[test]
    fn fa_8_a_licence_without_a_text_is_not_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let sources = sources(dir.path());
        let error = crates(&SUBJECT, &tree(&[("a", "ISC")]), &sources).unwrap_err();
        let said = error.to_string();
        assert_eq!(said, "crate a@1.0.0 has no file with its licence, \"ISC\"");
        let (page, _) = crates(&SUBJECT, &tree(&[("a", "Apache-2.0")]), &sources).unwrap();
        assert!(page.contains("the Apache License"), "{page}");
    }

    #[test]
    fn fa_8_repeated_texts_of_a_page_are_left_out() {
        let page = "x<pre>MIT</pre>y<pre>BSD</pre><pre>MIT</pre>z";
        let kept = without_repetitions(page);
        assert_eq!(kept, "x<pre>MIT</pre>y<pre>BSD</pre><pre>as above</pre>z");
    }
}
