//! One volume of the node: what pods want of it, what is there, and what to do about the difference.

use std::collections::BTreeMap;

use super::layout::{Places, VolumeName};
use super::mount;
use super::operation::{Attempt, Kind};
use super::script::{Changes, Mount};
use super::world::Host;
use crate::model::claim::Turn;
use crate::model::volume::{Use, Volume};

/// A volume that a pod wants, looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The volume.
    pub volume: Volume,
    /// What the pod wants of it.
    pub usage: Use,
    /// It has to be attached to the node first.
    pub attach: bool,
    /// The driver wants to publish it again now and then.
    pub republish: bool,
}

/// A volume as one pod has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// How far it is.
    pub mount: Mount,
    /// Found on disk; no call of this process is behind it.
    pub from_disk: bool,
    /// Nobody has looked yet whether the pod still wants it.
    pub held: bool,
    /// To be published again although it is published.
    pub again: bool,
    /// Where.
    pub places: Places,
}

/// One volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Kubernetes' name of it, for people.
    pub name: String,
    /// The driver, for metrics.
    pub driver: String,
    /// A block device.
    pub block: bool,
    /// Whether it has to be attached; `None` for one found on disk, of which only the Node's status
    /// tells.
    pub attach: Option<bool>,
    /// How far staging is.
    pub device: Mount,
    /// It was found on disk; no call of this process is behind it.
    pub from_disk: bool,
    /// Where it is staged.
    pub staged: Option<Places>,
    /// The SELinux label that it is mounted with, or will be: that of the pod that came first.
    pub se_linux: Option<String>,
    /// An earlier process or a kubelet mounted it without a label, for pods that would have one now.
    pub unlabelled: bool,
    /// By uid of the pod.
    pub wanted: BTreeMap<String, Wanted>,
    /// By uid of the pod.
    pub have: BTreeMap<String, Published>,
    /// Uids of the pods that something was begun for, the latest last.
    pub turns: Vec<String>,
    /// Uid of the pod that a mount is under way for.
    pub mounting: Option<String>,
    /// The size that the file system has on this node, as far as that is known: what the claim had
    /// when it was mounted, or what it was grown to.
    pub size: i64,
    /// The driver will never expand it on this node.
    pub never_expands: bool,
}

/// What one look at a volume depends on besides the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// What other pods of the node want of it is known, as far as it is waited for.
    pub complete: bool,
    /// The Node's status says that the volume is attached, after it said that it is in use, which it
    /// still does.
    pub attached: bool,
}

/// One operation that a volume needs. For pods by uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take it from a pod.
    Unpublish(String),
    /// Stage it unless that is done, and publish it for a pod.
    Mount(String),
    /// Grow the file system.
    Expand(String),
    /// Take it from the node.
    Unstage,
    /// Nothing is left of it.
    Forget,
}

impl State {
    /// What the volume needs, in the order in which it is to be tried. What conflicts with something
    /// under way is refused by [`super::operation::Operations`] and comes again.
    #[must_use]
    pub fn decide(&self, view: View) -> Vec<Operation> {
        let mut operations = Vec::new();
        let unwanted = { self.have.iter() }
            .filter(|(pod, published)| !published.held && !self.wanted.contains_key(*pod));
        operations.extend(unwanted.map(|(pod, _)| Operation::Unpublish(pod.clone())));
        let attached = view.attached || self.attach == Some(false);
        for (pod, wanted) in self.in_turns() {
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

    /// What pods want, those first that have waited longest for their turn: all mounts of a volume
    /// exclude each other, and one that always fails must not keep the others from their own.
    fn in_turns(&self) -> Vec<(&String, &Wanted)> {
        let mut pods: Vec<_> = self.wanted.iter().collect();
        pods.sort_by_key(|(pod, _)| self.turns.iter().position(|it| it == *pod));
        pods
    }

    pub(super) fn take_turn(&mut self, pod: &str) {
        self.turns.retain(|it| it != pod);
        self.turns.push(pod.to_owned());
    }

    fn has_grown(&self, wanted: &Wanted) -> bool {
        let claim = wanted.usage.claim.as_ref();
        claim.is_some_and(|it| it.size > 0 && it.turn != Turn::NotNode)
            && self.size < wanted.volume.capacity
            && !wanted.usage.read_only
            && !self.never_expands
    }

    /// Whether it counts as in use in the Node's status; `reported` is whether it does so now.
    #[must_use]
    pub fn is_in_use(&self, reported: bool) -> bool {
        self.attach.unwrap_or(reported)
    }

    /// Takes over what an operation came to. `places` are those of its task.
    pub fn apply(&mut self, operation: &Operation, places: &Places, changes: &Changes) {
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
            places: places.clone(),
        });
        published.mount = mount;
        published.from_disk &= mount == Mount::Uncertain;
        published.again &= mount != Mount::Mounted;
    }
}

