//! Acceptance rows of provisioning as data: objects in, requests out.

#![expect(clippy::too_many_lines, reason = "rows of a table")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "anything else is a failed test"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_content_source::Type;
use csi_proto::csi::{self, CreateVolumeRequest, CreateVolumeResponse};
use serde_json::Value;
use sidecar::controller::request::{Object as _, SecretError};
use sidecar::controller::{CallError, Calls as _};
use sidecar::kube::edit::{Applied, Edit};
use tonic::Code;

use super::*;
use crate::model::{Class, Grant, List, Pairs, Source};
use crate::plan::Driver;
use crate::plan::in_flight::{ClaimKey, InFlightState};
use crate::plan::journal::{Intent, Unwritable};
use crate::plan::outcome::{ApiError, Refusal, RequeueTrigger, RpcError};
use crate::plan::request::{Called, Found, Reply};
use crate::plan::topology::TopologyIndex;
use crate::testing::{U, claim, class, driver};

mod crash;
mod migrated;
mod outcome;
mod request;
mod select;
mod source;
mod unsettled;

/// The objects of one row, and the in-flight state of its process.
struct World {
    driver: Driver,
    settings: Settings,
    claim: Claim,
    gone: bool,
    classes: Vec<Class>,
    volumes: Vec<String>,
    grants: Vec<Arc<Grant>>,
    topology: TopologyIndex,
    secrets: BTreeMap<String, Option<Secrets>>,
    snapshots: Vec<Snapshot>,
    contents: Vec<Content>,
    claims: Vec<Claim>,
    /// The claim as it exists, although it needs no volume any more.
    owner: Option<Claim>,
    sources: Vec<VolumeDetail>,
    attributes: Vec<AttributesClass>,
    /// Answers to CreateVolume; the last one is repeated.
    creates: Vec<Result<CreateVolumeResponse, RpcError>>,
    discard: Result<(), RpcError>,
    /// The driver cannot be reached.
    unreachable: bool,
    /// Refusals by the first word of the request.
    refusals: Vec<(&'static str, Refusal)>,
    /// The PersistentVolume that was saved last.
    saved: Value,
    in_flight: InFlightState<PinnedRequest>,
    /// The claim's entry in the provisioning journal.
    journal: Option<Intent>,
    /// The journal rejects all writes.
    unwritable: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            driver: driver(),
            settings: Settings {
                identity: "me".into(),
                ..Settings::default()
            },
            claim: claim(),
            gone: false,
            classes: vec![class()],
            volumes: Vec::new(),
            grants: Vec::new(),
            topology: TopologyIndex::default(),
            secrets: BTreeMap::new(),
            snapshots: Vec::new(),
            contents: Vec::new(),
            claims: Vec::new(),
            owner: None,
            sources: Vec::new(),
            attributes: Vec::new(),
            creates: vec![Ok(answer())],
            discard: Ok(()),
            unreachable: false,
            refusals: Vec::new(),
            saved: Value::Null,
            in_flight: InFlightState::new(Duration::from_secs(300)),
            journal: None,
            unwritable: false,
        }
    }
}

/// The fixture's answer: `vol-1` of 1Gi.
fn answer() -> CreateVolumeResponse {
    CreateVolumeResponse {
        volume: Some(Volume {
            capacity_bytes: 1 << 30,
            volume_id: "vol-1".into(),
            ..Volume::default()
        }),
    }
}

