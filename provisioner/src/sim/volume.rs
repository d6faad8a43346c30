//! Volumes are deleted: calls reach the driver, requests the server, and every change is held against the
//! invariants.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::DeleteVolumeResponse;
use sidecar::controller::CallError;
use sidecar::controller::request::{Body, SecretError};
use sidecar_testkit::sim::watch::{Versioned, key as key_of};
use tonic::Code;

use super::driver::{Kind, ModelDriver};
use super::mutant::Mutant;
use super::process::{State, Written};
use super::run::{Faults, World, rpc};
use super::server::refusal;
use crate::model::{Reclaim, Text, VolumeDetail};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::reactor::{self, Key, Step};
use crate::plan::request::{Call, Called, Purpose, Reply, Request, Secrets, Write};

impl World {
    /// An attempt on a volume makes a request.
    pub(super) fn ask_for_volume(&mut self, index: usize, request: Request) {
        match request {
            Request::Write(write)
                if write.purpose == Purpose::Upkeep
                    && self.mutant == Mutant::IgnoresFinalizerAction =>
            {
                // As if nothing were to be done.
                let reply = Reply::Write(write, Err(refusal(Refusal::NotFound)));
                self.reply(index, reply, None);
            }
            Request::Call(Call::Delete(call)) => {
                let name = match &self.process.attempts.running[index].key {
                    Key::Volume(name) => name.clone(),
                    key @ (Key::Claim(_) | Key::Source(_)) => unreachable!("{key:?} is no volume"),
                };
                self.check_deleted(&name, &call.volume_id);
                let state = match self.driver.delete(&call.volume_id) {
                    Ok(id) => State::Calling(Step::Volume(Request::Call(Call::Delete(call))), id),
                    Err(refused) => {
                        let error = CallError::Failed(rpc(refused.code()));
                        let called = Called::Delete(call, Err(error));
                        let reply = Reply::Call(called, Duration::ZERO);
                        State::Answered(reactor::Reply::Volume(reply), None)
                    }
                };
                self.process.attempts.enter(index, state);
            }
            Request::Secret(secret) => {
                let values = match self.server.secret {
                    true => Ok(Secrets::new()),
                    // A mutant does not do without.
                    false if self.mutant == Mutant::NeedsSecrets => Err(SecretError::NotText),
                    false => Err(SecretError::Unread(refusal(Refusal::NotFound))),
                };
                self.reply(index, Reply::Secret(secret, values), None);
            }
            Request::Write(write) => {
                let slots = &mut self.process.informers.volumes.slots;
                slots.begin_write(&key_of(&write.object));
                let state = State::Sent(Step::Volume(Request::Write(write)));
                self.process.attempts.enter(index, state);
            }
            Request::Get(_) => unreachable!("no deletion reads volumes"),
            Request::Event(event) => match event {},
        }
    }

    /// The reply is on its way.
    fn reply(&mut self, index: usize, reply: Reply, written: Option<Written>) {
        let state = State::Answered(reactor::Reply::Volume(reply), written);
        self.process.attempts.enter(index, state);
    }

    /// DeleteVolume is about to be called.
    fn check_deleted(&mut self, name: &Text, handle: &str) {
        let mut attachments = self.server.attachments.values();
        if let Some((_, held)) = attachments.find(|(_, held)| held.volume == *name) {
            self.complain(format!("{name} deleted while attached to {}", held.node));
        }
        if let Some((_, volume)) = self.server.volumes.get(name) {
            if volume.reclaim == Reclaim::Retain {
                self.complain(format!("{name} deleted though it is to be kept"));
            } else if !self.is_ours(volume) {
                self.complain(format!("{name} of another driver deleted"));
            }
        }
        self.complain_about_second_call(handle);
    }

    /// This process must not call for a volume while another call of it for that volume runs.
    fn complain_about_second_call(&mut self, handle: &str) {
        let same = |kind: &Kind| *kind == Kind::Delete(handle.to_owned());
        let doubled = self
            .driver
            .running
            .iter()
            .any(|call| call.awaited && same(&call.kind));
        if doubled {
            self.complain(format!("two DeleteVolume calls at once for {handle}"));
        }
    }

