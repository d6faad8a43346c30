//! The scripts of a VolumeAttachment.
//!
//! The order of writes and calls below is what makes a crash at any point harmless, and the crash
//! simulation runs exactly these functions.
//!
//! Attach: volume's finalizer, validation, attachment's finalizer and node id, publish call,
//! status. Detach: unpublish call, attachment's finalizer, status. The attachment's finalizer is
//! there before the first publish call can reach the driver, and goes only after an unpublish call
//! succeeded; the node id is saved with it, because the CSINode may be gone by then.

use serde_json::Value;
use sidecar::controller::script;

use super::attempt::{End, Flow, Log, secret};
use super::outcome::{Direction, Failure};
use super::request::{self, Publish, Purpose, Secrets, Unpublish};
use super::view::{From, View};
use super::{capability, status, trivial, volume};
use crate::model::{Attachment, CsiSource, VolumeSpec};

/// What a script is called with: the attempt so far, and what the caches show.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) log: &'a Log,
    pub(super) view: &'a View<'a>,
    /// The driver's list contradicts the status.
    pub(super) forced: bool,
}

/// Brings the attachment to its goal, for a driver that publishes volumes.
pub(super) fn reach_goal(ask: Ask<'_>, direction: Direction) -> Flow<End> {
    match Direction::of(ask.view.attachment) {
        now if now != direction => Ok(End::Again),
        Direction::Attach => attach(ask),
        Direction::Detach => detach(ask),
    }
}

fn attach(ask: Ask<'_>) -> Flow<End> {
    let Some((_, Ok(response))) = ask.log.called::<Publish>() else {
        return publish(ask);
    };
    let attachment = ask.view.attachment;
    let body = status::attached(attachment, &response.publish_context);
    let write = request::patch(attachment, Purpose::MarkAttached, body);
    ask.log.once(write)?;
    Ok(End::Done)
}

/// Everything up to the driver's answer.
fn publish(ask: Ask<'_>) -> Flow<End> {
    let view = ask.view;
    if view.attachment.attached && !ask.forced {
        return Ok(End::Done);
    }
    let spec = protect(ask)?;
    let source = view.csi(spec)?;
    let capability =
        capability::volume_capability(spec, source, view.driver).map_err(Failure::AccessModes)?;
    let secrets = ask.secret(source)?;
    let node_id = view.node_id()?;
    let body = status::prepare(view.attachment, node_id, view.driver);
    ask.mark(Purpose::Prepare, body, Failure::PrepareIgnored)?;
    script::call(request::publish(view, source, node_id, capability, secrets))
}

/// The volume's specification, once the finalizer protects the volume. That comes before all validation and
/// translation, as it always did.
fn protect(ask: Ask<'_>) -> Flow<&VolumeSpec> {
    let (name, volume) = match ask.view.source()? {
        From::Inline(spec) => return Ok(spec),
        From::Volume(name, volume) => (name, volume),
    };
    if volume.deleting {
        return Err(Failure::VolumeDeleting(name.clone()).into());
    }
    let patch = volume::protect(volume, &ask.view.driver.finalizer);
    let write = patch.map(|patch| request::patch_volume(name, Purpose::Protect, patch));
    let ignored = || End::Failed(Failure::ProtectIgnored);
    ask.log.mark(write, 1, ignored)?;
    Ok(&volume.spec)
}

fn detach(ask: Ask<'_>) -> Flow<End> {
    let (log, view, attachment) = (ask.log, ask.view, ask.view.attachment);
    if log.called::<Unpublish>().is_none() {
        return unpublish(ask);
    }
    if log.times(&Purpose::MarkDetached) > 0 {
        return Ok(End::Done);
    }
    let body = status::release(attachment, view.driver);
    ask.mark(Purpose::Release, body, Failure::ReleaseIgnored)?;
    // Only a forced detach finds the finalizer gone.
    if attachment.attached || log.times(&Purpose::Release) > 0 {
        let body = status::detached(attachment);
        let write = request::patch(attachment, Purpose::MarkDetached, body);
        log.once(write)?;
    }
    Ok(End::Done)
}

/// Everything up to the driver's answer.
fn unpublish(ask: Ask<'_>) -> Flow<End> {
    let view = ask.view;
    if !ask.forced && !view.attachment.has_finalizer(&view.driver.finalizer) {
        return Ok(End::Done);
    }
    let source = view.csi(view.spec()?)?;
    let secrets = ask.secret(source)?;
    let (handle, node_id) = (&source.handle, view.known_node_id()?);
    script::call(request::unpublish(
        handle,
        node_id,
        secrets,
        view.migrated(),
    ))
}

/// For a driver that has nothing to publish.
pub(super) fn nothing_to_publish(log: &Log, attachment: &Attachment) -> Flow<End> {
    let body = trivial::decide(attachment);
    log.once(body.map(|body| request::patch(attachment, Purpose::MarkTrivial, body)))?;
    Ok(End::Done)
}

impl<'a> Ask<'a> {
    /// Patches the attachment, unless it says so already. What it does not keep is written once.
    fn mark(self, purpose: Purpose, body: Option<Value>, ignored: Failure) -> Flow<()> {
        let write = body.map(|body| request::patch(self.view.attachment, purpose, body));
        self.log.mark(write, 1, || End::Failed(ignored))
    }

    fn secret(self, source: &CsiSource) -> Flow<&'a Secrets> {
        secret(self.log, source.publish_secret.as_deref())
    }
}

#[cfg(test)]
mod tests;
