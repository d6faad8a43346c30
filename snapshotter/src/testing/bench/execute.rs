//! Executes requests on the bench, and records them.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::csi::{
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, Topology, TopologyRequirement,
};
use serde_json::Value;
use sidecar::controller::CallError;
use sidecar::controller::request::SecretError;
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, BEING_CREATED, GROUP_BEING_CREATED, YES};

use super::{Answer, Bench, created, group, group_created, snapshot};
use crate::model::Text;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::request::{Announcement, Call, Called, ContentWrite, Purpose, Reply, Request};
use crate::testing::refused;

impl Bench {
    pub(super) fn execute(&mut self, request: Request) -> Reply {
        match request {
            Request::Get(name) => {
                self.trace.push("read".into());
                Reply::Get(name, Ok(()))
            }
            Request::Write(write) => {
                let body = write.body.patch();
                match &write.purpose {
                    Purpose::Content(what) => self.trace.push(metadata(*what, body)),
                    Purpose::Status(_) => {
                        let time = format!("\"{}\"", self.clock);
                        let status = body["status"].to_string().replace(&time, "\"now\"");
                        self.trace.push(format!("st {status}"));
                    }
                }
                let status = matches!(write.purpose, Purpose::Status(_));
                let result = self.patch(&write.object, (status, body));
                Reply::Write(write, result)
            }
            Request::Event(event) => {
                let Announcement { reason, message } = &event.announcement;
                self.trace.push(format!("E {reason}: {message}"));
                Reply::Event(event)
            }
            Request::Secret(secret) => {
                let text = format!("secret {}/{}", secret.namespace, secret.name);
                self.trace.push(text);
                let values = match self.server.secrets.get(&secret) {
                    Some(Some(values)) => Ok(values.clone()),
                    Some(None) => Err(SecretError::NotText),
                    None => Err(SecretError::Unread(ApiError {
                        message: format!("secrets \"{}\" not found", secret.name),
                        refusal: Refusal::NotFound,
                    })),
                };
                Reply::Secret(secret, values)
            }
            Request::Call(call) => {
                self.meddle();
                Reply::Call(self.call(call), Duration::ZERO)
            }
        }
    }

    /// Applies another program's change while the driver works.
    fn meddle(&mut self) {
        if let Some(meddle) = self.during.take() {
            meddle(&mut self.server);
            self.tell(false);
        }
    }

    fn call(&mut self, call: Call) -> Called {
        match call {
            Call::Create(call) => {
                self.create(&call);
                let result = match self.scripted(|| created(snapshot(true))) {
                    Answer::Created(response) => Ok(response),
                    other => Err(failed(other)),
                };
                Called::Create(call, result)
            }
            Call::List(call) => {
                let (id, token) = (&call.snapshot_id, &call.starting_token);
                self.trace
                    .push(format!("List {id} {token}{}", text(&call.secrets)));
                let result = match self.scripted(|| panic!("an answer to List")) {
                    Answer::Listed(response) => Ok(response),
                    other => Err(failed(other)),
                };
                Called::List(call, result)
            }
            Call::Get(call) => {
                let line = format!("Get {} {}", call.snapshot_id, text(&call.secrets));
                self.trace.push(line);
                let result = match self.scripted(|| panic!("an answer to Get")) {
                    Answer::Got(response) => Ok(response),
                    other => Err(failed(other)),
                };
                Called::Get(call, result)
            }
            Call::Delete(call) => {
                let line = format!("Delete {} {}", call.snapshot_id, text(&call.secrets));
                self.trace.push(line);
                let result = self.deletes();
                Called::Delete(call, result.map(|()| Default::default()))
            }
            Call::CreateGroup(call) => {
                self.create_group(&call);
                let result = match self.scripted(|| group_created(group(true))) {
                    Answer::GroupCreated(response) => Ok(response),
                    other => Err(failed(other)),
                };
                Called::CreateGroup(call, result)
            }
            Call::GetGroup(call) => {
                self.about_group(
                    "GetGroup",
                    (&call.group_snapshot_id, &call.snapshot_ids, &call.secrets),
                );
                let result = match self.scripted(|| panic!("an answer to GetGroup")) {
                    Answer::GroupGot(response) => Ok(response),
                    other => Err(failed(other)),
                };
                Called::GetGroup(call, result)
            }
            Call::DeleteGroup(call) => {
                self.about_group(
                    "DeleteGroup",
                    (&call.group_snapshot_id, &call.snapshot_ids, &call.secrets),
                );
                let result = self.deletes();
                Called::DeleteGroup(call, result.map(|()| Default::default()))
            }
        }
    }

