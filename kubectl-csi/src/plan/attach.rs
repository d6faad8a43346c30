//! Attaching a volume to a node, and detaching it.

use sha2::{Digest as _, Sha256};
use sidecar::names;

use super::controller::{Presence, Role};
use super::pod::Consumer;
use super::store::By;
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which, one};
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
pub(super) fn is_attached_at_all(way: &mut Way<'_>, driver: &str) -> Step<bool> {
    let known = way.get::<Driver>("", driver)?.found();
    Ok(known.is_none_or(|known| known.spec.attach_required != Some(false)))
}

/// A pod needs the volume attached to its node.
pub(super) fn for_pod(
    way: &mut Way<'_>,
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
    way.expect([one(&own), one(&Ref::new(Kind::Driver, "", driver))])?;
    if !is_attached_at_all(way, driver)? {
        node::plugin(way, depth, node, driver)?;
        return mount::events(way, consumer, at, Some(driver));
    }
    let mut found = way.get::<Attachment>("", &own.name)?.found();
    if found.is_none() {
        // An in-tree volume's attachment is named after another handle than this one.
        let all = all_of(way, at)?;
        found = all.into_iter().find(|one| one.spec.node_name == node);
    }
    let Some(own) = found else {
        return wanted(way, at, depth, volume, consumer);
    };
    if own.status.attached && own.metadata.deletion_timestamp.0.is_none() {
        way.at(depth, &of(own), format!("attached to {node}"));
        node::plugin(way, depth + 1, node, driver)?;
        return mount::events(way, consumer, at, Some(driver));
    }
    if volume.is_for_one_node() {
        held::held(way, at, depth, volume, consumer)?;
    }
    on_its_way(way, depth, own)
}

/// No attachment exists yet for the pod's node.
fn wanted(
    way: &mut Way<'_>,
    at: &Ref,
    depth: usize,
    volume: &Volume,
    consumer: Consumer<'_>,
) -> Step {
    let node = consumer.node();
    if volume.is_for_one_node() {
        held::held(way, at, depth, volume, consumer)?;
    }
    let own = Ref::new(Kind::Attachment, "", &format!("of {} to {node}", at.name));
    way.at(depth, &own, "not there");
    node::station(way, depth + 1, node)?;
    let driver = volume.driver().unwrap_or_default();
    node::plugin(way, depth + 1, node, driver)?;
    mount::events(way, consumer, at, Some(driver))
}

/// An attachment that is being attached or detached.
pub(super) fn on_its_way(way: &mut Way<'_>, depth: usize, own: &Attachment) -> Step {
    let at = of(own);
    let (driver, node) = (&*own.spec.attacher, &*own.spec.node_name);
    way.unfinished = true;
    let leaving = own.metadata.is_leaving();
    way.at(
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
        node::health(way, depth + 1, node, driver)?;
    }
    let known = way.get::<Driver>("", driver)?;
    match controller::check(way, depth + 1, Role::Attacher, driver)? {
        Presence::There => {}
        // An error of the detach outranks an attacher that does not run.
        Presence::Nobody if leaving => {
            if error.is_none() && delete::is_unattended(way, &own.metadata) {
                return delete::left_behind(way, &at, &own.metadata.finalizers, driver);
            }
        }
        Presence::Nobody if error.is_none() => {
            return nobody(way, &at, driver, known, has_finalizer);
        }
        Presence::Unknown if error.is_none() && !has_finalizer && known.is_missing() => {
            return nobody(way, &at, driver, known, has_finalizer);
        }
        Presence::Nobody | Presence::Unknown => {}
    }
    if let Some(error) = error {
        return match leaving {
            true => not_detached(way, own, error),
            false => not_attached(way, depth, own, error),
        };
    }
    match has_finalizer {
        true => taken_up(way, own),
        false => Ok(()),
    }
}

/// C39, C44: the attacher leads and has added its finalizer, but reports nothing.
fn taken_up(way: &mut Way<'_>, own: &Attachment) -> Step {
    let (at, driver) = (of(own), &*own.spec.attacher);
    let leaving = own.metadata.deletion_timestamp.0;
    let since = leaving.or(own.metadata.creation_timestamp.0);
    if !way.is_older(since, 60) {
        return Ok(());
    }
    let busy = way.count::<Attachment>(By::Busy, driver)?.all;
    if busy > 10 {
        let text = format!(
            "csi-attacher of {driver} leads and has {busy} volumes to attach or detach; this one may be waiting for its turn."
        );
        return way.tell(
            Finding::guessed("C44", &at, text)
                .admin("give csi-attacher more --worker-threads, if the storage bears it")
                .driver("see in the driver's log which calls take long"),
        );
    }
    if way.is_older(since, 120) && leaving.is_none() {
        let text = "csi-attacher leads and has taken up this attachment, but has written neither success nor an error for minutes. It may lack the right to patch volumeattachments/status.";
        return way.tell(Finding::guessed("C39", &at, text).admin("give its account patch on volumeattachments/status (storage.k8s.io); its log says whether that is it"));
    }
    Ok(())
}

