//! A model of kubelet's directory: every call happens or does not, and a file may be written in
//! part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use node_agent::plan::files::{FileCall, is_unfinished};
use node_agent::plan::layout::{ESCAPED_PLUGIN, Layout, METADATA};
use node_agent::plan::metadata::Metadata;
use node_agent::plan::reconstruct::{PodFound, StageFound};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    Directory,
    File(String),
    Link,
    /// Created by the driver, for a block device.
    Device,
}

#[derive(Default)]
pub(super) struct Files(BTreeMap<PathBuf, Entry>);

impl Files {
    pub(super) fn get(&self, path: &Path) -> Option<&Entry> {
        self.0.get(path)
    }

    pub(super) fn put(&mut self, path: &Path, entry: Entry) {
        self.0.insert(path.to_path_buf(), entry);
    }

    fn is_full(&self, path: &Path) -> bool {
        let inside = |other: &PathBuf| other != path && other.starts_with(path);
        self.0.keys().any(inside)
    }

    /// The result of a call; `is_mounted`: something is mounted at its path.
    pub(super) fn call(&mut self, call: &FileCall, is_mounted: bool) -> Result<(), String> {
        match call {
            FileCall::MakeDirectory(path) => {
                for path in path.ancestors() {
                    let entry = self.0.entry(path.to_path_buf());
                    entry.or_insert(Entry::Directory);
                }
            }
            FileCall::Fill(path, text) => self.put(path, Entry::File(text.clone())),
            FileCall::Link { link, .. } if self.get(link).is_some() => {
                return Err(format!("{link:?} exists"));
            }
            FileCall::Link { link, .. } => self.put(link, Entry::Link),
            FileCall::Rename(from, to) => {
                let entry = self.0.remove(from).ok_or("nothing to rename")?;
                self.put(to, entry);
            }
            FileCall::Remove(path) if is_mounted => return Err(format!("{path:?} is busy")),
            FileCall::Remove(path) if self.is_full(path) => {
                return Err(format!("{path:?} is not empty"));
            }
            FileCall::Remove(path) => {
                self.0.remove(path);
            }
        }
        Ok(())
    }

    pub(super) fn tidy(&mut self, paths: &[PathBuf], is_mounted: impl Fn(&Path) -> bool) {
        for path in paths {
            let unfinished = is_unfinished(path);
            if unfinished || self.get(path) == Some(&Entry::Directory) {
                let _ = self.call(&FileCall::Remove(path.clone()), is_mounted(path));
            }
        }
    }

    pub(super) fn read(&self, path: &Path) -> Option<Metadata> {
        match self.get(path)? {
            Entry::File(text) => Some(Metadata::read(text).expect("whole files only")),
            Entry::Directory | Entry::Link | Entry::Device => None,
        }
    }

    pub(super) fn names(&self, directory: &Path) -> Vec<String> {
        let inside = self.0.keys().filter(|it| it.parent() == Some(directory));
        let name = |it: &PathBuf| it.file_name().unwrap().to_str().unwrap().to_owned();
        inside.map(name).collect()
    }

    /// The volumes that a start finds.
    pub(super) fn scan(&self, layout: &Layout) -> (Vec<PodFound>, Vec<StageFound>) {
        let (mut pods, mut stages) = (Vec::new(), Vec::new());
        for pod in self.names(&layout.pods()) {
            let directory = layout.pods().join(&pod);
            let volumes = directory.join("volumes").join(ESCAPED_PLUGIN);
            for name in self.names(&volumes) {
                pods.push(PodFound {
                    metadata: self.read(&volumes.join(&name).join(METADATA)),
                    pod: pod.clone(),
                    name,
                    block: false,
                });
            }
            for name in self.names(&directory.join("volumeDevices").join(ESCAPED_PLUGIN)) {
                let file = layout.devices().join(&name).join("data").join(METADATA);
                pods.push(PodFound {
                    metadata: self.read(&file),
                    pod: pod.clone(),
                    name,
                    block: true,
                });
            }
        }
        for driver in self.names(&layout.plugins()) {
            let directory = layout.plugins().join(&driver);
            let block = directory == layout.devices();
            for name in self.names(&directory) {
                let mut folder = directory.join(&name);
                if block {
                    folder.push("data");
                }
                if self.get(&folder).is_some() {
                    let file = folder.join(METADATA);
                    stages.push(StageFound {
                        metadata: self.read(&file),
                        file,
                        block,
                    });
                }
            }
        }
        (pods, stages)
    }

    /// Paths that should not exist once all volumes are gone.
    pub(super) fn left(&self, layout: &Layout) -> Vec<&PathBuf> {
        let is_left = |path: &Path| {
            let in_pods = path.starts_with(layout.pods()) && path != layout.pods();
            in_pods || self.get(path) != Some(&Entry::Directory)
        };
        self.0.keys().filter(|path| is_left(path)).collect()
    }
}