impl Operation {
    /// The pod that it is for.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Unpublish(pod) | Self::Mount(pod) | Self::Expand(pod) => Some(pod),
            Self::Unstage | Self::Forget => None,
        }
    }

    /// The operation on this volume, for the exclusion of others and the pause after a failure.
    #[must_use]
    pub fn attempt(&self, volume: &str) -> Attempt {
        Attempt {
            volume: volume.to_owned(),
            kind: self.kind(),
            pod: self.pod().map(str::to_owned),
        }
    }

    /// What is done.
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
    pub(super) fn want(&mut self, pod: &str, places: Places, mut wanted: Wanted) {
        // What a pod has of an earlier process or a kubelet keeps the label that it was mounted with.
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
        self.staged.get_or_insert(places);
        let is_mounted = !self.have.is_empty();
        if self.size == 0 || !is_mounted {
            self.size = wanted.usage.claim.as_ref().map_or(0, |claim| claim.size);
        }
        if let Some(published) = self.have.get_mut(pod) {
            published.again |= wanted.republish;
        }
        self.wanted.insert(pod.to_owned(), wanted);
    }

    /// Whether the pod is new to the volume, and others have it, or will, with another label. Then
    /// it waits until the volume has left the node, as in kubelet.
    pub(super) fn is_labelled_otherwise(&self, pod: &str, wanted: &Wanted) -> bool {
        let is_new = !self.have.contains_key(pod) && !self.wanted.contains_key(pod);
        let is_fixed = self.is_there() || self.is_wanted_by_others(pod);
        is_new && is_fixed && self.se_linux != wanted.usage.se_linux
    }

    fn is_wanted_by_others(&self, pod: &str) -> bool {
        self.wanted.keys().any(|other| other != pod)
    }

    /// Whether something of it is on the node, or may be.
    fn is_there(&self) -> bool {
        self.device != Mount::None || self.mounting.is_some() || !self.have.is_empty()
    }

    /// Whether a place of the pod, or one of the whole volume, is in use or may be.
    pub(super) fn occupies(&self, pod: &str, places: &Places) -> bool {
        let staged = |is: fn(&Places, &Places) -> bool| {
            self.staged.as_ref().is_some_and(|it| is(it, places))
        };
        let published = self
            .have
            .get(pod)
            .is_some_and(|it| it.places.target == places.target);
        let mounting = self.mounting.as_deref() == Some(pod) && staged(|a, b| a.target == b.target);
        published
            || mounting
            || self.is_there() && staged(|a, b| a.stage_metadata == b.stage_metadata)
    }

    pub(super) fn mount(&mut self, pod: &str, on: &Host) -> Option<mount::Mount> {
        let wanted = self.wanted.get(pod)?;
        let places = on
            .layout
            .places(&VolumeName::from(&wanted.volume), pod)
            .ok()?;
        let refused = self.refused(pod, wanted, on);
        let published = self.have.get(pod);
        let task = mount::Mount {
            layout: on.layout.clone(),
            places: places.clone(),
            volume: wanted.volume.clone(),
            usage: wanted.usage.clone(),
            device: self.device,
            pod: published.map_or(Mount::None, |it| it.mount),
            // What is published was staged, whatever a driver says now.
            device_from_disk: self.from_disk || !self.have.is_empty(),
            pod_from_disk: published.is_some_and(|it| it.from_disk),
            never_expands: self.never_expands,
            refused,
        };
        self.staged = Some(places);
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
