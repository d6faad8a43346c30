//! Crash safety as a property: a world of pods, a driver and a disk, in which the agent is stopped
//! after any step, answers are lost and calls fail, as chance has it.
//!
//! What holds at every moment: nothing is published that is not staged, nothing is unstaged that is
//! published, whatever the driver holds is in use in the Node's status. And once chance ends and all
//! pods are gone, nothing is left, neither in the driver nor on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use registrar::agent::model::volume::{PodRef, Use, Volume};
use registrar::agent::plan::layout::{Layout, parent, unique_name};
use registrar::agent::plan::metadata::Metadata;
use registrar::agent::plan::operation::{Operations, Subject};
use registrar::agent::plan::reconstruct::{self, PodFound, StageFound};
use registrar::agent::plan::script::{Answer, Call, Capabilities, Failure, Next, Reply, Step};
use registrar::agent::plan::state::{Operation, View, Wanted};
use registrar::agent::plan::world::{Host, Task, World};
use serde_json::json;
use tonic::Code;

use crate::stage::{D, N};

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

struct Running {
    key: String,
    operation: Operation,
    subject: Subject,
    task: Task,
    replies: Vec<Reply>,
}

/// Everything there is. What a crash takes is `world`, `operations` and `running`.
struct Sim {
    chance: Chance,
    faults: bool,
    block: bool,
    now: Instant,
    world: World,
    operations: Operations,
    running: Vec<Running>,
    files: BTreeMap<PathBuf, Option<Metadata>>,
    links: BTreeSet<PathBuf>,
    staged: BTreeSet<(String, String)>,
    /// With whether the driver has ever said that it is.
    published: BTreeMap<(String, String), bool>,
    pods: BTreeMap<String, Vec<usize>>,
    seed: u64,
    /// What happened, if anybody wants to know.
    trace: Option<Vec<String>>,
    crashes: usize,
}

fn layout() -> Layout {
    Layout {
        root: PathBuf::from("/k"),
        node: N.to_owned(),
    }
}

fn volume(index: usize, block: bool) -> Volume {
    let json = json!({ "metadata": { "name": format!("pv-{index}") }, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": if block { "Block" } else { "Filesystem" },
        "csi": { "driver": D, "volumeHandle": format!("h-{index}") } } });
    Volume::persistent(&format!("pv-{index}"), &json.to_string()).unwrap()
}

