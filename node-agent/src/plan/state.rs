//! One volume on the node: which pods want it, which have it, and the operations in between.

use std::collections::BTreeMap;

use super::layout::{VolumeName, VolumePaths};
use super::mount;
use super::operation::{Attempt, Kind};
use super::script::{Changes, Mount};
use super::world::Host;
use crate::model::claim::ResizeOwner;
use crate::model::volume::{Use, Volume};

/// A volume that a pod wants, after the look-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The volume.
    pub volume: Volume,
    /// How the pod uses it.
    pub usage: Use,
    /// It has to be attached to the node first.
    pub attach: bool,
    /// The driver requests periodic publishing.
    pub republish: bool,
}

/// A volume as one pod has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// State of the publishing.
    pub mount: Mount,
    /// Found on disk; this process has made no call for it.
    pub from_disk: bool,
    /// Whether the pod still wants it has not been checked yet.
    pub held: bool,
    /// To be published again although it is published.
    pub again: bool,
    /// Its paths.
    pub paths: VolumePaths,
}

/// One volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Name of the PersistentVolume or of the inline volume, for people.
    pub name: String,
    /// The driver, for metrics.
    pub driver: String,
    /// A block device.
    pub block: bool,
    /// Whether it has to be attached; `None` for one found on disk, where only the Node's status
    /// shows it.
    pub attach: Option<bool>,
    /// State of the staging.
    pub device: Mount,
    /// Found on disk; this process has made no call for it.
    pub from_disk: bool,
    /// Its staging paths.
    pub staged: Option<VolumePaths>,
    /// The SELinux label that it is or will be mounted with: that of the first pod.
    pub se_linux: Option<String>,
    /// An earlier process or a kubelet mounted it without a label, for pods that would get one now.
    pub unlabelled: bool,
    /// Wanted by these pods, by UID.
    pub wanted: BTreeMap<String, Wanted>,
    /// Published for these pods, by UID.
    pub have: BTreeMap<String, Published>,
    /// UIDs of the pods that an operation was started for, the latest last.
    pub order: Vec<String>,
    /// UID of the pod that a mount is under way for.
    pub mounting: Option<String>,
    /// The known size of its file system on this node: the claim's capacity at the mount, or the size
    /// it was expanded to.
    pub size: i64,
    /// The driver refuses to expand it while it is in use.
    pub never_expands: bool,
}

/// Facts outside the volume that its operations depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The volumes that all other pods on the node want are known, or no longer waited for.
    pub complete: bool,
    /// The Node's status lists the volume as attached, and has listed it as in use before that and
    /// still does.
    pub attached: bool,
}

/// One operation that a volume needs. Pods are given by UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Unpublish it for a pod.
    Unpublish(String),
    /// Stage it unless it is staged, and publish it for a pod.
    Mount(String),
    /// Expand the file system.
    Expand(String),
    /// Unstage it.
    Unstage,
    /// Nothing is left of it: drop its state.
    Forget,
}

impl State {
    /// The operations that the volume needs, in the order in which to try them.
    /// [`super::operation::Operations`] refuses those that conflict with one under way; they come up
    /// again.
    #[must_use]
    pub fn decide(&self, view: View) -> Vec<Operation> {
        let mut operations = Vec::new();
        let unwanted = { self.have.iter() }
            .filter(|(pod, published)| !published.held && !self.wanted.contains_key(*pod));
        operations.extend(unwanted.map(|(pod, _)| Operation::Unpublish(pod.clone())));
        let attached = view.attached || self.attach == Some(false);
        for (pod, wanted) in self.in_order() {
            let done = self.have.get(pod).filter(|it| it.mount == Mount::Mounted);
            match done {
                Some(published) if !published.again => {
                    if self.has_grown(wanted) {
                        operations.push(Operation::Expand(pod.clone()));
                    }
                }
                Some(_) | None if attached => operations.push(Operation::Mount(pod.clone())),
                Some(_) | None => {}
            }
        }
        if view.complete && self.wanted.is_empty() && self.have.is_empty() {
            operations.push(match self.device {
                Mount::None => Operation::Forget,
                Mount::Uncertain | Mount::Mounted => Operation::Unstage,
            });
        }
        operations
    }

    /// The pods that want the volume, longest waiting first: all mounts of a volume exclude each
    /// other, and one that always fails must not starve the others.
    fn in_order(&self) -> Vec<(&String, &Wanted)> {
        let mut pods: Vec<_> = self.wanted.iter().collect();
        pods.sort_by_key(|(pod, _)| self.order.iter().position(|it| it == *pod));
        pods
    }

    pub(super) fn move_to_end(&mut self, pod: &str) {
        self.order.retain(|it| it != pod);
        self.order.push(pod.to_owned());
    }

    fn has_grown(&self, wanted: &Wanted) -> bool {
        let claim = wanted.usage.claim.as_ref();
        claim.is_some_and(|it| it.size > 0 && it.resize_owner != ResizeOwner::NotNode)
            && self.size < wanted.volume.capacity
            && !wanted.usage.read_only
            && !self.never_expands
    }

    /// Whether it counts as in use in the Node's status; `reported`: the status lists it now.
    #[must_use]
    pub fn is_in_use(&self, reported: bool) -> bool {
        self.attach.unwrap_or(reported)
    }