fn rpc(code: Code) -> RpcError {
    RpcError {
        code,
        message: "boom".into(),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().copied().collect()
}

fn list(items: &[&str]) -> List {
    items.iter().map(|item| Text::from(*item)).collect()
}

impl World {
    fn new(change: impl FnOnce(&mut Self)) -> Self {
        let mut world = Self::default();
        change(&mut world);
        world
    }

    fn annotate(&mut self, more: &[(&str, &str)]) {
        let kept = self.claim.annotations.clone();
        let kept = kept
            .iter()
            .filter(|(key, _)| more.iter().all(|(new, _)| new != key));
        self.claim.annotations = kept.chain(more.iter().copied()).collect();
    }

    fn parameters(&mut self, parameters: &[(&str, &str)]) {
        self.classes[0].parameters = pairs(parameters);
    }

    fn key(&self) -> ClaimKey {
        ClaimKey::of(&self.claim)
    }

    /// Runs one attempt; returns every request and the end of the attempt.
    fn run(&mut self) -> Vec<String> {
        self.run_until(usize::MAX).0
    }

    /// The same, but the process dies after `most` steps. Returns whether it did.
    fn run_until(&mut self, most: usize) -> (Vec<String>, bool) {
        let mut trace = Vec::new();
        let start = self.in_flight.begin(&self.key());
        let needed = !self.gone && self.claim.volume.is_empty();
        let mut attempt = Attempt::new(start, needed);
        attempt.leave(&self.claim, &self.topology);
        for count in 0..40 {
            if count >= most {
                return (trace, true);
            }
            let step = attempt.decide(&self.view(&attempt));
            let ended = match step {
                Step::Done(end) => {
                    trace.push(format!("done {end:?}"));
                    self.end(&attempt, Ok(end));
                    return (trace, false);
                }
                Step::Fail(failure) => Err(failure),
                Step::Ask(request) => attempt.answered(self.execute(request, &mut trace)),
                Step::Claim(step) => attempt.step_answered(self.look(step, &mut trace)),
            };
            if let Err(failure) = ended {
                let state = attempt.state(&failure);
                trace.push(format!("fail {state:?} {failure}"));
                self.end(&attempt, Err(&failure));
                return (trace, false);
            }
        }
        panic!("the attempt does not end: {trace:#?}");
    }

    fn end(&mut self, attempt: &Attempt, over: Result<End, &Failure>) {
        let claim = Arc::new(self.claim.clone());
        let (outcome, unsettled) = attempt.outcome(over);
        self.in_flight
            .end(&claim, outcome, unsettled, Instant::now());
        let pending = self.in_flight.known(&self.key()).pending;
        self.journal = { pending.filter(|_| self.settings.protection == Protection::Journal) }.map(
            |pending| Intent::with_unsettled(&pending.claim, pending.pinned, pending.unsettled),
        );
    }

    fn view(&self, attempt: &Attempt) -> View<'_> {
        let name = attempt.volume_name(&self.claim, &self.settings);
        let wanted = self.claim.class_name();
        View {
            driver: &self.driver,
            settings: &self.settings,
            claim: &self.claim,
            gone: self.gone,
            class: self.classes.iter().find(|class| *class.name == *wanted),
            volume_exists: { name.as_ref() }.is_ok_and(|name| self.volumes.contains(name)),
            volume_leaves: name.is_ok_and(|name| {
                let leaving = |one: &VolumeDetail| *one.name == *name && one.is_leaving();
                self.volumes.contains(&name) && self.sources.iter().any(leaving)
            }),
            grants: &self.grants,
            topology: &self.topology,
        }
    }

    fn execute(&mut self, request: Request, trace: &mut Vec<String>) -> Reply {
        if let Request::Call(Call::Create(call)) = &request
            && self.settings.protection == Protection::Journal
        {
            let held = self
                .journal
                .iter()
                .flat_map(|held| held.asked.iter().chain(&held.unsettled));
            assert!(
                held.into_iter().any(|held| *held == call.about),
                "call before intent"
            );
        }
        let line = describe(&request);
        // Reads of owners are not in the trace: they come before each call for a claim that needs no volume.
        if !matches!(request, Request::Get(Object::Owner(..))) {
            trace.push(line.clone());
        }
        if let Some(error) = self.refusal(&line) {
            return request.refused(error);
        }
        match request {
            Request::Event(event) => Reply::Event(event),
            Request::Get(object) => {
                let found = self.load(&object).ok_or(refused(Refusal::NotFound));
                Reply::Get(object, found)
            }
            Request::Secret(reference) => {
                let key = format!("{}/{}", reference.namespace, reference.name);
                let values = match self.secrets.get(&key).cloned() {
                    Some(Some(secrets)) => Ok(secrets),
                    Some(None) => Err(SecretError::NotText),
                    None => Err(SecretError::Unread(refused(Refusal::NotFound))),
                };
                Reply::Secret(reference, values)
            }
            Request::Write(write) => {
                match &write.body {
                    Body::Create(object) => {
                        self.saved = object.clone();
                        self.volumes.push(write.object.key().to_owned());
                    }
                    Body::Edit(edit) => self.edit(&write.object, write.uid.as_deref(), edit),
                    body => unreachable!("{body:?}"),
                }
                Reply::Write(write, Ok(Found::Written))
            }
            Request::Call(call) => {
                let called = match call {
                    call if self.unreachable => {
                        call.failed(CallError::Unreachable(rpc(Code::Unavailable)))
                    }
                    Call::Create(call) => {
                        let next = match self.creates.len() {
                            0 | 1 => self.creates[0].clone(),
                            _ => self.creates.remove(0),
                        };
                        Called::Create(call, next.map_err(CallError::Failed))
                    }
                    Call::Discard(call) => {
                        let result = self.discard.clone();
                        let result = result.map(|()| csi::DeleteVolumeResponse {});
                        Called::Discard(call, result.map_err(CallError::Failed))
                    }
                    call => unreachable!("{call:?}"),
                };
                Reply::Call(called, Duration::ZERO)
            }
        }
    }

    /// The refusal of the request with this description.
    fn refusal(&self, line: &str) -> Option<ApiError> {
        let word = line.split(' ').next().unwrap_or_default();
        let mut refusals = self.refusals.iter();
        let (_, refusal) = refusals.find(|(kind, _)| *kind == word)?;
        Some(refused(*refusal))
    }

    /// Intents are not in the trace: they come before each call.
    fn look(&mut self, step: ClaimStep, trace: &mut Vec<String>) -> ClaimReply {
        match step {
            ClaimStep::Intend(prepared, _) if self.unwritable => {
                ClaimReply::Intended(prepared, Err(Unwritable::Full))
            }
            ClaimStep::Intend(prepared, intent) => {
                self.journal = Some(intent);
                ClaimReply::Intended(prepared, Ok(()))
            }
            ClaimStep::LoadExistingPv(name, volume) => {
                let line = format!("compare {name}");
                trace.push(line.clone());
                if let Some(error) = self.refusal(&line) {
                    return ClaimReply::ExistingPv(name, Err(error));
                }
                let has = |one: &&VolumeDetail| volume.as_ref().is_some_and(|it| it.is_of(one));
                let named = || self.sources.iter().find(|one| one.name == name);
                let found = self.sources.iter().find(has).or_else(named);
                let found = found.map(|found| Box::new(found.clone()));
                ClaimReply::ExistingPv(name, found.ok_or(refused(Refusal::NotFound)))
            }
        }
    }

    fn load(&self, object: &Object) -> Option<Found> {
        let key = object.key();
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Some(match object {
            Object::Snapshot(_) => {
                let mut all = self.snapshots.iter();
                let found = all.find(|one| *one.namespace == *namespace && *one.name == *name)?;
                Found::Snapshot(Box::new(found.clone()))
            }
            Object::Content(name) => {
                let found = self.contents.iter().find(|one| one.name == *name)?;
                Found::Content(Box::new(found.clone()))
            }
            Object::SourceClaim(_) => {
                let mut all = self.claims.iter();
                let found = all.find(|one| *one.namespace == *namespace && *one.name == *name)?;
                Found::SourceClaim(Box::new(found.clone()))
            }
            Object::SourceVolume(name) => {
                let found = self.sources.iter().find(|one| one.name == *name)?;
                Found::SourceVolume(Box::new(found.clone()))
            }
            Object::AttributesClass(name) => {
                let found = self.attributes.iter().find(|one| one.name == *name)?;
                Found::AttributesClass(Box::new(found.clone()))
            }
            Object::Owner(..) => Found::SourceClaim(Box::new(self.owner.clone()?)),
            Object::Claim(_) | Object::Volume(_) => unreachable!("{object:?}"),
        })
    }

    /// Applies an edit as the API server would.
    fn edit(&mut self, object: &Object, uid: Option<&str>, edit: &Edit) {
        let (_, name) = object.key().split_once('/').unwrap();
        let claim = &mut self.claim;
        let (finalizers, annotations) = match object {
            Object::Claim(_) if *claim.name == *name => {
                (&mut claim.finalizers, Some(&mut claim.annotations))
            }
            Object::Claim(_) => {
                let mut all = self.claims.iter_mut();
                let source = all.find(|one| *one.name == *name).unwrap();
                (&mut source.finalizers, Some(&mut source.annotations))
            }
            Object::Snapshot(_) => {
                let mut all = self.snapshots.iter_mut();
                let snapshot = all.find(|one| *one.name == *name).unwrap();
                (&mut snapshot.finalizers, None)
            }
            object => unreachable!("{object:?} is not edited"),
        };
        let mut none = Pairs::default();
        let annotations = annotations.unwrap_or(&mut none);
        let mut object = serde_json::json!({"metadata": {
            "uid": uid,
            "finalizers": finalizers.iter().map(|held| &**held).collect::<Vec<_>>(),
            "annotations": annotations.iter().collect::<BTreeMap<_, _>>(),
        }});
        assert_ne!(edit.apply(uid, &mut object), Applied::Another);
        let metadata = &object["metadata"];
        let items = metadata["finalizers"].as_array().into_iter().flatten();
        *finalizers = items
            .map(|held| Text::from(held.as_str().unwrap()))
            .collect();
        let items = metadata["annotations"].as_object().into_iter().flatten();
        *annotations = items
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
            .collect();
    }
}

