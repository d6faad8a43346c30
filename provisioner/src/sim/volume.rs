//! Deletion of volumes: calls reach the driver, requests the server, and every change is checked against the
//! invariants.

use std::time::Duration;

use csi_proto::csi::{DeleteVolumeRequest, DeleteVolumeResponse};
use serde_json::Value;
use sidecar::controller::{self, CallError};
use sidecar_testkit::sim::watch::Versioned;
use tonic::Code;

use super::driver::{Kind, ModelDriver};
use super::process::State;
use super::run::{Faults, World, rpc};
use crate::model::{Reclaim, Text, VolumeDetail};
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::reactor::{Key, Step};
use crate::plan::request::{Call, Called, Reply, Request};

impl World {
    pub(super) fn begin_delete_call(
        &mut self,
        index: usize,
        call: controller::Call<DeleteVolumeRequest>,
    ) {
        let name = match &self.process.attempts.running[index].key {
            Key::Volume(name) => name.clone(),
            key @ (Key::Claim(_) | Key::Source(_)) => unreachable!("{key:?} is no volume"),
        };
        self.check_deleted(&name, &call.volume_id);
        match self.driver.delete(&call.volume_id) {
            Ok(id) => {
                let step = Step::Ask(Request::Call(Call::Delete(call)));
                self.process.attempts.enter(index, State::Calling(step, id));
            }
            Err(refused) => {
                let error = CallError::Failed(rpc(refused.code()));
                let called = Called::Delete(call, Err(error));
                self.reply(index, Reply::Call(called, Duration::ZERO));
            }
        }
    }

    /// Checks that DeleteVolume may be called.
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

    /// This process must not call for a volume while another of its calls for that volume runs.
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
    pub(super) fn end_delete_call(&mut self, id: u64) -> Result<DeleteVolumeResponse, RpcError> {
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

    pub(super) fn patch_volume(
        &mut self,
        name: &Text,
        uid: Option<&Text>,
        patch: &Value,
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

    pub(super) fn remove_volume(
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
            // An object without protection may go at any time.
            None if self.case.faults == Faults::None && !self.excused.contains(&**name) => {
                self.complain(format!("DELETE of {name}, which is gone"));
            }
            Some(_) | None => {}
        }
        self.server.delete_volume(name, uid)
    }

    /// Whether the volume is the driver's. One of an in-tree plugin is as soon as it has the annotation that it was
    /// migrated.
    pub(super) fn is_ours(&self, volume: &VolumeDetail) -> bool {
        let owner = &volume.owner;
        let named = if owner.in_tree {
            &owner.migrated_to
        } else {
            &owner.csi_driver
        };
        named.as_deref() == Some(&*self.process.informers.driver.name)
    }

    /// Whether a volume that has to be deleted exists, or may be made again.
    fn may_exist(&self, volume: &VolumeDetail) -> bool {
        let Some(handle) = handle(volume) else {
            return false;
        };
        let may = |driver: &ModelDriver| {
            let unsettled = self
                .unseen
                .contains(&(driver.site, volume.name.to_string()));
            driver.has(handle) || !unsettled && driver.may_have(&volume.name)
        };
        volume.reclaim == Reclaim::Delete && self.drivers().any(may)
    }
}

/// The handle by which the volume's driver knows it, whichever driver that is.
pub(super) fn handle(volume: &VolumeDetail) -> Option<&str> {
    volume.handle_of(volume.driver()?)
}
