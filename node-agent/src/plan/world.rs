//! All volumes of the node, and the start of their operations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use registrar::kubelet::plan::keys::clip;

use super::expand;
use super::layout::{Layout, Unsafe, VolumeName, VolumePaths, key};
use super::mount;
use super::node::{NodeView, Reports};
use super::script::{Mount, Next, Reply};
use super::state::{Operation, State, View, Wanted};
use super::unmount::{Unpublish, Unstage};

/// Facts about the machine that operations need.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Kubelet's directory.
    pub layout: Layout,
    /// Labels of the Node, for volumes' node affinity.
    pub labels: BTreeMap<String, String>,
}

/// An operation with all its inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// [`Operation::Mount`]
    Mount(Box<mount::Mount>),
    /// [`Operation::Expand`]
    Expand(Box<mount::Mount>),
    /// [`Operation::Unpublish`]
    Unpublish(Unpublish),
    /// [`Operation::Unstage`]
    Unstage(Unstage),
}

impl Task {
    /// The paths of its volume.
    #[must_use]
    pub fn paths(&self) -> &VolumePaths {
        match self {
            Self::Mount(task) | Self::Expand(task) => &task.paths,
            Self::Unpublish(task) => &task.paths,
            Self::Unstage(task) => &task.paths,
        }
    }

    /// The next step after these replies.
    #[must_use]
    pub fn next(&self, replies: &[Reply]) -> Next {
        match self {
            Self::Mount(task) => task.next(replies),
            Self::Expand(task) => expand::in_use(task, replies),
            Self::Unpublish(task) => task.next(replies),
            Self::Unstage(task) => task.next(replies),
        }
    }
}

/// Why a pod cannot get a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWanted {
    /// A name cannot be part of a path.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// The PersistentVolume was recreated under its name, and the old volume is still mounted.
    #[error("the place of volume {volume:?} is taken by another of the same name, {other}")]
    PathsInUse {
        /// Name of the volume.
        volume: String,
        /// Unique name of the volume at its paths.
        other: String,
    },
    /// Other pods have it, or will have it, with another SELinux label, and a mount has only one.
    #[error(
        "conflicting SELinux labels of volume {volume:?}: {}, {} of this one, which gets the volume \
         when it has left the node",
        before(.theirs.as_ref(), *.unlabelled),
        label(.own.as_ref())
    )]
    Label {
        /// Name of the volume.
        volume: String,
        /// The label of the other pods.
        theirs: Option<String>,
        /// The other pods would have a label, but an earlier process mounted the volume without
        /// one.
        unlabelled: bool,
        /// The label of this pod.
        own: Option<String>,
    },
}

fn label(label: Option<&String>) -> String {
    label.map_or_else(|| "none".to_owned(), |label| format!("{label:?}"))
}

fn before(theirs: Option<&String>, unlabelled: bool) -> String {
    if unlabelled {
        return "mounted without a label by an earlier process".to_owned();
    }
    format!("{} of pods that came before", label(theirs))
}

impl NotWanted {
    fn paths_in_use(volume: &str, other: &str) -> Self {
        Self::PathsInUse {
            volume: clip(volume).to_owned(),
            other: clip(other).to_owned(),
        }
    }
}

/// All volumes by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    volumes: BTreeMap<String, State>,
}

