//! One layer of an image: a tar file of its additions.

use std::io::Write;
use std::path::Path;
use std::{fs, io};

use crate::Error;

/// The files of a layer. All belong to root and have the time zero.
pub struct Layer {
    tar: tar::Builder<Vec<u8>>,
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Layer({} bytes)", self.tar.get_ref().len())
    }
}

impl Default for Layer {
    fn default() -> Self {
        Self::new()
    }
}

impl Layer {
    /// A layer without files.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tar: tar::Builder::new(Vec::new()),
        }
    }

    /// A layer with only a program: the root directory of a scratch image.
    pub fn program(at: &str, file: &Path) -> Result<Self, Error> {
        let mut layer = Self::new();
        layer.copy(at, file, 0o755)?;
        Ok(layer)
    }

    /// Adds a directory; `path` is absolute in the image.
    pub fn directory(&mut self, path: &str, mode: u32) -> Result<(), Error> {
        let entry = header(tar::EntryType::Directory, mode, 0);
        self.append(path, entry, &[][..])
    }

    /// Adds a file with the given content.
    pub fn file(&mut self, path: &str, content: &[u8], mode: u32) -> Result<(), Error> {
        let entry = header(tar::EntryType::Regular, mode, content.len() as u64);
        self.append(path, entry, content)
    }

    /// Adds a copy of a local file.
    pub fn copy(&mut self, path: &str, file: &Path, mode: u32) -> Result<(), Error> {
        let content = fs::read(file).map_err(|source| Error::Read {
            path: file.to_owned(),
            source,
        })?;
        self.file(path, &content, mode)
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        let mut entry = header(tar::EntryType::Symlink, 0o777, 0);
        self.tar
            .append_link(&mut entry, inside(path), target)
            .map_err(|source| not_written(path, source))
    }

    fn append(
        &mut self,
        path: &str,
        mut entry: tar::Header,
        content: impl io::Read,
    ) -> Result<(), Error> {
        self.tar
            .append_data(&mut entry, inside(path), content)
            .map_err(|source| not_written(path, source))
    }

    /// The layer as a tar file.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, Error> {
        let mut bytes = self
            .tar
            .into_inner()
            .map_err(|source| not_written("the end of a layer", source))?;
        bytes
            .flush()
            .map_err(|source| not_written("the end of a layer", source))?;
        Ok(bytes)
    }
}

fn inside(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn not_written(what: &str, source: io::Error) -> Error {
    Error::Write {
        what: what.to_owned(),
        source,
    }
}

/// A header that does not depend on this machine.
pub(crate) fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
