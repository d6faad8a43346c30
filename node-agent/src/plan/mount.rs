//! Mounting a volume for a pod: stages it once per node, then publishes it for the pod.
//!
//! Before each driver call the script writes to disk what a crash would lose: a metadata file beside
//! a path means that the path may be in use. An attempt that ends before the driver call leaves at
//! most directories.

use std::collections::BTreeMap;

use csi_proto::csi;

use super::layout::{Layout, VolumePaths, parent};
use super::metadata::Metadata;
use super::script::{
    Answer, Call, Capabilities, Class, Failure, Flow, Leave, Log, Mount as State, Next, Reply,
    Step, mismatch, run,
};
use super::{block, expand, ownership, request};
use crate::model::driver::CsiDriver;
use crate::model::volume::{SecretRef, Use, Volume};

/// The mount operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Mount {
    /// Kubelet's directory.
    pub layout: Layout,
    /// The paths of the volume.
    pub paths: VolumePaths,
    /// The volume.
    pub volume: Volume,
    /// How the pod uses it.
    pub usage: Use,
    /// State of the staging.
    pub device: State,
    /// State of the publishing.
    pub pod: State,
    /// The staging state comes from the disk, not from calls of this process.
    pub device_from_disk: bool,
    /// The same for the publishing state.
    pub pod_from_disk: bool,
    /// The driver has refused to expand this volume while it is in use.
    pub never_expands: bool,
    /// Why this pod must not get the volume; `None` if it may.
    pub refused: Option<String>,
}

/// Facts that stay the same during the mount.
pub(super) struct Facts {
    pub(super) driver: Option<CsiDriver>,
    pub(super) context: BTreeMap<String, String>,
}

impl Mount {
    /// The next step after these replies.
    #[must_use]
    pub fn next(&self, replies: &[Reply]) -> Next {
        run(replies, |log| self.script(log))
    }

    fn script(&self, log: &mut Log<'_>) -> Flow<()> {
        if let Some(reason) = &self.refused {
            return Err(Leave::Failed(self.failed("MountVolume", reason)));
        }
        let facts = self.facts(log)?;
        if self.volume.block {
            block::stage(self, log, &facts)?;
            return block::publish(self, log, &facts);
        }
        if self.device != State::Mounted && self.volume.is_persistent() {
            self.stage(log, &facts)?;
        }
        self.publish(log, &facts)
    }

    pub(super) fn failed(&self, what: &str, why: impl std::fmt::Display) -> String {
        let name = &self.volume.spec_name;
        format!("{what} failed for volume {name:?}: {why}")
    }

    fn facts(&self, log: &mut Log<'_>) -> Flow<Facts> {
        let begin = self.failed("MountVolume", "");
        let name = &self.volume.driver;
        let answer = log.must(&begin, Step::Driver(name.clone()))?;
        let Answer::Driver(driver) = answer else {
            return Err(mismatch(answer));
        };
        let driver = driver.clone();
        log.done(&begin, Step::Registered(name.clone()))?;
        let attach = driver.as_ref().is_none_or(|driver| driver.attach);
        let context = if self.volume.is_persistent() && attach {
            let attachment = self.layout.attachment(name, &self.volume.handle);
            let answer = log.must(&begin, Step::Attachment(attachment))?;
            let Answer::Context(context) = answer else {
                return Err(mismatch(answer));
            };
            context.clone()
        } else {
            BTreeMap::new()
        };
        Ok(Facts { driver, context })
    }

    fn label(&self) -> Option<&str> {
        self.usage.se_linux.as_deref()
    }

