//! `/proc/self/mountinfo`: all mounts, and which of them show files of a given folder.
//!
//! Pure, so that tests can run the clean-up on tables of other machines (see proc(5)).

use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system.
    pub device: String,
    /// The mounted folder or file of the file system.
    pub root: PathBuf,
    /// Its mount point.
    pub point: PathBuf,
    /// Options of this mount, not of the file system.
    pub options: Vec<String>,
    /// Type of the file system.
    pub fs_type: String,
    /// Device or other source.
    pub source: String,
}

/// Parses the table; lines that are no mounts are skipped.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(2);
    let device = fields.next()?.to_owned();
    let root = unescape(fields.next()?);
    let point = unescape(fields.next()?);
    let options = fields.next()?.split(',').map(str::to_owned).collect();
    let mut file_system = file_system.split(' ');
    let fs_type = file_system.next()?.to_owned();
    let source = file_system.next()?.to_owned();
    Some(Mount {
        device,
        root: root.into(),
        point: point.into(),
        options,
        fs_type,
        source,
    })
}

/// Decodes space, tab, newline and backslash, which are written as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, octal) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The mounts to undo so that no mount shows or lies below `folder` any more, innermost first.
///
/// These are the mounts below the folder, the bind mounts of files and folders below it, and all
/// mounts of the loop devices `loops` (`/dev/loop3`), whose files lie below it.
pub fn belonging_to(table: &[Mount], folder: &Path, loops: &[PathBuf]) -> Vec<PathBuf> {
    let home = table
        .iter()
        .filter(|mount| folder.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count());
    let inside = home.and_then(|home| {
        let below = folder.strip_prefix(&home.point).ok()?;
        Some((home.device.clone(), home.root.join(below)))
    });
    let is_loop = |mount: &Mount| {
        let named = loops
            .iter()
            .any(|device| Path::new(&mount.source) == device);
        // A block volume is a bind mount of the device node from /dev.
        let node = loops.iter().any(|device| {
            mount.root.file_name() == device.file_name() && mount.root.components().count() == 2
        });
        named || (node && mount.point != mount.root)
    };
    let shows_folder = |mount: &Mount| {
        let bound = inside
            .as_ref()
            .is_some_and(|(device, root)| mount.device == *device && mount.root.starts_with(root));
        bound || mount.point.starts_with(folder)
    };
    let mut points: Vec<PathBuf> = table
        .iter()
        .filter(|mount| shows_folder(mount) || is_loop(mount))
        .map(|mount| mount.point.clone())
        .collect();
    // Later lines are mounted over earlier ones.
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:5 / /dev rw,nosuid - devtmpfs devtmpfs rw
40 22 254:0 /state/volumes/v1 /kubelet/pods/1/mount rw,relatime shared:1 - ext4 /dev/vda rw
41 22 254:0 /elsewhere /kubelet/pods/2/mount ro,relatime - ext4 /dev/vda rw
42 22 7:3 / /kubelet/staging/v2 rw,relatime - ext4 /dev/loop3 rw
43 22 0:5 /loop4 /kubelet/pods/3/dev rw,nosuid - devtmpfs devtmpfs rw
44 22 0:5 /loop5 /kubelet/pods/4/dev rw,nosuid - devtmpfs devtmpfs rw
45 40 254:0 /state/volumes/v1 /kubelet/pods/1/mount rw,relatime - ext4 /dev/vda rw
46 22 254:0 /some\\040where /with\\040space rw - ext4 /dev/vda rw
not a mount
";

    #[test]
    fn lines_become_mounts() {
        let table = parse(TABLE);
        assert_eq!(table.len(), 9);
        let last = table.last().unwrap();
        assert_eq!(last.point, Path::new("/with space"));
        assert_eq!(last.root, Path::new("/some where"));
        assert_eq!(table[3].options, ["ro", "relatime"]);
        assert_eq!(
            (table[4].source.as_str(), table[4].fs_type.as_str()),
            ("/dev/loop3", "ext4")
        );
    }

    #[test]
    fn everything_that_shows_the_state_folder_is_found_innermost_first() {
        let loops = [PathBuf::from("/dev/loop3"), PathBuf::from("/dev/loop4")];
        let points = belonging_to(&parse(TABLE), Path::new("/state"), &loops);
        let points: Vec<&str> = points.iter().filter_map(|point| point.to_str()).collect();
        assert_eq!(
            points,
            [
                "/kubelet/pods/1/mount",
                "/kubelet/pods/3/dev",
                "/kubelet/staging/v2",
                "/kubelet/pods/1/mount"
            ]
        );
    }

    #[test]
    fn a_state_folder_on_a_mount_of_its_own_is_understood() {
        let table = "\
22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 254:16 /inner /data rw - ext4 /dev/vdb rw
24 22 254:16 /inner/state/volumes/v1 /pods/1 rw - ext4 /dev/vdb rw
25 22 254:16 /inner/other /pods/2 rw - ext4 /dev/vdb rw
26 22 254:0 /inner/state/volumes/v1 /pods/3 rw - ext4 /dev/vda rw
";
        let points = belonging_to(&parse(table), Path::new("/data/state"), &[]);
        assert_eq!(points, [PathBuf::from("/pods/1")]);
    }
}