impl World {
    /// All volumes.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &State)> {
        let volumes = self.volumes.iter();
        volumes.map(|(key, state)| (key.as_str(), state))
    }

    /// One volume.
    #[must_use]
    pub fn volume(&self, key: &str) -> Option<&State> {
        self.volumes.get(key)
    }

    /// One volume, mutable.
    pub fn volume_mut(&mut self, key: &str) -> Option<&mut State> {
        self.volumes.get_mut(key)
    }

    /// The volume with this key; adds it if it is missing.
    pub fn enter(&mut self, key: String) -> &mut State {
        self.volumes.entry(key).or_default()
    }

    /// Drops a volume of which nothing is left but the returned paths.
    pub fn forget(&mut self, key: &str) -> Vec<PathBuf> {
        let staged = self.volumes.remove(key).and_then(|state| state.staged);
        // Another volume of the same name uses these paths now, and removes them at its own end.
        let shared = |paths: &VolumePaths| {
            let mut others = self.volumes.values().filter_map(|it| it.staged.as_ref());
            others.any(|other| other.stage_metadata == paths.stage_metadata)
        };
        staged
            .filter(|paths| !shared(paths))
            .map_or_else(Vec::new, |paths| paths.not_staged())
    }

    /// Key of another volume at this one's paths for the pod: a PersistentVolume that was recreated
    /// under its name has another key but the same paths.
    fn occupant(&self, key: &str, pod: &str, paths: &VolumePaths) -> Option<&str> {
        let mut others = self.volumes.iter().filter(|(other, _)| *other != key);
        let other = others.find(|(_, state)| state.occupies(pod, paths));
        other.map(|(other, _)| other.as_str())
    }

    /// Records the pod's wanted volumes. `all`: the list is complete, so the pod no longer wants
    /// any other. Volumes whose drivers request it are published again.
    ///
    /// # Errors
    /// [`NotWanted`] for one of them. The others are recorded, and the pod keeps the volumes that
    /// it has.
    pub fn want(
        &mut self,
        layout: &Layout,
        pod: &str,
        wanted: Vec<Wanted>,
        all: bool,
    ) -> Result<(), NotWanted> {
        let mut result = Ok(());
        let mut keys = BTreeSet::new();
        for wanted in wanted {
            let key = key(&wanted.volume, pod);
            let paths = match layout.paths(&VolumeName::from(&wanted.volume), pod) {
                Ok(paths) => paths,
                Err(error) => {
                    result = Err(error.into());
                    continue;
                }
            };
            if let Some(other) = self.occupant(&key, pod, &paths) {
                result = Err(NotWanted::paths_in_use(&wanted.volume.spec_name, other));
                continue;
            }
            let state = self.volumes.get(&key);
            if let Some(state) = state.filter(|it| it.is_labelled_otherwise(pod, &wanted)) {
                result = Err(NotWanted::Label {
                    volume: clip(&wanted.volume.spec_name).to_owned(),
                    theirs: state.se_linux.clone(),
                    unlabelled: state.unlabelled,
                    own: wanted.usage.se_linux,
                });
                continue;
            }
            keys.insert(key.clone());
            self.enter(key).want(pod, paths, wanted);
        }
        if all && result.is_ok() {
            self.unwant_but(pod, &keys);
        }
        result
    }

    /// The pod wants no volume any more.
    pub fn unwant(&mut self, pod: &str) {
        self.unwant_but(pod, &BTreeSet::new());
    }

    fn unwant_but(&mut self, pod: &str, keys: &BTreeSet<String>) {
        for (key, state) in &mut self.volumes {
            if !keys.contains(key) {
                state.wanted.remove(pod);
                state.order.retain(|it| it != pod);
            }
            if let Some(published) = state.have.get_mut(pod) {
                published.held = false;
            }
        }
    }

    /// UIDs of all pods that want or have a volume.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<&str> {
        let states = self.volumes.values();
        let pods = states.flat_map(|state| state.wanted.keys().chain(state.have.keys()));
        pods.map(String::as_str).collect()
    }

    /// Whether any volume is or may be mounted for the pod.
    #[must_use]
    pub fn has_any(&self, pod: &str) -> bool {
        let mut states = self.volumes.values();
        states.any(|state| state.have.contains_key(pod) || state.mounting.as_deref() == Some(pod))
    }

    /// Whether all wanted volumes of the pod are mounted.
    #[must_use]
    pub fn has_all(&self, pod: &str) -> bool {
        let mut states = self.volumes.values();
        states.all(|state| {
            !state.wanted.contains_key(pod) || { state.have.get(pod) }
                .is_some_and(|it| it.mount == Mount::Mounted)
        })
    }

    /// The Node's desired `volumesInUse`: the persistent volumes that must not be detached. As long
    /// as the wanted volumes of some pods are unknown, it keeps all `reported` ones.
    #[must_use]
    pub fn in_use(&self, reported: &BTreeSet<String>, complete: bool) -> BTreeSet<String> {
        let used = |(key, state): &(&String, &State)| state.is_in_use(reported.contains(*key));
        let volumes = self.volumes.iter().filter(used).map(|(key, _)| key);
        let kept = reported.iter().filter(|_| !complete);
        volumes.chain(kept).cloned().collect()
    }

    /// The operations that all volumes need, in the order in which to try them.
    #[must_use]
    pub fn decide(
        &self,
        node: &NodeView,
        reports: &Reports,
        complete: bool,
    ) -> Vec<(String, Operation)> {
        let volumes = self.volumes.iter().flat_map(|(key, state)| {
            let view = View {
                complete,
                attached: reports.lists(node, key) && node.attached.contains(key),
            };
            let operations = state.decide(view).into_iter();
            operations.map(|operation| (key.clone(), operation))
        });
        volumes.collect()
    }

    /// The operation with all its inputs; `None` if nothing is left to do.
    #[must_use]
    pub fn begin(&mut self, key: &str, operation: &Operation, on: &Host) -> Option<Task> {
        let refused = operation
            .pod()
            .and_then(|pod| self.refused(key, pod, on))
            .map(|reason| reason.to_string());
        let state = self.volumes.get_mut(key)?;
        match operation {
            Operation::Forget => None,
            Operation::Unstage => Some(Task::Unstage(Unstage {
                paths: state.staged.clone()?,
                block: state.block,
                name: state.name.clone(),
            })),
            Operation::Unpublish(pod) => Some(Task::Unpublish(Unpublish {
                paths: state.have.get(pod)?.paths.clone(),
                block: state.block,
                name: state.name.clone(),
            })),
            Operation::Mount(pod) => {
                let mut task = state.mount(pod, on)?;
                task.refused = task.refused.or(refused);
                state.mounting = Some(pod.clone());
                state.move_to_end(pod);
                Some(Task::Mount(Box::new(task)))
            }
            Operation::Expand(pod) => {
                let task = state.mount(pod, on)?;
                state.move_to_end(pod);
                Some(Task::Expand(Box::new(task)))
            }
        }
    }

    /// Why the pod cannot get the volume any more, since the look-up.
    fn refused(&self, key: &str, pod: &str, on: &Host) -> Option<NotWanted> {
        let volume = &self.volumes.get(key)?.wanted.get(pod)?.volume;
        let paths = on.layout.paths(&VolumeName::from(volume), pod).ok()?;
        let other = self.occupant(key, pod, &paths)?;
        Some(NotWanted::paths_in_use(&volume.spec_name, other))
    }
}
