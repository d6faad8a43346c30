//! Attaching a volume to a node, and detaching it.

use sha2::{Digest as _, Sha256};
use sidecar::names;

use super::controller::{Presence, Role};
use super::pod::Consumer;
use super::store::By;
use super::verdict::Finding;
use super::walk::{Lookup, ObjectSelector, Step, Walk, one};
use super::words::{code, has};
use super::{controller, delete, held, mount, node};
use crate::model::{AttachError, Attachment, Driver, Kind, Node, Ref, Volume};

/// Name of an attachment, computed as kube-controller-manager does.
fn name_of(handle: &str, driver: &str, node: &str) -> String {
    let mut hash = Sha256::new();
    for part in [handle, driver, node] {
        hash.update(part.as_bytes());
    }
    let mut name = "csi-".to_owned();
    for byte in hash.finalize() {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

pub(super) fn of(attachment: &Attachment) -> Ref {
    Ref::new(Kind::Attachment, "", &attachment.metadata.name)
}

/// Whether volumes of this driver are attached at all; without a CSIDriver object Kubernetes assumes so.
pub(super) fn is_attached_at_all(walk: &mut Walk<'_>, driver: &str) -> Step<bool> {
    let known = walk.get::<Driver>("", driver)?.found();
    Ok(known.is_none_or(|known| known.spec.attach_required != Some(false)))
}

/// A pod needs the volume attached to its node.
pub(super) fn for_pod(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    volume: &Volume,
    consumer: Consumer<'_>,
) -> Step {
    let (Some(csi), node) = (&volume.spec.csi, consumer.node()) else {
        return Ok(());
    };
    let driver = &*csi.driver;
    let own = Ref::new(
        Kind::Attachment,
        "",
        &name_of(&csi.volume_handle, driver, node),
    );
    walk.expect([one(&own), one(&Ref::new(Kind::Driver, "", driver))])?;
    if !is_attached_at_all(walk, driver)? {
        node::plugin(walk, depth, node, driver)?;
        return mount::events(walk, consumer, at, Some(driver));
    }
    let mut found = walk.get::<Attachment>("", &own.name)?.found();
    if found.is_none() {
        // An in-tree volume's attachment is named after another handle than this one.
        let all = all_of(walk, at)?;
        found = all.into_iter().find(|one| one.spec.node_name == node);
    }
    let Some(own) = found else {
        return wanted(walk, at, depth, volume, consumer);
    };
    if own.status.attached && own.metadata.deletion_timestamp.0.is_none() {
        walk.at(depth, &of(own), format!("attached to {node}"));
        node::plugin(walk, depth + 1, node, driver)?;
        return mount::events(walk, consumer, at, Some(driver));
    }
    if volume.is_for_one_node() {
        held::held(walk, at, depth, volume, consumer)?;
    }
    on_its_way(walk, depth, own)
}

/// No attachment exists yet for the pod's node.
fn wanted(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    volume: &Volume,
    consumer: Consumer<'_>,
) -> Step {
    let node = consumer.node();
    if volume.is_for_one_node() {
        held::held(walk, at, depth, volume, consumer)?;
    }
    let own = Ref::new(Kind::Attachment, "", &format!("of {} to {node}", at.name));
    walk.at(depth, &own, "not there");
    node::add_step(walk, depth + 1, node)?;
    let driver = volume.driver().unwrap_or_default();
    node::plugin(walk, depth + 1, node, driver)?;
    mount::events(walk, consumer, at, Some(driver))
}

/// An attachment that is being attached or detached.
pub(super) fn on_its_way(walk: &mut Walk<'_>, depth: usize, own: &Attachment) -> Step {
    let at = of(own);
    let (driver, node) = (&*own.spec.attacher, &*own.spec.node_name);
    walk.unfinished = true;
    let leaving = own.metadata.is_leaving();
    walk.at(
        depth,
        &at,
        if leaving {
            format!("{node}: being detached")
        } else {
            format!("{node}: wanted, not attached")
        },
    );
    let finalizer = names::finalizer(driver);
    let has_finalizer = own.metadata.finalizers.iter().any(|one| *one == finalizer);
    let error = if leaving {
        &own.status.detach_error
    } else {
        &own.status.attach_error
    };
    let error = error.as_ref().filter(|error| !error.message.is_empty());
    if !leaving {
        node::health(walk, depth + 1, node, driver)?;
    }
    let known = walk.get::<Driver>("", driver)?;
    match controller::check(walk, depth + 1, Role::Attacher, driver)? {
        Presence::Present => {}
        // An error of the detach outranks an attacher that does not run.
        Presence::Absent if leaving => {
            if error.is_none() && delete::is_unattended(walk, &own.metadata) {
                return delete::left_behind(walk, &at, &own.metadata.finalizers, driver);
            }
        }
        Presence::Absent if error.is_none() => {
            return nobody(walk, &at, driver, known, has_finalizer);
        }
        Presence::Unknown if error.is_none() && !has_finalizer && known.is_missing() => {
            return nobody(walk, &at, driver, known, has_finalizer);
        }
        Presence::Absent | Presence::Unknown => {}
    }
    if let Some(error) = error {
        return match leaving {
            true => not_detached(walk, own, error),
            false => not_attached(walk, depth, own, error),
        };
    }
    match has_finalizer {
        true => taken_up(walk, own),
        false => Ok(()),
    }
}

/// C39, C44: the attacher leads and has added its finalizer, but reports nothing.
fn taken_up(walk: &mut Walk<'_>, own: &Attachment) -> Step {
    let (at, driver) = (of(own), &*own.spec.attacher);
    let leaving = own.metadata.deletion_timestamp.0;
    let since = leaving.or(own.metadata.creation_timestamp.0);
    if !walk.is_older(since, 60) {
        return Ok(());
    }
    let busy = walk.count::<Attachment>(By::Busy, driver)?.all;
    if busy > 10 {
        let text = format!(
            "csi-attacher of {driver} leads and has {busy} volumes to attach or detach; this one may be waiting for its turn."
        );
        return walk.tell(
            Finding::guessed("C44", &at, text)
                .admin("give csi-attacher more --worker-threads, if the storage bears it")
                .driver("see in the driver's log which calls take long"),
        );
    }
    if walk.is_older(since, 120) && leaving.is_none() {
        let text = "csi-attacher leads and has taken up this attachment, but has written neither success nor an error for minutes. It may lack the right to patch volumeattachments/status.";
        return walk.tell(Finding::guessed("C39", &at, text).admin("give its account patch on volumeattachments/status (storage.k8s.io); its log says whether that is it"));
    }
    Ok(())
}

/// C37, C38: no attacher works for this driver. An attacher adds its finalizer before anything else.
fn nobody(
    walk: &mut Walk<'_>,
    at: &Ref,
    driver: &str,
    known: Lookup<'_, Driver>,
    has_finalizer: bool,
) -> Step {
    if known.is_missing() {
        return walk.tell(Finding::proved("C38", at, format!("There is no CSIDriver {driver}, so Kubernetes waits until its volumes are attached, and no csi-attacher attaches them."))
            .admin(format!("create the CSIDriver {driver}, with attachRequired: false if it attaches nothing; then delete the pods, so that they start anew")));
    }
    let what = "run csi-attacher beside the driver's controller; or, if the driver attaches nothing, create its CSIDriver again with attachRequired: false";
    let finding = if known.found().is_some() && !has_finalizer {
        Finding::proved(
            "C37",
            at,
            format!(
                "Nobody attaches volumes for driver {driver}: no csi-attacher of it holds a lease or runs in a workload that could be seen, and none has put its finalizer on the attachment."
            ),
        )
    } else {
        controller::nobody(
            walk,
            "C37",
            at,
            (Role::Attacher, driver),
            "attaches volumes",
        )?
    };
    walk.tell(finding.admin(what))
}

/// C40 to C43: the attacher wrote an attach error.
fn not_attached(walk: &mut Walk<'_>, depth: usize, own: &Attachment, error: &AttachError) -> Step {
    let at = of(own);
    let (driver, node, text) = (&*own.spec.attacher, &*own.spec.node_name, &*error.message);
    if has(
        text,
        &[
            "does not contain driver",
            "not registered on node",
            "csinode",
        ],
    ) && has(text, &["driver"])
    {
        node::plugin(walk, depth + 1, node, driver)?;
        let words = format!(
            "{driver} is not registered on {node}, so csi-attacher does not know the node's name in the storage."
        );
        return walk.tell(Finding::said("C40", &at, text, words).admin(format!(
            "run the driver's node plugin on {node}, or keep pods with its volumes off it"
        )));
    }
    let exhausted = error.error_code == Some(8) || code(text) == Some("ResourceExhausted");
    let finding = match code(text) {
        _ if exhausted => Finding::proved("C42", &at, format!("{driver} says that {node} can take no more volumes, though the scheduler thought it could."))
            .admin("delete the pod, so that it is scheduled anew; set nodeAllocatableUpdatePeriodSeconds in the CSIDriver, so that the count is corrected")
            .driver("its own flag for reserved attachments, if others attach to the node"),
        Some("DeadlineExceeded") => slow(&at, driver),
        None if has(text, &["context deadline exceeded", "deadlineexceeded"]) => slow(&at, driver),
        _ => Finding::said("C43", &at, text, format!("{driver} refuses to attach the volume to {node}.")).driver("the text says what is in the way; it comes from the driver")
            .you("if the volume is gone in the storage: restore a backup into a new claim"),
    };
    walk.tell(finding.quoting(text))
}

fn slow(at: &Ref, driver: &str) -> Finding {
    Finding::proved("C41", at, format!("{driver} does not attach the volume within the time that csi-attacher waits (--timeout, 15 s unless it is set), so it is asked again and again."))
        .driver("see in the driver's log what it waits for")
        .admin("if it is just slow: a larger --timeout for csi-attacher")
}

/// C45 and related causes: the attacher wrote a detach error.
pub(super) fn not_detached(
    walk: &mut Walk<'_>,
    attachment: &Attachment,
    error: &AttachError,
) -> Step {
    let at = of(attachment);
    let spec = &attachment.spec;
    let (driver, node, text) = (&*spec.attacher, &*spec.node_name, &*error.message);
    walk.unfinished = true;
    let gone = walk.get::<Node>("", node)?.is_missing();
    // NotFound may refer to the volume, a disk or a Secret: it refers to the node only if the text names
    // one.
    let about_node = has(text, &["node", "instance", &node.to_ascii_lowercase()]);
    let not_found = has(text, &["node not found", "instance not found"])
        || (code(text) == Some("NotFound") && about_node && !has(text, &["volume"]));
    if gone || not_found {
        let words = if gone {
            format!(
                "Node {node} does not exist any more, and {driver} does not detach the volume from it."
            )
        } else {
            format!("The volume cannot be detached: {driver} does not find {node}.")
        };
        let finding = if gone {
            Finding::proved("C45", &at, words).quoting(text)
        } else {
            Finding::said("C45", &at, text, words)
        };
        let finding = finding
            .driver("use a version of the driver that treats a volume as detached once its machine no longer exists")
            .admin("if the machine is certainly gone: remove the attachment's finalizer");
        let own = names::finalizer(driver);
        // A node that exists may still run with the volume: only if the node is gone may the answer
        // offer a command to paste.
        let command = delete::without_finalizer(&at, &attachment.metadata.finalizers, &own);
        let finding = match command.filter(|_| gone) {
            Some(command) => finding.command(command),
            None => finding,
        };
        let finding =
            finding.risk("if the machine still runs with the volume, two nodes write to it");
        return walk.tell(finding);
    }
    let words = format!("{driver} does not detach the volume from {node}.");
    walk.tell(
        Finding::said("C43", &at, text, words)
            .driver("the text says what is in the way; it comes from the driver"),
    )
}

/// Explains an attachment that the user asked about.
pub(super) fn attachment(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let Some(own) = walk.subject::<Attachment>(0, at)? else {
        return Ok(());
    };
    walk.since = own
        .metadata
        .deletion_timestamp
        .0
        .or(own.metadata.creation_timestamp.0);
    add_step(walk, 0, own)
}

/// Adds an attachment to the path, whether it is finished or not.
fn add_step(walk: &mut Walk<'_>, depth: usize, own: &Attachment) -> Step {
    if own.status.attached && !own.metadata.is_leaving() {
        walk.at(
            depth,
            &of(own),
            format!("attached to {}", own.spec.node_name),
        );
        return Ok(());
    }
    on_its_way(walk, depth, own)
}

/// The attachments of a volume.
pub(super) fn all_of<'a>(walk: &mut Walk<'a>, at: &Ref) -> Step<Vec<&'a Attachment>> {
    let own = walk.by::<Attachment>(&ObjectSelector::all(), By::Volume, &at.name)?;
    Ok(own.items)
}

/// Explains the attachments of a volume that are not attached yet, or not gone yet.
pub(super) fn of_volume(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    for own in all_of(walk, at)? {
        if own.metadata.is_leaving() || !own.status.attached {
            walk.since = own
                .metadata
                .deletion_timestamp
                .0
                .or(own.metadata.creation_timestamp.0);
        }
        add_step(walk, depth, own)?;
    }
    Ok(())
}

/// The nodes that the attachments of a volume name.
pub(super) fn places(walk: &mut Walk<'_>, at: &Ref) -> Step<Vec<String>> {
    let own = all_of(walk, at)?;
    Ok(own
        .iter()
        .map(|one| one.spec.node_name.to_string())
        .collect())
}

/// Explains the first attachment of a volume if it is being deleted.
pub(super) fn leaving(walk: &mut Walk<'_>, at: &Ref, depth: usize) -> Step {
    match all_of(walk, at)?.first() {
        Some(own) if own.metadata.is_leaving() => on_its_way(walk, depth, own),
        Some(_) | None => Ok(()),
    }
}