    fn scripted(&mut self, otherwise: impl FnOnce() -> Answer) -> Answer {
        self.script.pop_front().unwrap_or_else(otherwise)
    }

    fn deletes(&mut self) -> Result<(), CallError> {
        self.script
            .pop_front()
            .map_or(Ok(()), |answer| Err(failed(answer)))
    }

    fn create(&mut self, call: &CreateSnapshotRequest) {
        let line = format!(
            "Create {} {} {} {}{}",
            call.name,
            call.source_volume_id,
            text(&call.parameters),
            text(&call.secrets),
            places(call.accessibility_requirements.as_ref())
        );
        self.trace.push(line);
    }

    fn create_group(&mut self, call: &CreateVolumeGroupSnapshotRequest) {
        let line = format!(
            "CreateGroup {} {} {} {}",
            call.name,
            call.source_volume_ids.join("+"),
            text(&call.parameters),
            text(&call.secrets)
        );
        self.trace.push(line);
    }

    fn about_group(&mut self, call: &str, about: (&str, &[String], &BTreeMap<String, String>)) {
        let (id, snapshots, secrets) = about;
        let snapshots = snapshots.join("+");
        self.trace
            .push(format!("{call} {id} {snapshots} {}", text(secrets)));
    }

    fn patch(&mut self, name: &Text, patch: (bool, &Value)) -> Result<(), ApiError> {
        if let Some((_, meddle)) = self.meddling.take_if(|(status, _)| *status == patch.0) {
            meddle(&mut self.server);
            self.tell(false);
        }
        if self
            .refusals
            .front()
            .is_some_and(|(status, _)| *status == patch.0)
        {
            let (_, refusal) = self.refusals.pop_front().unwrap();
            self.trace.push(format!("refused {refusal:?}"));
            return Err(refused(refusal));
        }
        let version = patch.1.pointer("/metadata/resourceVersion");
        assert!(
            version.is_some(),
            "a patch says which version it was made for"
        );
        match self.server.patch(name, patch) {
            Ok(_) => {
                let idle = std::mem::take(&mut self.server.idle);
                let undone = self.server.undo.is_some();
                assert!(idle.is_empty() || undone, "{idle:?}");
                Ok(())
            }
            Err(error) => {
                self.trace.push(format!("refused {:?}", error.refusal));
                Err(error)
            }
        }
    }
}

/// The script lets the call fail.
fn failed(answer: Answer) -> CallError {
    match answer {
        Answer::Failed(error) => CallError::Failed(error),
        answer => panic!("no answer to this call: {answer:?}"),
    }
}

fn text(map: &BTreeMap<String, String>) -> String {
    format!("{map:?}").replace('"', "")
}

/// The requisite and the preferred topologies.
fn places(required: Option<&TopologyRequirement>) -> String {
    let list = |places: &[Topology]| {
        let places = places.iter().map(|place| format!("{:?}", place.segments));
        places.collect::<Vec<_>>().join(" ").replace('"', "")
    };
    required.map_or_else(String::new, |required| {
        let (requisite, preferred) = (list(&required.requisite), list(&required.preferred));
        format!(" at {requisite} best {preferred}")
    })
}

fn metadata(write: ContentWrite, body: &Value) -> String {
    let metadata = &body["metadata"];
    let annotations = &metadata["annotations"];
    let mark = [BEING_CREATED, GROUP_BEING_CREATED].map(|mark| annotations.get(mark));
    let mark = mark.into_iter().flatten().next();
    match write {
        ContentWrite::Mark if metadata.get("finalizers").is_some() => "bc+ F+".into(),
        ContentWrite::Mark if mark.is_some_and(|mark| *mark != *YES) => "bc+ again".into(),
        ContentWrite::Mark => "bc+".into(),
        ContentWrite::Unmark => "bc-".into(),
        ContentWrite::Topology(_) => {
            let topology = annotations[ACCESSIBLE_TOPOLOGY].as_str().unwrap();
            format!("topology {topology}")
        }
        ContentWrite::Release => "F-".into(),
    }
}
