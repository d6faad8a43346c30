//! Detects the file system in an image.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::{Error, wrap};

/// File systems that the driver detects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext2, ext3 or ext4. The magic number is at byte 1080.
    Ext,
    /// XFS. The image begins with its magic number.
    Xfs,
}

impl FileSystem {
    /// The file system in the image; `None` if it is empty or of another type.
    pub fn of(image: &Path) -> Result<Option<Self>, Error> {
        let file = File::open(image).map_err(wrap("open", image))?;
        let mut start = Vec::new();
        let read: io::Result<_> = file.take(1082).read_to_end(&mut start);
        read.map_err(wrap("read", image))?;
        Ok(recognise(&start))
    }

    /// Whether `mkfs.NAME` makes this file system.
    pub fn is_made_by(self, name: &str) -> bool {
        match self {
            Self::Ext => name.starts_with("ext"),
            Self::Xfs => name == "xfs",
        }
    }
}

fn recognise(start: &[u8]) -> Option<FileSystem> {
    if start.starts_with(b"XFSB") {
        return Some(FileSystem::Xfs);
    }
    let is_ext = start.get(1080..1082) == Some(&[0x53, 0xef]);
    is_ext.then_some(FileSystem::Ext)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_known_by_their_magic_numbers() {
        let mut ext = vec![0; 1082];
        ext[1080..].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(recognise(&ext), Some(FileSystem::Ext));
        assert_eq!(recognise(b"XFSB and more"), Some(FileSystem::Xfs));
        assert_eq!(recognise(&vec![0; 4096]), None);
        assert_eq!(recognise(b""), None);
        assert_eq!(recognise(&ext[..1081]), None, "cut off");
        assert!(FileSystem::Ext.is_made_by("ext4") && !FileSystem::Xfs.is_made_by("ext4"));
    }
}
