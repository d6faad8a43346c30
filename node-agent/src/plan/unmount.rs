//! Unpublishing a volume for a pod, and unstaging it once no pod has it.
//!
//! The scripts act on the metadata on disk, so they do the same after a restart. A step may run
//! twice; driver calls are idempotent.

use std::path::Path;

use csi_proto::csi;

use super::layout::{VolumePaths, parent};
use super::metadata::Metadata;
use super::request;
use super::script::{
    Answer, Call, Flow, Leave, Log, Mount as State, Next, Reply, Step, mismatch, run,
};

/// Unpublishes the volume for one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpublish {
    /// Its paths.
    pub paths: VolumePaths,
    /// A block device.
    pub block: bool,
    /// Name of the volume, for people.
    pub name: String,
}

/// Unstages the volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Unstage {
    /// Its paths.
    pub paths: VolumePaths,
    /// A block device.
    pub block: bool,
    /// Name of the volume, for people.
    pub name: String,
}

impl Unpublish {
    /// The next step after these replies.
    #[must_use]
    pub fn next(&self, replies: &[Reply]) -> Next {
        run(replies, |log| {
            // From the driver's call on, any failure leaves the mount uncertain.
            log.changes.pod = Some(State::Uncertain);
            self.script(log)?;
            log.changes.pod = Some(State::None);
            Ok(())
        })
    }

    fn script(&self, log: &mut Log<'_>) -> Flow<()> {
        let begin = failed("UnmountVolume.TearDown", &self.name);
        let VolumePaths {
            target,
            target_metadata,
            ..
        } = &self.paths;
        let metadata = log.metadata(Step::Read(target_metadata.clone()))?;
        let Some(metadata) = metadata else {
            return self.without_metadata(log, &begin);
        };
        registered(log, &begin, metadata)?;
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id: metadata.handle.clone(),
            target_path: request::text(target),
        };
        log.done(&begin, call(metadata, Call::Unpublish(request)))?;
        must_be_free(log, &begin, target)?;
        log.done(&begin, Step::Remove(self.paths.published(self.block)))
    }

    /// The metadata is removed last but for the folder: without it and without a mount nothing is
    /// left to undo. With a mount but no metadata nobody knows how to unmount it.
    fn without_metadata(&self, log: &mut Log<'_>, begin: &str) -> Flow<()> {
        let VolumePaths {
            target,
            target_metadata,
            ..
        } = &self.paths;
        if log.is_mounted(target.clone())? {
            let file = target_metadata.display();
            return Err(Leave::Failed(format!(
                "{begin}{file} is missing, so the program cannot tell which volume is mounted beside \
                 it; unmount it by hand and remove the directory"
            )));
        }
        log.done(begin, Step::Remove(self.paths.published(self.block)))
    }
}

impl Unstage {
    /// The next step after these replies.
    #[must_use]
    pub fn next(&self, replies: &[Reply]) -> Next {
        run(replies, |log| {
            log.changes.device = Some(State::Uncertain);
            self.script(log)?;
            log.changes.device = Some(State::None);
            Ok(())
        })
    }

    fn script(&self, log: &mut Log<'_>) -> Flow<()> {
        let begin = failed("UnmountDevice", &self.name);
        let VolumePaths {
            staging,
            stage_metadata,
            ..
        } = &self.paths;
        let answer = log.must(&begin, Step::References(staging.clone()))?;
        let Answer::Paths(references) = answer else {
            return Err(mismatch(answer));
        };
        if let Some(reference) = references.first() {
            let (path, other) = (staging.display(), reference.display());
            return Err(Leave::Failed(format!(
                "{begin}{path} is still mounted at {other}"
            )));
        }
        let Some(metadata) = log.metadata(Step::Read(stage_metadata.clone()))? else {
            // The volume was never staged. A driver without the capability got an empty directory.
            return log.done(&begin, Step::Tidy(self.paths.stage_leftovers()));
        };
        registered(log, &begin, metadata)?;
        let can = match log.capabilities(&metadata.driver)? {
            Ok(capabilities) => capabilities,
            Err(failure) => return Err(Leave::Failed(format!("{begin}{failure}"))),
        };
        if can.stage {
            let request = csi::NodeUnstageVolumeRequest {
                volume_id: metadata.handle.clone(),
                staging_target_path: request::text(staging),
            };
            log.done(&begin, call(metadata, Call::Unstage(request)))?;
            must_be_free(log, &begin, staging)?;
        }
        if self.block {
            // .../publish/NAME, which has no pods any more.
            let published = parent(&self.paths.target).to_path_buf();
            log.done(&begin, Step::Tidy(vec![published]))?;
        }
        let above = parent(parent(stage_metadata)).to_path_buf();
        log.done(&begin, Step::Remove(self.paths.staged()))?;
        log.done(&begin, Step::Tidy(vec![above]))
    }
}

fn failed(what: &str, name: &str) -> String {
    format!("{what} failed for volume {name:?}: ")
}

fn registered(log: &mut Log<'_>, begin: &str, metadata: &Metadata) -> Flow<()> {
    log.done(begin, Step::Registered(metadata.driver.clone()))
}

fn call(metadata: &Metadata, call: Call) -> Step {
    Step::Call {
        driver: metadata.driver.clone(),
        call: Box::new(call),
    }
}

/// The driver reported success, so nothing may be mounted any more: the next removal would delete
/// the volume's data.
fn must_be_free(log: &mut Log<'_>, begin: &str, path: &Path) -> Flow<()> {
    if log.is_mounted(path.to_path_buf())? {
        let path = path.display();
        return Err(Leave::Failed(format!(
            "{begin}the driver says that it has unmounted {path}, but it is still mounted"
        )));
    }
    Ok(())
}
