//! One provisioner process: caches fed by late events, queues, and attempts that advance step by
//! step. The caches and the books are the real ones, without their locks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::kube::cache::Source;
use sidecar::kube::cache::slots::Change;

use super::deliver::KINDS;
use super::mutant::Mutant;
use super::run::{Case, Faults};
use super::scene::segment;
use super::server::{Event, NodeInfo, Server, Versioned};
use super::source::Freeing;
use super::watch::Watch;
use super::{claim, volume};
use crate::model::{Attachment, Claim, Class, Pairs, Text, Volume};
use crate::plan::claim::Attempt;
use crate::plan::journal::{Journal, Owner, Request};
use crate::plan::memory::{ClaimKey, Memory};
use crate::plan::outcome::Cure;
use crate::plan::ownership::Contests;
use crate::plan::request::Prepared;
use crate::plan::settings::{NodeDeployment, Settings};
use crate::plan::topology::{Entry, Places};
use crate::plan::{Driver, delete, event, protection};

/// An attempt on a claim under way.
pub(super) struct Running {
    pub(super) key: ClaimKey,
    pub(super) attempt: Attempt,
    pub(super) current: Arc<Claim>,
    /// The claim was gone when the attempt began.
    pub(super) gone: bool,
    pub(super) state: claim::State,
}

/// An attempt on a volume under way.
pub(super) struct Deleting {
    pub(super) name: Text,
    pub(super) attempt: delete::Attempt,
    pub(super) current: Arc<Volume>,
    /// The driver has deleted the volume during this attempt.
    pub(super) deleted: bool,
    pub(super) state: volume::State,
}

pub(super) struct Process {
    /// Which of several.
    pub(super) site: usize,
    pub(super) driver: Driver,
    pub(super) settings: Settings,
    pub(super) mutant: Mutant,
    pub(super) places: Places,
    /// Node deployment: this process's node, and its labels.
    pub(super) node: Option<(NodeDeployment, Pairs)>,
    pub(super) contests: Contests,
    pub(super) claims: Watch<Claim>,
    pub(super) volumes: Watch<Volume>,
    pub(super) attachments: Watch<Attachment>,
    /// Kinds of objects that are not listed yet.
    pub(super) filling: Vec<usize>,
    /// The watch of attachments has ended, and it is known.
    pub(super) attachments_missed: bool,
    pub(super) classes: Watch<Class>,
    pub(super) nodes: Watch<NodeInfo>,
    pub(super) ready: BTreeSet<ClaimKey>,
    pub(super) later: BTreeSet<ClaimKey>,
    pub(super) ready_volumes: BTreeSet<Text>,
    pub(super) later_volumes: BTreeSet<Text>,
    pub(super) ready_sources: BTreeSet<Text>,
    pub(super) later_sources: BTreeSet<Text>,
    pub(super) running: Vec<Running>,
    pub(super) deleting: Vec<Deleting>,
    pub(super) freeing: Vec<Freeing>,
    pub(super) memory: Memory<Prepared>,
    pub(super) journal: Journal,
    /// The journal's request under way, and when it was sent.
    pub(super) asking: Option<(Request, Instant)>,
    /// The header that the journal wrote last.
    pub(super) header: Option<String>,
    /// It has found out that another process leads.
    pub(super) fenced: bool,
    /// Claims whose calls are another process's.
    pub(super) resumed: BTreeSet<ClaimKey>,
}

/// How long an infeasible request waits.
pub(super) const RETENTION: Duration = Duration::from_secs(300);

