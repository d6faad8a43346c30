//! Lists the images in an archive.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use serde_json::Value;

use crate::Error;

/// Annotation with containerd's name of an image.
pub(crate) const NAME: &str = "io.containerd.image.name";

/// The full names that an engine gives to the images of this archive.
pub fn names(archive: &Path) -> Result<BTreeSet<String>, Error> {
    let unread = |source| Error::Read {
        path: archive.to_owned(),
        source,
    };
    let mut tar = tar::Archive::new(File::open(archive).map_err(unread)?);
    for entry in tar.entries().map_err(unread)? {
        let entry = entry.map_err(unread)?;
        if entry.path_bytes().as_ref() == b"index.json" {
            let index: Value =
                serde_json::from_reader(entry).map_err(|source| unread(source.into()))?;
            let manifests = index.pointer("/manifests").and_then(Value::as_array);
            return Ok(named(manifests.into_iter().flatten()));
        }
    }
    Err(Error::Unfit {
        path: archive.to_owned(),
        reason: "is no archive in the OCI image layout: it has no index.json".to_owned(),
    })
}

/// The names in the entries of an index.
pub(crate) fn named<'a>(entries: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let annotations = entries.filter_map(|entry| entry.get("annotations"));
    let names = annotations.filter_map(|all| all.get(NAME).and_then(Value::as_str));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Archive, Image};

    #[test]
    fn an_archive_tells_the_names_that_it_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("images.tar");
        let mut archive = Archive::new();
        let given = ["r.example.com/a:1", "r.example.com:5000/b:2"];
        archive.add(&given, Image::default()).unwrap();
        archive.write(&file).unwrap();
        assert_eq!(names(&file).unwrap(), given.map(str::to_owned).into());
    }

    #[test]
    fn what_is_no_archive_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("images.tar");
        let missing = names(&file).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read "), "{missing}");
        std::fs::write(&file, [0; 1024]).unwrap();
        let empty = names(&file).unwrap_err().to_string();
        assert!(empty.ends_with("it has no index.json"), "{empty}");
    }
}
