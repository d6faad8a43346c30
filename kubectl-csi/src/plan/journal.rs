//! csi-provisioner's journal: requests to a driver without a final response. Only this project's csi-provisioner has
//! one.

use serde_json::Value;
use sidecar::names;

use super::named::AuditedDriver;
use super::store::By;
use super::verdict::Finding;
use super::walk::{ObjectSelector, Step, Walk, many};
use crate::model::{Claim, Driver, Kind, Lease, Ref};

/// Prefix of an entry's annotation; the claim's UID follows.
const INTENT: &str = "intent.csi-sidecars.io/";
/// Prefix of an entry in a Lease that was restored from a backup, or from another cluster.
const RESTORED: &str = "restored.csi-sidecars.io/";

/// An entry of the journal.
struct Intent<'a> {
    lease: Ref,
    uid: &'a str,
    text: &'a str,
}

/// Number of drivers whose journals are searched at most.
const MOST: usize = 8;

/// The first matching entry in the journals of these drivers, and whether all of them could be read.
fn find<'a>(
    walk: &mut Walk<'a>,
    drivers: &[String],
    fits: impl Fn(&Intent<'_>) -> bool,
) -> Step<(Option<Intent<'a>>, bool)> {
    // Reads only the first Lease of each; a journal has more only while hundreds of calls are under way.
    let first = |driver: &String| {
        let lease = names::lease(names::LeaseOwner::Provisioner, driver).to_ascii_lowercase();
        ObjectSelector::all().with("metadata.name", &format!("{lease}-journal-0"))
    };
    walk.expect(
        drivers
            .iter()
            .map(|driver| many(Kind::Lease, &first(driver))),
    )?;
    let mut whole = true;
    for driver in drivers {
        let selector = first(driver);
        let name = selector.fields.first().map(|(_, name)| &**name);
        let leases = walk.by::<Lease>(&selector, By::Name, name.unwrap_or_default())?;
        whole &= leases.whole;
        for lease in leases.items.iter().filter(|lease| lease.is_journal()) {
            for (name, text) in lease.metadata.annotations.iter() {
                let Some(uid) = name.strip_prefix(INTENT) else {
                    continue;
                };
                let lease = Ref::new(Kind::Lease, &lease.metadata.namespace, &lease.metadata.name);
                let intent = Intent { lease, uid, text };
                if fits(&intent) {
                    return Ok((Some(intent), whole));
                }
            }
        }
    }
    Ok((None, whole))
}

/// A call without a final response.
pub(super) struct Call {
    /// UID of the claim.
    pub(super) uid: String,
    pub(super) lease: Ref,
    /// Whether its Lease was restored from a backup, or from another cluster.
    pub(super) is_restored: bool,
    /// Whether its request names a snapshot; also true if its text does not parse.
    pub(super) names_snapshot: bool,
}

/// The unfinished calls in all Leases of a driver's journal. An entry that may belong to another driver counts, and so
/// does one in a Lease without its header.
pub(super) fn open_calls(walk: &mut Walk<'_>, audited: &AuditedDriver<'_>) -> Step<Vec<Call>> {
    let mut calls = Vec::new();
    for lease in walk.all::<Lease>()?.items {
        let header = lease.journal().unwrap_or_default();
        let header: Value = serde_json::from_str(header).unwrap_or_default();
        let of = header.get("driver").and_then(Value::as_str);
        if of.is_some_and(|of| !audited.is(of) && !of.is_empty()) {
            continue;
        }
        let at = Ref::new(Kind::Lease, &lease.metadata.namespace, &lease.metadata.name);
        for (name, text) in lease.metadata.annotations.iter() {
            let uid = [INTENT, RESTORED]
                .iter()
                .find_map(|kind| name.strip_prefix(kind));
            let is_damaged = serde_json::from_str::<Value>(text).is_err();
            calls.extend(uid.map(|uid| Call {
                uid: uid.to_owned(),
                lease: at.clone(),
                is_restored: name.starts_with(RESTORED),
                names_snapshot: is_damaged || text.to_lowercase().contains("snapshot"),
            }));
        }
    }
    Ok(calls)
}

/// The first matching entry in the journals of all drivers, and whether all of them could be read.
fn find_any<'a>(
    walk: &mut Walk<'a>,
    fits: impl Fn(&Intent<'_>) -> bool,
) -> Step<(Option<Intent<'a>>, bool)> {
    let drivers = walk.all::<Driver>()?;
    let names = drivers
        .items
        .iter()
        .map(|one| one.metadata.name.to_string());
    let names: Vec<_> = names.take(MOST).collect();
    let (found, whole) = find(walk, &names, fits)?;
    Ok((
        found,
        whole && drivers.whole && names.len() == drivers.items.len(),
    ))
}

/// The journal with an unfinished call that has this object as data source, and whether all journals could be read.
pub(super) fn of_source(walk: &mut Walk<'_>, at: &Ref) -> Step<(Option<Ref>, bool)> {
    let kind = format!("\"kind\":\"{}\"", at.kind.name());
    let name = format!("\"name\":\"{}\"", at.name);
    let fits = |intent: &Intent<'_>| intent.text.contains(&kind) && intent.text.contains(&name);
    let (found, whole) = find_any(walk, fits)?;
    Ok((found.map(|intent| intent.lease), whole))
}

/// C26: a call for this claim has no response yet.
pub(super) fn open(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    driver: &str,
) -> Step {
    if !walk.is_older(claim.metadata.creation_timestamp.0, 60) {
        return Ok(());
    }
    let uid = &*claim.metadata.uid;
    let (Some(intent), _) = find(walk, &[driver.to_owned()], |intent| intent.uid == uid)? else {
        return Ok(());
    };
    walk.at(depth, &intent.lease, "has an open entry for it");
    let text = "A CreateVolume call for this claim ended without saying whether the driver still works on it, so a volume may exist already. csi-provisioner repeats the same call until the answer is final.";
    walk.tell(Finding::proved("C26", at, text).you("wait").driver(format!("if it goes on for long: look in the storage for pvc-{uid}, and in the driver's log for that name")))
}

/// C94: the claim is gone, and the outcome of a call for it is unknown.
pub(super) fn of_missing(walk: &mut Walk<'_>, at: &Ref) -> Step {
    // An entry contains name and namespace of its claim.
    let (name, namespace) = (
        format!("\"name\":\"{}\"", at.name),
        format!("\"namespace\":\"{}\"", at.namespace),
    );
    let (Some(intent), _) = find_any(walk, |intent| {
        intent.text.contains(&name) && intent.text.contains(&namespace)
    })?
    else {
        return Ok(());
    };
    walk.at(1, &intent.lease, "has an open entry for it");
    let text = format!(
        "The {at} does not exist any more, and a CreateVolume call for it never got an answer that settles it: a volume may exist in the storage that nothing in the cluster names."
    );
    let finding = Finding::proved("C94", &intent.lease, text)
        .driver(format!(
            "look in the storage for pvc-{}, and delete it there",
            intent.uid
        ))
        .admin("then remove the entry; csi-provisioner asks no more after that")
        .command(format!(
            "kubectl -n {} annotate lease {} {INTENT}{}-",
            intent.lease.namespace, intent.lease.name, intent.uid
        ))
        .risk("if the volume still exists then, nobody finds it again");
    walk.tell(finding)
}
