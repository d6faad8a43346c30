//! A controller on a model API server, without delays: objects in, requests out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use sidecar::controller::reactor::{Due, Reactor, Verdict};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::snapshot as words;

use super::known::Known;
use super::objects;
use super::request::{answered, apply, line, now};
use super::server::{Kind, Server, finalizers};
use crate::model::Text;
use crate::plan::Settings;
use crate::plan::in_flight::Key;
use crate::plan::operation::Sample;
use crate::plan::reactor::{Change, Controller, Notice, Update};
use crate::plan::request::{ApiError, Reply, Request};

/// Reads an object as a cache does.
pub(crate) fn record<R: Record>(json: &str) -> Option<R> {
    R::from_wire(serde_json::from_str(json).unwrap(), &Interner::default())
}

type Refusal = (&'static str, ApiError, usize);
type Overtaking = (&'static str, fn(&mut Server));

pub(crate) struct Bench {
    pub(crate) server: Server,
    controller: Controller,
    known: Known,
    seen: usize,
    ready: BTreeSet<Key>,
    /// Keys of failed attempts.
    later: BTreeSet<Key>,
    refusals: Vec<Refusal>,
    meanwhile: Option<Overtaking>,
    lines: Vec<String>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) in_flight: usize,
    /// Whether GETs appear among the lines.
    pub(crate) shows_reads: bool,
}

impl Bench {
    /// Fixture C: a class, and a claim bound to a volume.
    pub(crate) fn new() -> Self {
        let mut bench = Self::empty();
        bench.add(Kind::Class, objects::class("c1", "T"));
        bench.add(Kind::Volume, objects::volume("pv1", "p1"));
        bench.add(Kind::Claim, objects::claim("p1", "pv1"));
        bench
    }

    pub(crate) fn empty() -> Self {
        let settings = Settings {
            keep_mode: true,
            ..Settings::default()
        };
        Self {
            server: Server::default(),
            controller: Controller::default(),
            known: Known {
                settings,
                ..Known::default()
            },
            seen: 0,
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            refusals: Vec::new(),
            meanwhile: None,
            lines: Vec::new(),
            samples: Vec::new(),
            in_flight: 0,
            shows_reads: false,
        }
    }

    pub(crate) fn set(&mut self, settings: Settings) {
        self.known.settings = settings;
    }

    /// Disables group snapshots.
    pub(crate) fn without_groups(&mut self) {
        self.known.no_groups = true;
    }

    /// Enables group snapshots; returns the resulting lines.
    pub(crate) fn with_groups(&mut self) -> Vec<String> {
        self.known.no_groups = false;
        self.resync()
    }

    /// Creates an object, as another client.
    pub(crate) fn add(&mut self, kind: Kind, object: Value) {
        self.server.create(kind, object).unwrap();
    }

    /// Changes an object, as another client.
    pub(crate) fn edit(&mut self, kind: Kind, key: &str, change: impl FnOnce(&mut Value)) {
        self.server.edit(kind, key, change);
    }

    /// Deletes an object, as another client.
    pub(crate) fn delete(&mut self, kind: Kind, key: &str) {
        self.server.delete(kind, key, None).unwrap();
    }

    /// Makes the next `times` requests whose line begins with `line` fail.
    pub(crate) fn refuse(&mut self, line: &'static str, error: ApiError, times: usize) {
        self.refusals.push((line, error, times));
    }

    /// Another client changes the object before the request whose line begins with `line`; this process learns of it
    /// from the answer.
    pub(crate) fn overtake(&mut self, line: &'static str, change: fn(&mut Server)) {
        self.meanwhile = Some((line, change));
    }

    /// The process ends, and another one starts.
    pub(crate) fn restart(&mut self) {
        let (settings, no_groups) = (self.known.settings, self.known.no_groups);
        self.controller = Controller::default();
        self.known = Known {
            settings,
            no_groups,
            ..Known::default()
        };
        self.ready.clear();
        self.later.clear();
        // The new process lists all objects.
        let all: Vec<_> = self
            .server
            .log
            .iter()
            .map(|event| (event.kind, event.key.clone()))
            .collect();
        self.seen = self.server.log.len();
        for (kind, key) in all.into_iter().collect::<BTreeSet<_>>() {
            let json = self.server.get(kind, &key).map(Value::to_string);
            if json.is_some() {
                self.take_in(kind, &key, json.as_deref(), false);
            }
        }
    }

    /// The sidecar releases a content that is being deleted.
    pub(crate) fn sidecar_lets_go(&mut self, name: &str) {
        self.edit(Kind::Content, name, |content| {
            let mut left = finalizers(content);
            left.retain(|one| one != words::CONTENT_BOUND);
            content["metadata"]["finalizers"] = left.into();
        });
    }

    /// Does all work that is due; returns the resulting lines, in order.
    pub(crate) fn run(&mut self) -> Vec<String> {
        self.hear(false);
        for _ in 0..20_000 {
            let Some(key) = self.ready.pop_first() else {
                return std::mem::take(&mut self.lines);
            };
            self.attempt(&key);
        }
        panic!("no rest: {:#?}", self.lines);
    }

    /// Works until `writes` writes were sent, then ends the process. Returns whether another write was due.
    pub(crate) fn run_until(&mut self, writes: usize) -> bool {
        self.hear(false);
        let mut left = writes;
        while let Some(key) = self.ready.pop_first() {
            let mut attempt = self.controller.begin(&key, &self.known, now());
            while let Some(request) = self.controller.decide(&mut attempt, &self.known, now()) {
                if matches!(request, Request::Write(_)) {
                    if left == 0 {
                        self.lines.clear();
                        return true;
                    }
                    left -= 1;
                }
                let reply = self.execute(request);
                self.hear(true);
                let due = self.controller.answered(&mut attempt, reply, &self.known);
                self.take(due);
            }
            let (_, due) = self.controller.end(attempt, &self.known, now());
            self.take(due);
        }
        self.lines.clear();
        false
    }

    /// Ends the back-off of failed keys; returns the resulting lines.
    pub(crate) fn retry(&mut self) -> Vec<String> {
        self.ready.append(&mut self.later);
        self.run()
    }

    /// Whether failed keys wait for a retry.
    pub(crate) fn retries(&self) -> bool {
        !self.later.is_empty()
    }

    /// Resyncs; returns the resulting lines.
    pub(crate) fn resync(&mut self) -> Vec<String> {
        let snapshots = self.known.snapshots.keys().cloned().map(Key::Snapshot);
        let contents = self.known.contents.keys().cloned().map(Key::Content);
        let claims = self.known.claims.keys().cloned().map(Key::Claim);
        let groups = self.known.groups.keys().cloned().map(Key::Group);
        let of_groups = { self.known.group_contents.keys() }
            .cloned()
            .map(Key::GroupContent);
        let all = snapshots.chain(contents).chain(claims);
        for key in all.chain(groups).chain(of_groups).collect::<Vec<_>>() {
            let due = self.controller.observe(Change::Resync(key), &self.known);
            self.take(due);
        }
        self.run()
    }

    fn attempt(&mut self, key: &Key) {
        self.later.remove(key);
        let mut attempt = self.controller.begin(key, &self.known, now());
        while let Some(request) = self.controller.decide(&mut attempt, &self.known, now()) {
            let reply = self.execute(request);
            self.hear(true);
            let due = self.controller.answered(&mut attempt, reply, &self.known);
            self.take(due);
        }
        let (verdict, due) = self.controller.end(attempt, &self.known, now());
        self.take(due);
        if let Verdict::Retry { .. } = verdict {
            self.later.insert(key.clone());
        }
    }

    fn execute(&mut self, request: Request) -> Reply {
        let line = line(&request);
        if self.shows_reads || matches!(request, Request::Write(_)) {
            self.lines.push(line.clone());
        }
        if let Some((_, change)) = self.meanwhile.take_if(|(like, _)| line.starts_with(*like)) {
            change(&mut self.server);
        }
        let refusal = self
            .refusals
            .iter_mut()
            .find(|(like, _, times)| *times > 0 && line.starts_with(like));
        if let Some((_, error, times)) = refusal {
            *times -= 1;
            return request.refused(error.clone());
        }
        let came = apply(&mut self.server, &request);
        answered(request, came)
    }

    /// Delivers events: from watches, or from answers to own writes.
    fn hear(&mut self, own: bool) {
        while let Some(event) = self.server.log.get(self.seen).cloned() {
            self.seen += 1;
            self.take_in(event.kind, &event.key, event.json.as_deref(), own);
        }
    }

    fn take_in(&mut self, kind: Kind, key: &Text, json: Option<&str>, own: bool) {
        fn put<R: Record>(
            map: &mut BTreeMap<Text, Arc<R>>,
            key: &Text,
            json: Option<&str>,
        ) -> (Option<Arc<R>>, Option<Arc<R>>) {
            let new = json.and_then(record::<R>).map(Arc::new);
            let old = match new.clone() {
                Some(new) => map.insert(key.clone(), new),
                None => map.remove(key),
            };
            (old, new)
        }
        let known = &mut self.known;
        let due = match kind {
            Kind::Snapshot => {
                let (old, new) = put(&mut known.snapshots, key, json);
                let (old, new) = (old.as_deref(), new.as_deref());
                self.controller
                    .observe(Change::Snapshot(Update { old, new, own }), known)
            }
            Kind::Content => {
                let (old, new) = put(&mut known.contents, key, json);
                let (old, new) = (old.as_deref(), new.as_deref());
                self.controller
                    .observe(Change::Content(Update { old, new, own }), known)
            }
            Kind::Claim => {
                let (old, new) = put(&mut known.claims, key, json);
                let (key, old, new) = (key.clone(), old.as_deref(), new.as_deref());
                self.controller
                    .observe(Change::Claim(key, Update { old, new, own }), known)
            }
            Kind::Class => {
                put(&mut known.classes, key, json);
                self.controller.observe(Change::Class(key.clone()), known)
            }
            Kind::Volume => {
                put(&mut known.volumes, key, json);
                self.controller.observe(Change::Volume(key.clone()), known)
            }
            Kind::Group => {
                let (old, new) = put(&mut known.groups, key, json);
                let (old, new) = (old.as_deref(), new.as_deref());
                self.controller
                    .observe(Change::Group(Update { old, new, own }), known)
            }
            Kind::GroupContent => {
                let (old, new) = put(&mut known.group_contents, key, json);
                let (old, new) = (old.as_deref(), new.as_deref());
                self.controller
                    .observe(Change::GroupContent(Update { old, new, own }), known)
            }
            Kind::GroupClass => {
                put(&mut known.group_classes, key, json);
                self.controller
                    .observe(Change::GroupClass(key.clone()), known)
            }
            Kind::Node => {
                put(&mut known.nodes, key, json);
                return;
            }
        };
        self.take(due);
    }

    fn take(&mut self, due: Due<Key, Notice>) {
        self.ready
            .extend(due.wakes.into_iter().map(|wake| wake.key));
        for notice in due.notices {
            match notice {
                Notice::Event(event) => {
                    let kind = if event.warning { "Warning" } else { "Normal" };
                    let of = match &*event.about.namespace {
                        "" => event.about.name.to_string(),
                        namespace => format!("{namespace}/{}", event.about.name),
                    };
                    let (reason, message) = (event.reason, &event.message);
                    self.lines
                        .push(format!("E: {of} {kind} {reason} {message}"));
                }
                Notice::Sample(sample) => self.samples.push(sample),
                Notice::InFlight(number) => self.in_flight = number,
            }
        }
    }
}
