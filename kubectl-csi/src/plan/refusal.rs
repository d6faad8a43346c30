//! The driver's errors, from csi-provisioner's events.

use super::journal;
use super::store::By;
use super::verdict::Finding;
use super::walk::{Step, Walk};
use super::words::{code, has};
use crate::model::{Claim, Class, CsiNode, Event, Kind, Ref, Secret};

/// C12 to C18, C26, C87: the newest error, by its text.
pub(super) fn refused(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
    class: &Class,
    event: &Event,
) -> Step {
    let text = &*event.message;
    let driver = &*class.provisioner;
    let tries = match event.times() {
        1 => "1 attempt".to_owned(),
        times => format!("{times} attempts"),
    };
    let object = Ref::new(Kind::Driver, "", driver);
    walk.last_words = Some(text.to_owned());
    if has(text, &["provisioning journal"]) {
        return walk.tell(Finding::said("C87", at, text, "csi-provisioner cannot write its provisioning journal: the API server refuses its Leases. It creates no volume until it can write them.")
            .admin("give csi-provisioner the rights on leases that its role in the chart has, and exempt those Leases from quotas and admission policies"));
    }
    if has(
        text,
        &["error getting secret", "failed to get secret", "secret"],
    ) && has(text, &["not found", "forbidden"])
    {
        return secret(walk, at, class, text);
    }
    let keys = has(
        text,
        &[
            "no topology key found",
            "accessibility requirements",
            "no available topology found",
        ],
    );
    if has(text, &["allowed topologies"]) || !keys && has(text, &["not in allowed"]) {
        return walk.tell(
            Finding::said(
                "C18",
                at,
                text,
                "The class allows volumes in places where the pod's node is not.",
            )
            .you("schedule the pod where the class allows volumes, or use another class"),
        );
    }
    if keys {
        return topology_keys(walk, at, claim, driver, Some(text));
    }
    if has(text, &["a volume may exist"]) {
        return journal::open(walk, at, depth, claim, driver);
    }
    let said = |id, words: String| Finding::said(id, &object, text, words);
    let finding = match code(text) {
        Some("InvalidArgument" | "OutOfRange" | "NotFound" | "Unimplemented" | "AlreadyExists") => said(
            "C12", format!("{driver} refuses to create the volume as the class and the claim describe it ({tries})."),
        )
        .you("correct the claim: its size, access mode, volume mode or class")
        .admin("or correct the class: its parameters"),
        Some("ResourceExhausted") => said("C13", format!("{driver} says that the storage, or a quota of it, is full ({tries})."))
            .driver("make room, or raise the quota")
            .you("or use another class, or ask for less"),
        Some("DeadlineExceeded") => said("C14", format!("{driver} does not create the volume within the time that csi-provisioner waits for it ({tries})."))
            .driver("see in the driver's log what it waits for")
            .admin("if it is just slow: a larger --timeout for csi-provisioner"),
        Some("Aborted") => said("C15", format!("{driver} still works on an earlier call for the same volume ({tries})."))
            .driver("see in its log what that call waits for; restart the driver only if it hangs"),
        _ if has(text, &["already exists", "operation with the given volume"]) => said("C15", format!("{driver} still works on an earlier call for the same volume ({tries})."))
            .driver("see in its log what that call waits for; restart the driver only if it hangs"),
        _ if has(text, &["context deadline exceeded"]) => said("C14", format!("{driver} does not create the volume within the time that csi-provisioner waits for it ({tries})."))
            .driver("see in the driver's log what it waits for"),
        _ => return Ok(()),
    };
    walk.tell(finding)
}

/// C16: a Secret that the class references.
fn secret(walk: &mut Walk<'_>, at: &Ref, class: &Class, text: &str) -> Step {
    let name = class
        .parameters
        .get("csi.storage.k8s.io/provisioner-secret-name");
    let namespace = class
        .parameters
        .get("csi.storage.k8s.io/provisioner-secret-namespace");
    // csi-provisioner fills templates in; the resolved names are in its message.
    let plain = |text: &&str| !text.contains("${");
    let named = name.filter(plain).zip(namespace.filter(plain));
    let words = match named {
        Some((name, namespace)) => {
            let object = Ref::new(Kind::Secret, namespace, name);
            let gone = walk.get::<Secret>(namespace, name)?.is_missing();
            let text = format!(
                "StorageClass {} names the {object}, which {}.",
                class.metadata.name,
                if gone {
                    "does not exist"
                } else {
                    "csi-provisioner could not get"
                }
            );
            if gone {
                let finding =
                    Finding::proved("C16", &object, text).admin(format!("create the {object}"));
                return walk.tell(finding);
            }
            text
        }
        None => {
            "csi-provisioner cannot get the Secret that the class names for its driver.".to_owned()
        }
    };
    walk.tell(Finding::said("C16", at, text, words).admin("create the Secret, or let csi-provisioner get it: a Role with get of secrets in that namespace"))
}

/// C17: the driver is registered on no node, or not on the selected one.
pub(super) fn topology_keys(
    walk: &mut Walk<'_>,
    at: &Ref,
    claim: &Claim,
    driver: &str,
    text: Option<&str>,
) -> Step {
    let with = walk.count::<CsiNode>(By::Driver, driver)?;
    let chosen = claim.selected_node();
    let on_chosen = match chosen {
        Some(chosen) => {
            let node = walk.get::<CsiNode>("", chosen)?.found();
            node.is_some_and(|node| node.driver(driver).is_some())
        }
        None => true,
    };
    if with.all > 0 && on_chosen {
        let Some(text) = text else { return Ok(()) };
        let words =
            format!("csi-provisioner finds no topology of {driver} on the nodes it looked at.");
        return walk.tell(Finding::said("C17", at, text, words).admin("see that the driver's node plugin runs on every node that pods with its volumes may use"));
    }
    if !with.whole || text.is_none() && with.all == 0 {
        return Ok(());
    }
    let place = match chosen.filter(|_| with.all > 0) {
        Some(node) => format!("on {node}, which the scheduler chose"),
        None => "on any node".to_owned(),
    };
    let words = format!(
        "{driver} is not registered {place}, so nobody can tell where the volume could be used."
    );
    let finding = Finding::proved("C17", at, words);
    let finding = match text {
        Some(text) => finding.quoting(text),
        None => finding,
    };
    walk.tell(finding.admin("run the driver's node plugin there, or keep pods with its volumes off that node; kubectl csi why node/NAME says why it is not there"))
}