fn refused(refusal: Refusal) -> ApiError {
    ApiError {
        message: "no".into(),
        refusal,
    }
}

fn describe(request: &Request) -> String {
    match request {
        Request::Event(event) => match &event.announcement {
            Announcement::Provisioning => "event Provisioning".into(),
            Announcement::Left(node) => format!("event Left {node}"),
            Announcement::Populator => "event Populator".into(),
            Announcement::Succeeded(name) => format!("event Succeeded {name}"),
        },
        Request::Get(object) => {
            let kind = match object {
                Object::Snapshot(_) => "snapshot",
                Object::Content(_) => "content",
                Object::SourceClaim(_) => "claim",
                Object::SourceVolume(_) => "volume",
                Object::AttributesClass(_) => "attributes",
                Object::Owner(..) => "owner",
                Object::Claim(_) | Object::Volume(_) => unreachable!("{object:?}"),
            };
            format!("get-{kind} {}", object.key())
        }
        Request::Secret(secret) => format!("get-secret {}/{}", secret.namespace, secret.name),
        Request::Call(Call::Create(call)) => format!("create {}", request_text(call)),
        Request::Call(Call::Discard(call)) => {
            format!(
                "discard {}{}",
                call.volume_id,
                map("secrets", &call.secrets)
            )
        }
        Request::Call(call) => unreachable!("{call:?}"),
        Request::Write(write) => {
            let key = write.object.key();
            match &write.purpose {
                Purpose::ProtectSource => format!("protect {key}"),
                Purpose::ReleaseSource => format!("release {key}"),
                Purpose::Save(_) => format!("save {key}"),
                Purpose::Unselect(_) => "unselect".into(),
                purpose => unreachable!("{purpose:?}"),
            }
        }
    }
}

