//! The scripts of a VolumeAttachment.
//!
//! The order of writes and calls below makes a crash at any point harmless. The crash simulation
//! runs these same functions.
//!
//! Attach: volume finalizer, validation, attachment finalizer and node id, publish call, status.
//! Detach: unpublish call, attachment finalizer, status. The attacher adds the attachment's
//! finalizer before the first publish call and removes it only after an unpublish call succeeded.
//! It saves the node id in the same patch, because the CSINode may be gone by the time of the
//! detach.

use serde_json::Value;
use sidecar::controller::script;

use super::attempt::{End, Flow, Log, secret};
use super::outcome::{Direction, Failure};
use super::request::{self, Publish, Purpose, Secrets, Unpublish};
use super::view::{From, View};
use super::{capability, status, trivial, volume};
use crate::model::{Attachment, CsiSource, VolumeSpec};

/// Arguments of a script: the attempt so far, and the cached objects.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) log: &'a Log,
    pub(super) view: &'a View<'a>,
    /// `ListVolumes` contradicts the status.
    pub(super) forced: bool,
}

/// Attaches or detaches, for a driver that publishes volumes.
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

/// All steps of an attach up to the reply of the publish call.
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

/// Adds the finalizer to the volume, then returns its specification. As in upstream, this precedes
/// all validation and translation.
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
    // Only a forced detach starts without the finalizer.
    if attachment.attached || log.times(&Purpose::Release) > 0 {
        let body = status::detached(attachment);
        let write = request::patch(attachment, Purpose::MarkDetached, body);
        log.once(write)?;
    }
    Ok(End::Done)
}

/// All steps of a detach up to the reply of the unpublish call.
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

/// The script for a driver that cannot publish volumes.
pub(super) fn nothing_to_publish(log: &Log, attachment: &Attachment) -> Flow<End> {
    let body = trivial::decide(attachment);
    log.once(body.map(|body| request::patch(attachment, Purpose::MarkTrivial, body)))?;
    Ok(End::Done)
}

impl<'a> Ask<'a> {
    /// Patches the attachment unless `body` is `None`. Patches once: if the server accepts the
    /// patch but a webhook drops the change, fails with `ignored`.
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
