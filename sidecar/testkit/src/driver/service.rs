//! The gRPC services: they record every call, apply faults, and call the model.

use std::any::Any;
use std::sync::Arc;

use csi::controller_server::Controller;
use csi::group_controller_server::GroupController;
use csi::identity_server::Identity;
use csi::node_server::Node;
use csi_proto::csi;
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};

use super::FakeDriver;
use super::fault::CallAction;
use super::model::Model;
use super::record::{Call, Envelope};

/// Closes the record of a call, even when the caller goes away.
pub(super) struct Running {
    driver: FakeDriver,
    number: usize,
    method: &'static str,
    subject: Vec<String>,
    pub(super) code: Option<Code>,
}

impl Drop for Running {
    fn drop(&mut self) {
        {
            let state = &mut *self.driver.state();
            let key = (self.method, std::mem::take(&mut self.subject));
            if let Some(count) = state.in_flight.get_mut(&key) {
                *count -= 1;
            }
            let call = state
                .calls
                .iter_mut()
                .rev()
                .find(|call| call.number == self.number);
            if let Some(call) = call {
                call.ended = Some(Instant::now());
                call.code = self.code;
            }
        }
        self.driver.changed();
    }
}

impl FakeDriver {
    pub(super) fn begin<T: prost::Message + Clone + std::fmt::Debug + 'static>(
        &self,
        method: &'static str,
        subject: Vec<String>,
        request: &Request<T>,
    ) -> (Running, Vec<CallAction>) {
        let state = &mut *self.state();
        let envelope = request
            .extensions()
            .get::<Envelope>()
            .cloned()
            .unwrap_or_default();
        let number = state.arrived;
        state.arrived += 1;
        state.calls.push(Call {
            number,
            method,
            subject: subject.clone(),
            started: Instant::now(),
            ended: None,
            deadline: envelope.deadline,
            authority: envelope.authority,
            traceparent: envelope.traceparent,
            code: None,
            request: Arc::new(request.get_ref().clone()),
            text: format!("{:?}", request.get_ref()),
        });
        let exclusive = [
            "ControllerPublishVolume",
            "ControllerUnpublishVolume",
            "ControllerExpandVolume",
            "ControllerModifyVolume",
        ];
        let others = exclusive
            .iter()
            .filter_map(|method| state.in_flight.get(&(*method, subject.clone())));
        if exclusive.contains(&method) && others.sum::<usize>() > 0 {
            state.overlaps.push(format!("{method} {subject:?}"));
        }
        *state
            .in_flight
            .entry((method, subject.clone()))
            .or_default() += 1;
        let running = state
            .in_flight
            .iter()
            .filter(|((name, _), _)| *name == method);
        let running: usize = running.map(|(_, count)| count).sum();
        let peak = state.peaks.entry(method).or_default();
        *peak = running.max(*peak);
        let actions = state.faults.actions(method, &subject);
        let running = Running {
            driver: self.clone(),
            number,
            method,
            subject,
            code: None,
        };
        (running, actions)
    }

    pub(super) async fn run<T, R>(
        &self,
        method: &'static str,
        subject: Vec<String>,
        request: Request<T>,
        work: fn(&mut Model, &T) -> Result<R, Status>,
    ) -> Result<Response<R>, Status>
    where
        T: prost::Message + Clone + std::fmt::Debug + 'static,
        R: Clone + 'static,
    {
        let (mut running, actions) = self.begin(method, subject, &request);
        self.changed();
        let answer = self.bent(actions, request.get_ref(), work).await;
        running.code = Some(answer.as_ref().map_or_else(Status::code, |_| Code::Ok));
        answer.map(Response::new)
    }

    pub(super) async fn bent<T, R: Clone + 'static>(
        &self,
        actions: Vec<CallAction>,
        request: &T,
        work: fn(&mut Model, &T) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let mut after = None;
        let mut silent = false;
        for action in actions {
            match action {
                CallAction::Nothing => {}
                CallAction::Fail(status) => return Err(status),
                CallAction::FailAfter(status) => after = Some(status),
                CallAction::Delay(by) => tokio::time::sleep(by).await,
                CallAction::Hang => std::future::pending().await,
                CallAction::LoseReply => silent = true,
                CallAction::Hold(gate) => gate.pass().await,
                CallAction::Answer(answer) => return Ok(typed(&*answer)),
            }
        }
        let answer = work(&mut self.state().model, request);
        self.changed();
        if silent {
            std::future::pending::<()>().await;
        }
        match after {
            Some(status) => Err(status),
            None => answer,
        }
    }
}

fn typed<R: Clone + 'static>(answer: &(dyn Any + Send + Sync)) -> R {
    let typed = answer.downcast_ref::<R>().cloned();
    typed.expect("the canned answer is of the method's response type")
}

fn unsupported<T, R>(_: &mut Model, _: &T) -> Result<R, Status> {
    Err(Status::unimplemented("not supported"))
}

/// Implements a service: function, method, request fields that name its subject, types, and the
/// model's work.
macro_rules! serve {
    ($service:ident {
        $($function:ident $method:literal [$($field:ident)*] $request:ident $response:ident $work:expr;)*
    }) => {
        #[tonic::async_trait]
        impl $service for FakeDriver {
            $(async fn $function(
                &self,
                request: Request<csi::$request>,
            ) -> Result<Response<csi::$response>, Status> {
                let subject: Vec<String> = vec![$(request.get_ref().$field.clone()),*];
                self.run($method, subject, request, $work).await
            })*
        }
    };
}

