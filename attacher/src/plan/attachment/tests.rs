//! Acceptance rows of attach and detach as tables: objects in, steps out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse,
};
use serde_json::{Value, json};
use sidecar::controller::CallError;
use sidecar::controller::request::{Body, Part, SecretError};
use tonic::Code;

use super::*;
use crate::model::{CsiNode, Source, Text, Volume, VolumeError};
use crate::plan::Driver;
use crate::plan::attempt::Attempt;
use crate::plan::driver::Abilities;
use crate::plan::in_flight::{Key, Start};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::request::{Call, Called, Object, Reply, Request};
use crate::testing::{
    F, attached, csi, csinode, deleted, driver, foreign_csinode, in_tree, json_patch, list, merge,
    pv, secret_ref, spec, va,
};

mod attach;
mod detach;

/// Objects, answers and refusals of one row.
struct World {
    driver: Driver,
    attachment: Attachment,
    volume: Option<Volume>,
    node: Option<CsiNode>,
    forced: bool,
    secret: Result<Option<Secrets>, ApiError>,
    /// Answers to publish and unpublish calls.
    call: Result<BTreeMap<String, String>, RpcError>,
    /// Refusals by kind of step: "pvp", "md", "st".
    refused: Vec<&'static str>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            driver: driver(),
            attachment: va(),
            volume: Some(pv()),
            node: Some(csinode("NID1")),
            forced: false,
            secret: Ok(Some(Secrets::new())),
            call: Ok(BTreeMap::new()),
            refused: Vec::new(),
        }
    }
}

const TIME: &str = "2026-01-02T03:04:05Z";

impl World {
    /// Runs one attempt and records every request it makes.
    fn run(&mut self) -> Vec<String> {
        let mut trace = Vec::new();
        let mut attempt = Attempt::new(&Key::Attachment("va1".into()), Start::default());
        let direction = Direction::of(&self.attachment);
        for _ in 0..20 {
            let over = match self.next(&attempt.log, direction) {
                Ok(request) => {
                    let reply = self.execute(request, &mut trace);
                    let over = attempt.ended_by(&reply);
                    attempt.log.push(reply);
                    over
                }
                Err(end) => Some(end),
            };
            if let Some(End::Failed(failure)) = &over {
                self.record(failure, &mut trace);
            }
            if over.is_some() {
                return trace;
            }
        }
        panic!("the attempt does not end: {trace:#?}");
    }

    /// The next request after those in the log.
    fn next(&self, log: &Log, direction: Direction) -> Result<Request, End> {
        let view = View {
            driver: &self.driver,
            attachment: &self.attachment,
            volume: self.volume.as_ref(),
            node: self.node.as_ref(),
        };
        let (view, forced) = (&view, self.forced);
        script::next(reach_goal(Ask { log, view, forced }, direction))
    }

    fn execute(&mut self, request: Request, trace: &mut Vec<String>) -> Reply {
        match request {
            Request::Write(write) => {
                let Body::Patch(part, patch) = &write.body else {
                    unreachable!("it only patches")
                };
                let kind = match (&write.object, part) {
                    (Object::Volume(_), _) => "pvp",
                    (Object::Attachment(_), Part::Main) => "md",
                    (Object::Attachment(_), Part::Status) => "st",
                };
                trace.push(format!("{kind} {}", patch.body()));
                let result = if self.refused.contains(&kind) {
                    Err(forbidden())
                } else {
                    self.apply(&write.object, patch.body());
                    Ok(None)
                };
                Reply::Write(write, result)
            }
            Request::Secret(secret) => {
                trace.push(format!("get secret {}/{}", secret.namespace, secret.name));
                let values = match self.secret.clone() {
                    Ok(Some(secrets)) => Ok(secrets),
                    Ok(None) => Err(SecretError::NotText),
                    Err(error) => Err(SecretError::Unread(error)),
                };
                Reply::Secret(secret, values)
            }
            Request::Call(call) => {
                let result = self.call.clone().map_err(CallError::Failed);
                called(match call {
                    Call::Publish(call) => {
                        trace.push(format!("pub {}", request_text(&call)));
                        let response =
                            |publish_context| ControllerPublishVolumeResponse { publish_context };
                        Called::Publish(call, result.map(response))
                    }
                    Call::Unpublish(call) => {
                        let (volume, node) = (&call.volume_id, &call.node_id);
                        let secrets = secrets_text(&call.secrets);
                        trace.push(format!("unpub {volume} {node}{secrets}"));
                        let response = |_| ControllerUnpublishVolumeResponse {};
                        Called::Unpublish(call, result.map(response))
                    }
                })
            }
            Request::Get(_) | Request::Event(_) => unreachable!("nothing is read"),
        }
    }

