//! Paths in kubelet's directory, and the names of volumes.
//!
//! Names come from API objects, from the driver and from the disk. This module checks each one that
//! becomes part of a path, so that no path leads out of kubelet's directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use registrar::kubelet::plan::driver::is_driver_name;
use registrar::kubelet::plan::exhausted::attachment_name;
use registrar::kubelet::plan::keys::clip;

use super::files::{UNFINISHED_LINK, unfinished, unfinished_link};
use crate::model::volume::{Lifecycle, PodRef, Volume};

/// Name of CSI among kubelet's volume plugins, part of paths and of unique volume names.
pub const PLUGIN: &str = "kubernetes.io/csi";
/// The plugin's name in the directory of a pod.
pub const ESCAPED_PLUGIN: &str = "kubernetes.io~csi";
/// Name of a volume's metadata file.
pub const METADATA: &str = "vol_data.json";

/// A name that cannot be part of a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} cannot be part of a path")]
pub struct Unsafe {
    what: &'static str,
    name: String,
}

/// Longest name in a file system, in bytes.
const LONGEST_NAME: usize = 255;

/// `name` with `/` replaced as kubelet does; an error if it is not exactly one component of a path.
///
/// # Errors
/// [`Unsafe`]
pub fn part(what: &'static str, name: &str) -> Result<String, Unsafe> {
    let escaped = name.replace('/', "~");
    // No name in the API begins with a dot; such files are unfinished ones of this agent.
    let bad = escaped.is_empty()
        || escaped.starts_with(UNFINISHED_LINK)
        || escaped.len() > LONGEST_NAME
        || escaped.chars().any(char::is_control);
    if bad {
        return Err(Unsafe {
            what,
            name: clip(name).to_owned(),
        });
    }
    Ok(escaped)
}

/// `uid` if it is one component of a path.
///
/// # Errors
/// [`Unsafe`]
pub fn pod_uid(uid: &str) -> Result<String, Unsafe> {
    let part = part("uid of a pod", uid)?;
    if part == uid {
        return Ok(part);
    }
    Err(Unsafe {
        what: "uid of a pod",
        name: clip(uid).to_owned(),
    })
}

/// `name` if it is a valid driver name.
///
/// # Errors
/// [`Unsafe`]
pub fn driver_name(name: &str) -> Result<&str, Unsafe> {
    if is_driver_name(name) {
        return Ok(name);
    }
    Err(Unsafe {
        what: "driver",
        name: clip(name).to_owned(),
    })
}

/// SHA-256 of the parts, in hexadecimal.
#[must_use]
pub fn sha(parts: &[&str]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(part.as_bytes());
    }
    let mut hex = String::with_capacity(64);
    for byte in context.finish().as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The volume handle of an inline volume.
#[must_use]
pub fn ephemeral_handle(pod_uid: &str, volume: &str) -> String {
    format!("csi-{}", sha(&[pod_uid, volume]))
}

/// Name of a persistent volume in `node.status.volumesInUse` and `volumesAttached`.
#[must_use]
pub fn unique_name(driver: &str, handle: &str) -> String {
    format!("{PLUGIN}/{driver}^{handle}")
}

/// Key of a volume on this node: the unique name; that of an inline volume contains its pod.
#[must_use]
pub fn key(volume: &Volume, pod_uid: &str) -> String {
    match volume.lifecycle {
        Lifecycle::Persistent => unique_name(&volume.driver, &volume.handle),
        Lifecycle::Ephemeral => ephemeral_key(pod_uid, &volume.spec_name),
    }
}

/// Key of an inline volume.
#[must_use]
pub fn ephemeral_key(pod_uid: &str, volume: &str) -> String {
    format!("{PLUGIN}/{pod_uid}-{volume}")
}

/// Kubelet's directory and the node's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `--kubelet-root-dir`
    pub root: PathBuf,
    /// Name of the Node.
    pub node: String,
}

