//! The program `images` on small programs: its output is reproducible and complete, and it names
//! inputs that it cannot use.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};

use oci_archive::catalogue::{IMAGES, PROGRAMS};
use serde_json::Value;

const AMD64: u8 = 62;
const ARM64: u8 = 183;

/// The version in the programs.
const VERSION: &str = "v1.2.3-4-gabc";

/// The smallest static program: an ELF header and a version.
fn program(dir: &Path, name: &str, machine: u8) {
    let mut bytes = vec![0_u8; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = machine;
    bytes.extend(name.as_bytes());
    bytes.extend(VERSION.as_bytes());
    std::fs::write(dir.join(name), bytes).unwrap();
}

struct Run {
    dir: tempfile::TempDir,
}

impl Run {
    fn new(machine: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for entry in IMAGES {
            program(dir.path(), entry.name, machine);
        }
        Self { dir }
    }

    fn images(&self, arguments: &[&str]) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_images"));
        command
            .current_dir(root)
            .env("SOURCE_DATE_EPOCH", "1700000000");
        command.arg("--programs").arg(self.dir.path());
        command.arg("--out").arg(self.dir.path().join("out"));
        command.args(["--revision=abc", "--source=https://example.com/x"]);
        command.args(["--program-version", VERSION]);
        command.args(["--target=x86_64-unknown-linux-gnu"]);
        command.args(arguments).output().unwrap()
    }

    fn made(&self, names: &[&str]) -> String {
        let output = self.images(&[&["--tag=1.2.3"], names].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.images(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.path().join("out").join(name)).unwrap()
    }
}

/// Files and links of a tar file, sorted by name; links with their targets.
fn entries(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut tar = tar::Archive::new(archive);
    let mut found = BTreeMap::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 0);
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if let Some(target) = entry.link_name().unwrap() {
            bytes = target.to_string_lossy().into_owned().into_bytes();
        }
        assert!(found.insert(name, bytes).is_none());
    }
    found
}

struct Image {
    index: Value,
    manifest: Value,
    config: Value,
    files: BTreeMap<String, Vec<u8>>,
}

/// Reads the image by following the digests, as an engine does.
fn image(archive: &[u8]) -> Image {
    let all = entries(archive);
    let layout: Value = serde_json::from_slice(&all["oci-layout"]).unwrap();
    assert_eq!(layout["imageLayoutVersion"], "1.0.0");
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let hash = digest.strip_prefix("sha256:").unwrap();
        let bytes = all[&format!("blobs/sha256/{hash}")].clone();
        assert_eq!(oci_archive::sha256(&bytes), hash);
        bytes
    };
    let index: Value = serde_json::from_slice(&all["index.json"]).unwrap();
    let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
    let mut files = BTreeMap::new();
    for layer in manifest["layers"].as_array().unwrap() {
        files.extend(entries(&blob(layer)));
    }
    Image {
        config: serde_json::from_slice(&blob(&manifest["config"])).unwrap(),
        index,
        manifest,
        files,
    }
}

