//! The data of volumes and snapshots below the state folder.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::command::run;
use super::file_system::FileSystem;
use super::{Error, grow, loop_device, wrap};
use crate::model::snapshot::Snapshot;
use crate::model::volume::{Backing, Kind, Source, Volume};

/// The storage of all data.
#[derive(Debug, Clone)]
pub struct Storage {
    folder: PathBuf,
}

impl Storage {
    /// Data below `folder`.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        for name in ["volumes", "snapshots"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(wrap("create", &path))?;
        }
        // Loop devices report real paths, so this path has to be real as well.
        let folder = folder.canonicalize().map_err(wrap("find", folder))?;
        Ok(Self { folder })
    }

    /// Folder or image of a volume.
    pub fn of_volume(&self, volume: &Volume) -> PathBuf {
        self.path("volumes", &volume.id, volume.backing)
    }

    /// Folder or image of a snapshot.
    pub fn of_snapshot(&self, id: &str, backing: Backing) -> PathBuf {
        self.path("snapshots", id, backing)
    }

    fn path(&self, kind: &str, id: &str, backing: Backing) -> PathBuf {
        // Callers choose the IDs of inline volumes; these must not lead out of the folder.
        let name = id.replace('/', "_");
        let name = match backing {
            Backing::Directory => format!("{name}.dir"),
            Backing::Image => format!("{name}.img"),
        };
        self.folder.join(kind).join(name)
    }

    /// Creates the data of a new volume, with the content of its source.
    pub fn make(&self, volume: &Volume) -> Result<(), Error> {
        let path = self.of_volume(volume);
        let source = volume.source.as_ref().map(|source| match source {
            Source::Snapshot(id) => self.of_snapshot(id, volume.backing),
            Source::Volume(id) => self.path("volumes", id, volume.backing),
        });
        // An earlier attempt may have left a part.
        remove(&path)?;
        match volume.backing {
            Backing::Directory => {
                fs::create_dir(&path).map_err(wrap("create", &path))?;
                // Containers run as any user.
                let open = fs::set_permissions(&path, Permissions::from_mode(0o777));
                open.map_err(wrap("set mode of", &path))?;
                if let Some(source) = source {
                    copy_folder(&source, &path)?;
                }
            }
            Backing::Image => {
                if let Some(source) = source {
                    copy_image(&source, &path)?;
                }
                set_size(&path, volume.capacity)?;
            }
        }
        Ok(())
    }

    /// Removes the data of a volume and its loop device.
    pub fn remove(&self, volume: &Volume) -> Result<(), Error> {
        let path = self.of_volume(volume);
        if volume.backing == Backing::Image {
            loop_device::detach(&path)?;
        }
        remove(&path)
    }

    /// Copies a volume into a snapshot.
    pub fn take(&self, snapshot: &Snapshot, volume: &Volume) -> Result<(), Error> {
        let (from, to) = (
            self.of_volume(volume),
            self.of_snapshot(&snapshot.id, snapshot.backing),
        );
        remove(&to)?;
        match snapshot.backing {
            Backing::Directory => {
                fs::create_dir(&to).map_err(wrap("create", &to))?;
                copy_folder(&from, &to)
            }
            Backing::Image => copy_image(&from, &to),
        }
    }

    /// Removes the data of a snapshot.
    pub fn remove_snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        remove(&self.of_snapshot(&snapshot.id, snapshot.backing))
    }

    /// Enlarges the image of an expanded volume; folders have no size.
    pub fn grow(&self, volume: &Volume) -> Result<(), Error> {
        match volume.backing {
            Backing::Directory => Ok(()),
            Backing::Image => set_size(&self.of_volume(volume), volume.capacity),
        }
    }

    /// Updates loop device and file system of an image to its size.
    pub fn grow_shown(&self, volume: &Volume) -> Result<(), Error> {
        if volume.backing == Backing::Directory {
            return Ok(());
        }
        let path = self.of_volume(volume);
        set_size(&path, volume.capacity)?;
        let _held = self.loop_lock()?;
        for device in loop_device::grow(&path)? {
            if volume.kind != Kind::Mount {
                continue;
            }
            match FileSystem::of(&path)? {
                Some(FileSystem::Ext) => grow::ext(&device)?,
                Some(FileSystem::Xfs) => grow::xfs(&device)?,
                None => {}
            }
        }
        Ok(())
    }

    /// The loop device of an image.
    pub fn attach(&self, volume: &Volume) -> Result<PathBuf, Error> {
        let _held = self.loop_lock()?;
        loop_device::attach(&self.of_volume(volume))
    }

    /// Detaches the loop device of an image if `unused` returns true under the lock.
    pub fn detach(&self, volume: &Volume, unused: impl FnOnce() -> bool) -> Result<(), Error> {
        let _held = self.loop_lock()?;
        if unused() {
            loop_device::detach(&self.of_volume(volume))
        } else {
            Ok(())
        }
    }

    /// Keeps the drivers of several nodes from attaching and detaching at the same time; released
    /// when the file is closed.
    fn loop_lock(&self) -> Result<File, Error> {
        let path = self.folder.join("loops.lock");
        let file = File::create(&path).map_err(wrap("open", &path))?;
        file.lock().map_err(wrap("lock", &path))?;
        Ok(file)
    }

    /// Creates a file system in an image without one, as kubelet's mount utilities would.
    pub fn format(&self, volume: &Volume) -> Result<String, Error> {
        let path = self.of_volume(volume);
        let fs_type = if volume.fs_type.is_empty() {
            "ext4"
        } else {
            volume.fs_type.as_str()
        };
        if FileSystem::of(&path)?.is_some_and(|present| present.is_made_by(fs_type)) {
            return Ok(fs_type.to_owned());
        }
        let program = format!("mkfs.{fs_type}");
        let arguments: &[&str] = if fs_type.starts_with("ext") {
            &["-q", "-F"]
        } else {
            &["-q"]
        };
        let mut words: Vec<&std::ffi::OsStr> = arguments.iter().map(|word| word.as_ref()).collect();
        words.push(path.as_os_str());
        run(&program, &words)?;
        Ok(fs_type.to_owned())
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(wrap("remove", path)(error)),
        _ => Ok(()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    let mut entries = fs::read_dir(from).map_err(wrap("read", from))?;
    if entries.next().is_none() {
        return Ok(());
    }
    let content = from.join(".");
    let options = ["--archive", "--reflink=auto"].map(AsRef::as_ref);
    let [archive, reflink]: [&std::ffi::OsStr; 2] = options;
    run(
        "cp",
        &[archive, reflink, content.as_os_str(), to.as_os_str()],
    )
    .map(drop)
}

fn copy_image(from: &Path, to: &Path) -> Result<(), Error> {
    if !loop_device::of(from)?.is_empty() {
        // The loop device and its file system have caches of their own.
        rustix::fs::sync();
    }
    let options = ["--sparse=always", "--reflink=auto"].map(AsRef::as_ref);
    let [sparse, reflink]: [&std::ffi::OsStr; 2] = options;
    run("cp", &[sparse, reflink, from.as_os_str(), to.as_os_str()]).map(drop)
}

/// Creates the image or enlarges it; never shrinks it.
fn set_size(path: &Path, bytes: i64) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let opened = options.create(true).truncate(false).write(true).open(path);
    let file = opened.map_err(wrap("open", path))?;
    let present = file.metadata().map_err(wrap("read", path))?.len();
    match u64::try_from(bytes) {
        Ok(wanted) if wanted > present => file.set_len(wanted).map_err(wrap("set size of", path)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::volume::Phase;
    use crate::plan::testing::volume;

    fn snapshot(volume: &Volume) -> Snapshot {
        Snapshot {
            id: "s1".to_owned(),
            sequence: 2,
            name: "s".to_owned(),
            source: volume.id.clone(),
            size: volume.capacity,
            kind: volume.kind,
            backing: volume.backing,
            fs_type: String::new(),
            created_seconds: 0,
            group: String::new(),
            topology: Vec::new(),
            phase: Phase::Ready,
        }
    }

    #[test]
    fn folders_are_copied_into_snapshots_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let first = volume("v1", 1);
        storage.make(&first).unwrap();
        fs::write(storage.of_volume(&first).join("file"), "content").unwrap();
        let snapshot = snapshot(&first);
        storage.take(&snapshot, &first).unwrap();
        fs::write(storage.of_volume(&first).join("file"), "changed").unwrap();
        let mut restored = volume("v2", 2);
        restored.source = Some(Source::Snapshot("s1".to_owned()));
        storage.make(&restored).unwrap();
        let read = |volume| fs::read_to_string(storage.of_volume(volume).join("file")).unwrap();
        assert_eq!(read(&restored), "content");
        let mut clone = volume("v3", 3);
        clone.source = Some(Source::Volume("v1".to_owned()));
        storage.make(&clone).unwrap();
        assert_eq!(read(&clone), "changed");
        for volume in [&first, &restored, &clone] {
            storage.remove(volume).unwrap();
            storage.remove(volume).unwrap();
        }
        storage.remove_snapshot(&snapshot).unwrap();
        for kind in ["volumes", "snapshots"] {
            assert_eq!(
                fs::read_dir(dir.path().join(kind)).unwrap().count(),
                0,
                "{kind}"
            );
        }
    }

    #[test]
    fn images_keep_their_content_and_only_grow() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let mut image = volume("v1", 1);
        (image.kind, image.backing) = (Kind::Block, Backing::Image);
        storage.make(&image).unwrap();
        let path = storage.of_volume(&image);
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
        fs::write(&path, "content").unwrap();
        image.capacity = 2 << 20;
        storage.grow(&image).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 << 20);
        image.capacity = 1;
        storage.grow(&image).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 << 20);
        let mut clone = image.clone();
        clone.id = "v2".to_owned();
        clone.capacity = 4 << 20;
        clone.source = Some(Source::Volume("v1".to_owned()));
        storage.make(&clone).unwrap();
        let copied = fs::read(storage.of_volume(&clone)).unwrap();
        assert_eq!((copied.len(), &copied[..7]), (4 << 20, &b"content"[..]));
    }

    #[test]
    fn ids_do_not_lead_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let outside = volume("../../outside", 1);
        let path = storage.of_volume(&outside);
        assert_eq!(path.parent().unwrap(), storage.folder.join("volumes"));
    }
}