impl Layout {
    /// Directory with one folder per pod.
    #[must_use]
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Directory of all staged volumes.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins").join(PLUGIN)
    }

    /// Directory of block devices.
    #[must_use]
    pub fn devices(&self) -> PathBuf {
        self.plugins().join("volumeDevices")
    }

    /// The parent of the staging path; it also contains the metadata file.
    ///
    /// # Errors
    /// [`Unsafe`] if the driver's name is invalid.
    pub fn stage_directory(&self, driver: &str, handle: &str) -> Result<PathBuf, Unsafe> {
        let driver = driver_name(driver)?;
        Ok(self.plugins().join(driver).join(sha(&[handle])))
    }

    /// All paths that may be left in the directory of a pod without volumes, given the names in its
    /// directories of file systems and of device links.
    #[must_use]
    pub fn pod_leftovers(&self, uid: &str, volumes: &[String], links: &[String]) -> Vec<PathBuf> {
        let Ok(uid) = pod_uid(uid) else {
            return Vec::new();
        };
        let pod = self.pods().join(uid);
        let mut all = Vec::new();
        let folder = pod.join("volumes").join(ESCAPED_PLUGIN);
        for name in volumes {
            all.extend(published_leftovers(&folder.join(name)));
        }
        all.push(folder);
        let folder = pod.join("volumeDevices").join(ESCAPED_PLUGIN);
        let unfinished = links
            .iter()
            .filter(|name| name.starts_with(UNFINISHED_LINK));
        all.extend(unfinished.map(|name| folder.join(name)));
        all.extend([folder, pod.join("volumes"), pod.join("volumeDevices"), pod]);
        all
    }

    /// Name of the VolumeAttachment of a volume on this node.
    #[must_use]
    pub fn attachment(&self, driver: &str, handle: &str) -> String {
        attachment_name(handle, driver, &self.node)
    }

    /// The paths of one volume for one pod.
    ///
    /// # Errors
    /// [`Unsafe`] if a name cannot be part of a path.
    pub fn paths(&self, volume: &VolumeName<'_>, pod_uid: &str) -> Result<VolumePaths, Unsafe> {
        let spec = part("volume", volume.spec_name)?;
        let uid = self::pod_uid(pod_uid)?;
        let pod = self.pods().join(&uid);
        if volume.block {
            let devices = self.devices();
            return Ok(VolumePaths {
                staging: devices.join("staging").join(&spec),
                stage_metadata: devices.join(&spec).join("data").join(METADATA),
                target: devices.join("publish").join(&spec).join(&uid),
                target_metadata: devices.join(&spec).join("data").join(METADATA),
                link: pod.join("volumeDevices").join(ESCAPED_PLUGIN).join(&spec),
            });
        }
        let stage = self.stage_directory(volume.driver, volume.handle)?;
        let publish = pod.join("volumes").join(ESCAPED_PLUGIN).join(&spec);
        Ok(VolumePaths {
            staging: stage.join("globalmount"),
            stage_metadata: stage.join(METADATA),
            target: publish.join("mount"),
            target_metadata: publish.join(METADATA),
            link: PathBuf::new(),
        })
    }
}

/// The names that a volume's paths depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeName<'a> {
    /// The driver.
    pub driver: &'a str,
    /// The volume handle.
    pub handle: &'a str,
    /// Name of the PersistentVolume, or of the inline volume in its pod.
    pub spec_name: &'a str,
    /// A block device.
    pub block: bool,
}

impl<'a> From<&'a Volume> for VolumeName<'a> {
    fn from(volume: &'a Volume) -> Self {
        Self {
            driver: &volume.driver,
            handle: &volume.handle,
            spec_name: &volume.spec_name,
            block: volume.block,
        }
    }
}

/// Paths of one volume for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePaths {
    /// `staging_target_path`
    pub staging: PathBuf,
    /// Metadata file of the staged volume.
    pub stage_metadata: PathBuf,
    /// `target_path`
    pub target: PathBuf,
    /// Metadata file of the published volume.
    pub target_metadata: PathBuf,
    /// For block devices: the pod's link to the device. If it exists, the pod has or may have the
    /// device.
    pub link: PathBuf,
}

impl VolumePaths {
    /// The paths to remove for a volume that is or may be published. The one that marks it as
    /// published comes last: the link, or the metadata and its folder.
    #[must_use]
    pub fn published(&self, block: bool) -> Vec<PathBuf> {
        let target = self.target.clone();
        if block {
            return vec![target, unfinished_link(&self.link), self.link.clone()];
        }
        let folder = parent(&self.target_metadata).to_path_buf();
        let metadata = self.target_metadata.clone();
        vec![target, unfinished(&metadata), metadata, folder]
    }

    /// The paths to remove for a volume that is or may be staged. The metadata comes last, before
    /// its folder.
    #[must_use]
    pub fn staged(&self) -> Vec<PathBuf> {
        let (staging, metadata) = (self.staging.clone(), self.stage_metadata.clone());
        let folder = parent(&metadata).to_path_buf();
        vec![staging, unfinished(&metadata), metadata, folder]
    }

    /// The paths that attempts without a driver call may have left for a volume that is not staged.
    /// Other volumes use the last one too.
    #[must_use]
    pub fn not_staged(&self) -> Vec<PathBuf> {
        let above = parent(parent(&self.stage_metadata)).to_path_buf();
        self.staged().into_iter().chain([above]).collect()
    }

    /// The same for a volume without metadata.
    #[must_use]
    pub fn stage_leftovers(&self) -> Vec<PathBuf> {
        let folder = parent(&self.stage_metadata);
        let above = parent(folder).to_path_buf();
        vec![
            self.staging.clone(),
            unfinished(&self.stage_metadata),
            folder.to_path_buf(),
            above,
        ]
    }
}

/// The paths that an attempt without a driver call may have left in the folder of a published file
/// system.
#[must_use]
pub fn published_leftovers(folder: &Path) -> [PathBuf; 3] {
    [
        folder.join("mount"),
        unfinished(&folder.join(METADATA)),
        folder.to_path_buf(),
    ]
}

/// The parent folder of a path; the path itself for the root.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Name of a pod in log lines and events.
#[must_use]
pub fn pod_name(pod: &PodRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