impl Process {
    /// A process that has just listed everything.
    pub(super) fn start(
        server: &Server,
        case: Case,
        mutant: Mutant,
        site: usize,
        (strict, number): (bool, u64),
    ) -> Self {
        let Case {
            scene, protection, ..
        } = case;
        let node = scene.node(site).map(|node| {
            let labels = segment(&node.name);
            let texts = labels.iter().flat_map(|(key, value)| [key, value]);
            let labels = Pairs::new(texts.cloned().collect());
            (node, labels)
        });
        let mut settings = scene.settings(protection, site, strict);
        mutant.configures(&mut settings);
        let mut driver = scene.driver();
        // Flags and capabilities are not what they were before.
        settings.extra_create_metadata = number % 3 == 1;
        driver.abilities.single_node_multi_writer = number % 4 == 2;
        let mut process = Self {
            site,
            driver,
            settings,
            mutant,
            places: match &node {
                Some((node, _)) => Places::of_node(&node.name, &segment(&node.name)),
                None => Places::default(),
            },
            node,
            contests: Contests::default(),
            claims: Watch::new(),
            volumes: Watch::new(),
            attachments: Watch::new(),
            filling: (0..KINDS).collect(),
            attachments_missed: false,
            classes: Watch::new(),
            nodes: Watch::new(),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            ready_volumes: BTreeSet::new(),
            later_volumes: BTreeSet::new(),
            ready_sources: BTreeSet::new(),
            later_sources: BTreeSet::new(),
            running: Vec::new(),
            deleting: Vec::new(),
            freeing: Vec::new(),
            memory: Memory::new(RETENTION),
            journal: Journal::new(Owner {
                lease: "test-driver".into(),
                driver: "test-driver".into(),
                node: scene
                    .node(site)
                    .map(|node| node.name.to_string())
                    .unwrap_or_default(),
                holder: format!("process-{number}"),
            }),
            asking: None,
            header: None,
            fenced: false,
            resumed: BTreeSet::new(),
        };
        if case.faults == Faults::None {
            process.list(server);
        }
        process
    }

    /// Whether all is known that decisions are made on.
    pub(super) fn may_work(&self) -> bool {
        self.filling.is_empty() || self.mutant == Mutant::StartsEarly
    }

    /// Lists everything anew.
    pub(super) fn list(&mut self, server: &Server) {
        for kind in [3, 4, 2, 1, 0] {
            self.list_kind(server, kind);
        }
    }

    /// Lists the objects of a kind, as at the start and after a watch broke.
    pub(super) fn list_kind(&mut self, server: &Server, kind: usize) {
        let now = server.now();
        let mutant = self.mutant;
        self.filling.retain(|missing| *missing != kind);
        match kind {
            0 => {
                for change in self.claims.list(&server.claims, now, keep) {
                    self.claim_changed(change);
                }
            }
            1 => {
                let keep = |volume: &_| Some(mutant.keeps(volume));
                for change in self.volumes.list(&server.volumes, now, keep) {
                    self.volume_changed(change);
                }
            }
            2 => self.list_attachments(server),
            3 => {
                let keep = |class: &Class| Some(class.clone());
                for change in self.classes.list(&server.classes, now, keep) {
                    self.class_changed(&change);
                }
            }
            _ if self.node.is_some() => {}
            _ => {
                let keep = |node: &NodeInfo| Some(node.clone());
                for change in self.nodes.list(&server.nodes, now, keep) {
                    self.node_changed(&change);
                }
            }
        }
    }

    /// What a watch of attachments that had ended goes on from.
    pub(super) fn list_attachments(&mut self, server: &Server) {
        let keep = |held: &Attachment| Some(held.clone());
        let changes = self
            .attachments
            .list(&server.attachments, server.now(), keep);
        for change in changes {
            self.attachment_changed(&change);
        }
        self.attachments_missed = false;
    }

