//! A claim, a volume and a scripted driver: attempts run to their end, and the bench records their
//! actions line by line.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use csi_proto::csi::ControllerExpandVolumeResponse;
use sidecar::controller::CallError;
use sidecar::controller::request::SecretError;
use tonic::Code;

use super::{NOW, class, driver, patch_claim, patch_volume, pv};
use crate::model::{AttributesClass, Claim, ClaimDetail, Volume};
use crate::plan::attempt::{Attempt, End};
use crate::plan::in_flight::{InFlightState, Next};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::request::{self, Call, Called, Object, Request};
use crate::plan::{Driver, Kind, Settings, Task, View};

/// The driver's response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    /// Success with the requested size or class; whether the node has to act.
    Done(bool),
    /// Success with this many bytes.
    Bytes(i64, bool),
    Error(Code, &'static str),
    Unreachable,
}

/// The API server's response in place of applying a patch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// Another writer changes the claim first.
    Conflict,
    Refused(&'static str),
    Lost,
}

pub(crate) struct Bench {
    pub(crate) driver: Driver,
    pub(crate) settings: Settings,
    pub(crate) claim: ClaimDetail,
    /// The cached claim, if it is outdated.
    pub(crate) stale: Option<ClaimDetail>,
    pub(crate) volume: Option<Volume>,
    pub(crate) classes: BTreeMap<&'static str, AttributesClass>,
    pub(crate) secrets: BTreeMap<&'static str, &'static str>,
    pub(crate) in_use: bool,
    pub(crate) replies: VecDeque<Reply>,
    /// By the number of patches before it.
    pub(crate) troubles: BTreeMap<usize, Trouble>,
    /// Another writer's change of the claim while the driver works.
    pub(crate) meanwhile: Option<fn(&mut ClaimDetail)>,
    /// Another writer's change of the volume while the driver works.
    pub(crate) volume_meanwhile: Option<fn(&mut Volume)>,
    pub(crate) in_flight: InFlightState,
    pub(crate) now: Instant,
    patches: usize,
    versions: u64,
    pub(crate) lines: Vec<String>,
}

impl Bench {
    pub(crate) fn new(claim: ClaimDetail) -> Self {
        let settings = Settings::default();
        Self {
            driver: driver(),
            in_flight: InFlightState::new(&settings),
            settings,
            claim,
            stale: None,
            volume: Some(pv()),
            classes: [("a", class("5")), ("b", class("9")), ("c", class("11"))].into(),
            secrets: BTreeMap::new(),
            in_use: false,
            replies: VecDeque::new(),
            troubles: BTreeMap::new(),
            meanwhile: None,
            volume_meanwhile: None,
            now: Instant::now(),
            patches: 0,
            versions: 1,
            lines: Vec::new(),
        }
    }

    pub(crate) fn replies(mut self, replies: &[Reply]) -> Self {
        self.replies = replies.iter().copied().collect();
        self
    }