impl Sim {
    fn new(seed: u64, traced: bool) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut pods = BTreeMap::new();
        for pod in ["a", "b", "c"] {
            let volumes = (0..2).filter(|_| !chance.one_in(3)).collect();
            pods.insert(pod.to_owned(), volumes);
        }
        let mut sim = Self {
            block: chance.one_in(3),
            chance,
            faults: true,
            now: Instant::now(),
            world: World::default(),
            operations: Operations::default(),
            running: Vec::new(),
            files: BTreeMap::new(),
            links: BTreeSet::new(),
            staged: BTreeSet::new(),
            published: BTreeMap::new(),
            pods,
            seed,
            trace: traced.then(Vec::new),
            crashes: 0,
        };
        sim.populate();
        sim
    }

    fn populate(&mut self) {
        for (pod, volumes) in self.pods.clone() {
            let wanted = volumes.iter().map(|index| Wanted {
                volume: volume(*index, self.block),
                usage: Use {
                    pod: PodRef {
                        namespace: "default".to_owned(),
                        name: pod.clone(),
                        uid: pod.clone(),
                        service_account: String::new(),
                    },
                    fs_group: None,
                    on_root_mismatch: false,
                    read_only: false,
                    se_linux: None,
                    claim: None,
                },
                attach: true,
                republish: index % 2 == 0,
            });
            self.world
                .want(&layout(), &pod, wanted.collect(), true)
                .unwrap();
        }
        let known: BTreeSet<String> = self.world.pods().iter().map(ToString::to_string).collect();
        for pod in known.iter().filter(|pod| !self.pods.contains_key(*pod)) {
            self.world.unwant(pod);
        }
    }

    fn fail(&self, what: &str) -> ! {
        let Some(trace) = &self.trace else {
            Self::new(self.seed, true).run();
            panic!("seed {}: {what}, which did not happen again", self.seed);
        };
        let tail = trace.len().saturating_sub(40);
        panic!("seed {}: {what}\n{}", self.seed, trace[tail..].join("\n"));
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    /// The agent is killed and starts again. Calls under way may still reach the driver.
    fn crash(&mut self) {
        self.crashes += 1;
        self.note(|| "CRASH".to_owned());
        for running in std::mem::take(&mut self.running) {
            if let Next::Do(step @ Step::Call { .. }) = running.task.next(&running.replies)
                && self.chance.one_in(2)
            {
                let _ = self.step(&step);
            }
        }
        self.world = World::default();
        self.operations = Operations::default();
        let (mut pods, mut stages) = (Vec::new(), Vec::new());
        for (path, metadata) in &self.files {
            let Some(metadata) = metadata else { continue };
            let name = |up: usize| {
                let part = path.ancestors().nth(up).unwrap().file_name().unwrap();
                part.to_str().unwrap().to_owned()
            };
            if path.starts_with("/k/pods") {
                pods.push(PodFound {
                    pod: name(4),
                    name: name(1),
                    block: false,
                    metadata: Some(metadata.clone()),
                });
            } else {
                stages.push(StageFound {
                    file: path.clone(),
                    block: path.starts_with(layout().devices()),
                    metadata: Some(metadata.clone()),
                });
            }
        }
        for link in &self.links {
            let name = link.file_name().unwrap().to_str().unwrap().to_owned();
            let file = layout().devices().join(&name).join("data/vol_data.json");
            let pod = link.ancestors().nth(3).unwrap().file_name().unwrap();
            pods.push(PodFound {
                pod: pod.to_str().unwrap().to_owned(),
                name,
                block: true,
                metadata: self.files.get(&file).cloned().flatten(),
            });
        }
        let strange = reconstruct::enter(&mut self.world, &layout(), pods, stages);
        for path in strange {
            self.remove_if_empty(&path);
        }
        self.populate();
    }

    fn remove_if_empty(&mut self, path: &Path) {
        let inside = |other: &PathBuf| other != path && other.starts_with(path);
        let full = self.files.keys().any(inside) || self.links.iter().any(inside);
        if !full && self.files.get(path) == Some(&None) {
            self.files.remove(path);
        }
    }

    fn make(&mut self, path: &Path) {
        for path in path.ancestors() {
            self.files.entry(path.to_path_buf()).or_insert(None);
        }
    }

    /// One step on the model.
    fn step(&mut self, step: &Step) -> Reply {
        match step {
            Step::Driver(_) => Ok(Answer::Driver(None)),
            Step::Attachment(_) => Ok(Answer::Context(BTreeMap::new())),
            Step::Read(path) => Ok(Answer::Metadata(self.files.get(path).cloned().flatten())),
            Step::IsMounted(path) => {
                let path = path.to_str().unwrap();
                let staged = self.staged.iter().any(|(_, at)| at == path);
                let published = self.published.keys().any(|(_, at)| at == path);
                Ok(Answer::Is(!self.block && (staged || published)))
            }
            Step::References(_) => Ok(Answer::Paths(Vec::new())),
            Step::MakeDirectory(path) => {
                self.make(path);
                Ok(Answer::Done)
            }
            Step::Write(path, metadata) => {
                self.make(parent(path));
                self.files.insert(path.clone(), Some(metadata.clone()));
                Ok(Answer::Done)
            }
            Step::Link { link, .. } => {
                self.links.insert(link.clone());
                Ok(Answer::Done)
            }
            Step::Remove(paths) => {
                for path in paths {
                    self.files.remove(path);
                    self.links.remove(path);
                    // Killed between two of them.
                    if self.faults && self.chance.one_in(8) {
                        return Err(Failure::local("removed in part"));
                    }
                }
                Ok(Answer::Done)
            }
            Step::Tidy(paths) => {
                paths.iter().for_each(|path| self.remove_if_empty(path));
                Ok(Answer::Done)
            }
            Step::Registered(_) if self.faults && self.chance.one_in(12) => {
                Err(Failure::local("not registered"))
            }
            Step::Call { call, .. } => self.call(call),
            Step::Registered(_)
            | Step::Secret(_)
            | Step::Token(..)
            | Step::Own { .. }
            | Step::Resized { .. } => Ok(Answer::Done),
        }
    }

    fn call(&mut self, call: &Call) -> Reply {
        let error = |code| {
            Err(Failure {
                code: Some(code),
                message: "by chance".to_owned(),
            })
        };
        let fault = if self.faults {
            self.chance.below(10)
        } else {
            9
        };
        if fault == 0 {
            // It did not get there.
            return error(Code::Unavailable);
        }
        if fault == 1 {
            // The driver says for certain that it has done nothing, so there is nothing.
            match call {
                Call::Stage(it) => {
                    let at = (it.volume_id.clone(), it.staging_target_path.clone());
                    self.staged.remove(&at);
                }
                Call::Publish(it) => {
                    let at = (it.volume_id.clone(), it.target_path.clone());
                    if self.published.get(&at) == Some(&false) {
                        self.published.remove(&at);
                    }
                }
                Call::Capabilities | Call::Unpublish(_) | Call::Unstage(_) | Call::Expand(_) => {}
            }
            return error(Code::Internal);
        }
        let said = fault != 2;
        match call {
            Call::Stage(it) => {
                let at = (it.volume_id.clone(), it.staging_target_path.clone());
                self.staged.insert(at);
            }
            Call::Publish(it) => {
                let staged = (it.volume_id.clone(), it.staging_target_path.clone());
                if !self.staged.contains(&staged) {
                    self.fail("published what is not staged");
                }
                let at = (it.volume_id.clone(), it.target_path.clone());
                let entry = self.published.entry(at).or_insert(false);
                *entry |= said;
            }
            Call::Unpublish(it) => {
                let at = (it.volume_id.clone(), it.target_path.clone());
                self.published.remove(&at);
            }
            Call::Unstage(it) => {
                if self.published.keys().any(|(id, _)| *id == it.volume_id) {
                    self.fail("unstaged what is published");
                }
                let at = (it.volume_id.clone(), it.staging_target_path.clone());
                self.staged.remove(&at);
            }
            Call::Expand(_) => {}
            Call::Capabilities => {
                return Ok(Answer::Capabilities(Capabilities {
                    stage: true,
                    ..Capabilities::default()
                }));
            }
        }
        if said {
            Ok(Answer::Done)
        } else {
            error(Code::DeadlineExceeded)
        }
    }

    /// Starts something, or carries something that runs one step on. False if there is nothing.
    fn advance(&mut self) -> bool {
        self.now += Duration::from_secs(130);
        let view = View {
            complete: true,
            attached: true,
        };
        let host = Host {
            layout: layout(),
            se_linux: false,
            labels: BTreeMap::new(),
        };
        let mut wanted = Vec::new();
        for (key, state) in self.world.volumes() {
            let operations = state.decide(view).into_iter();
            wanted.extend(operations.map(|operation| (key.to_owned(), operation)));
        }
        for (key, operation) in wanted {
            let subject = operation.subject(&key);
            if self
                .operations
                .start(&subject, operation.kind(), self.now)
                .is_err()
            {
                continue;
            }
            self.note(|| format!("{key} {operation:?}"));
            match self.world.begin(&key, &operation, &host) {
                Some(task) => self.running.push(Running {
                    key,
                    operation,
                    subject,
                    task,
                    replies: Vec::new(),
                }),
                None => {
                    self.world.forget(&key);
                    self.operations.finish(&subject, true, self.now);
                }
            }
        }
        if self.running.is_empty() {
            return false;
        }
        let count = u64::try_from(self.running.len()).unwrap();
        let index = usize::try_from(self.chance.below(count)).unwrap();
        let running = &self.running[index];
        match running.task.next(&running.replies) {
            Next::Do(step) => {
                let reply = self.step(&step);
                self.note(|| format!("  {step:?} -> {reply:?}"));
                self.running[index].replies.push(reply);
            }
            Next::End { changes, result } => {
                let ended = self.running.swap_remove(index);
                self.note(|| format!("  {:?} ended {changes:?} {result:?}", ended.operation));
                self.operations
                    .finish(&ended.subject, result.is_ok(), self.now);
                let state = self.world.volume_mut(&ended.key).unwrap();
                state.apply(&ended.operation, ended.task.places(), &changes);
            }
        }
        true
    }

    fn check(&self) {
        let in_use = self.world.in_use(&BTreeSet::new());
        let all = self.world.in_use(
            &self
                .world
                .volumes()
                .map(|(key, _)| key.to_owned())
                .collect(),
        );
        let held = self.staged.iter().map(|(id, _)| id);
        for id in held.chain(self.published.keys().map(|(id, _)| id)) {
            let key = unique_name(D, id);
            if !all.contains(&key) {
                self.fail(&format!(
                    "{id} may be detached although the driver holds it: {in_use:?}"
                ));
            }
        }
    }

    fn run(&mut self) {
        for _ in 0..400 {
            if self.chance.one_in(25) {
                self.crash();
            }
            if self.chance.one_in(40) {
                self.pods.pop_first();
                self.populate();
            }
            if self.chance.one_in(40) {
                // A look at the pods: some volumes are published again.
                self.populate();
            }
            self.advance();
            self.check();
        }
        self.faults = false;
        self.pods.clear();
        self.populate();
        for _ in 0..2000 {
            if !self.advance() {
                break;
            }
            self.check();
        }
        let left = self.files.iter().filter(|(_, it)| it.is_some()).count();
        let empty = self.staged.is_empty() && self.published.is_empty() && self.links.is_empty();
        if left > 0 || !empty || self.world.volumes().count() > 0 {
            let (staged, published) = (&self.staged, &self.published);
            self.fail(&format!(
                "left: {left} files, {staged:?}, {published:?}, {:?}",
                self.links
            ));
        }
    }
}

#[test]
fn whenever_it_is_stopped_nothing_is_lost() {
    let mut crashes = 0;
    for seed in 1..=1000 {
        let mut sim = Sim::new(seed, false);
        sim.run();
        crashes += sim.crashes;
    }
    assert!(crashes > 10_000, "{crashes} crashes prove little");
}