serve!(Identity {
    get_plugin_info "GetPluginInfo" [] GetPluginInfoRequest GetPluginInfoResponse Model::get_plugin_info;
    get_plugin_capabilities "GetPluginCapabilities" [] GetPluginCapabilitiesRequest GetPluginCapabilitiesResponse Model::get_plugin_capabilities;
    probe "Probe" [] ProbeRequest ProbeResponse Model::probe;
});

serve!(Controller {
    create_volume "CreateVolume" [name] CreateVolumeRequest CreateVolumeResponse Model::create_volume;
    delete_volume "DeleteVolume" [volume_id] DeleteVolumeRequest DeleteVolumeResponse Model::delete_volume;
    controller_publish_volume "ControllerPublishVolume" [volume_id node_id] ControllerPublishVolumeRequest ControllerPublishVolumeResponse Model::controller_publish_volume;
    controller_unpublish_volume "ControllerUnpublishVolume" [volume_id node_id] ControllerUnpublishVolumeRequest ControllerUnpublishVolumeResponse Model::controller_unpublish_volume;
    validate_volume_capabilities "ValidateVolumeCapabilities" [volume_id] ValidateVolumeCapabilitiesRequest ValidateVolumeCapabilitiesResponse Model::validate_volume_capabilities;
    list_volumes "ListVolumes" [] ListVolumesRequest ListVolumesResponse Model::list_volumes;
    controller_list_volume_health "ControllerListVolumeHealth" [] ControllerListVolumeHealthRequest ControllerListVolumeHealthResponse Model::controller_list_volume_health;
    controller_get_volume_health "ControllerGetVolumeHealth" [volume_id] ControllerGetVolumeHealthRequest ControllerGetVolumeHealthResponse Model::controller_get_volume_health;
    get_capacity "GetCapacity" [] GetCapacityRequest GetCapacityResponse Model::get_capacity;
    controller_get_capabilities "ControllerGetCapabilities" [] ControllerGetCapabilitiesRequest ControllerGetCapabilitiesResponse Model::controller_get_capabilities;
    create_snapshot "CreateSnapshot" [name] CreateSnapshotRequest CreateSnapshotResponse Model::create_snapshot;
    delete_snapshot "DeleteSnapshot" [snapshot_id] DeleteSnapshotRequest DeleteSnapshotResponse Model::delete_snapshot;
    list_snapshots "ListSnapshots" [] ListSnapshotsRequest ListSnapshotsResponse Model::list_snapshots;
    get_snapshot "GetSnapshot" [snapshot_id] GetSnapshotRequest GetSnapshotResponse Model::get_snapshot;
    controller_expand_volume "ControllerExpandVolume" [volume_id] ControllerExpandVolumeRequest ControllerExpandVolumeResponse Model::controller_expand_volume;
    controller_get_volume "ControllerGetVolume" [volume_id] ControllerGetVolumeRequest ControllerGetVolumeResponse Model::controller_get_volume;
    controller_modify_volume "ControllerModifyVolume" [volume_id] ControllerModifyVolumeRequest ControllerModifyVolumeResponse Model::controller_modify_volume;
});

serve!(GroupController {
    group_controller_get_capabilities "GroupControllerGetCapabilities" [] GroupControllerGetCapabilitiesRequest GroupControllerGetCapabilitiesResponse Model::group_controller_get_capabilities;
    create_volume_group_snapshot "CreateVolumeGroupSnapshot" [name] CreateVolumeGroupSnapshotRequest CreateVolumeGroupSnapshotResponse Model::create_group;
    delete_volume_group_snapshot "DeleteVolumeGroupSnapshot" [group_snapshot_id] DeleteVolumeGroupSnapshotRequest DeleteVolumeGroupSnapshotResponse Model::delete_group;
    get_volume_group_snapshot "GetVolumeGroupSnapshot" [group_snapshot_id] GetVolumeGroupSnapshotRequest GetVolumeGroupSnapshotResponse Model::get_group;
});

serve!(Node {
    node_stage_volume "NodeStageVolume" [volume_id] NodeStageVolumeRequest NodeStageVolumeResponse Model::node_stage_volume;
    node_unstage_volume "NodeUnstageVolume" [volume_id] NodeUnstageVolumeRequest NodeUnstageVolumeResponse Model::node_unstage_volume;
    node_publish_volume "NodePublishVolume" [volume_id] NodePublishVolumeRequest NodePublishVolumeResponse Model::node_publish_volume;
    node_unpublish_volume "NodeUnpublishVolume" [volume_id] NodeUnpublishVolumeRequest NodeUnpublishVolumeResponse Model::node_unpublish_volume;
    node_get_volume_stats "NodeGetVolumeStats" [volume_id] NodeGetVolumeStatsRequest NodeGetVolumeStatsResponse Model::node_get_volume_stats;
    node_get_volume_health "NodeGetVolumeHealth" [volume_id] NodeGetVolumeHealthRequest NodeGetVolumeHealthResponse unsupported;
    node_get_storage_health "NodeGetStorageHealth" [] NodeGetStorageHealthRequest NodeGetStorageHealthResponse unsupported;
    node_expand_volume "NodeExpandVolume" [volume_id] NodeExpandVolumeRequest NodeExpandVolumeResponse Model::node_expand_volume;
    node_get_capabilities "NodeGetCapabilities" [] NodeGetCapabilitiesRequest NodeGetCapabilitiesResponse Model::node_get_capabilities;
    node_get_info "NodeGetInfo" [] NodeGetInfoRequest NodeGetInfoResponse Model::node_get_info;
});