fn map(name: &str, map: &BTreeMap<String, String>) -> String {
    if map.is_empty() {
        String::new()
    } else {
        format!(" {name} {map:?}")
    }
}

/// The request as one line, without empty fields.
fn request_text(request: &CreateVolumeRequest) -> String {
    let range = request.capacity_range.as_ref().unwrap();
    assert_eq!(range.limit_bytes, 0, "row 56");
    let capabilities = request.volume_capabilities.iter().map(|capability| {
        let mode = Mode::try_from(capability.access_mode.unwrap().mode).unwrap();
        let kind = match capability.access_type.as_ref().unwrap() {
            AccessType::Block(_) => "block".to_owned(),
            AccessType::Mount(mount) => {
                assert_eq!(mount.volume_mount_group, "");
                format!("mount({} {})", mount.fs_type, mount.mount_flags.join(","))
            }
        };
        format!("{kind} {}", mode.as_str_name())
    });
    let capabilities: Vec<String> = capabilities.collect();
    let source = request
        .volume_content_source
        .as_ref()
        .and_then(|source| source.r#type.as_ref());
    let source = match source {
        None => String::new(),
        Some(Type::Snapshot(source)) => format!(" snapshot {}", source.snapshot_id),
        Some(Type::Volume(source)) => format!(" volume {}", source.volume_id),
    };
    let topologies = |terms: &[csi::Topology]| {
        let terms = terms.iter().map(|term| {
            let pairs = term
                .segments
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join("+")
        });
        terms.collect::<Vec<_>>().join(",")
    };
    let topologies = request
        .accessibility_requirements
        .as_ref()
        .map(|requirement| {
            format!(
                " requisite {} preferred {}",
                topologies(&requirement.requisite),
                topologies(&requirement.preferred)
            )
        });
    format!(
        "{} {} [{}]{}{}{}{source}{}",
        request.name.replace(U, "U"),
        range.required_bytes,
        capabilities.join(", "),
        map("parameters", &request.parameters),
        map("mutable", &request.mutable_parameters),
        map("secrets", &request.secrets),
        topologies.unwrap_or_default(),
    )
}

const ANNOUNCE: &str = "event Provisioning";
const CREATE: &str = "create pvc-U 1073741824 [mount( ) SINGLE_NODE_WRITER]";

/// The trace of an attempt that makes its volume; `lines` are those between the event and the PersistentVolume.
fn provisioned(lines: &[&str]) -> Vec<String> {
    let name = format!("pvc-{U}");
    let before = [ANNOUNCE].into_iter().map(str::to_owned);
    let after = [
        format!("save {name}"),
        format!("event Succeeded {name}"),
        "done Provisioned".into(),
    ];
    let lines = lines.iter().map(|line| (*line).to_owned());
    before.chain(lines).chain(after).collect()
}
