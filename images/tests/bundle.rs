//! `images/bundle.sh` on small archives: its output is complete, and it names missing or damaged inputs.
//!
//! A script replaces helm: it prints the images in a list that replaces the chart, with the digests in the values.
//! `make chart` tests with the real helm.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use oci_archive::{Archive, Image, Layer, sha256};

const REGISTRY: &str = "mirror.example.com/storage";
const NAMES: [&str; 2] = ["csi-attacher", "livenessprobe"];
const CHART: &str = "chart.tgz";
/// Renders like helm: `image:` for each name in the chart, with its digest if the values have one.
const HELM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-ins/helm");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    /// Archives and SBOMs of two programs, a chart that names both, and the replacement of helm.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stage = Self { dir };
        std::fs::create_dir(stage.path("images")).unwrap();
        for name in NAMES {
            stage.image(name, "1.2.3");
        }
        std::fs::write(
            stage.path(CHART),
            NAMES.map(|it| format!("{it}\n")).concat(),
        )
        .unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes archive and SBOM of a program with this name.
    fn image(&self, name: &str, tag: &str) {
        let mut layer = Layer::new();
        let program = format!("program {name}");
        layer.file(name, program.as_bytes(), 0o755).unwrap();
        let image = Image {
            architecture: "amd64".to_owned(),
            layers: vec![layer],
            ..Image::default()
        };
        let mut archive = Archive::new();
        let name_with_tag = format!("{REGISTRY}/{name}:{tag}");
        archive.add(&[&name_with_tag], image).unwrap();
        archive.write(&self.archive(name)).unwrap();
        let sbom = self.path(&format!("images/{name}-amd64.cdx.json"));
        std::fs::write(sbom, format!("SBOM of {name}")).unwrap();
    }

    fn archive(&self, name: &str) -> PathBuf {
        self.path("images").join(format!("{name}-amd64.oci.tar"))
    }

    fn bundle(&self, folder: &str) -> Output {
        let mut command = Command::new(root().join("images/bundle.sh"));
        command.env("SOURCE_DATE_EPOCH", "1700000000");
        command.arg(HELM).arg(self.path("images"));
        command.arg(self.path(CHART)).arg("amd64");
        command.arg(self.path(folder)).output().unwrap()
    }

    /// Writes a bundle into this folder; returns its bytes and the script's output.
    fn bundled(&self, folder: &str) -> (Vec<u8>, String) {
        let output = self.bundle(folder);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let bundle = std::fs::read(self.path(folder).join("chart-amd64.tar")).unwrap();
        (bundle, String::from_utf8(output.stdout).unwrap())
    }

    /// The single line of a refusal; checks that nothing was written.
    fn refusal(&self) -> String {
        let output = self.bundle("out");
        assert!(!output.status.success(), "is not refused");
        assert!(!self.path("out/chart-amd64.tar").exists(), "was written");
        let error = String::from_utf8(output.stderr).unwrap();
        let mut lines = error.lines().filter(|line| line.starts_with("bundle: "));
        let line = lines.next().unwrap_or_else(|| panic!("no line: {error}"));
        assert_eq!(lines.next(), None, "{error}");
        line.to_owned()
    }
}

/// Files of a tar file, by their name below the bundle's only folder.
fn files(bundle: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(bundle).entries().unwrap() {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!(header.mtime().unwrap(), 1_700_000_000);
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let name = name.strip_prefix("chart-amd64/").unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if !name.is_empty() && !name.ends_with('/') {
            found.insert(name, bytes);
        }
    }
    found
}

/// `sha256:...` of the image in an archive, from its index.
fn digest(archive: &[u8]) -> String {
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap() == Path::new("index.json") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let index: serde_json::Value = serde_json::from_str(&text).unwrap();
            return index["manifests"][0]["digest"].as_str().unwrap().to_owned();
        }
    }
    panic!("no index");
}

#[test]
fn a_bundle_holds_images_chart_digests_and_checksums() {
    let stage = Stage::new();
    let (bundle, said) = stage.bundled("out");
    let files = files(&bundle);
    let text = |name: &str| String::from_utf8(files[name].clone()).unwrap();

    let mut expected = vec!["SHA256SUMS", CHART, "digests.yaml", "images.txt"];
    let pieces = NAMES.map(|it| {
        [
            format!("images/{it}-amd64.cdx.json"),
            format!("images/{it}-amd64.oci.tar"),
        ]
    });
    expected.extend(pieces.iter().flatten().map(String::as_str));
    assert!(files.keys().map(String::as_str).eq(expected));

    let mut list = String::new();
    let mut values = "image:\n  digests:\n".to_owned();
    for name in NAMES {
        let archive = format!("images/{name}-amd64.oci.tar");
        assert_eq!(files[&archive], std::fs::read(stage.archive(name)).unwrap());
        let digest = digest(&files[&archive]);
        list += &format!("{REGISTRY}/{name}:1.2.3@{digest} {archive}\n");
        values += &format!("    {name}: {digest}\n");
    }
    assert_eq!(text("images.txt"), list);
    assert_eq!(text("digests.yaml"), values);
    assert_eq!(files[CHART], std::fs::read(stage.path(CHART)).unwrap());
    assert!(said.starts_with(&list), "{said}");

    let sums = text("SHA256SUMS");
    let sums: BTreeMap<String, String> = { sums.lines() }
        .map(|line| line.split_once("  ").unwrap())
        .map(|(sum, file)| (file.to_owned(), sum.to_owned()))
        .collect();
    let of_all = files.iter().filter(|(name, _)| *name != "SHA256SUMS");
    let of_all = of_all.map(|(name, bytes)| (name.clone(), sha256(bytes)));
    assert_eq!(sums, of_all.collect::<BTreeMap<_, _>>());
}