    fn apply(&mut self, object: &Object, body: &Value) {
        match object {
            Object::Volume(name) => {
                assert_eq!(&**name, "pv1");
                assert!(json_patch(self.volume.as_mut().unwrap(), body));
            }
            Object::Attachment(_) => merge(&mut self.attachment, body),
        }
    }

    fn record(&mut self, failure: &Failure, trace: &mut Vec<String>) {
        let direction = Direction::of(&self.attachment);
        match failure.status_patch(&self.attachment, direction, &self.driver, TIME) {
            Some(patch) => {
                trace.push(format!("st {patch}"));
                merge(&mut self.attachment, &patch);
            }
            None => trace.push(format!("log {failure}")),
        }
    }
}

fn called(called: Called) -> Reply {
    Reply::Call(called, Duration::ZERO)
}

/// The volume was unpublished.
fn unpublished() -> Reply {
    let call = Unpublish::from(ControllerUnpublishVolumeRequest::default());
    called(Called::Unpublish(call, Ok(Default::default())))
}

/// The reply to a write.
fn written(purpose: Purpose, result: Result<(), ApiError>) -> Reply {
    let write = request::patch(&va(), purpose, json!({}));
    Reply::Write(write, result.map(|()| None))
}

fn forbidden() -> ApiError {
    ApiError {
        message: "no".into(),
        refusal: Refusal::Other,
    }
}

fn request_text(request: &ControllerPublishVolumeRequest) -> String {
    use csi_proto::csi::volume_capability::AccessType;
    use csi_proto::csi::volume_capability::access_mode::Mode;
    let capability = request.volume_capability.as_ref().unwrap();
    let mode = Mode::try_from(capability.access_mode.unwrap().mode).unwrap();
    let kind = match capability.access_type.as_ref().unwrap() {
        AccessType::Block(_) => "block".to_owned(),
        AccessType::Mount(mount) => {
            assert_eq!(mount.volume_mount_group, "");
            format!("mount({} [{}])", mount.fs_type, mount.mount_flags.join(","))
        }
    };
    let context = if request.volume_context.is_empty() {
        String::new()
    } else {
        format!(" context {:?}", request.volume_context)
    };
    format!(
        "{} {} ro={} {kind} {}{context}{}",
        request.volume_id,
        request.node_id,
        request.readonly,
        mode.as_str_name(),
        secrets_text(&request.secrets),
    )
}

fn secrets_text(secrets: &Secrets) -> String {
    if secrets.is_empty() {
        String::new()
    } else {
        format!(" secrets {secrets:?}")
    }
}

const PUB: &str = "pub h-pv1 NID1 ro=false mount( []) SINGLE_NODE_WRITER";
const UNPUB: &str = "unpub h-pv1 NID1";
const PREPARE: &str = r#"md {"metadata":{"annotations":{"csi.alpha.kubernetes.io/node-id":"NID1"},"finalizers":["external-attacher/test-csi-driver"]}}"#;
const ATTACHED: &str = r#"st {"status":{"attached":true}}"#;
const RELEASE: &str = r#"md {"metadata":{"finalizers":null}}"#;

fn attach_error(message: &str) -> String {
    let error = json!({ "message": message, "time": TIME });
    format!("st {}", json!({ "status": { "attachError": error } }))
}

fn attach_error_code(message: &str, code: i32) -> String {
    let error = json!({ "message": message, "time": TIME, "errorCode": code });
    format!("st {}", json!({ "status": { "attachError": error } }))
}

fn detach_error(message: &str) -> String {
    let error = json!({ "message": message, "time": TIME });
    format!("st {}", json!({ "status": { "detachError": error } }))
}

fn rpc(code: i32, message: &str) -> Result<BTreeMap<String, String>, RpcError> {
    let message = message.into();
    let code = Code::from(code);
    Err(RpcError { code, message })
}

fn with_modes(modes: &[&str]) -> World {
    with_spec(|spec| spec.access_modes = list(modes))
}

fn with_spec(change: impl FnOnce(&mut VolumeSpec)) -> World {
    let mut world = World::default();
    change(&mut world.volume.as_mut().unwrap().spec);
    world
}

fn with_csi(change: impl FnOnce(&mut CsiSource)) -> World {
    with_spec(|spec| match &mut spec.source {
        Source::Csi(source) => change(source),
        Source::InTree(_) | Source::Other => unreachable!(),
    })
}

fn with_secret(secret: Result<Option<Secrets>, ApiError>, attachment: Attachment) -> World {
    World {
        secret,
        attachment,
        ..with_csi(|source| source.publish_secret = Some(secret_ref()))
    }
}

fn ability(mut world: World, change: impl FnOnce(&mut Abilities)) -> World {
    change(&mut world.driver.abilities);
    world
}

fn check(rows: Vec<(&str, World, Vec<&str>)>) {
    for (row, mut world, expected) in rows {
        assert_eq!(world.run(), expected, "row {row}");
    }
}
