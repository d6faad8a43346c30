//! Block devices: staged and published like file systems, at other paths.
//!
//! The script creates the pod's link before it calls the driver: after a crash the link shows that
//! the pod may have the device. (Kubelet creates it afterwards, and a loop device too, which only a
//! container runtime would use.)

use csi_proto::csi;
use csi_proto::csi::volume_capability::MountVolume;

use super::layout::parent;
use super::metadata::Metadata;
use super::mount::{Facts, Mount, secrets};
use super::script::{Call, Flow, Log, Mount as State, Step};
use super::{expand, request};

/// `NodeStageVolume` for a block device.
pub(super) fn stage(it: &Mount, log: &mut Log<'_>, facts: &Facts) -> Flow<()> {
    if it.device == State::Mounted {
        return Ok(());
    }
    let begin = it.failed("MapVolume.SetUpDevice", "");
    let (name, paths) = (&it.volume.driver, &it.paths);
    let metadata = Metadata::published(&it.layout, &it.volume, None);
    log.done(&begin, Step::Write(paths.stage_metadata.clone(), metadata))?;
    let can = match log.capabilities(name)? {
        Ok(capabilities) => capabilities,
        Err(failure) => return it.not_asked_to_stage(log, failure),
    };
    if !can.stage {
        log.changes.device = Some(State::Mounted);
        return Ok(());
    }
    let secrets = secrets(log, it.volume.stage_secret.as_ref())?;
    log.done(&begin, Step::MakeDirectory(paths.staging.clone()))?;
    let can = match log.capabilities(name)? {
        Ok(capabilities) => capabilities,
        Err(failure) => return it.not_asked_to_stage(log, failure),
    };
    let request = csi::NodeStageVolumeRequest {
        volume_id: it.volume.handle.clone(),
        publish_context: facts.context.clone(),
        staging_target_path: request::text(&paths.staging),
        volume_capability: Some(request::capability(&it.volume, can, MountVolume::default())),
        secrets,
        volume_context: it.volume.attributes.clone(),
    };
    match log.ask(it.call(Call::Stage(request)))? {
        Ok(_) => {
            log.changes.device = Some(State::Mounted);
            Ok(())
        }
        Err(failure) => it.not_staged(log, failure),
    }
}

/// `NodePublishVolume` for a block device. The driver creates the file.
pub(super) fn publish(it: &Mount, log: &mut Log<'_>, facts: &Facts) -> Flow<()> {
    let begin = it.failed("MapVolume.MapPodDevice", "");
    let paths = &it.paths;
    let directory = parent(&paths.target).to_path_buf();
    log.done(&begin, Step::MakeDirectory(directory))?;
    let mut secrets = secrets(log, it.volume.publish_secret.as_ref())?;
    let mut context = it.volume.attributes.clone();
    it.pod_info(log, facts, &mut context, &mut secrets)?;
    let link = Step::Link {
        link: paths.link.clone(),
        target: paths.target.clone(),
    };
    log.done(&begin, link)?;
    let can = match log.capabilities(&it.volume.driver)? {
        Ok(capabilities) => capabilities,
        Err(failure) => return it.not_asked_to_publish(log, &begin, failure),
    };
    let request = csi::NodePublishVolumeRequest {
        volume_id: it.volume.handle.clone(),
        publish_context: facts.context.clone(),
        staging_target_path: request::text(&paths.staging),
        target_path: request::text(&paths.target),
        volume_capability: Some(request::capability(&it.volume, can, MountVolume::default())),
        readonly: it.usage.read_only,
        secrets,
        volume_context: context,
    };
    if let Err(failure) = log.ask(it.call(Call::Publish(request)))? {
        return it.not_published(log, &begin, failure);
    }
    log.changes.pod = Some(State::Mounted);
    expand::after_mount(it, log, can)
}
