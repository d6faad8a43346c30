//! A model driver that answers, fails and loses answers at random.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::{NodePublishVolumeRequest, VolumeCapability};
use node_agent::plan::script::{Answer, Call, Capabilities, Failure, Reply};
use tonic::Code;

use super::Chance;
use super::files::{Entry, Files};

#[derive(Default)]
pub(super) struct Driver {
    /// Mount flags by handle and path.
    pub(super) staged: BTreeMap<(String, String), Vec<String>>,
    /// By handle and path: whether the driver has ever confirmed it.
    pub(super) published: BTreeMap<(String, String), bool>,
}

fn flags(capability: Option<&VolumeCapability>) -> Vec<String> {
    match capability.and_then(|it| it.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => mount.mount_flags.clone(),
        Some(AccessType::Block(_)) | None => Vec::new(),
    }
}

impl Driver {
    pub(super) fn is_mounted(&self, path: &Path) -> bool {
        let path = path.to_str().unwrap();
        self.staged.keys().any(|(_, at)| at == path)
            || self.published.keys().any(|(_, at)| at == path)
    }

    /// Handles of all volumes that it has staged or published.
    pub(super) fn held(&self) -> BTreeSet<&str> {
        let published = self.published.keys().map(|(id, _)| id);
        let held = self.staged.keys().map(|(id, _)| id).chain(published);
        held.map(String::as_str).collect()
    }

    /// Handles a call. The error is a call that no driver must ever get.
    pub(super) fn call(
        &mut self,
        call: &Call,
        files: &mut Files,
        faults: Option<&mut Chance>,
    ) -> Result<Reply, String> {
        let error = |code| {
            Ok(Err(Failure {
                code: Some(code),
                message: "by chance".to_owned(),
            }))
        };
        let (fault, keeps) =
            faults.map_or((9, false), |chance| (chance.below(10), chance.one_in(2)));
        if fault == 0 {
            // The call did not reach the driver.
            return error(Code::Unavailable);
        }
        if fault == 1 {
            self.refuse(call);
            return error(Code::Internal);
        }
        let answers = fault != 2;
        match call {
            Call::Stage(it) => {
                let at = (it.volume_id.clone(), it.staging_target_path.clone());
                let mut others = self.staged.keys();
                if others.any(|(id, path)| *path == at.1 && *id != at.0) {
                    return Err(format!("two volumes staged at {}", at.1));
                }
                let flags = flags(it.volume_capability.as_ref());
                let before = self.staged.get(&at);
                if before.is_some_and(|before| *before != flags) {
                    return Err(format!("staged with {before:?} and with {flags:?}"));
                }
                self.staged.insert(at, flags);
            }
            Call::Publish(it) => self.publish(it, files, answers)?,
            Call::Unpublish(it) => {
                let at = (it.volume_id.clone(), it.target_path.clone());
                self.published.remove(&at);
                if !keeps {
                    let path = Path::new(&at.1).to_path_buf();
                    let remove = node_agent::plan::files::FileCall::Remove(path);
                    let _ = files.call(&remove, false);
                }
            }
            Call::Unstage(it) => {
                if self.published.keys().any(|(id, _)| *id == it.volume_id) {
                    return Err("unstaged what is published".to_owned());
                }
                let at = (it.volume_id.clone(), it.staging_target_path.clone());
                self.staged.remove(&at);
            }
            Call::Expand(it) => {
                let at = (it.volume_id.clone(), it.volume_path.clone());
                if !self.published.contains_key(&at) {
                    return Err("expanded what is not published".to_owned());
                }
            }
            Call::Capabilities => {
                return Ok(Ok(Answer::Capabilities(Capabilities {
                    stage: true,
                    expand: true,
                    ..Capabilities::default()
                })));
            }
        }
        if answers {
            Ok(Ok(Answer::Done))
        } else {
            error(Code::DeadlineExceeded)
        }
    }

    fn publish(
        &mut self,
        it: &NodePublishVolumeRequest,
        files: &mut Files,
        answers: bool,
    ) -> Result<(), String> {
        let staged = (it.volume_id.clone(), it.staging_target_path.clone());
        if !staged.1.is_empty() {
            let flags = flags(it.volume_capability.as_ref());
            match self.staged.get(&staged) {
                None => return Err("published what is not staged".to_owned()),
                Some(of) if *of != flags => {
                    return Err(format!("staged with {of:?}, published with {flags:?}"));
                }
                Some(_) => {}
            }
        }
        let at = (it.volume_id.clone(), it.target_path.clone());
        let mut others = self.published.keys();
        if others.any(|(id, path)| *path == at.1 && *id != at.0) {
            return Err(format!("two volumes at {}", at.1));
        }
        let block = it
            .volume_capability
            .as_ref()
            .is_some_and(|it| matches!(it.access_type, Some(AccessType::Block(_))));
        let entry = if block {
            Entry::Device
        } else {
            Entry::Directory
        };
        files.put(Path::new(&at.1), entry);
        *self.published.entry(at).or_insert(false) |= answers;
        Ok(())
    }

    /// The driver says for certain that it has done nothing, so nothing is staged or published.
    fn refuse(&mut self, call: &Call) {
        match call {
            Call::Stage(it) => {
                let at = (it.volume_id.clone(), it.staging_target_path.clone());
                self.staged.remove(&at);
            }
            Call::Publish(it) => {
                let at = (it.volume_id.clone(), it.target_path.clone());
                if self.published.get(&at) == Some(&false) {
                    self.published.remove(&at);
                }
            }
            Call::Capabilities | Call::Unpublish(_) | Call::Unstage(_) | Call::Expand(_) => {}
        }
    }
}
