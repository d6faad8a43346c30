//! Crash safety as a property: a world of pods, a driver, a disk, the Node's status and the attach/detach controller.
//! At random, the agent is killed within any step, replies are lost, disks fill up, calls fail, and PersistentVolumes
//! are recreated for other storage.
//!
//! Invariants at every moment: a published volume is staged, no volume is unstaged while it is published, no path has
//! two volumes, no volume has two SELinux labels, a live pod keeps its volume, and every volume that the driver holds
//! is in use in the Node's status and so is never detached. Once the faults end and all pods are gone, nothing is left:
//! not in the driver, not on disk, not in the Node's status.

mod control;
mod driver;
mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use node_agent::model::claim::ResizeOwner;
use node_agent::model::driver::CsiDriver;
use node_agent::model::volume::{ClaimUse, Lifecycle, PodRef, Use, Volume};
use node_agent::plan::files::{FileCall, Sequence, link, make_directory, remove, write};
use node_agent::plan::growth::Growth;
use node_agent::plan::layout::{ESCAPED_PLUGIN, Layout, ephemeral_handle, unique_name};
use node_agent::plan::operation::{Attempt, Operations};
use node_agent::plan::reconstruct;
use node_agent::plan::script::{Answer, Call, Failure, Next, Reply, Step};
use node_agent::plan::state::{Operation, Wanted};
use node_agent::plan::world::{Host, Task, World};
use serde_json::json;

use crate::stage::{D, N};
use control::Control;
use driver::Driver;
use files::{Entry, Files};

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
    attempt: Attempt,
    task: Task,
    replies: Vec<Reply>,
}

/// A pod on the API server.
#[derive(Clone)]
struct Pod {
    /// Indexes of its persistent volumes.
    volumes: Vec<usize>,
    inline: bool,
    fs_group: Option<i64>,
    /// SELinux label for its persistent volumes.
    label: Option<&'static str>,
}

/// The whole state. A crash loses `world`, `operations`, `running`, `known` and `attempted`.
struct Sim {
    chance: Chance,
    faults: bool,
    block: bool,
    now: Instant,
    world: World,
    operations: Operations,
    running: Vec<Running>,
    /// Pods that the agent's watch has delivered, and those of them that it has looked up.
    known: BTreeMap<String, Pod>,
    attempted: BTreeSet<String>,
    files: Files,
    driver: Driver,
    control: Control,
    pods: BTreeMap<String, Pod>,
    born: u64,
    /// The storage behind each PersistentVolume: it may be recreated for another one.
    generations: [u64; VOLUMES],
    /// PersistentVolumes are recreated all the time, and most look-ups fail.
    restless: bool,
    /// Number of further file system calls that fail.
    refuses: u64,
    /// Paths whose removal failed after nothing referred to them any more: they stay until a restart.
    refused: Vec<PathBuf>,
    seed: u64,
    /// Log of what happened, if it is wanted.
    trace: Option<Vec<String>>,
    crashes: usize,
    /// Number of crashes within a step of several calls.
    torn: usize,
}

/// Number of persistent volumes.
const VOLUMES: usize = 2;
/// Number of storages that a PersistentVolume may be recreated for.
const GENERATIONS: u64 = 3;
const GIB: i64 = 1 << 30;

fn layout() -> Layout {
    Layout {
        root: PathBuf::from("/k"),
        node: N.to_owned(),
    }
}

fn handle(index: usize, generation: u64) -> String {
    format!("h-{index}-{generation}")
}

fn volume(index: usize, generation: u64, block: bool, gib: u64) -> Volume {
    let json = json!({ "metadata": { "name": format!("pv-{index}") }, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "capacity": { "storage": format!("{gib}Gi") },
        "volumeMode": if block { "Block" } else { "Filesystem" },
        "csi": { "driver": D, "volumeHandle": handle(index, generation), "fsType": "ext4" } } });
    Volume::persistent(&format!("pv-{index}"), &json.to_string()).unwrap()
}

fn inline(pod: &str) -> Volume {
    Volume {
        lifecycle: Lifecycle::Ephemeral,
        spec_name: "inline".to_owned(),
        handle: ephemeral_handle(pod, "inline"),
        ..volume(0, 0, false, 0)
    }
}

fn csidriver() -> CsiDriver {
    let spec = json!({ "volumeLifecycleModes": ["Persistent", "Ephemeral"] });
    let object = json!({ "metadata": { "name": D }, "spec": spec });
    CsiDriver::read(&object.to_string()).unwrap()
}