    /// Applies the changes of an operation. `paths` are the paths of its task.
    pub fn apply(&mut self, operation: &Operation, paths: &VolumePaths, changes: &Changes) {
        if operation.kind() == Kind::Mount {
            self.mounting = None;
        }
        if let Some(device) = changes.device {
            self.device = device;
            self.from_disk &= device == Mount::Uncertain;
        }
        self.size = changes.size.unwrap_or(self.size);
        self.never_expands |= changes.never_expands;
        let wanted = operation.pod().and_then(|pod| self.wanted.get_mut(pod));
        if let (Some(wanted), Some(claim)) = (wanted, &changes.claim) {
            wanted.usage.claim = Some(claim.clone());
        }
        let (Some(pod), Some(mount)) = (operation.pod(), changes.pod) else {
            return;
        };
        if mount == Mount::None {
            self.have.remove(pod);
            return;
        }
        let published = self.have.entry(pod.to_owned()).or_insert(Published {
            mount,
            from_disk: false,
            held: false,
            again: false,
            paths: paths.clone(),
        });
        published.mount = mount;
        published.from_disk &= mount == Mount::Uncertain;
        published.again &= mount != Mount::Mounted;
    }
}

impl Operation {
    /// UID of the pod that it is for.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Unpublish(pod) | Self::Mount(pod) | Self::Expand(pod) => Some(pod),
            Self::Unstage | Self::Forget => None,
        }
    }

    /// This operation on `volume`, as the key of conflicts and back-offs.
    #[must_use]
    pub fn attempt(&self, volume: &str) -> Attempt {
        Attempt {
            volume: volume.to_owned(),
            kind: self.kind(),
            pod: self.pod().map(str::to_owned),
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Unpublish(_) => Kind::Unpublish,
            Self::Mount(_) => Kind::Mount,
            Self::Expand(_) => Kind::Expand,
            Self::Unstage | Self::Forget => Kind::Unstage,
        }
    }
}

impl State {
    pub(super) fn want(&mut self, pod: &str, paths: VolumePaths, mut wanted: Wanted) {
        // A pod keeps the label that an earlier process or a kubelet mounted the volume with.
        if self.is_there() || self.is_wanted_by_others(pod) {
            let is_found = self.have.get(pod).is_some_and(|it| it.from_disk);
            self.unlabelled |=
                is_found && self.se_linux.is_none() && wanted.usage.se_linux.is_some();
            wanted.usage.se_linux.clone_from(&self.se_linux);
        } else {
            self.unlabelled = false;
            self.se_linux.clone_from(&wanted.usage.se_linux);
        }
        self.name.clone_from(&wanted.volume.spec_name);
        self.driver.clone_from(&wanted.volume.driver);
        self.block = wanted.volume.block;
        self.attach = Some(wanted.attach && wanted.volume.is_persistent());
        self.staged.get_or_insert(paths);
        let is_mounted = !self.have.is_empty();
        if self.size == 0 || !is_mounted {
            self.size = wanted.usage.claim.as_ref().map_or(0, |claim| claim.size);
        }
        if let Some(published) = self.have.get_mut(pod) {
            published.again |= wanted.republish;
        }
        self.wanted.insert(pod.to_owned(), wanted);
    }

    /// Whether the pod is new to the volume, and other pods have it or will have it with another
    /// label. Then it waits until the volume has left the node, as in kubelet.
    pub(super) fn is_labelled_otherwise(&self, pod: &str, wanted: &Wanted) -> bool {
        let is_new = !self.have.contains_key(pod) && !self.wanted.contains_key(pod);
        let is_fixed = self.is_there() || self.is_wanted_by_others(pod);
        is_new && is_fixed && self.se_linux != wanted.usage.se_linux
    }

    fn is_wanted_by_others(&self, pod: &str) -> bool {
        self.wanted.keys().any(|other| other != pod)
    }

    /// Whether anything of it is or may be on the node.
    fn is_there(&self) -> bool {
        self.device != Mount::None || self.mounting.is_some() || !self.have.is_empty()
    }

    /// Whether it uses or may use a path of the pod, or a staging path.
    pub(super) fn occupies(&self, pod: &str, paths: &VolumePaths) -> bool {
        let staged = |is: fn(&VolumePaths, &VolumePaths) -> bool| {
            self.staged.as_ref().is_some_and(|it| is(it, paths))
        };
        let published = self
            .have
            .get(pod)
            .is_some_and(|it| it.paths.target == paths.target);
        let mounting = self.mounting.as_deref() == Some(pod) && staged(|a, b| a.target == b.target);
        published
            || mounting
            || self.is_there() && staged(|a, b| a.stage_metadata == b.stage_metadata)
    }

    pub(super) fn mount(&mut self, pod: &str, on: &Host) -> Option<mount::Mount> {
        let wanted = self.wanted.get(pod)?;
        let paths = on
            .layout
            .paths(&VolumeName::from(&wanted.volume), pod)
            .ok()?;
        let refused = self.refused(pod, wanted, on);
        let published = self.have.get(pod);
        let task = mount::Mount {
            layout: on.layout.clone(),
            paths: paths.clone(),
            volume: wanted.volume.clone(),
            usage: wanted.usage.clone(),
            device: self.device,
            pod: published.map_or(Mount::None, |it| it.mount),
            // A published volume was staged, whatever the driver reports now.
            device_from_disk: self.from_disk || !self.have.is_empty(),
            pod_from_disk: published.is_some_and(|it| it.from_disk),
            never_expands: self.never_expands,
            refused,
        };
        self.staged = Some(paths);
        Some(task)
    }

    fn refused(&self, pod: &str, wanted: &Wanted, on: &Host) -> Option<String> {
        let others = || self.have.keys().find(|other| *other != pod);
        if wanted.volume.is_for_one_pod()
            && let Some(other) = others()
        {
            return Some(format!(
                "ReadWriteOncePod: the volume is in use by the pod with uid {other}"
            ));
        }
        let affinity = wanted.volume.affinity.as_ref()?;
        let fits = super::node::matches(affinity, &on.layout.node, &on.labels);
        (!fits).then(|| {
            format!(
                "the volume's node affinity excludes node {}",
                on.layout.node
            )
        })
    }
}
