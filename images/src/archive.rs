//! Images, and the archive that contains them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::layer::header;
use crate::{Error, Layer, listing};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image for one platform. Without layers, entry point and command it is empty.
#[derive(Debug, Default)]
pub struct Image {
    /// The architecture in Go's spelling (`amd64`, `arm64`).
    pub architecture: String,
    /// Bottom first.
    pub layers: Vec<Layer>,
    /// The entry point, before a pod's `args`; a pod's `command` replaces it.
    pub entrypoint: Vec<String>,
    /// Default arguments, which a pod's `args` replace.
    pub command: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// `user[:group]` as numbers; empty means root.
    pub user: String,
    /// Labels of the image, which are also annotations of its manifest: engines read the former,
    /// registries the latter.
    pub labels: BTreeMap<String, String>,
    /// Creation time, RFC 3339; reproducible builds pass the time of the source.
    pub created: Option<String>,
}

/// Images with their names; equal blobs are stored once.
#[derive(Debug, Default)]
pub struct Archive {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: Vec<Value>,
    /// The images for `docker load` before Docker 25, which does not know the OCI layout.
    docker: Vec<Value>,
}

impl Archive {
    /// An archive without images.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an image under its full names (`registry.example.com/name:tag`); returns the digest of its
    /// manifest, by which registries identify it.
    pub fn add(&mut self, names: &[&str], image: Image) -> Result<String, Error> {
        let mut layers = Vec::new();
        let mut content = Vec::new();
        for layer in image.layers {
            let descriptor = self.store(LAYER, layer.into_bytes()?);
            // Nothing is compressed, so a layer's digest is also that of its content.
            content.extend(descriptor.get("digest").cloned());
            layers.push(descriptor);
        }
        let mut config = json!({
            "architecture": image.architecture,
            "os": "linux",
            "config": {
                "User": image.user,
                "Env": image.environment,
                "Entrypoint": image.entrypoint,
                "Cmd": image.command,
                "Labels": image.labels,
                "WorkingDir": "/",
            },
            "rootfs": { "type": "layers", "diff_ids": content },
        });
        if let (Some(created), Some(config)) = (image.created, config.as_object_mut()) {
            config.insert("created".to_owned(), json!(created));
        }
        let config = self.store(CONFIG, config.to_string().into_bytes());
        self.docker.push(json!({
            "Config": blob_path(&config),
            "RepoTags": names,
            "Layers": layers.iter().map(blob_path).collect::<Vec<_>>(),
        }));
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers,
        });
        if let (false, Some(manifest)) = (image.labels.is_empty(), manifest.as_object_mut()) {
            manifest.insert("annotations".to_owned(), json!(image.labels));
        }
        let manifest = self.store(MANIFEST, manifest.to_string().into_bytes());
        let digest = manifest.get("digest").and_then(Value::as_str);
        let digest = digest.unwrap_or_default().to_owned();
        for name in names {
            let mut entry = manifest.clone();
            if let Some(entry) = entry.as_object_mut() {
                let tag = name.rsplit(':').next().unwrap_or_default();
                entry.insert(
                    "platform".to_owned(),
                    json!({ "architecture": image.architecture, "os": "linux" }),
                );
                entry.insert(
                    "annotations".to_owned(),
                    // containerd uses the first as the image's name, the OCI format defines the second.
                    json!({ listing::NAME: name, "org.opencontainers.image.ref.name": tag }),
                );
            }
            self.manifests.push(entry);
        }
        Ok(digest)
    }

    /// Stores a blob under its digest; returns its descriptor.
    fn store(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let hash = sha256(&bytes);
        let descriptor = json!({
            "mediaType": media_type,
            "digest": format!("sha256:{hash}"),
            "size": bytes.len(),
        });
        self.blobs.insert(hash, bytes);
        descriptor
    }

    /// Writes the archive.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        self.write_to(file).map_err(|source| Error::Write {
            what: file.display().to_string(),
            source,
        })
    }

    fn write_to(&self, file: &Path) -> io::Result<()> {
        let mut tar = tar::Builder::new(BufWriter::new(File::create(file)?));
        let mut add = |name: &str, bytes: &[u8]| {
            let mut entry = header(tar::EntryType::Regular, 0o644, bytes.len() as u64);
            tar.append_data(&mut entry, name, bytes)
        };
        add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": self.manifests,
        });
        add("index.json", index.to_string().as_bytes())?;
        add("manifest.json", json!(self.docker).to_string().as_bytes())?;
        for (hash, bytes) in &self.blobs {
            add(&format!("blobs/sha256/{hash}"), bytes)?;
        }
        tar.into_inner()?.flush()
    }

    /// The names of all images.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        listing::named(self.manifests.iter())
    }
}

