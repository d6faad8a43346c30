//! Reads mounts from the kernel's table: a look at the path itself could hang for ever on a dead
//! storage system.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/self/mountinfo";

/// One line of the table.
struct Mount {
    /// Device, and the mounted directory on it.
    source: (String, String),
    point: PathBuf,
}

fn table() -> io::Result<Vec<Mount>> {
    let text = std::fs::read(TABLE)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(line).collect())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime …`
fn line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let mut text = || Some(String::from_utf8_lossy(fields.next()?).into_owned());
    let source = (text()?, text()?);
    let point = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    Some(Mount { source, point })
}

/// Decodes spaces and the like, which the table writes as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

/// Whether something is mounted at exactly this path.
pub(super) fn is_mounted(path: &Path) -> io::Result<bool> {
    Ok(table()?.iter().any(|mount| mount.point == path))
}

/// Other mounts below `within` of the file system that is mounted at `path`.
pub(super) fn references(path: &Path, within: &Path) -> io::Result<Vec<PathBuf>> {
    let table = table()?;
    let Some(here) = table.iter().rfind(|mount| mount.point == path) else {
        return Ok(Vec::new());
    };
    let same = |mount: &&Mount| {
        mount.source == here.source && mount.point != path && mount.point.starts_with(within)
    };
    let same = table.iter().filter(same);
    Ok(same.map(|mount| mount.point.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_table() {
        let text =
            br"36 35 98:0 /a\040b /k/pods/x\134y/mount rw,noatime master:1 - ext4 /dev/sda rw";
        let mount = line(text).unwrap();
        assert_eq!(mount.source, ("98:0".to_owned(), r"/a\040b".to_owned()));
        assert_eq!(mount.point, Path::new(r"/k/pods/x\y/mount"));
        assert_eq!(unescape(br"a\0"), br"a\0");
        assert_eq!(unescape(br"\999"), br"\999");
        assert!(line(b"").is_none());
        assert!(is_mounted(Path::new("/proc")).unwrap());
        assert!(!is_mounted(Path::new("/proc/self")).unwrap());
    }
}
