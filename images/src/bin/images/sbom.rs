//! The components of a program, as a CycloneDX 1.5 document.
//!
//! Scanners find it beside the archive and, in the image, after a pull.

use serde_json::{Value, json};

use crate::system::{Part, Toolchain, escaped};
use crate::tree::{Crate, Tree};

fn part(part: &Part) -> Value {
    json!({
        "type": "library",
        "bom-ref": format!("{}@{}", part.name, part.version),
        "name": part.name,
        "version": part.version,
        "licenses": [{ "expression": part.license }],
        "purl": part.purl,
    })
}

/// The program itself.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// SHA-256 of the file, in hexadecimal.
    pub(crate) sha256: &'a str,
    /// The commit that the program was built from, according to itself; may be empty.
    pub(crate) revision: &'a str,
    /// RFC 3339; `None` omits the time.
    pub(crate) created: Option<&'a str>,
}

/// Builds the document.
pub(crate) fn document(subject: &Subject<'_>, tree: &Tree, toolchain: &Toolchain) -> Value {
    let others = tree.crates.iter().filter(|(key, _)| **key != tree.root);
    let mut components: Vec<Value> = others.clone().map(|(_, found)| component(found)).collect();
    let mut edges = vec![];
    let mut needed: Vec<Value> = vec![];
    if let Some(root) = tree.crates.get(&tree.root) {
        needed.extend(root.needs.iter().map(|key| json!(key)));
    }
    for part in toolchain.parts.iter().map(part) {
        needed.extend(part.get("bom-ref").cloned());
        components.push(part);
    }
    edges.push(json!({ "ref": subject.name, "dependsOn": needed }));
    edges.extend(others.map(|(key, found)| json!({ "ref": key, "dependsOn": found.needs })));
    let mut program = json!({
        "type": "application",
        "bom-ref": subject.name,
        "name": subject.name,
        "version": subject.version,
        "licenses": [{ "expression": "Apache-2.0" }],
        "hashes": [{ "alg": "SHA-256", "content": subject.sha256 }],
    });
    if let (false, Some(program)) = (subject.revision.is_empty(), program.as_object_mut()) {
        let commits = json!({ "commits": [{ "uid": subject.revision }] });
        program.insert("pedigree".to_owned(), commits);
    }
    let mut metadata = json!({ "component": program });
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
    // A crate without a checksum is a member of this workspace, which no registry has.
    if let Some(checksum) = &found.checksum {
        let hash = json!([{ "alg": "SHA-256", "content": checksum }]);
        fields.insert("hashes".to_owned(), hash);
        let purl = format!("pkg:cargo/{}@{}", found.name, escaped(&found.version));
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
        let linked = |name: &str, version: &str, purl: &str| Part {
            name: name.to_owned(),
            version: version.to_owned(),
            license: "MIT",
            purl: purl.to_owned(),
            packages: Vec::new(),
        };
        let toolchain = Toolchain {
            parts: vec![
                linked("rust-std", "1.95.0", "pkg:generic/rust-std@1.95.0"),
                linked("glibc", "2.36-9", "pkg:deb/debian/glibc@2.36-9"),
            ],
            sysroot: "/".into(),
        };
        let subject = Subject {
            name: "csi-attacher",
            version: "7",
            sha256: "ff",
            revision: "abc",
            created: None,
        };
        let document = document(&subject, &tree(), &toolchain);
        let refs = document["components"].as_array().unwrap().iter();
        let refs: Vec<_> = refs.map(|one| one["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(refs, ["zstd@1.0.0+x", "rust-std@1.95.0", "glibc@2.36-9"]);
        assert_eq!(
            document["dependencies"][0],
            json!({ "ref": "csi-attacher", "dependsOn": refs })
        );
        let purl = &document["components"][0]["purl"];
        assert_eq!(purl, "pkg:cargo/zstd@1.0.0%2Bx");
        let program = &document["metadata"]["component"];
        assert_eq!(program["hashes"][0]["content"], "ff");
        assert_eq!(program["pedigree"]["commits"][0]["uid"], "abc");
        let glibc = &document["components"][2];
        assert_eq!(glibc["purl"], "pkg:deb/debian/glibc@2.36-9");
    }
}