/// The SHA-256 of the bytes, in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let mut hash = String::new();
    for byte in digest(&SHA256, bytes).as_ref() {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

/// Path of a descriptor's blob in the archive.
fn blob_path(descriptor: &Value) -> String {
    let digest = descriptor.get("digest").and_then(Value::as_str);
    format!("blobs/{}", digest.unwrap_or_default().replace(':', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn image() -> Image {
        let mut layer = Layer::new();
        layer.directory("/tmp", 0o1777).unwrap();
        layer.file("/bin/program", b"#!", 0o755).unwrap();
        layer.link("/bin/other", "program").unwrap();
        Image {
            architecture: "amd64".to_owned(),
            layers: vec![layer],
            entrypoint: vec!["/bin/program".to_owned()],
            ..Image::default()
        }
    }

    fn written() -> (Vec<u8>, String) {
        let mut archive = Archive::new();
        let digest = archive.add(&["a/b:1", "a/b:2"], image()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image.tar");
        archive.write(&file).unwrap();
        (std::fs::read(file).unwrap(), digest)
    }

    fn entries(archive: &[u8]) -> BTreeMap<String, (tar::Header, Vec<u8>)> {
        let mut tar = tar::Archive::new(archive);
        let mut found = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            found.insert(name, (entry.header().clone(), bytes));
        }
        found
    }

    fn blob<'a>(all: &'a BTreeMap<String, (tar::Header, Vec<u8>)>, descriptor: &Value) -> &'a [u8] {
        let hash = descriptor["digest"]
            .as_str()
            .unwrap()
            .replace("sha256:", "");
        let bytes = &all[&format!("blobs/sha256/{hash}")].1;
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        assert_eq!(written(), written());
    }

    #[test]
    fn a_reader_finds_everything_by_following_digests() {
        let (bytes, digest) = written();
        let all = entries(&bytes);
        let index: Value = serde_json::from_slice(&all["index.json"].1).unwrap();
        let names: Vec<_> = index["manifests"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 2);
        assert_eq!(names[1]["annotations"]["io.containerd.image.name"], "a/b:2");
        assert_eq!(names[0]["digest"], digest.as_str());
        let manifest: Value = serde_json::from_slice(blob(&all, names[0])).unwrap();
        let config: Value = serde_json::from_slice(blob(&all, &manifest["config"])).unwrap();
        assert_eq!(config["config"]["Entrypoint"][0], "/bin/program");
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            manifest["layers"][0]["digest"]
        );
        let files = entries(blob(&all, &manifest["layers"][0]));
        assert_eq!(files["bin/program"].1, b"#!");
        assert_eq!(files["tmp"].0.mode().unwrap(), 0o1777);
        let link = files["bin/other"].0.link_name().unwrap().unwrap();
        assert_eq!(link.to_string_lossy(), "program");
    }

    #[test]
    fn an_older_docker_finds_the_same_parts() {
        let all = entries(&written().0);
        let docker: Value = serde_json::from_slice(&all["manifest.json"].1).unwrap();
        assert_eq!(docker[0]["RepoTags"], json!(["a/b:1", "a/b:2"]));
        let config = docker[0]["Config"].as_str().unwrap();
        let config: Value = serde_json::from_slice(&all[config].1).unwrap();
        let layer = docker[0]["Layers"][0].as_str().unwrap();
        let digest = format!("sha256:{}", sha256(&all[layer].1));
        assert_eq!(config["rootfs"]["diff_ids"][0], digest.as_str());
    }

    #[test]
    fn nothing_of_this_machine_enters() {
        for (name, (header, _)) in entries(&written().0) {
            assert_eq!(
                (header.mtime().unwrap(), header.uid().unwrap()),
                (0, 0),
                "{name}"
            );
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Layer::program("/x", Path::new("/does/not/exist")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /does/not/exist");
    }
}
