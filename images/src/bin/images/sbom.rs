//! What a program is made of, as a CycloneDX 1.5 document.
//!
//! Scanners find it beside the archive and, as a file of the image, after a pull.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::tree::{Crate, Tree};

/// What is linked in besides crates.
pub(crate) struct Toolchain {
    /// Version of the compiler, and so of the standard library.
    pub(crate) rust: String,
    /// Version of the C library, if it is glibc.
    pub(crate) glibc: Option<String>,
}

impl Toolchain {
    /// The toolchain of this machine.
    pub(crate) fn here(target: &str) -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = Command::new(rustc).arg("-vV").output();
        let said = said.context("cannot run rustc")?;
        let said = String::from_utf8_lossy(&said.stdout);
        let release = said.lines().find_map(|line| line.strip_prefix("release: "));
        // `libc.a` is of the same source package as the library that getconf belongs to.
        let libc = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
        let libc = libc.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
        let libc = libc.unwrap_or_default();
        let glibc = libc.strip_prefix("glibc ").map(str::to_owned);
        Ok(Self {
            rust: release.context("rustc -vV names no release")?.to_owned(),
            glibc: glibc.filter(|_| target.ends_with("-gnu")),
        })
    }

    fn parts(&self) -> Vec<Value> {
        let mut parts = vec![part(
            "rust-std",
            &self.rust,
            "MIT OR Apache-2.0",
            &format!("pkg:generic/rust-std@{}", self.rust),
        )];
        if let Some(version) = &self.glibc {
            let purl = format!("pkg:generic/glibc@{version}");
            parts.push(part("glibc", version, "LGPL-2.1-or-later", &purl));
        }
        parts
    }
}

fn part(name: &str, version: &str, license: &str, purl: &str) -> Value {
    json!({
        "type": "library",
        "bom-ref": format!("{name}@{version}"),
        "name": name,
        "version": version,
        "licenses": [{ "expression": license }],
        "purl": purl,
    })
}

/// The program itself.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// SHA-256 of the file, in hexadecimal.
    pub(crate) sha256: &'a str,
    /// RFC 3339; none leaves the time out.
    pub(crate) created: Option<&'a str>,
}

/// The document.
pub(crate) fn document(subject: &Subject<'_>, tree: &Tree, toolchain: &Toolchain) -> Value {
    let others = tree.crates.iter().filter(|(key, _)| **key != tree.root);
    let mut components: Vec<Value> = others.clone().map(|(_, found)| component(found)).collect();
    let mut edges = vec![];
    let mut needed: Vec<Value> = vec![];
    if let Some(root) = tree.crates.get(&tree.root) {
        needed.extend(root.needs.iter().map(|key| json!(key)));
    }
    for part in toolchain.parts() {
        needed.extend(part.get("bom-ref").cloned());
        components.push(part);
    }
    edges.push(json!({ "ref": subject.name, "dependsOn": needed }));
    edges.extend(others.map(|(key, found)| json!({ "ref": key, "dependsOn": found.needs })));
    let mut metadata = json!({
        "component": {
            "type": "application",
            "bom-ref": subject.name,
            "name": subject.name,
            "version": subject.version,
            "licenses": [{ "expression": "Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": subject.sha256 }],
        },
    });
    if let (Some(created), Some(metadata)) = (subject.created, metadata.as_object_mut()) {
        metadata.insert("timestamp".to_owned(), json!(created));
    }
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": edges,
    })
}

fn component(found: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("{}@{}", found.name, found.version),
        "name": found.name,
        "version": found.version,
    });
    let Some(fields) = component.as_object_mut() else {
        return component;
    };
    if !found.license.is_empty() {
        let license = json!([{ "expression": found.license }]);
        fields.insert("licenses".to_owned(), license);
    }
    if !found.repository.is_empty() {
        let place = json!([{ "type": "vcs", "url": found.repository }]);
        fields.insert("externalReferences".to_owned(), place);
    }
    // Without a checksum it is a member of this workspace, which no registry has.
    if let Some(checksum) = &found.checksum {
        let hash = json!([{ "alg": "SHA-256", "content": checksum }]);
        fields.insert("hashes".to_owned(), hash);
        // A package URL must not carry a plus sign as it is.
        let version = found.version.replace('+', "%2B");
        let purl = format!("pkg:cargo/{}@{version}", found.name);
        fields.insert("purl".to_owned(), json!(purl));
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree {
            root: "attacher@0.1.0".to_owned(),
            ..Tree::default()
        };
        let root = Crate {
            name: "attacher".to_owned(),
            version: "0.1.0".to_owned(),
            needs: ["zstd@1.0.0+x".to_owned()].into(),
            ..Crate::default()
        };
        let zstd = Crate {
            name: "zstd".to_owned(),
            version: "1.0.0+x".to_owned(),
            license: "MIT".to_owned(),
            checksum: Some("abc".to_owned()),
            ..Crate::default()
        };
        tree.crates.insert("attacher@0.1.0".to_owned(), root);
        tree.crates.insert("zstd@1.0.0+x".to_owned(), zstd);
        tree
    }

    #[test]
    fn the_program_stands_for_its_package_and_needs_what_is_linked() {
        let toolchain = Toolchain {
            rust: "1.95.0".to_owned(),
            glibc: Some("2.36".to_owned()),
        };
        let subject = Subject {
            name: "csi-attacher",
            version: "7",
            sha256: "ff",
            created: None,
        };
        let document = document(&subject, &tree(), &toolchain);
        let refs = document["components"].as_array().unwrap().iter();
        let refs: Vec<_> = refs.map(|one| one["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(refs, ["zstd@1.0.0+x", "rust-std@1.95.0", "glibc@2.36"]);
        assert_eq!(
            document["dependencies"][0],
            json!({ "ref": "csi-attacher", "dependsOn": refs })
        );
        let purl = &document["components"][0]["purl"];
        assert_eq!(purl, "pkg:cargo/zstd@1.0.0%2Bx");
        let program = &document["metadata"]["component"];
        assert_eq!(program["hashes"][0]["content"], "ff");
    }
}