    /// `NodeStageVolume` and its preconditions.
    fn stage(&self, log: &mut Log<'_>, facts: &Facts) -> Flow<()> {
        let begin = self.failed("MountVolume.MountDevice", "");
        let name = &self.volume.driver;
        let can = match log.capabilities(name)? {
            Ok(capabilities) => capabilities,
            Err(failure) => return self.not_asked_to_stage(log, failure),
        };
        if !can.stage {
            log.done(&begin, Step::MakeDirectory(self.paths.staging.clone()))?;
            log.changes.device = Some(State::Mounted);
            return Ok(());
        }
        let secrets = secrets(log, self.volume.stage_secret.as_ref())?;
        log.done(&begin, Step::MakeDirectory(self.paths.staging.clone()))?;
        let group = self.mount_group(log, &begin)?;
        let metadata = Metadata::staged(&self.volume, self.label());
        log.done(
            &begin,
            Step::Write(self.paths.stage_metadata.clone(), metadata),
        )?;
        let can = match log.capabilities(name)? {
            Ok(capabilities) => capabilities,
            Err(failure) => return self.not_asked_to_stage(log, failure),
        };
        let mount = request::mount(&self.volume, self.label(), group);
        let request = csi::NodeStageVolumeRequest {
            volume_id: self.volume.handle.clone(),
            publish_context: facts.context.clone(),
            staging_target_path: request::text(&self.paths.staging),
            volume_capability: Some(request::capability(&self.volume, can, mount)),
            secrets,
            volume_context: self.volume.attributes.clone(),
        };
        match log.ask(self.call(Call::Stage(request)))? {
            Ok(_) => {
                log.changes.device = Some(State::Mounted);
                Ok(())
            }
            Err(failure) => self.not_staged(log, failure),
        }
    }

    /// The driver failed to report its capabilities, which shows nothing about an earlier attempt to
    /// stage.
    pub(super) fn not_asked_to_stage(&self, log: &mut Log<'_>, failure: &Failure) -> Flow<()> {
        if self.device == State::None {
            return self.not_staged(log, failure);
        }
        Err(Leave::Failed(
            self.failed("MountVolume.MountDevice", failure),
        ))
    }

    /// Handles a failed attempt to stage.
    pub(super) fn not_staged(&self, log: &mut Log<'_>, failure: &Failure) -> Flow<()> {
        let what = if self.volume.block {
            "MapVolume.SetUpDevice"
        } else {
            "MountVolume.MountDevice"
        };
        let message = self.failed(what, failure);
        if failure.class() != Class::Final {
            log.changes.device = Some(State::Uncertain);
            return Err(Leave::Failed(message));
        }
        if !self.device_from_disk {
            let mut gone = !log.is_mounted(self.paths.staging.clone())?;
            if gone {
                gone = removed(log, self.paths.staged())?;
            }
            log.changes.device = Some(if gone { State::None } else { State::Uncertain });
        }
        Err(Leave::Failed(message))
    }

    /// The group that the driver is asked to apply. Without the driver's capabilities the mount does
    /// not start.
    fn mount_group(&self, log: &mut Log<'_>, begin: &str) -> Flow<Option<i64>> {
        match log.capabilities(&self.volume.driver)? {
            Ok(capabilities) => Ok(request::mount_group(&self.usage, capabilities)),
            Err(failure) => Err(Leave::Failed(format!("{begin}{failure}"))),
        }
    }

    /// `NodePublishVolume` and its preconditions.
    fn publish(&self, log: &mut Log<'_>, facts: &Facts) -> Flow<()> {
        let begin = self.failed("MountVolume.SetUp", "");
        let lifecycle = self.volume.lifecycle;
        if !CsiDriver::allows(facts.driver.as_ref(), lifecycle) {
            let (driver, mode) = (&self.volume.driver, lifecycle.name());
            return Err(Leave::Failed(format!(
                "{begin}driver {driver} does not support volumes of lifecycle {mode}; \
                 a CSIDriver object that lists it in volumeLifecycleModes would say that it does"
            )));
        }
        let mut staged = Capabilities::default();
        if self.volume.is_persistent() {
            staged = match log.capabilities(&self.volume.driver)? {
                Ok(capabilities) => capabilities,
                Err(failure) => return self.not_asked_to_publish(log, &begin, failure),
            };
        }
        let directory = parent(&self.paths.target).to_path_buf();
        log.done(&begin, Step::MakeDirectory(directory))?;
        let mut secrets = secrets(log, self.volume.publish_secret.as_ref())?;
        let mut context = self.volume.attributes.clone();
        self.pod_info(log, facts, &mut context, &mut secrets)?;
        let group = self.mount_group(log, &begin)?;
        let metadata = Metadata::published(&self.layout, &self.volume, self.label());
        let file = self.paths.target_metadata.clone();
        log.done(&begin, Step::Write(file, metadata))?;
        let can = match log.capabilities(&self.volume.driver)? {
            Ok(capabilities) => capabilities,
            Err(failure) => return self.not_asked_to_publish(log, &begin, failure),
        };
        let mount = request::mount(&self.volume, self.label(), group);
        let staging = staged.stage.then(|| request::text(&self.paths.staging));
        let request = csi::NodePublishVolumeRequest {
            volume_id: self.volume.handle.clone(),
            publish_context: facts.context.clone(),
            staging_target_path: staging.unwrap_or_default(),
            target_path: request::text(&self.paths.target),
            volume_capability: Some(request::capability(&self.volume, can, mount)),
            readonly: self.usage.read_only,
            secrets,
            volume_context: context,
        };
        if let Err(failure) = log.ask(self.call(Call::Publish(request)))? {
            return self.not_published(log, &begin, failure);
        }
        ownership::own(self, log, facts, &begin, group)?;
        log.changes.pod = Some(State::Mounted);
        expand::after_mount(self, log, can)
    }