    /// Restarts the process.
    pub(crate) fn restart(&mut self) {
        self.in_flight = InFlightState::new(&self.settings);
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Another writer changes the claim.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut ClaimDetail)) {
        change(&mut self.claim);
        self.bump();
    }

    fn bump(&mut self) {
        self.versions += 1;
        self.claim.version = self.versions.to_string().into();
    }

    /// Runs one attempt; returns its actions, and the outcome for its queue key.
    pub(crate) fn run(&mut self, kind: Kind) -> (Vec<String>, Next) {
        self.lines.clear();
        let task = Task::new(kind, &self.claim.key());
        let claim = self.shown();
        let start = self.in_flight.begin(&task, &claim, self.now).unwrap();
        let mut attempt = Attempt::new(&task, &claim, start);
        for _ in 0..60 {
            let claim = self.shown();
            let class = attempt.class(Some(&claim));
            let next = attempt.decide(&View {
                driver: &self.driver,
                settings: &self.settings,
                claim: Some(&claim),
                volume: attempt.volume(Some(&claim)).and(self.volume.as_ref()),
                class: class.and_then(|name| self.classes.get(&*name)),
                in_use: self.in_use,
                now: NOW,
            });
            match next {
                Ok(request) => attempt.answered(self.carry_out(request)),
                Err(end) => {
                    let ended = self.in_flight.end(&task, &attempt, &end, self.now);
                    if let End::Failed(failure) = end {
                        self.lines.push(format!("failed {failure}"));
                    }
                    return (std::mem::take(&mut self.lines), ended.next);
                }
            }
        }
        unreachable!("the attempt does not end: {:#?}", self.lines)
    }

    /// Like [`run`](Self::run), repeated as long as the task is requeued at once.
    pub(crate) fn run_all(&mut self, kind: Kind) -> (Vec<String>, Next) {
        let mut lines = Vec::new();
        loop {
            let (more, next) = self.run(kind);
            lines.extend(more);
            if next != Next::Again {
                return (lines, next);
            }
        }
    }

    fn shown(&self) -> Claim {
        Claim::new(self.stale.as_ref().unwrap_or(&self.claim).clone())
    }

    fn carry_out(&mut self, request: Request) -> request::Reply {
        match request {
            Request::Get(Object::Claim(key)) => {
                self.lines.push("get claim".into());
                self.stale = None;
                request::Reply::Get(Object::Claim(key), Ok(()))
            }
            Request::Get(Object::Volume(name)) => {
                self.lines.push(format!("get {name}"));
                let missing = format!("persistentvolumes {name:?} not found");
                let result = match self.volume {
                    Some(_) => Ok(()),
                    None => Err(error(Refusal::NotFound, missing)),
                };
                request::Reply::Get(Object::Volume(name), result)
            }
            Request::Write(write) => {
                let patch = write.body.patch();
                let result = match &write.object {
                    Object::Claim(_) => {
                        self.lines.push(format!("cs {patch}"));
                        self.patch(|bench| {
                            let applied = patch_claim(&mut bench.claim, patch);
                            bench.bump();
                            applied
                        })
                    }
                    Object::Volume(_) => {
                        self.lines.push(format!("pp {patch}"));
                        self.patch(|bench| {
                            patch_volume(bench.volume.as_mut().unwrap(), patch);
                            true
                        })
                    }
                };
                request::Reply::Write(write, result)
            }
            Request::Event(event) => {
                let told = &event.announcement;
                let kind = if told.warning { 'W' } else { 'N' };
                let line = format!("{kind} {} {}", told.reason, told.message);
                self.lines.push(line);
                request::Reply::Event(event)
            }
            Request::Secret(reference) => {
                let name = &*reference.name;
                self.lines
                    .push(format!("secret {}/{name}", reference.namespace));
                let values = match self.secrets.get(name) {
                    Some(user) => Ok([("user".into(), (*user).into())].into()),
                    None => Err(SecretError::Unread(error(
                        Refusal::NotFound,
                        format!("secrets {name:?} not found"),
                    ))),
                };
                request::Reply::Secret(reference, values)
            }
            Request::Call(call) => request::Reply::Call(self.call(call), Duration::ZERO),
        }
    }

    fn call(&mut self, call: Call) -> Called {
        match call {
            Call::Expand(call) => {
                let bytes = call.capacity_range.as_ref().unwrap().required_bytes;
                let secrets = secrets(&call.secrets);
                self.lines
                    .push(format!("Exp {} {bytes}{secrets}", call.volume_id));
                let result = self.reply(bytes);
                Called::Expand(call, result)
            }
            Call::Modify(call) => {
                let parameters = &call.mutable_parameters;
                let secrets = secrets(&call.secrets);
                self.lines
                    .push(format!("Mod {} {parameters:?}{secrets}", call.volume_id));
                let result = self.reply(1);
                Called::Modify(call, result.map(|_| Default::default()))
            }
        }
    }

    fn patch(&mut self, apply: impl Fn(&mut Self) -> bool) -> Result<(), ApiError> {
        self.patches += 1;
        let conflict = || error(Refusal::Conflict, "Operation cannot be fulfilled".into());
        match self.troubles.get(&(self.patches - 1)).copied() {
            None if apply(self) => Ok(()),
            None => Err(conflict()),
            Some(Trouble::Conflict) => {
                self.bump();
                Err(conflict())
            }
            Some(Trouble::Refused(text)) => Err(error(Refusal::Other, text.into())),
            Some(Trouble::Lost) => {
                apply(self);
                Err(error(Refusal::Unknown, "connection reset".into()))
            }
        }
    }

    fn reply(&mut self, asked: i64) -> Result<ControllerExpandVolumeResponse, CallError> {
        if let Some(meanwhile) = self.meanwhile.take() {
            self.change(meanwhile);
        }
        if let Some(meanwhile) = self.volume_meanwhile.take() {
            meanwhile(self.volume.as_mut().unwrap());
        }
        let reply = self
            .replies
            .pop_front()
            .expect("the driver is asked more often than expected");
        let answer = |capacity_bytes, node_expansion_required| {
            Ok(ControllerExpandVolumeResponse {
                capacity_bytes,
                node_expansion_required,
            })
        };
        match reply {
            Reply::Done(on_node) => answer(asked, on_node),
            Reply::Bytes(bytes, on_node) => answer(bytes, on_node),
            Reply::Error(code, message) => Err(CallError::Failed(RpcError {
                code,
                message: message.into(),
            })),
            Reply::Unreachable => Err(CallError::Unreachable(RpcError {
                code: Code::Unavailable,
                message: "no driver".into(),
            })),
        }
    }
}

fn error(refusal: Refusal, message: String) -> ApiError {
    ApiError { message, refusal }
}

fn secrets(secrets: &BTreeMap<String, String>) -> String {
    if secrets.is_empty() {
        String::new()
    } else {
        format!(" with {secrets:?}")
    }
}

/// The lines that begin with one of these words.
pub(crate) fn only<'a>(lines: &'a [String], words: &[&str]) -> Vec<&'a str> {
    let wanted = |line: &&String| words.iter().any(|word| line.starts_with(word));
    lines.iter().filter(wanted).map(String::as_str).collect()
}