#[test]
fn the_same_pieces_are_the_same_bundle() {
    let stage = Stage::new();
    assert!(stage.bundled("out").0 == stage.bundled("again").0);
}

#[test]
fn what_is_missing_is_named() {
    type Case = (&'static str, fn(&Stage), &'static str);
    let cases: [Case; 6] = [
        (
            "the chart",
            |stage| std::fs::remove_file(stage.path(CHART)).unwrap(),
            "make chart-package writes it",
        ),
        (
            "all archives",
            |stage| {
                for name in NAMES {
                    std::fs::remove_file(stage.archive(name)).unwrap();
                }
            },
            "there are no archives for amd64",
        ),
        (
            "an archive",
            |stage| std::fs::remove_file(stage.archive("livenessprobe")).unwrap(),
            "names images that are not there: mirror.example.com/storage/livenessprobe:1.2.3",
        ),
        (
            "an SBOM",
            |stage| {
                let sbom = stage.path("images/livenessprobe-amd64.cdx.json");
                std::fs::remove_file(sbom).unwrap();
            },
            "livenessprobe-amd64.cdx.json: make images writes it",
        ),
        (
            "an archive of this version",
            |stage| stage.image("livenessprobe", "1.2.2"),
            "is of version 1.2.2, others are of 1.2.3",
        ),
        (
            "an image that the chart wants",
            |stage| std::fs::write(stage.path(CHART), "csi-attacher\ncsi-resizer\n").unwrap(),
            "names images that are not there: mirror.example.com/storage/csi-resizer:1.2.3",
        ),
    ];
    for (what, remove, expected) in cases {
        let stage = Stage::new();
        remove(&stage);
        let line = stage.refusal();
        assert!(line.contains(expected), "{what}: {line}");
    }
}

/// Changes a byte of the program in an archive.
fn spoil(archive: &Path) {
    let mut bytes = std::fs::read(archive).unwrap();
    let program = b"program livenessprobe";
    let mut places = bytes.windows(program.len());
    let place = places.position(|it| it == program).unwrap();
    bytes[place] ^= 1;
    std::fs::write(archive, bytes).unwrap();
}

/// Keeps only the selected entries of an archive.
fn keep(archive: &Path, chosen: fn(&str) -> bool) {
    let bytes = std::fs::read(archive).unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    for entry in tar::Archive::new(&*bytes).entries().unwrap() {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        if chosen(&name) {
            let header = entry.header().clone();
            builder.append(&header, entry).unwrap();
        }
    }
    std::fs::write(archive, builder.into_inner().unwrap()).unwrap();
}

#[test]
fn what_is_damaged_is_named() {
    type Case = (&'static str, fn(&Path), &'static str);
    let cases: [Case; 5] = [
        ("one byte", spoil, "is damaged: blobs/sha256/"),
        (
            "cut off",
            |archive| {
                let bytes = std::fs::read(archive).unwrap();
                std::fs::write(archive, &bytes[..bytes.len() / 2]).unwrap();
            },
            "is damaged: it cannot be unpacked",
        ),
        (
            "no tar file",
            |archive| std::fs::write(archive, "nothing").unwrap(),
            "is damaged: it cannot be unpacked",
        ),
        (
            "no index",
            |archive| keep(archive, |name| name != "index.json"),
            "is no archive of make images",
        ),
        (
            "no blobs",
            |archive| keep(archive, |name| !name.starts_with("blobs/")),
            "is damaged: it has no blobs/sha256/",
        ),
    ];
    for (what, damage, expected) in cases {
        let stage = Stage::new();
        damage(&stage.archive("livenessprobe"));
        let line = stage.refusal();
        assert!(
            line.contains("livenessprobe-amd64.oci.tar"),
            "{what}: {line}"
        );
        assert!(line.contains(expected), "{what}: {line}");
    }
    let stage = Stage::new();
    std::fs::write(stage.path(CHART), "damaged\n").unwrap();
    let line = stage.refusal();
    assert!(line.contains("chart.tgz cannot be rendered"), "{line}");
}