    /// Adds pod information and tokens if the driver requests them.
    pub(super) fn pod_info(
        &self,
        log: &mut Log<'_>,
        facts: &Facts,
        context: &mut BTreeMap<String, String>,
        secrets: &mut BTreeMap<String, String>,
    ) -> Flow<()> {
        let Some(driver) = &facts.driver else {
            return Ok(());
        };
        let pod = &self.usage.pod;
        if driver.pod_info {
            context.extend(request::pod_info(pod, !self.volume.is_persistent()));
        }
        if driver.tokens.is_empty() || self.volume.block {
            return Ok(());
        }
        let begin = self.failed("MountVolume.SetUp", "");
        let mut tokens = BTreeMap::new();
        for wanted in &driver.tokens {
            let answer = log.must(&begin, Step::Token(pod.clone(), wanted.clone()))?;
            let Answer::Token(token, expires) = answer else {
                return Err(mismatch(answer));
            };
            let token = (token.clone(), expires.clone());
            tokens.insert(wanted.audience.clone(), token);
        }
        let destination = if driver.tokens_in_secrets {
            secrets
        } else {
            context
        };
        destination.insert(request::TOKENS.to_owned(), request::tokens(&tokens));
        Ok(())
    }

    /// The same as [`Self::not_asked_to_stage`], for publishing.
    pub(super) fn not_asked_to_publish(
        &self,
        log: &mut Log<'_>,
        begin: &str,
        failure: &Failure,
    ) -> Flow<()> {
        if self.pod == State::None {
            return self.refused(log, begin, failure);
        }
        Err(Leave::Failed(format!("{begin}{failure}")))
    }

    /// Handles a failed attempt to publish.
    pub(super) fn not_published(
        &self,
        log: &mut Log<'_>,
        begin: &str,
        failure: &Failure,
    ) -> Flow<()> {
        if failure.class() == Class::Final {
            return self.refused(log, begin, failure);
        }
        // A published volume stays published, whatever the result of publishing it again.
        if self.pod != State::Mounted {
            log.changes.pod = Some(State::Uncertain);
        }
        Err(Leave::Failed(format!("{begin}{failure}")))
    }

    /// The driver did nothing: cleans up, unless the volume was published before.
    fn refused(&self, log: &mut Log<'_>, begin: &str, failure: &Failure) -> Flow<()> {
        let again = self.pod == State::Mounted;
        if !again && !self.pod_from_disk {
            let mut gone = !log.is_mounted(self.paths.target.clone())?;
            if gone {
                gone = removed(log, self.paths.published(self.volume.block))?;
            }
            log.changes.pod = Some(if gone { State::None } else { State::Uncertain });
        }
        Err(Leave::Failed(format!("{begin}{failure}")))
    }

    pub(super) fn call(&self, call: Call) -> Step {
        Step::Call {
            driver: self.volume.driver.clone(),
            call: Box::new(call),
        }
    }
}

pub(super) fn secrets(
    log: &mut Log<'_>,
    secret: Option<&SecretRef>,
) -> Flow<BTreeMap<String, String>> {
    secret.map_or_else(|| Ok(BTreeMap::new()), |secret| log.secret(secret))
}

/// Removes the paths of a failed attempt. If that fails, the volume counts as uncertain and is
/// unmounted like one in use.
fn removed(log: &mut Log<'_>, paths: Vec<std::path::PathBuf>) -> Flow<bool> {
    Ok(log.ask(Step::Remove(paths))?.is_ok())
}
