//! What becomes of a step on the bench, and how it is recorded.

use std::collections::BTreeMap;

use csi_proto::csi::{
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, Topology, TopologyRequirement,
};
use serde_json::Value;
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, BEING_CREATED, GROUP_BEING_CREATED, YES};

use super::{Bench, created, group, group_created, snapshot};
use crate::model::Text;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::reactor::Request;
use crate::plan::step::{Answer, Step, Write};
use crate::testing::refused;

impl Bench {
    pub(super) fn execute(&mut self, request: &Request) -> Answer {
        let name = &request.content;
        self.meddle(&request.step);
        match &request.step {
            Step::Read => {
                self.trace.push("read".into());
                Answer::Done
            }
            Step::Patch(write, body) => {
                self.trace.push(metadata(*write, body));
                self.patch(name, (false, body))
            }
            Step::PatchStatus(_, body) => {
                let time = format!("\"{}\"", self.clock);
                let status = body["status"].to_string().replace(&time, "\"now\"");
                self.trace.push(format!("st {status}"));
                self.patch(name, (true, body))
            }
            Step::Announce(event) => {
                let text = format!("E {}: {}", event.reason, event.message);
                self.trace.push(text);
                Answer::Done
            }
            Step::LoadSecret(_, secret) => {
                let text = format!("secret {}/{}", secret.namespace, secret.name);
                self.trace.push(text);
                match self.server.secrets.get(secret) {
                    Some(Some(values)) => Answer::Secret(values.clone()),
                    Some(None) => Answer::SecretNotText,
                    None => Answer::Refused(ApiError {
                        message: format!("secrets \"{}\" not found", secret.name),
                        refusal: Refusal::NotFound,
                    }),
                }
            }
            Step::Create(call) => self.create(call),
            Step::List(call) => {
                let (id, token) = (&call.snapshot_id, &call.starting_token);
                self.trace
                    .push(format!("List {id} {token}{}", text(&call.secrets)));
                self.script.pop_front().expect("an answer to List")
            }
            Step::Get(call) => {
                let line = format!("Get {} {}", call.snapshot_id, text(&call.secrets));
                self.trace.push(line);
                self.script.pop_front().expect("an answer to Get")
            }
            Step::Delete(call) => {
                let line = format!("Delete {} {}", call.snapshot_id, text(&call.secrets));
                self.trace.push(line);
                self.script.pop_front().unwrap_or(Answer::Deleted)
            }
            Step::CreateGroup(call) => self.create_group(call),
            Step::GetGroup(call) => {
                self.about_group(
                    "GetGroup",
                    (&call.group_snapshot_id, &call.snapshot_ids, &call.secrets),
                );
                self.script.pop_front().expect("an answer to GetGroup")
            }
            Step::DeleteGroup(call) => {
                self.about_group(
                    "DeleteGroup",
                    (&call.group_snapshot_id, &call.snapshot_ids, &call.secrets),
                );
                self.script.pop_front().unwrap_or(Answer::Deleted)
            }
        }
    }

    /// What somebody else does while the driver works.
    fn meddle(&mut self, step: &Step) {
        let creates = matches!(step, Step::Create(_) | Step::CreateGroup(_));
        let calls = creates || step.looks_up().is_some();
        if let Some(meddle) = self.during.take_if(|_| calls) {
            meddle(&mut self.server);
            self.tell(false);
        }
    }

    fn create(&mut self, call: &CreateSnapshotRequest) -> Answer {
        let line = format!(
            "Create {} {} {} {}{}",
            call.name,
            call.source_volume_id,
            text(&call.parameters),
            text(&call.secrets),
            places(call.accessibility_requirements.as_ref())
        );
        self.trace.push(line);
        let scripted = self.script.pop_front();
        scripted.unwrap_or_else(|| created(snapshot(true)))
    }

    fn create_group(&mut self, call: &CreateVolumeGroupSnapshotRequest) -> Answer {
        let line = format!(
            "CreateGroup {} {} {} {}",
            call.name,
            call.source_volume_ids.join("+"),
            text(&call.parameters),
            text(&call.secrets)
        );
        self.trace.push(line);
        let scripted = self.script.pop_front();
        scripted.unwrap_or_else(|| group_created(group(true)))
    }

    fn about_group(&mut self, call: &str, about: (&str, &[String], &BTreeMap<String, String>)) {
        let (id, snapshots, secrets) = about;
        let snapshots = snapshots.join("+");
        self.trace
            .push(format!("{call} {id} {snapshots} {}", text(secrets)));
    }

    fn patch(&mut self, name: &Text, patch: (bool, &Value)) -> Answer {
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
            return Answer::Refused(refused(refusal));
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
                Answer::Done
            }
            Err(error) => {
                self.trace.push(format!("refused {:?}", error.refusal));
                Answer::Refused(error)
            }
        }
    }
}

fn text(map: &BTreeMap<String, String>) -> String {
    format!("{map:?}").replace('"', "")
}

/// Where it must be usable, and where that would be best.
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

fn metadata(write: Write, body: &Value) -> String {
    let metadata = &body["metadata"];
    let annotations = &metadata["annotations"];
    let mark = [BEING_CREATED, GROUP_BEING_CREATED].map(|mark| annotations.get(mark));
    let mark = mark.into_iter().flatten().next();
    match write {
        Write::Mark if metadata.get("finalizers").is_some() => "bc+ F+".into(),
        Write::Mark if mark.is_some_and(|mark| *mark != *YES) => "bc+ again".into(),
        Write::Mark => "bc+".into(),
        Write::Unmark => "bc-".into(),
        Write::Topology(_) => {
            let topology = annotations[ACCESSIBLE_TOPOLOGY].as_str().unwrap();
            format!("topology {topology}")
        }
        Write::Release => "F-".into(),
    }
}
