//! One run: dice decide what happens next, and every change is checked as it happens.

use std::collections::{BTreeMap, BTreeSet};

use super::Dice;
use super::driver::{ModelDriver, key};
use super::mutant::Mutant;
use super::process::{Process, Releasing, Running, State, Unpublishing};
use super::rest::Comparison;
use super::server::{Event, Server};
use crate::model::{Attachment, CsiSource, Source, Text, Volume};
use crate::plan::flight::Target;
use crate::plan::orphan;
use crate::testing::{F, csi, csinode, driver, list, pv, spec, va};

/// Which faults a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Late watch events only.
    None,
    /// The process stops anywhere, too.
    Crashes,
    /// And requests, calls, watches and the driver's memory fail.
    All,
    /// As `All`, with several attachments for one volume and node.
    Aliases,
    /// As `All` without a stop of the process, which forgets what it owes; somebody takes our
    /// finalizer off attachments, so that they go at any step.
    Strips,
}

/// What a run that held was like.
pub(super) struct Outcome {
    pub(super) steps: usize,
}

const VOLUMES: [&str; 2] = ["pv0", "pv1"];
const NODES: [&str; 2] = ["n0", "n1"];
const ACTIONS: usize = 120;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    mutant: Mutant,
    pub(super) server: Server,
    pub(super) driver: ModelDriver,
    pub(super) process: Process,
    /// How many attachments there were for each volume and node.
    pub(super) made: BTreeMap<(String, String), u32>,
    uids: u64,
    steps: usize,
    /// What went wrong first.
    violation: Option<String>,
    /// The end of the run, without faults.
    pub(super) settling: bool,
    /// A comparison with the driver's list that has begun.
    pub(super) comparison: Option<Comparison>,
    /// Volumes and nodes of attachments from which somebody took our finalizer.
    pub(super) stripped: BTreeSet<(String, String)>,
    /// Of these, what must not be unpublished: for all that is known it is in use.
    pub(super) in_use: BTreeSet<(String, String)>,
}

/// Runs the interleaving of `seed`.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<Outcome, String> {
    let server = Server::default();
    let process = Process::start(&server, driver(), mutant);
    let mut world = World {
        dice: Dice(seed),
        faults,
        mutant,
        server,
        driver: ModelDriver::default(),
        process,
        made: BTreeMap::new(),
        uids: 0,
        steps: 0,
        violation: None,
        settling: false,
        comparison: None,
        stripped: BTreeSet::new(),
        in_use: BTreeSet::new(),
    };
    world.furnish();
    world.process = Process::start(&world.server, driver(), mutant);
    for _ in 0..ACTIONS {
        world.act();
        if let Some(violation) = world.violation.take() {
            return Err(violation);
        }
    }
    world.settle();
    match world.violation.take() {
        Some(violation) => Err(violation),
        None => world.check_rest().map(|()| Outcome { steps: world.steps }),
    }
}

impl World {
    fn furnish(&mut self) {
        for node in NODES {
            self.put_node(node, true);
        }
        for volume in VOLUMES {
            self.put_volume(volume);
        }
    }

    fn put_node(&mut self, name: &str, present: bool) {
        let object = csinode(&format!("id-{name}"));
        self.server
            .put_node(&name.into(), present.then_some(object));
    }

    fn put_volume(&mut self, name: &str) {
        let name = Text::from(name);
        if self.server.volumes.contains_key(&name) {
            return;
        }
        let source = CsiSource {
            handle: format!("h-{name}").into(),
            ..csi()
        };
        let others: [&[&str]; 2] = [&[], &["kubernetes.io/pv-protection"]];
        let other = others[self.dice.below(2)];
        self.server.put_volume(
            &name,
            Volume {
                finalizers: (!other.is_empty()).then(|| list(other)),
                spec: spec(Source::Csi(source)),
                ..pv()
            },
        );
    }

    fn act(&mut self) {
        self.steps += 1;
        let all = self.has_faults();
        let crashes = !matches!(self.faults, Faults::None | Faults::Strips);
        match self.dice.below(24) {
            0..=2 => self.user(),
            3..=7 => self.deliver(),
            8 | 9 => self.retry(),
            10 if crashes && self.dice.one_in(4) => self.crash(),
            10 if self.faults == Faults::Strips => self.strip(),
            11 if all => self.end_orphan(),
            12 if all && self.dice.one_in(2) => self.disturb(),
            _ => self.work(),
        }
    }

    /// Somebody creates or deletes something.
    fn user(&mut self) {
        let volume = VOLUMES[self.dice.below(6) / 4];
        let node = NODES[self.dice.below(6) / 4];
        match self.dice.below(16) {
            0..=6 => self.create(volume, node),
            7..=12 => {
                let names: Vec<Text> = self.server.attachments.keys().cloned().collect();
                if !names.is_empty() {
                    let name = &names[self.dice.below(names.len())];
                    self.server.delete_attachment(name);
                }
            }
            13 | 14 => {
                if self.dice.one_in(4) {
                    // Kubernetes' own protection ends with the deletion here.
                    self.server.delete_volume(&volume.into());
                    self.drop_protection(&volume.into());
                } else {
                    self.put_volume(volume);
                }
            }
            _ => {
                let present = !self.dice.one_in(3);
                self.put_node(node, present);
            }
        }
    }

    fn drop_protection(&mut self, name: &Text) {
        if let Some((_, object)) = self.server.volumes.get(name) {
            let held = object.finalizers.iter().flat_map(|list| list.iter());
            let kept: Vec<Text> = held.filter(|held| ***held == *F).cloned().collect();
            let object = Volume {
                finalizers: (!kept.is_empty()).then(|| kept.into()),
                ..object.clone()
            };
            self.server.put_volume(name, object);
        }
    }

