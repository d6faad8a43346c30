//! Expanding the file system of a volume whose storage has grown.

use std::collections::BTreeMap;

use csi_proto::csi;
use registrar::kubelet::plan::keys::clip;
use tonic::Code;

use super::growth::Growth;
use super::mount::{Mount, secrets};
use super::request;
use super::script::{
    Answer, Call, Capabilities, Class, Failure, Flow, Leave, Log, Next, Reply, Step, run,
};
use crate::model::claim::ResizeOwner;
use crate::model::volume::ClaimUse;

/// After publishing: expands if the volume is larger than the claim's capacity.
pub(super) fn after_mount(it: &Mount, log: &mut Log<'_>, can: Capabilities) -> Flow<()> {
    let Some(claim) = &it.usage.claim else {
        return Ok(());
    };
    let grown = claim.size > 0
        && claim.size < it.volume.capacity
        && claim.resize_owner != ResizeOwner::NotNode;
    if !grown || it.usage.read_only || !can.expand || it.never_expands {
        return Ok(());
    }
    expand(it, log, can, claim)
}

/// Expands a volume that is in use: the same without publishing.
#[must_use]
pub fn in_use(it: &Mount, replies: &[Reply]) -> Next {
    run(replies, |log| {
        let begin = it.failed("MountVolume.NodeExpandVolume", "");
        let driver = &it.volume.driver;
        log.done(&begin, Step::Registered(driver.clone()))?;
        let can = match log.capabilities(driver)? {
            Ok(capabilities) => capabilities,
            Err(failure) => return Err(Leave::Failed(format!("{begin}{failure}"))),
        };
        if !can.expand {
            log.changes.never_expands = true;
            return Ok(());
        }
        match &it.usage.claim {
            Some(claim) => expand(it, log, can, claim),
            None => Ok(()),
        }
    })
}

fn expand(it: &Mount, log: &mut Log<'_>, can: Capabilities, claim: &ClaimUse) -> Flow<()> {
    let begin = it.failed("MountVolume.NodeExpandVolume", "");
    let size = it.volume.capacity;
    // The looked-up claim may be minutes old.
    let claim = log.claim(
        &begin,
        Step::Claim(claim.namespace.clone(), claim.name.clone()),
    )?;
    if claim.uid != it.volume.claim_uid {
        let why = "its claim was replaced by another of the same name";
        return Err(Leave::Failed(format!("{begin}{why}")));
    }
    if claim.resize_owner == ResizeOwner::NotNode {
        return Ok(());
    }
    // Another node has already reported the claim's new size; only this node's file system is left.
    let already_reported = claim.resize_owner == ResizeOwner::Anybody && claim.size >= size;
    let secrets = secrets(log, it.volume.expand_secret.as_ref())?;
    let claim =
        if claim.tracked && !already_reported && claim.resize_owner != ResizeOwner::NodeBegun {
            log.claim(&begin, report_growth(claim, Growth::Begun))?
        } else {
            claim
        };
    match log.ask(it.call(Call::Expand(request(it, can, secrets))))? {
        Ok(_) => {
            if !already_reported {
                log.claim(&begin, report_growth(claim, Growth::Done(size)))?;
            }
            log.changes.size = Some(size);
            Ok(())
        }
        Err(failure) => {
            // The driver cannot expand a volume that is in use: the pod starts all the same, and
            // nobody retries before the volume has left this node.
            let never = failure.code == Some(Code::FailedPrecondition);
            log.changes.never_expands |= never;
            if claim.tracked && !already_reported && failure.class() == Class::Final {
                let text = clip(&failure.message).to_owned();
                let growth = if is_infeasible(failure) {
                    Growth::Infeasible(text)
                } else {
                    Growth::Failed(text)
                };
                // The expansion's own error matters more: a failed write is repeated with the next
                // attempt.
                if let Ok(Answer::Claim(claim)) = log.ask(report_growth(claim, growth))? {
                    log.changes.claim = Some(claim.clone());
                }
            }
            if never {
                return Ok(());
            }
            Err(Leave::Failed(format!("{begin}{failure}")))
        }
    }
}

/// Whether a retry with this size cannot succeed.
fn is_infeasible(failure: &Failure) -> bool {
    matches!(
        failure.code,
        Some(Code::InvalidArgument | Code::OutOfRange | Code::NotFound)
    )
}

fn report_growth(claim: ClaimUse, growth: Growth) -> Step {
    Step::ReportGrowth { claim, growth }
}

fn request(
    it: &Mount,
    can: Capabilities,
    secrets: BTreeMap<String, String>,
) -> csi::NodeExpandVolumeRequest {
    let mount = request::mount(&it.volume, None, None);
    let staging = can.stage.then(|| request::text(&it.paths.staging));
    csi::NodeExpandVolumeRequest {
        volume_id: it.volume.handle.clone(),
        volume_path: request::text(&it.paths.target),
        capacity_range: Some(csi::CapacityRange {
            required_bytes: it.volume.capacity,
            limit_bytes: 0,
        }),
        staging_target_path: staging.unwrap_or_default(),
        volume_capability: Some(request::capability(&it.volume, can, mount)),
        secrets,
    }
}
