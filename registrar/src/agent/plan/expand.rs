//! Growing the file system of a volume that has grown.

use csi_proto::csi;
use tonic::Code;

use super::mount::{Mount, secrets};
use super::request;
use super::script::{Call, Capabilities, Flow, Leave, Log, Next, Reply, Step, run};

/// After publishing: what the claim says it has is less than the volume has.
pub(super) fn after_mount(it: &Mount, log: &mut Log<'_>, can: Capabilities) -> Flow<()> {
    let Some(claim) = &it.usage.claim else {
        return Ok(());
    };
    let grown = claim.size > 0 && claim.size < it.volume.capacity;
    if !grown || it.usage.read_only || !can.expand || it.never_expands {
        return Ok(());
    }
    expand(it, log, can)
}

/// While the volume is in use: the same without publishing.
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
        expand(it, log, can)
    })
}

fn expand(it: &Mount, log: &mut Log<'_>, can: Capabilities) -> Flow<()> {
    let begin = it.failed("MountVolume.NodeExpandVolume", "");
    let size = it.volume.capacity;
    let secrets = secrets(log, it.volume.expand_secret.as_ref())?;
    let mount = request::mount(&it.volume, None, None);
    let staging = can.stage.then(|| request::text(&it.places.staging));
    let request = csi::NodeExpandVolumeRequest {
        volume_id: it.volume.handle.clone(),
        volume_path: request::text(&it.places.target),
        capacity_range: Some(csi::CapacityRange {
            required_bytes: size,
            limit_bytes: 0,
        }),
        staging_target_path: staging.unwrap_or_default(),
        volume_capability: Some(request::capability(&it.volume, can, mount)),
        secrets,
    };
    match log.ask(it.call(Call::Expand(request)))? {
        Ok(_) => {
            log.changes.size = Some(size);
            if let Some(claim) = &it.usage.claim {
                let claim = claim.clone();
                log.done(&begin, Step::Resized { claim, size })?;
            }
            Ok(())
        }
        // The driver cannot do it while the volume is in use: the pod starts all the same, and
        // nobody asks again before the volume has left this node.
        Err(failure) if failure.code == Some(Code::FailedPrecondition) => {
            log.changes.never_expands = true;
            Ok(())
        }
        Err(failure) => Err(Leave::Failed(format!("{begin}{failure}"))),
    }
}