#[test]
fn two_runs_write_the_same_bytes_and_print_the_same_digests() {
    let runs = [Run::new(AMD64), Run::new(AMD64)];
    // Asking cargo for the crates of all programs would take most of this test's time.
    let names = ["csi-attacher", "csi-sidecars"];
    let [first, second] = runs.each_ref().map(|run| run.made(&names));
    let digests = |table: &str| {
        let words = table.split_whitespace();
        let digests = words.filter(|word| word.starts_with("sha256:"));
        digests.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(digests(&first), digests(&second));
    assert_eq!(digests(&first).len(), names.len());
    for name in names {
        for kind in ["oci.tar", "cdx.json"] {
            let name = format!("{name}-amd64.{kind}");
            let [a, b] = runs.each_ref().map(|run| run.read(&name));
            assert!(a == b, "{name} differs");
        }
    }
}

#[test]
fn an_image_holds_the_program_as_upstreams_does_and_says_where_it_is_from() {
    let run = Run::new(AMD64);
    let table = run.made(&["csi-attacher"]);
    let image = image(&run.read("csi-attacher-amd64.oci.tar"));
    assert_eq!(
        image.config["config"]["Entrypoint"],
        serde_json::json!(["/csi-attacher"])
    );
    assert_eq!(image.config["architecture"], "amd64");
    assert_eq!(image.config["config"]["User"], "0");
    assert_eq!(image.config["created"], "2023-11-14T22:13:20Z");
    for (key, value) in [
        ("title", "csi-attacher"),
        ("version", "1.2.3"),
        ("revision", "abc"),
        ("source", "https://example.com/x"),
        ("licenses", "Apache-2.0"),
    ] {
        let key = format!("org.opencontainers.image.{key}");
        assert_eq!(image.config["config"]["Labels"][&key], value);
        assert_eq!(image.manifest["annotations"][&key], value);
    }
    let listed = &image.index["manifests"][0];
    assert_eq!(
        listed["annotations"]["io.containerd.image.name"],
        "localhost/csi-sidecars/csi-attacher:1.2.3"
    );
    assert!(table.contains(listed["digest"].as_str().unwrap()));
    let program = std::fs::read(run.dir.path().join("csi-attacher")).unwrap();
    assert!(image.files["csi-attacher"] == program);
    assert_eq!(
        image.files["usr/share/sbom/csi-attacher.cdx.json"],
        run.read("csi-attacher-amd64.cdx.json")
    );
}

#[test]
fn the_image_of_all_programs_has_each_under_its_name() {
    let run = Run::new(AMD64);
    run.made(&["csi-sidecars"]);
    let image = image(&run.read("csi-sidecars-amd64.oci.tar"));
    assert_eq!(image.config["config"]["Entrypoint"][0], "/csi-sidecars");
    // the program is found by its name alone.
    let path = image.config["config"]["Env"][0].as_str().unwrap();
    assert!(path.starts_with("PATH=/:"), "{path}");
    for program in PROGRAMS {
        assert_eq!(image.files[*program], b"csi-sidecars", "{program}");
    }
    // The process of several sidecars has its own name, and so needs no link.
    let single = IMAGES
        .iter()
        .filter(|entry| entry.links.is_empty() && entry.package != "together");
    assert!(single.map(|entry| entry.name).eq(PROGRAMS.iter().copied()));
}

#[test]
fn an_sbom_lists_what_this_program_links_and_nothing_else() {
    let run = Run::new(AMD64);
    run.made(&[
        "csi-node-driver-registrar",
        "csi-node-sidecars",
        "csi-plugin-manager",
    ]);
    let names = |program: &str| {
        let bytes = run.read(&format!("{program}-amd64.cdx.json"));
        let sbom: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(sbom["metadata"]["component"]["name"], program);
        let refs: Vec<String> = sbom["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["ref"].as_str().unwrap().to_owned())
            .collect();
        let components = sbom["components"].as_array().unwrap();
        for one in components {
            let name = one["name"].as_str().unwrap();
            let ours = [
                "csi-proto",
                "livenessprobe",
                "registrar",
                "sidecar",
                "rust-std",
                "glibc",
                "libgcc",
            ];
            let ours = ours.contains(&name);
            assert_eq!(one["hashes"].is_null(), ours, "checksum of {name}");
            assert!(!one["licenses"].is_null(), "licence of {name}");
            // Toolchain components have no dependencies of their own.
            let found = refs.iter().any(|found| one["bom-ref"] == found.as_str());
            assert!(found || ours, "{name} depends on nothing known");
        }
        let names = components.iter().map(|one| one["name"].as_str().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let registrar = names("csi-node-driver-registrar");
    let manager = names("csi-plugin-manager");
    for name in ["tonic", "tokio", "sidecar", "rust-std", "glibc", "libgcc"] {
        assert!(has(&registrar, name), "{name}");
    }
    // Crates of development, other systems, other programs, and macros.
    for name in [
        "kube",
        "rustls",
        "proptest",
        "windows-sys",
        "attacher",
        "syn",
    ] {
        assert!(!has(&registrar, name), "O-117 {name}");
    }
    assert!(has(&manager, "kube") && !has(&manager, "proptest"));
    let node = names("csi-node-sidecars");
    for (name, is_there) in [
        ("livenessprobe", true),
        ("registrar", true),
        ("kube", false),
        // O-117: for the startup taint, which needs a client of the API server.
        ("rustls", true),
        ("attacher", false),
    ] {
        assert_eq!(has(&node, name), is_there, "A-78 {name}");
    }
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(done.stdout).unwrap().trim().to_owned();
    done.status.success().then_some(text)
}

/// An advisory of a distribution names a source package and a revision of its own.
#[test]
fn fr_15_what_the_linker_took_from_the_distribution_is_named_as_its_advisories_name_it() {
    let run = Run::new(AMD64);
    run.made(&["livenessprobe"]);
    let sbom: Value = serde_json::from_slice(&run.read("livenessprobe-amd64.cdx.json")).unwrap();
    let purl = |name: &str| {
        let mut components = sbom["components"].as_array().unwrap().iter();
        let found = components.find(|one| one["name"] == name);
        text(&found.unwrap()["purl"]).to_owned()
    };
    for (name, file) in [("glibc", "libc.a"), ("libgcc", "libgcc_eh.a")] {
        let purl = purl(name);
        let file = said("cc", &[&format!("-print-file-name={file}")]).unwrap();
        let file = Path::new(&file).canonicalize().unwrap();
        let owner = said("dpkg-query", &["-S", file.to_str().unwrap()]);
        let Some(owner) = owner else {
            assert!(purl.starts_with("pkg:"), "{purl}");
            continue;
        };
        let package = owner.rsplit_once(": ").unwrap().0.to_owned();
        let format = "-f=${source:Package}@${source:Version}";
        let source = said("dpkg-query", &["-W", format, &package]).unwrap();
        let source = source.replace('+', "%2B").replace(':', "%3A");
        assert!(
            purl.starts_with("pkg:deb/")
                && purl.contains(&format!("/{source}?arch=source&distro=")),
            "{purl} is not of {source}"
        );
    }
}

/// A user of an image is entitled to the licences of everything in it, without looking elsewhere.
#[test]
fn fa_8_an_image_has_the_licences_of_everything_that_is_linked_into_its_program() {
    let run = Run::new(AMD64);
    run.made(&["csi-attacher"]);
    let image = image(&run.read("csi-attacher-amd64.oci.tar"));
    let file = |name: &str| {
        let bytes = image.files.get(&format!("licenses/{name}"));
        let bytes = bytes.unwrap_or_else(|| panic!("no {name} in {:?}", image.files.keys()));
        String::from_utf8_lossy(bytes).into_owned()
    };
    let notice = file("NOTICE");
    for said in [
        "csi-attacher 1.2.3",
        "commit: abc",
        "source: https://example.com/x",
    ] {
        assert!(notice.contains(said), "{notice}");
    }
    let sbom: Value = serde_json::from_slice(&run.read("csi-attacher-amd64.cdx.json")).unwrap();
    let crates = file("crates.txt");
    for one in sbom["components"].as_array().unwrap() {
        let (name, version) = (text(&one["name"]), text(&one["version"]));
        match text(one.get("purl").unwrap_or(&Value::from(""))) {
            "" => {}
            purl if purl.starts_with("pkg:cargo/") => {
                assert!(crates.contains(&format!("\n{name} {version} (")), "{name}");
            }
            _ => assert!(notice.contains(&format!("- {name} {version} (")), "{name}"),
        }
    }
    assert!(file("LICENSE").contains("Apache License"));
    assert!(file("rust-std.html").contains("The Rust Standard Library"));
    if said("dpkg-query", &["--version"]).is_some() {
        assert!(file("glibc/copyright").contains("GNU C Library"));
        assert!(file("libgcc/copyright").contains("RUNTIME LIBRARY EXCEPTION"));
        assert!(file("common/LGPL-2.1").contains("LESSER GENERAL PUBLIC LICENSE"));
        assert!(file("common/GPL-3").contains("GENERAL PUBLIC LICENSE"));
    }
}

/// The parts of the CycloneDX 1.5 schema that these documents could violate.
#[test]
fn sboms_keep_to_the_format() {
    let run = Run::new(AMD64);
    let names = ["csi-sidecars", "livenessprobe"];
    run.made(&names);
    for name in names {
        let sbom = run.read(&format!("{name}-amd64.cdx.json"));
        let sbom: Value = serde_json::from_slice(&sbom).unwrap();
        assert_eq!(sbom["bomFormat"], "CycloneDX");
        assert_eq!(sbom["specVersion"], "1.5");
        assert_eq!(sbom["version"], 1);
        assert_eq!(sbom["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let subject = &sbom["metadata"]["component"];
        assert_eq!(subject["type"], "application");
        let mut refs = BTreeSet::new();
        for one in sbom["components"]
            .as_array()
            .unwrap()
            .iter()
            .chain([subject])
        {
            assert!(["application", "library"].contains(&text(&one["type"])));
            assert!(!text(&one["name"]).is_empty() && !text(&one["version"]).is_empty());
            let known = refs.insert(text(&one["bom-ref"]));
            assert!(known, "{} twice", one["bom-ref"]);
            // An expression has to be alone: only licences by identifier may be several.
            let licenses = one["licenses"].as_array().unwrap();
            assert_eq!(licenses.len(), 1, "{one}");
            assert!(!text(&licenses[0]["expression"]).is_empty());
            for hash in one["hashes"].as_array().into_iter().flatten() {
                assert_eq!(hash["alg"], "SHA-256");
                let content = text(&hash["content"]);
                assert!(content.len() == 64 && content.chars().all(|c| c.is_ascii_hexdigit()));
            }
            if let Some(purl) = one["purl"].as_str() {
                assert!(purl.starts_with("pkg:") && !purl.contains('+'), "{purl}");
            }
        }
        let mut said = BTreeSet::new();
        for edge in sbom["dependencies"].as_array().unwrap() {
            assert!(said.insert(text(&edge["ref"])), "{} twice", edge["ref"]);
            let needed = edge["dependsOn"].as_array().unwrap().iter().map(text);
            let found: BTreeSet<_> = needed.clone().collect();
            assert_eq!(
                found.len(),
                needed.count(),
                "{} lists one twice",
                edge["ref"]
            );
            let unknown: Vec<_> = found.difference(&refs).collect();
            assert!(unknown.is_empty(), "{} needs {unknown:?}", edge["ref"]);
        }
        assert!(said.is_subset(&refs) && said.contains(name));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn what_cannot_be_an_image_is_named_with_the_way_out() {
    let run = Run::new(AMD64);
    let at = |name: &str| run.dir.path().join(name);
    std::fs::remove_file(at("csi-resizer")).unwrap();
    std::fs::write(at("livenessprobe"), "#!/bin/sh\n").unwrap();
    program(run.dir.path(), "csi-provisioner", ARM64);
    let older = std::fs::read(at("csi-attacher")).unwrap();
    let older = String::from_utf8_lossy(&older[64..]).replace(VERSION, "v1.2.2");
    let older = [
        &std::fs::read(at("csi-attacher")).unwrap()[..64],
        older.as_bytes(),
    ]
    .concat();
    std::fs::write(at("csi-attacher"), older).unwrap();
    for (arguments, said) in [
        (
            &["--tag=1", "csi-resizer"][..],
            "csi-resizer is missing: `make images` builds it",
        ),
        (
            &["--tag=1", "livenessprobe"],
            "livenessprobe is not a 64-bit program for Linux",
        ),
        (
            &["--tag=1", "csi-provisioner"],
            "csi-provisioner is for arm64, and --target=x86_64-",
        ),
        (
            &["--tag=1", "csi-attacher"],
            "csi-attacher was not built as version v1.2.3-4-gabc",
        ),
        (
            &["--tag=1", "csi-snapshoter"],
            "there is no image csi-snapshoter; there are: csi-attacher, ",
        ),
        (&["--tag=1+2"], "--tag=1+2 cannot be the tag of an image"),
        (&[], "--tag <VERSION>"),
    ] {
        let error = run.refused(arguments);
        assert!(error.contains(said), "{error}");
    }
}