    /// Takes in one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        let version = *version;
        match event.clone() {
            Event::Claim(name, object) => {
                let kept = object.as_ref().and_then(keep);
                if let Some(change) = self.claims.observe(&name, kept, version) {
                    self.claim_changed(change);
                }
            }
            Event::Volume(name, object) => {
                let kept = object.as_ref().map(|volume| self.mutant.keeps(volume));
                if let Some(change) = self.volumes.observe(&name, kept, version) {
                    self.volume_changed(change);
                }
            }
            Event::Attachment(name, object) => {
                if let Some(change) = self.attachments.observe(&name, object, version) {
                    self.attachment_changed(&change);
                }
            }
            Event::Class(name, object) => {
                if let Some(change) = self.classes.observe(&name, object, version) {
                    self.class_changed(&change);
                }
            }
            Event::Node(name, object) => {
                if let Some(change) = self.nodes.observe(&name, object, version) {
                    self.node_changed(&change);
                }
            }
        }
    }

    /// A mutant that recovers before anything is listed has not seen the volume.
    pub(super) fn is_blind(&self, key: &ClaimKey) -> bool {
        self.mutant == Mutant::RecoversEarly && self.resumed.contains(key)
    }

    pub(super) fn claim_changed(&mut self, change: Change<Claim>) {
        let (old, new) = match &change {
            Change::Upserted { old, new, .. } => (old.as_deref(), Some(&**new)),
            Change::Deleted { old, .. } => (Some(&**old), None),
        };
        if let Some(old) = old {
            if new.is_none_or(|new| new.uid != old.uid) {
                let key = ClaimKey::of(old);
                self.contests.end(&key);
                match self.memory.gone(&key) {
                    true => self.ready.insert(key),
                    false => self.later.remove(&key),
                };
            }
            self.look_at_freed(old, new);
        }
        match &change {
            Change::Upserted {
                old, new, source, ..
            } => {
                if old.is_none() {
                    self.cured(&Cure::SourceClaim(new.key()));
                }
                if *source == Source::Watch
                    && event::is_work_for_claim(old.as_deref(), new, &self.driver)
                {
                    self.ready.insert(ClaimKey::of(new));
                }
                self.look_at_source(new);
            }
            Change::Deleted { old, .. } => self.cured(&Cure::SourceClaim(old.key())),
        }
    }

    fn look_at_source(&mut self, claim: &Claim) {
        if self.driver.abilities.clone && protection::is_ending_source(claim) {
            self.ready_sources.insert(claim.key());
        }
    }

    fn look_at_freed(&mut self, before: &Claim, after: Option<&Claim>) {
        if let Some((namespace, name)) = protection::freed_source(before, after)
            && let Some(source) = self.claims.get(&format!("{namespace}/{name}"))
        {
            let source = Arc::clone(source);
            self.look_at_source(&source);
        }
    }

    /// Whether the PersistentVolume of the claim is there.
    pub(super) fn has_volume(&self, claim: &Claim) -> bool {
        let name = protection::volume_of(claim, &self.driver, &self.settings);
        name.is_some_and(|name| self.volumes.get(&name).is_some())
    }

    fn cured(&mut self, cure: &Cure) {
        self.ready.extend(self.memory.cured(cure));
    }

    /// Looks at all claims again.
    pub(super) fn resync(&mut self) {
        let claims = self.claims.slots.iter().map(|(_, claim)| claim);
        let due = claims.filter(|claim| event::is_work_for_claim(None, claim, &self.driver));
        self.ready.extend(due.map(|claim| ClaimKey::of(claim)));
    }

    pub(super) fn volume_changed(&mut self, change: Change<Volume>) {
        match change {
            Change::Upserted {
                key,
                old,
                new,
                source,
            } => {
                let own = source == Source::Own;
                if !own && event::is_work_for_volume(old.as_deref(), &new, &self.driver) {
                    self.ready_volumes.insert(key.as_str().into());
                }
            }
            Change::Deleted { key, .. } => self.memory.volume_gone(key.as_str()),
        }
    }

    fn attachment_changed(&mut self, change: &Change<Attachment>) {
        if let Change::Deleted { old, .. } = change {
            self.look_at_volume(&old.volume);
        }
    }

    /// Looks at the volume if something may be due for it.
    pub(super) fn look_at_volume(&mut self, name: &Text) {
        let volume = self.volumes.get(name);
        if volume.is_some_and(|volume| event::is_work_for_volume(None, volume, &self.driver)) {
            self.ready_volumes.insert(name.clone());
        }
    }

    fn class_changed(&mut self, change: &Change<Class>) {
        if let Change::Upserted { new, .. } = change {
            self.cured(&Cure::Class(new.name.clone()));
        }
    }

    fn node_changed(&mut self, change: &Change<NodeInfo>) {
        let (key, node) = match change {
            Change::Upserted { key, new, .. } => (key, Some(new)),
            Change::Deleted { key, .. } => (key, None),
        };
        let name = Text::from(key.as_str());
        let labels = node.and_then(|node| node.labels.clone());
        let driver = node.map_or(Entry::NoCsiNode, |node| node.driver.clone());
        let cures = [
            labels.is_some().then(|| Cure::Node(name.clone())),
            matches!(driver, Entry::Keys(_)).then(|| Cure::CsiNode(name.clone())),
        ];
        self.places.set_labels(&name, labels);
        self.places.set_driver(&name, driver);
        for cure in cures.into_iter().flatten() {
            self.cured(&cure);
            self.cured(&Cure::AnyNode);
        }
    }
}

/// What of a claim is kept in the cache.
pub(super) fn keep(claim: &Claim) -> Option<Claim> {
    claim.is_actionable().then(|| claim.clone())
}
