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
use tonic::Code;

use super::*;
use crate::model::{Class, Grant, List, Pairs, Source};
use crate::plan::Driver;
use crate::plan::edit::{Applied, Edit, Kind};
use crate::plan::in_flight::{ClaimKey, InFlightState};
use crate::plan::journal::{Intent, Unwritable};
use crate::plan::outcome::{ApiError, Refusal, RequeueTrigger, RpcError};
use crate::plan::topology::TopologyIndex;
use crate::testing::{U, claim, class, driver};

mod crash;
mod migrated;
mod outcome;
mod owed;
mod request;
mod select;
mod source;

/// The world of one row, and the books of the process in it.
struct World {
    driver: Driver,
    settings: Settings,
    claim: Claim,
    gone: bool,
    classes: Vec<Class>,
    volumes: Vec<String>,
    grants: Vec<Arc<Grant>>,
    places: TopologyIndex,
    secrets: BTreeMap<String, Option<Secrets>>,
    snapshots: Vec<Snapshot>,
    contents: Vec<Content>,
    claims: Vec<Claim>,
    /// What there is of the claim although it needs no volume any more.
    owner: Option<Claim>,
    sources: Vec<VolumeDetail>,
    attributes: Vec<AttributesClass>,
    /// Answers to CreateVolume, the last one for ever.
    creates: Vec<Result<CreateVolumeResponse, RpcError>>,
    discard: Result<(), RpcError>,
    /// The driver is away.
    unreachable: bool,
    /// Refusals by the first word of the request.
    refusals: Vec<(&'static str, Refusal)>,
    /// The PersistentVolume saved last.
    saved: Value,
    in_flight: InFlightState<PinnedRequest>,
    /// What the provisioning journal has of the claim.
    journal: Option<Intent>,
    /// It takes nothing.
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
            places: TopologyIndex::default(),
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

    /// Runs one attempt and writes down every request it makes, and how it ends.
    fn run(&mut self) -> Vec<String> {
        self.run_until(usize::MAX).0
    }

    /// The same, but the process dies after `most` steps. Whether it did.
    fn run_until(&mut self, most: usize) -> (Vec<String>, bool) {
        let mut trace = Vec::new();
        let start = self.in_flight.begin(&self.key());
        let needed = !self.gone && self.claim.volume.is_empty();
        let mut attempt = Attempt::new(start, needed);
        attempt.leave(&self.claim, &self.places);
        for count in 0..40 {
            if count >= most {
                return (trace, true);
            }
            let step = attempt.decide(&self.view(&attempt));
            let ended = match &step {
                Step::Done(end) => {
                    trace.push(format!("done {end:?}"));
                    self.end(&attempt, Ok(*end));
                    return (trace, false);
                }
                Step::Fail(failure) => Err(failure.clone()),
                _ => {
                    let answer = self.execute(&attempt, &step, &mut trace);
                    attempt.fold(&step, answer)
                }
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
        let (outcome, owed) = attempt.outcome(over);
        self.in_flight.end(&claim, outcome, owed, Instant::now());
        let doubt = self.in_flight.known(&self.key()).doubt;
        self.journal = { doubt.filter(|_| self.settings.protection == Protection::Journal) }
            .map(|doubt| Intent::owing(&doubt.claim, doubt.pinned, doubt.owed));
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
            places: &self.places,
        }
    }

    fn execute(&mut self, attempt: &Attempt, step: &Step, trace: &mut Vec<String>) -> Answer {
        if let Step::Intend(prepared) = step {
            return self.intend(attempt.intent(&self.claim, prepared));
        }
        // Shows in no trace: it comes before each call that no claim waits for.
        if let Step::LoadOwner(..) = step {
            return match &self.owner {
                Some(owner) => Answer::SourceClaim(Box::new(owner.clone())),
                None => Answer::Refused(refused(Refusal::NotFound)),
            };
        }
        if let Step::Create(prepared, _) = step
            && self.settings.protection == Protection::Journal
        {
            let held = self
                .journal
                .iter()
                .flat_map(|held| held.asked.iter().chain(&held.owed));
            assert!(
                held.into_iter().any(|held| held == prepared),
                "call before intent"
            );
        }
        let line = describe(step);
        trace.push(line.clone());
        let word = line.split(' ').next().unwrap_or_default();
        if let Some((_, refusal)) = self.refusals.iter().find(|(kind, _)| *kind == word) {
            return Answer::Refused(refused(*refusal));
        }
        let found = self.load(step);
        if let Some(found) = found {
            return found;
        }
        match step {
            Step::Announce(_) => Answer::Done,
            Step::ProtectSource(edit) | Step::ReleaseSource(edit) | Step::Unselect(edit, _) => {
                self.edit(edit)
            }
            Step::Create(..) if self.unreachable => Answer::Unreachable(rpc(Code::Unavailable)),
            Step::Create(..) => {
                let next = match self.creates.len() {
                    0 | 1 => self.creates[0].clone(),
                    _ => self.creates.remove(0),
                };
                match next {
                    Ok(response) => Answer::Created(Box::new(response)),
                    Err(error) => Answer::Failed(error),
                }
            }
            Step::Discard(..) => match &self.discard {
                Ok(()) => Answer::Done,
                Err(error) => Answer::Failed(error.clone()),
            },
            Step::Save(unsaved) => {
                self.saved = (*unsaved.object).clone();
                self.volumes.push(unsaved.name.to_string());
                Answer::Done
            }
            _ => Answer::Refused(refused(Refusal::NotFound)),
        }
    }

    /// Shows in no trace: it comes before each call.
    fn intend(&mut self, intent: Intent) -> Answer {
        if self.unwritable {
            return Answer::Unwritable(Unwritable::Full);
        }
        self.journal = Some(intent);
        Answer::Done
    }

    fn load(&self, step: &Step) -> Option<Answer> {
        match step {
            Step::LoadSnapshot(namespace, name) => {
                let mut all = self.snapshots.iter();
                let found = all.find(|one| one.namespace == *namespace && one.name == *name)?;
                Some(Answer::Snapshot(Box::new(found.clone())))
            }
            Step::LoadContent(name) => {
                let found = self.contents.iter().find(|one| one.name == *name)?;
                Some(Answer::Content(Box::new(found.clone())))
            }
            Step::LoadSourceClaim(namespace, name) => {
                let mut all = self.claims.iter();
                let found = all.find(|one| one.namespace == *namespace && one.name == *name)?;
                Some(Answer::SourceClaim(Box::new(found.clone())))
            }
            Step::LoadNamesake(name, Some(volume)) => {
                let has = |one: &&VolumeDetail| volume.is_of(one);
                let named = || self.sources.iter().find(|one| one.name == *name);
                let found = self.sources.iter().find(has).or_else(named)?;
                Some(Answer::PersistentVolume(Box::new(found.clone())))
            }
            Step::LoadSourceVolume(name) | Step::LoadNamesake(name, None) => {
                let found = self.sources.iter().find(|one| one.name == *name)?;
                Some(Answer::PersistentVolume(Box::new(found.clone())))
            }
            Step::LoadAttributesClass(name) => {
                let found = self.attributes.iter().find(|one| one.name == *name)?;
                Some(Answer::AttributesClass(Box::new(found.clone())))
            }
            Step::LoadSecret(reference) => {
                let key = format!("{}/{}", reference.namespace, reference.name);
                Some(match self.secrets.get(&key)? {
                    Some(secrets) => Answer::Secret(secrets.clone()),
                    None => Answer::SecretNotText,
                })
            }
            _ => None,
        }
    }

    /// Applies an edit as the API server would.
    fn edit(&mut self, edit: &Edit) -> Answer {
        let claim = &mut self.claim;
        let (finalizers, annotations) = match edit.kind {
            Kind::Claim if claim.name == edit.name => {
                (&mut claim.finalizers, Some(&mut claim.annotations))
            }
            Kind::Claim => {
                let mut all = self.claims.iter_mut();
                let source = all.find(|one| one.name == edit.name).unwrap();
                (&mut source.finalizers, Some(&mut source.annotations))
            }
            Kind::Snapshot => {
                let mut all = self.snapshots.iter_mut();
                let snapshot = all.find(|one| one.name == edit.name).unwrap();
                (&mut snapshot.finalizers, None)
            }
        };
        let mut none = Pairs::default();
        let annotations = annotations.unwrap_or(&mut none);
        let mut object = serde_json::json!({"metadata": {
            "uid": &*edit.uid,
            "finalizers": finalizers.iter().map(|held| &**held).collect::<Vec<_>>(),
            "annotations": annotations.iter().collect::<BTreeMap<_, _>>(),
        }});
        assert_ne!(edit.apply(&mut object), Applied::Another);
        let metadata = &object["metadata"];
        let items = metadata["finalizers"].as_array().into_iter().flatten();
        *finalizers = items
            .map(|held| Text::from(held.as_str().unwrap()))
            .collect();
        let items = metadata["annotations"].as_object().into_iter().flatten();
        *annotations = items
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
            .collect();
        Answer::Done
    }
}

fn refused(refusal: Refusal) -> ApiError {
    ApiError {
        message: "no".into(),
        refusal,
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Announce(Announcement::Provisioning) => "event Provisioning".into(),
        Step::Announce(Announcement::Left(node)) => format!("event Left {node}"),
        Step::Announce(Announcement::Populator) => "event Populator".into(),
        Step::Announce(Announcement::Succeeded(name)) => format!("event Succeeded {name}"),
        Step::LoadSnapshot(namespace, name) => format!("get-snapshot {namespace}/{name}"),
        Step::LoadContent(name) => format!("get-content {name}"),
        Step::LoadSourceClaim(namespace, name) => format!("get-claim {namespace}/{name}"),
        Step::LoadSourceVolume(name) => format!("get-volume {name}"),
        Step::LoadNamesake(name, _) => format!("compare {name}"),
        Step::LoadSecret(secret) => format!("get-secret {}/{}", secret.namespace, secret.name),
        Step::LoadAttributesClass(name) => format!("get-attributes {name}"),
        Step::ProtectSource(edit) => format!("protect {}/{}", edit.namespace, edit.name),
        Step::Create(_, request) => format!("create {}", request_text(request)),
        Step::Discard(request, _) => {
            format!(
                "discard {}{}",
                request.volume_id,
                map("secrets", &request.secrets)
            )
        }
        Step::Save(unsaved) => format!("save {}", unsaved.name),
        Step::ReleaseSource(edit) => format!("release {}/{}", edit.namespace, edit.name),
        Step::Unselect(..) => "unselect".into(),
        Step::Intend(_) | Step::LoadOwner(..) | Step::Done(_) | Step::Fail(_) => unreachable!(),
    }
}

fn map(name: &str, map: &BTreeMap<String, String>) -> String {
    if map.is_empty() {
        String::new()
    } else {
        format!(" {name} {map:?}")
    }
}

/// The request as one line: what is empty is left out.
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
    let places = |terms: &[csi::Topology]| {
        let terms = terms.iter().map(|term| {
            let pairs = term
                .segments
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join("+")
        });
        terms.collect::<Vec<_>>().join(",")
    };
    let places = request
        .accessibility_requirements
        .as_ref()
        .map(|requirement| {
            format!(
                " requisite {} preferred {}",
                places(&requirement.requisite),
                places(&requirement.preferred)
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
        places.unwrap_or_default(),
    )
}

const ANNOUNCE: &str = "event Provisioning";
const CREATE: &str = "create pvc-U 1073741824 [mount( ) SINGLE_NODE_WRITER]";

/// The lines of an attempt that makes its volume, between the event and the PersistentVolume.
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