/// The file system calls of a step.
fn sequence(step: &Step) -> Option<Sequence> {
    match step {
        Step::MakeDirectory(path) => Some(make_directory(path.clone())),
        Step::Write(path, metadata) => Some(write(path, metadata)),
        Step::Link { link: at, target } => Some(link(at.clone(), target.clone())),
        Step::Remove(paths) => Some(remove(paths.clone())),
        Step::Driver(_)
        | Step::Registered(_)
        | Step::Attachment(_)
        | Step::Secret(_)
        | Step::Token(..)
        | Step::Call { .. }
        | Step::Read(_)
        | Step::IsMounted(_)
        | Step::References(_)
        | Step::Tidy(_)
        | Step::Own { .. }
        | Step::Claim(..)
        | Step::ReportGrowth { .. } => None,
    }
}

impl Sim {
    fn new(seed: u64, traced: bool) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut sim = Self {
            block: chance.one_in(3),
            chance,
            faults: true,
            now: Instant::now(),
            world: World::default(),
            operations: Operations::default(),
            running: Vec::new(),
            known: BTreeMap::new(),
            attempted: BTreeSet::new(),
            files: Files::default(),
            driver: Driver::default(),
            control: Control::default(),
            pods: BTreeMap::new(),
            born: 0,
            generations: [0; VOLUMES],
            restless: seed.is_multiple_of(3),
            refuses: 0,
            refused: Vec::new(),
            seed,
            trace: traced.then(Vec::new),
            crashes: 0,
            torn: 0,
        };
        for _ in 0..3 {
            sim.create_pod();
        }
        sim
    }

    fn create_pod(&mut self) {
        let chance = &mut self.chance;
        let pod = Pod {
            volumes: (0..VOLUMES).filter(|_| !chance.one_in(3)).collect(),
            inline: chance.one_in(4),
            fs_group: chance.one_in(2).then_some(1000),
            label: [None, Some("a"), Some("a"), Some("b")]
                [usize::try_from(chance.below(4)).unwrap()],
        };
        // The order of UIDs must not follow the pods' age.
        let uid = format!("{}{}", chance.below(10), self.born);
        self.born += 1;
        self.note(|| {
            let Pod {
                volumes,
                inline,
                label,
                ..
            } = &pod;
            format!("POD {uid} {volumes:?} inline: {inline} label: {label:?}")
        });
        self.pods.insert(uid, pod);
    }

    fn wanted(&mut self, uid: &str, pod: &Pod) -> Vec<Wanted> {
        let mut volumes = Vec::new();
        for index in &pod.volumes {
            // The volume may have grown since the claim was updated.
            let gib = 1 + self.chance.below(2);
            volumes.push(volume(*index, self.generations[*index], self.block, gib));
        }
        volumes.extend(pod.inline.then(|| inline(uid)));
        let usage = Use {
            pod: PodRef {
                namespace: "default".to_owned(),
                name: uid.to_owned(),
                uid: uid.to_owned(),
                service_account: String::new(),
            },
            fs_group: pod.fs_group,
            on_root_mismatch: false,
            read_only: false,
            se_linux: None,
            claim: None,
        };
        let claim = ClaimUse {
            namespace: "default".to_owned(),
            name: "claim".to_owned(),
            uid: String::new(),
            size: GIB,
            resize_owner: ResizeOwner::Anybody,
            tracked: self.chance.one_in(2),
            version: String::new(),
        };
        let wanted = volumes.into_iter().map(|volume| Wanted {
            usage: Use {
                claim: volume.is_persistent().then(|| claim.clone()),
                se_linux: {
                    pod.label
                        .filter(|_| volume.is_persistent() && !volume.block)
                }
                .map(str::to_owned),
                ..usage.clone()
            },
            attach: volume.is_persistent(),
            republish: self.chance.one_in(2),
            volume,
        });
        wanted.collect()
    }

    /// The agent's watch catches up.
    fn watch(&mut self) {
        let gone: Vec<String> = { self.known.keys() }
            .filter(|uid| !self.pods.contains_key(*uid))
            .cloned()
            .collect();
        self.known = self.pods.clone();
        for uid in gone {
            self.attempted.remove(&uid);
            self.operations.forget_pod(&uid);
            self.world.unwant(&uid);
            self.tidy_pod(&uid);
        }
        let all: BTreeSet<String> = self.world.pods().iter().map(ToString::to_string).collect();
        for uid in all.iter().filter(|uid| !self.known.contains_key(*uid)) {
            self.world.unwant(uid);
        }
    }

    /// The agent looks up the volumes of one pod; some look-ups fail.
    fn look_up(&mut self) {
        let count = u64::try_from(self.known.len()).unwrap();
        if count == 0 {
            return;
        }
        let nth = usize::try_from(self.chance.below(count)).unwrap();
        let (uid, pod) = self.known.iter().nth(nth).unwrap();
        let (uid, pod) = (uid.clone(), pod.clone());
        let mut wanted = self.wanted(&uid, &pod);
        let all = wanted.len();
        if self.faults {
            let missing = if self.restless { 2 } else { 6 };
            wanted.retain(|_| !self.chance.one_in(missing));
        }
        let all = wanted.len() == all;
        self.note(|| format!("LOOK {uid}, everything: {all}"));
        let _ = self.world.want(&layout(), &uid, wanted, all);
        self.attempted.insert(uid);
    }

    fn is_complete(&mut self) -> bool {
        // Or the agent has stopped waiting for look-ups.
        self.known.keys().all(|uid| self.attempted.contains(uid)) || self.chance.one_in(20)
    }

    fn fail(&self, what: &str) -> ! {
        let Some(trace) = &self.trace else {
            Self::new(self.seed, true).run();
            panic!("seed {}: {what}, which did not happen again", self.seed);
        };
        let tail = trace.len().saturating_sub(60);
        panic!("seed {}: {what}\n{}", self.seed, trace[tail..].join("\n"));
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    /// The agent is killed, perhaps within a step, and starts again. Calls under way may still reach the driver.
    fn crash(&mut self) {
        self.crashes += 1;
        self.note(|| "CRASH".to_owned());
        for running in std::mem::take(&mut self.running) {
            let Next::Do(step) = running.task.next(&running.replies) else {
                continue;
            };
            if let Some(sequence) = sequence(&step) {
                let count = u64::try_from(sequence.calls.len()).unwrap();
                let done = self.chance.below(count + 1);
                self.torn += usize::from(done > 0 && done < count);
                self.note(|| format!("  {done} calls of {step:?}"));
                for call in sequence.calls.iter().take(usize::try_from(done).unwrap()) {
                    if self.file_call(call).is_err() {
                        break;
                    }
                }
            } else if matches!(step, Step::Call { .. }) && self.chance.one_in(2) {
                let _ = self.step(&step);
            }
        }
        self.refused.clear();
        self.world = World::default();
        self.operations = Operations::default();
        self.attempted.clear();
        self.control.crash(&mut self.chance);
        let (pods, stages) = self.files.scan(&layout());
        let strange = reconstruct::enter(&mut self.world, &layout(), pods, stages);
        self.tidy(&strange);
        for pod in self.files.names(&layout().pods()) {
            self.tidy_pod(&pod);
        }
        self.watch();
    }

    fn tidy(&mut self, paths: &[PathBuf]) {
        self.files.tidy(paths, |path| self.driver.is_mounted(path));
    }

    fn tidy_pod(&mut self, uid: &str) {
        if self.world.has_any(uid) {
            return;
        }
        let pod = layout().pods().join(uid);
        let volumes = self.files.names(&pod.join("volumes").join(ESCAPED_PLUGIN));
        let links = self
            .files
            .names(&pod.join("volumeDevices").join(ESCAPED_PLUGIN));
        self.tidy(&layout().pod_leftovers(uid, &volumes, &links));
    }

    fn file_call(&mut self, call: &FileCall) -> Result<(), String> {
        if self.faults && self.refuses == 0 && self.chance.one_in(40) {
            let long = self.chance.one_in(10);
            self.refuses = 1 + self.chance.below(if long { 300 } else { 6 });
        }
        if self.faults && self.refuses > 0 {
            self.refuses -= 1;
            // The disk is full or failing: half of the text is written.
            if let FileCall::Fill(path, text) = call {
                self.files
                    .put(path, Entry::File(text[..text.len() / 2].to_owned()));
            }
            return Err("no space left".to_owned());
        }
        let is_mounted = |path: &PathBuf| self.driver.is_mounted(path);
        let busy = matches!(call, FileCall::Remove(path) if is_mounted(path));
        self.files.call(call, busy)
    }

    fn change(&mut self, sequence: &Sequence) -> Reply {
        for call in &sequence.calls {
            if let Err(error) = self.file_call(call) {
                if let Some(undo) = &sequence.undo {
                    let _ = self.file_call(undo);
                }
                return Err(Failure::local(error));
            }
        }
        Ok(Answer::Done)
    }

    /// Runs one step on the model.
    #[expect(clippy::too_many_lines, reason = "an arm for each kind of step")]
    fn step(&mut self, step: &Step) -> Reply {
        if let Some(sequence) = sequence(step) {
            return self.change(&sequence);
        }
        let must_be_published = |sim: &Self, path: &Path| {
            if !sim.driver.is_mounted(path) {
                sim.fail(&format!("{} is no volume", path.display()));
            }
        };
        match step {
            Step::Driver(_) => Ok(Answer::Driver(Some(csidriver()))),
            Step::Attachment(name) => {
                let is = |handle: &String| {
                    let attached = &self.control.node.attached;
                    layout().attachment(D, handle) == *name
                        && attached.contains(&unique_name(D, handle))
                };
                if Self::handles().iter().any(is) {
                    return Ok(Answer::Context(BTreeMap::new()));
                }
                Err(Failure::local("not attached"))
            }
            Step::Read(path) => Ok(Answer::Metadata(self.files.read(path))),
            Step::IsMounted(path) => Ok(Answer::Is(self.driver.is_mounted(path))),
            Step::References(_) => Ok(Answer::Paths(Vec::new())),
            Step::Tidy(paths) => {
                self.tidy(paths);
                Ok(Answer::Done)
            }
            Step::Registered(_) if self.faults && self.chance.one_in(12) => {
                Err(Failure::local("not registered"))
            }
            Step::Call { call, .. } => {
                if let Call::Unpublish(it) = &**call {
                    self.must_be_gone(&it.target_path);
                }
                let chance = self.faults.then_some(&mut self.chance);
                match self.driver.call(call, &mut self.files, chance) {
                    Ok(reply) => reply,
                    Err(what) => self.fail(&what),
                }
            }
            Step::Own { path, .. } => {
                must_be_published(self, path);
                if self.faults && self.chance.one_in(6) {
                    return Err(Failure::local("not given to the group"));
                }
                Ok(Answer::Done)
            }
            Step::Claim(..) | Step::ReportGrowth { .. } if self.faults && self.chance.one_in(6) => {
                Err(Failure::local("not written"))
            }
            Step::Claim(namespace, name) => Ok(Answer::Claim(ClaimUse {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: String::new(),
                size: GIB,
                resize_owner: match self.chance.below(4) {
                    0 => ResizeOwner::Anybody,
                    1 => ResizeOwner::Node,
                    2 => ResizeOwner::NodeBegun,
                    _ => ResizeOwner::NotNode,
                },
                tracked: true,
                version: String::new(),
            })),
            Step::ReportGrowth { claim, growth } => Ok(Answer::Claim(match growth {
                Growth::Begun => ClaimUse {
                    resize_owner: ResizeOwner::NodeBegun,
                    ..claim.clone()
                },
                Growth::Done(size) => ClaimUse {
                    resize_owner: ResizeOwner::Anybody,
                    size: *size,
                    ..claim.clone()
                },
                Growth::Failed(_) => claim.clone(),
                Growth::Infeasible(_) => ClaimUse {
                    resize_owner: ResizeOwner::NotNode,
                    ..claim.clone()
                },
            })),
            Step::Registered(_) | Step::Secret(_) | Step::Token(..) => Ok(Answer::Done),
            Step::MakeDirectory(_) | Step::Write(..) | Step::Link { .. } | Step::Remove(_) => {
                unreachable!("a sequence of calls")
            }
        }
    }

    /// All storages for the PersistentVolumes.
    fn handles() -> Vec<String> {
        let handles = (0..VOLUMES)
            .flat_map(|index| (0..GENERATIONS).map(move |generation| handle(index, generation)));
        handles.collect()
    }

    fn must_be_gone(&self, target: &str) {
        let alive = |name: &str| self.pods.contains_key(name);
        if target.split('/').any(alive) {
            self.fail(&format!("{target} is taken from a live pod"));
        }
    }

    /// Starts all operations that may start.
    fn start(&mut self, complete: bool) {
        let host = Host {
            layout: layout(),
            labels: BTreeMap::new(),
        };
        let (seen, reports) = (&self.control.seen, &self.control.reports);
        for (key, operation) in self.world.decide(seen, reports, complete) {
            let attempt = operation.attempt(&key);
            if self.operations.start(&attempt, self.now).is_err() {
                continue;
            }
            self.note(|| format!("{key} {operation:?}"));
            match self.world.begin(&key, &operation, &host) {
                Some(task) => self.running.push(Running {
                    key,
                    operation,
                    attempt,
                    task,
                    replies: Vec::new(),
                }),
                None => {
                    let left = self.world.forget(&key);
                    self.operations.finish(&attempt, true, self.now);
                    if self.change(&remove(left.clone())).is_err() {
                        self.refused.extend(left);
                    }
                }
            }
        }
    }

    /// One pass of the agent, or one step of a running operation. Returns false if there is nothing to do.
    fn advance(&mut self) -> bool {
        self.now += Duration::from_secs(130);
        let complete = self.is_complete();
        self.start(complete);
        let in_use = self.world.in_use(&self.control.seen.in_use, complete);
        let reports = self.control.report(in_use);
        if self.running.is_empty() {
            return reports;
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
                    .finish(&ended.attempt, result.is_ok(), self.now);
                let state = self.world.volume_mut(&ended.key).unwrap();
                state.apply(&ended.operation, ended.task.paths(), &changes);
                if let Some(pod) = ended.operation.pod() {
                    self.tidy_pod(pod);
                }
            }
        }
        true
    }

    /// The attach/detach controller looks at a volume.
    fn control(&mut self) {
        let index = usize::from(self.chance.one_in(2));
        let generation = self.chance.below(GENERATIONS);
        let handle = handle(index, generation);
        let volume = unique_name(D, &handle);
        // It knows only the current PersistentVolume.
        let wanted = generation == self.generations[index]
            && self.pods.values().any(|pod| pod.volumes.contains(&index));
        if self.control.attach_or_detach(&volume, wanted) {
            self.note(|| format!("DETACH {volume}"));
            if self.driver.held().contains(handle.as_str()) {
                self.fail(&format!(
                    "{handle} is detached although the driver holds it"
                ));
            }
        }
    }

    fn check(&self) {
        for id in self.driver.held() {
            let in_use = &self.control.node.in_use;
            if !id.starts_with("csi-") && !in_use.contains(&unique_name(D, id)) {
                self.fail(&format!(
                    "{id} may be detached although the driver holds it: {in_use:?}"
                ));
            }
        }
    }

    fn tick(&mut self) -> bool {
        if self.chance.one_in(2) {
            self.watch();
        }
        if self.chance.one_in(4) {
            self.look_up();
        }
        if self.chance.one_in(3) {
            self.control();
        }
        self.control.advance(&mut self.chance, self.faults);
        let busy = self.advance();
        self.check();
        busy
    }

    fn run(&mut self) {
        for _ in 0..600 {
            if self.chance.one_in(30) {
                if self.chance.one_in(3) {
                    self.note(|| "ALL PODS are gone".to_owned());
                    self.pods.clear();
                }
                self.crash();
            }
            if self.chance.one_in(if self.restless { 15 } else { 100 }) {
                let index = usize::from(self.chance.one_in(2));
                let generation = self.chance.below(GENERATIONS);
                self.note(|| format!("PV pv-{index} is made again: {generation}"));
                self.generations[index] = generation;
            }
            if self.chance.one_in(40) {
                let count = u64::try_from(self.pods.len()).unwrap().max(1);
                let nth = usize::try_from(self.chance.below(count)).unwrap();
                if let Some(uid) = self.pods.keys().nth(nth).cloned() {
                    self.note(|| format!("POD {uid} is gone"));
                    self.pods.remove(&uid);
                }
            }
            if self.pods.len() < 4 && self.chance.one_in(40) {
                self.create_pod();
            }
            self.tick();
        }
        self.faults = false;
        self.pods.clear();
        self.watch();
        let mut quiet = 0;
        for _ in 0..4000 {
            quiet = if self.tick() { 0 } else { quiet + 1 };
            // The controller has looked at every volume.
            if quiet == 300 {
                break;
            }
        }
        let layout = layout();
        let (mut left, node) = (self.files.left(&layout), &self.control.node);
        left.retain(|path| !self.refused.contains(path));
        let held = self.driver.held();
        let empty = held.is_empty() && node.in_use.is_empty() && node.attached.is_empty();
        if !left.is_empty() || !empty || self.world.volumes().count() > 0 {
            self.fail(&format!("left: {left:?}, {held:?}, {node:?}"));
        }
    }
}

#[test]
fn whenever_it_is_stopped_nothing_is_lost() {
    let (mut crashes, mut torn) = (0, 0);
    for seed in 1..=400 {
        let mut sim = Sim::new(seed, false);
        sim.run();
        crashes += sim.crashes;
        torn += sim.torn;
    }
    assert!(crashes > 6000, "{crashes} crashes prove little");
    assert!(torn > 300, "{torn} crashes within a step prove little");
}