    fn create(&mut self, volume: &str, node: &str) {
        let prefix = match self.faults {
            Faults::Aliases => ["va", "alt"][self.dice.below(2)],
            Faults::None | Faults::Crashes | Faults::All | Faults::Strips => "va",
        };
        let name = Text::from(format!("{prefix}-{volume}-{node}"));
        if self.server.attachments.contains_key(&name) {
            return;
        }
        self.uids += 1;
        let other: [&[&str]; 2] = [&[], &["other/fin"]];
        let object = Attachment {
            name,
            uid: format!("{}", self.uids).into(),
            node: node.into(),
            volume: Some(volume.into()),
            finalizers: list(other[usize::from(self.dice.one_in(12))]),
            ..va()
        };
        *self.made.entry(key(&target(&object))).or_default() += 1;
        self.server.put_attachment(object);
    }

    /// One watch brings its next event, or one it brought before, or breaks.
    fn deliver(&mut self) {
        let all = self.has_faults();
        if all && self.dice.one_in(12) {
            return self.list();
        }
        let kind = self.dice.below(3);
        let cursor = match kind {
            0 => &mut self.process.attachments.cursor,
            1 => &mut self.process.volumes.cursor,
            _ => &mut self.process.nodes.cursor,
        };
        let at = match all && *cursor > 0 && self.dice.one_in(4) {
            true => self.dice.below(*cursor),
            false => {
                let log = self.server.log.iter().enumerate().skip(*cursor);
                let next = log
                    .filter(|(_, (_, event))| kind_of(event) == kind)
                    .map(|(at, _)| at);
                match { next }.next() {
                    Some(at) => {
                        *cursor = at + 1;
                        at
                    }
                    None => return,
                }
            }
        };
        if let Some(event) = self.server.log.get(at)
            && kind_of(&event.1) == kind
        {
            self.process.observe(event);
        }
    }

    /// The process lists everything anew.
    pub(super) fn list(&mut self) {
        // Attached, held and not being deleted: gone without a trace, it may as well be in use.
        for (name, known) in self.process.attachments.slots.iter() {
            let now = self.server.attachments.get(name.as_str());
            let same = now.is_some_and(|(_, object)| object.uid == known.uid);
            if !same && orphan::is_unexplained(known, &self.process.driver) {
                self.in_use.insert(key(&target(known)));
            }
        }
        self.process.list(&self.server);
    }

    /// Somebody takes our finalizer off an attachment.
    fn strip(&mut self) {
        let held = self.server.attachments.values();
        let held = held.filter(|(_, object)| object.has_finalizer(F));
        let held: Vec<Attachment> = held.map(|(_, object)| object.clone()).collect();
        if held.is_empty() {
            return;
        }
        let object = held[self.dice.below(held.len())].clone();
        self.stripped.insert(key(&target(&object)));
        let kept = object.finalizers.iter().filter(|held| ***held != *F);
        self.server.put_attachment(Attachment {
            finalizers: kept.cloned().collect(),
            ..object
        });
    }

    pub(super) fn has_faults(&self) -> bool {
        matches!(self.faults, Faults::All | Faults::Aliases | Faults::Strips)
    }

    fn retry(&mut self) {
        let process = &mut self.process;
        process.ready.append(&mut process.later);
        process.ready_volumes.append(&mut process.later_volumes);
    }

    /// The process ends; what it sent is applied now or never.
    fn crash(&mut self) {
        let running = std::mem::take(&mut self.process.running);
        for Running { name, state, .. } in running {
            let applied = self.dice.one_in(2);
            match state {
                State::Sent(step) if applied => {
                    self.apply(&name, &step);
                }
                State::Recording(_, patch) if applied => {
                    self.patch_attachment(&name, &patch).ok();
                }
                State::Calling(_, id) => self.driver.abandon(id),
                State::Deciding | State::Sent(_) | State::Answered(..) | State::Recording(..) => {}
            }
        }
        for Unpublishing { id, .. } in std::mem::take(&mut self.process.unpublishing) {
            self.driver.abandon(id);
        }
        for Releasing { name, patch } in std::mem::take(&mut self.process.releasing) {
            if self.dice.one_in(2) {
                self.patch_volume(&name, &patch).ok();
            }
        }
        self.comparison = None;
        self.process = Process::start(&self.server, driver(), self.mutant);
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn retry_all(&mut self) {
        self.retry();
    }

    /// Every node has the driver again.
    pub(super) fn cure_nodes(&mut self) {
        for node in NODES {
            self.put_node(node, true);
        }
    }

    /// A call whose caller is gone ends.
    fn end_orphan(&mut self) {
        let orphan = self.driver.running.iter().find(|call| !call.awaited);
        if let Some(id) = orphan.map(|call| call.id) {
            let effect = self.dice.one_in(2);
            self.end_call(id, effect);
        }
    }

    /// The driver forgets an attachment, or its list is compared with the API.
    fn disturb(&mut self) {
        match self.dice.one_in(3) {
            true => {
                let held = self.driver.attached.iter().next().cloned();
                if let Some(held) = held {
                    self.driver.attached.remove(&held);
                }
            }
            false => self.reconcile(),
        }
    }
}

fn kind_of(event: &Event) -> usize {
    match event {
        Event::Attachment(..) => 0,
        Event::Volume(..) => 1,
        Event::Node(..) => 2,
    }
}

pub(super) fn target(attachment: &Attachment) -> Target {
    let volume = attachment.volume.as_deref().unwrap_or_default();
    Target {
        volume: format!("h-{volume}").into(),
        node: format!("id-{}", attachment.node).into(),
    }
}