    /// The driver answers, or the deadline expires.
    pub(super) fn end_delete_call(&mut self, index: usize, call: Call, id: u64) {
        let Call::Delete(call) = call;
        let result = self.deleted(id).map_err(CallError::Failed);
        let called = Called::Delete(call, result);
        self.reply(index, Reply::Call(called, Duration::ZERO), None);
    }

    fn deleted(&mut self, id: u64) -> Result<DeleteVolumeResponse, RpcError> {
        let code = if self.faulty() && self.dice.one_in(4) {
            match self.dice.below(3) {
                0 => {
                    self.driver.abandon(id);
                    Code::DeadlineExceeded
                }
                1 => {
                    self.driver.succeed(id);
                    Code::Unavailable
                }
                _ => {
                    self.driver.fail(id);
                    let codes = [Code::Internal, Code::NotFound, Code::FailedPrecondition];
                    codes[self.dice.below(3)]
                }
            }
        } else {
            self.driver.succeed(id);
            return Ok(DeleteVolumeResponse {});
        };
        Err(rpc(code))
    }

    /// The server applies what `request` asks for.
    pub(super) fn apply_volume(&mut self, request: Request) -> (Reply, Option<Written>) {
        let result = match &request {
            Request::Write(Write {
                object, uid, body, ..
            }) => match body {
                Body::Patch(_, patch) => self.patch_volume(object, uid.as_ref(), patch.body()),
                Body::Delete(_) => self.remove_volume(object, uid.as_ref()),
                Body::Create(_) | Body::Replace(_) => unreachable!("no deletion writes so"),
            },
            Request::Get(_) | Request::Secret(_) | Request::Call(_) | Request::Event(_) => {
                unreachable!("no deletion asks the model's server for it")
            }
        };
        match (request, result) {
            (Request::Write(write), Ok((version, object))) => {
                let found = Arc::new(self.mutant.keeps(&object));
                let written = Written::Volume((version, object));
                (Reply::Write(write, Ok(found)), Some(written))
            }
            (request, Ok(_)) => (request.refused(refusal(Refusal::Other)), None),
            (request, Err(error)) => (request.refused(error), None),
        }
    }

    fn patch_volume(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        patch: &serde_json::Value,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        let before = self
            .server
            .volumes
            .get(name)
            .map(|(_, volume)| volume.clone());
        let result = self.server.patch_volume(name, uid, patch);
        if let (Some(before), Ok((_, after))) = (before, &result)
            && before.is_protected()
            && !after.is_protected()
            && self.may_exist(&before)
        {
            self.complain(format!("finalizer of {name} removed before its volume"));
        }
        result
    }

    fn remove_volume(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
    ) -> Result<Versioned<VolumeDetail>, ApiError> {
        match self
            .server
            .volumes
            .get(name)
            .map(|(_, volume)| volume.clone())
        {
            Some(volume) if self.may_exist(&volume) => {
                self.complain(format!("{name} deleted before its volume"));
            }
            // What nothing protected may go at any time.
            None if self.case.faults == Faults::None && !self.excused.contains(&**name) => {
                self.complain(format!("DELETE of {name}, which is gone"));
            }
            Some(_) | None => {}
        }
        self.server.delete_volume(name, uid)
    }

    /// Whether the volume is the driver's. One of an in-tree plugin is as soon as it is said to be moved.
    pub(super) fn is_ours(&self, volume: &VolumeDetail) -> bool {
        let owner = &volume.owner;
        let named = if owner.in_tree {
            &owner.migrated_to
        } else {
            &owner.csi_driver
        };
        named.as_deref() == Some(&*self.process.informers.driver.name)
    }

    /// Whether a volume that is to be deleted exists, or may come to exist again.
    fn may_exist(&self, volume: &VolumeDetail) -> bool {
        let Some(handle) = handle(volume) else {
            return false;
        };
        let may = |driver: &ModelDriver| {
            let owed = self
                .unseen
                .contains(&(driver.site, volume.name.to_string()));
            driver.has(handle) || !owed && driver.may_have(&volume.name)
        };
        volume.reclaim == Reclaim::Delete && self.drivers().any(may)
    }
}

/// The id by which the volume's driver knows it, whichever that is.
pub(super) fn handle(volume: &VolumeDetail) -> Option<&str> {
    volume.handle_of(volume.driver()?)
}
