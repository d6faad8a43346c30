//! Taking a volume from a pod, and from the node once no pod has it.
//!
//! What is done comes from the metadata on disk, so that it is the same after a restart. A step that
//! was done before is done again; drivers take that.

use std::path::Path;

use csi_proto::csi;

use super::layout::{Places, parent};
use super::metadata::Metadata;
use super::request;
use super::script::{
    Answer, Call, Flow, Leave, Log, Mount as State, Next, Reply, Step, mismatch, run,
};

/// Takes the volume from one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpublish {
    /// Where it is.
    pub places: Places,
    /// A block device.
    pub block: bool,
    /// Name of the volume, for people.
    pub name: String,
}

/// Takes the volume from the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Unstage {
    /// Where it is.
    pub places: Places,
    /// A block device.
    pub block: bool,
    /// Name of the volume, for people.
    pub name: String,
}

impl Unpublish {
    /// What comes next after these answers.
    #[must_use]
    pub fn next(&self, replies: &[Reply]) -> Next {
        run(replies, |log| {
            // Whatever goes wrong, the mount is in doubt from the driver's call on.
            log.changes.pod = Some(State::Uncertain);
            self.script(log)?;
            log.changes.pod = Some(State::None);
            Ok(())
        })
    }

    fn script(&self, log: &mut Log<'_>) -> Flow<()> {
        let begin = failed("UnmountVolume.TearDown", &self.name);
        let Places {
            target,
            target_metadata,
            ..
        } = &self.places;
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
        log.done(&begin, Step::Remove(self.places.published(self.block)))
    }

    /// The metadata goes last but for the folder: without it and without the mount there is nothing
    /// to undo. With a mount nobody knows how.
    fn without_metadata(&self, log: &mut Log<'_>, begin: &str) -> Flow<()> {
        let Places {
            target,
            target_metadata,
            ..
        } = &self.places;
        if log.is_mounted(target.clone())? {
            let file = target_metadata.display();
            return Err(Leave::Failed(format!(
                "{begin}{file} is missing, so the program cannot tell which volume is mounted beside \
                 it; unmount it by hand and remove the directory"
            )));
        }
        log.done(begin, Step::Remove(self.places.published(self.block)))
    }
}

impl Unstage {
    /// What comes next after these answers.
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
        let Places {
            staging,
            stage_metadata,
            ..
        } = &self.places;
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
            // Never staged. What a driver without that capability got is empty.
            return log.done(&begin, Step::Tidy(self.places.stage_leftovers()));
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
            // .../publish/NAME, without pods by now.
            let published = parent(&self.places.target).to_path_buf();
            log.done(&begin, Step::Tidy(vec![published]))?;
        }
        let above = parent(parent(stage_metadata)).to_path_buf();
        log.done(&begin, Step::Remove(self.places.staged()))?;
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

/// A driver that says it has unmounted something must have done so: what is removed next would be
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