/// C37, C38: no attacher works for this driver. An attacher adds its finalizer before anything else.
fn nobody(
    way: &mut Way<'_>,
    at: &Ref,
    driver: &str,
    known: Got<'_, Driver>,
    has_finalizer: bool,
) -> Step {
    if known.is_missing() {
        return way.tell(Finding::proved("C38", at, format!("There is no CSIDriver {driver}, so Kubernetes waits until its volumes are attached, and no csi-attacher attaches them."))
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
        controller::nobody(way, "C37", at, (Role::Attacher, driver), "attaches volumes")?
    };
    way.tell(finding.admin(what))
}

/// C40 to C43: the attacher wrote an attach error.
fn not_attached(way: &mut Way<'_>, depth: usize, own: &Attachment, error: &AttachError) -> Step {
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
        node::plugin(way, depth + 1, node, driver)?;
        let words = format!(
            "{driver} is not registered on {node}, so csi-attacher does not know the node's name in the storage."
        );
        return way.tell(Finding::said("C40", &at, text, words).admin(format!(
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
    way.tell(finding.quoting(text))
}

fn slow(at: &Ref, driver: &str) -> Finding {
    Finding::proved("C41", at, format!("{driver} does not attach the volume within the time that csi-attacher waits (--timeout, 15 s unless it is set), so it is asked again and again."))
        .driver("see in the driver's log what it waits for")
        .admin("if it is just slow: a larger --timeout for csi-attacher")
}

/// C45 and related causes: the attacher wrote a detach error.
pub(super) fn not_detached(
    way: &mut Way<'_>,
    attachment: &Attachment,
    error: &AttachError,
) -> Step {
    let at = of(attachment);
    let spec = &attachment.spec;
    let (driver, node, text) = (&*spec.attacher, &*spec.node_name, &*error.message);
    way.unfinished = true;
    let gone = way.get::<Node>("", node)?.is_missing();
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
        return way.tell(finding);
    }
    let words = format!("{driver} does not detach the volume from {node}.");
    way.tell(
        Finding::said("C43", &at, text, words)
            .driver("the text says what is in the way; it comes from the driver"),
    )
}

/// Explains an attachment that the user asked about.
pub(super) fn attachment(way: &mut Way<'_>, at: &Ref) -> Step {
    let Some(own) = way.subject::<Attachment>(0, at)? else {
        return Ok(());
    };
    way.since = own
        .metadata
        .deletion_timestamp
        .0
        .or(own.metadata.creation_timestamp.0);
    station(way, 0, own)
}

/// Adds an attachment to the path, whether it is finished or not.
fn station(way: &mut Way<'_>, depth: usize, own: &Attachment) -> Step {
    if own.status.attached && !own.metadata.is_leaving() {
        way.at(
            depth,
            &of(own),
            format!("attached to {}", own.spec.node_name),
        );
        return Ok(());
    }
    on_its_way(way, depth, own)
}

/// The attachments of a volume.
pub(super) fn all_of<'a>(way: &mut Way<'a>, at: &Ref) -> Step<Vec<&'a Attachment>> {
    let own = way.by::<Attachment>(&Which::all(), By::Volume, &at.name)?;
    Ok(own.items)
}

/// Explains the attachments of a volume that are not attached yet, or not gone yet.
pub(super) fn of_volume(way: &mut Way<'_>, at: &Ref, depth: usize) -> Step {
    for own in all_of(way, at)? {
        if own.metadata.is_leaving() || !own.status.attached {
            way.since = own
                .metadata
                .deletion_timestamp
                .0
                .or(own.metadata.creation_timestamp.0);
        }
        station(way, depth, own)?;
    }
    Ok(())
}

/// The nodes that the attachments of a volume name.
pub(super) fn places(way: &mut Way<'_>, at: &Ref) -> Step<Vec<String>> {
    let own = all_of(way, at)?;
    Ok(own
        .iter()
        .map(|one| one.spec.node_name.to_string())
        .collect())
}

/// Explains the first attachment of a volume if it is being deleted.
pub(super) fn leaving(way: &mut Way<'_>, at: &Ref, depth: usize) -> Step {
    match all_of(way, at)?.first() {
        Some(own) if own.metadata.is_leaving() => on_its_way(way, depth, own),
        Some(_) | None => Ok(()),
    }
}
