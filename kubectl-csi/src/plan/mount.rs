//! Kubelet's events about a pod, checked against the objects.

use super::pod::Consumer;
use super::verdict::{Finding, Who};
use super::walk::{Step, Walk};
use super::words::has;
use crate::model::{Event, Kind, Ref, Secret, SecretRef, Volume};

/// The newest event with one of these reasons, or any Warning if there are none, whose text matches.
pub(super) fn newest<'a>(
    events: &[&'a Event],
    reasons: &[&str],
    fits: impl Fn(&str) -> bool,
) -> Option<&'a Event> {
    let reason = |event: &Event| match reasons.is_empty() {
        true => event.kind != "Normal",
        false => reasons.contains(&&*event.reason),
    };
    events
        .iter()
        .copied()
        .find(|event| reason(event) && fits(&event.message))
}

/// A known text: the cause, its search words, the explanation, and the remedies with who applies them.
type Known = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static [(Who, &'static str)],
);

/// Texts of kubelet, mount(8) and drivers, from Kubernetes 1.25 to 1.37; the first match counts.
#[rustfmt::skip]
static KNOWN: &[Known] = &[
    ("C53", &["executable file not found", "bad option; for several filesystems", "you might need a /sbin/mount", "unknown filesystem type", "command not found", "rpc.statd is not running", "can not connect to iscsi daemon"],
        "A program or a service that the driver needs for mounting is missing on the node.",
        &[(Who::Administrator, "install what the text names on the node: nfs-common, cifs-utils, open-iscsi with iscsid running, xfsprogs")]),
    ("C54", &["wrong fs type", "bad superblock", "structure needs cleaning", "can't read superblock", "already contains a file system", "superblock"],
        "The volume has another file system than the class says, or a damaged one.",
        &[(Who::You, "compare csi.storage.k8s.io/fstype of the class with what the volume was made with"), (Who::Administrator, "with the volume detached everywhere and a copy of it at hand: run fsck on it by hand")]),
    ("C60", &["does not appear staged", "not staged", "has not been staged"],
        "The driver or the node restarted between NodeStageVolume and NodePublishVolume, and the driver no longer has the volume staged.",
        &[(Who::You, "delete the pod, so that kubelet stages and publishes the volume again; if the error comes back, the driver has a bug")]),
    ("C57", &["an operation with the given volume", "operation already exists", "pending operation", "already in progress", "code = aborted"],
        "An earlier mount of the same volume still hangs in the driver on this node.",
        &[(Who::Driver, "see in the driver's log on that node what it waits for; most often the storage does not answer over the network")]),
    ("C49", &["not found in the list of registered csi drivers"],
        "Kubelet does not know the driver on this node.",
        &[(Who::Administrator, "see that the driver's node plugin runs there and registers")]),
    ("C51", &[".sock: no such file", ".sock: connect: no such file or directory", ".sock: connect: connection refused", "transport is closing", "error reading from server"],
        "The driver on this node does not answer at its socket: it crashes, or is only starting.",
        &[(Who::Administrator, "see the log of the driver's pod on that node")]),
    ("C43", &["attachvolume.attach failed"],
        "The volume is not attached to the node.",
        &[(Who::Driver, "the text says what is in the way")]),
];

/// Risk of fsck on a damaged file system.
const RISK: &str = "fsck may throw away what it cannot repair";

const MOUNTING: &[&str] = &["FailedMount", "FailedMapVolume", "FailedAttachVolume"];

/// Explains kubelet's newest event about one volume of a pod.
pub(super) fn events(
    walk: &mut Walk<'_>,
    consumer: Consumer<'_>,
    at: &Ref,
    driver: Option<&str>,
) -> Step {
    let events = walk.events(consumer.at)?;
    let named = volume_names(consumer, at);
    let about = |text: &str| named.iter().any(|name| text.contains(&**name));
    // A FailedAttachVolume event older than the newest SuccessfulAttachVolume is outdated.
    let attached = events
        .iter()
        .find(|event| event.reason == "SuccessfulAttachVolume" && about(&event.message));
    let attached = attached.and_then(|event| event.last());
    let current: Vec<_> = events
        .iter()
        .copied()
        .filter(|event| {
            event.reason != "FailedAttachVolume"
                || attached.is_none_or(|attached| event.last() > Some(attached))
        })
        .collect();
    let Some(event) = newest(&current, MOUNTING, about) else {
        return Ok(());
    };
    let text = &*event.message;
    walk.last_words = Some(text.to_owned());
    if has(
        text,
        &[
            "secretref",
            "nodestagesecretref",
            "nodepublishsecretref",
            "fetching nodestagesecret",
        ],
    ) || (has(text, &["secret"]) && has(text, &["not found", "forbidden"]))
    {
        return secret(walk, at, text);
    }
    let object = if at.kind == Kind::Volume {
        at.clone()
    } else {
        consumer.at.clone()
    };
    let known = KNOWN.iter().find(|(_, words, ..)| has(text, words));
    let Some((id, _, says, remedies)) = known else {
        return Ok(());
    };
    let driver = driver
        .map(|driver| format!(" ({driver})"))
        .unwrap_or_default();
    let node = consumer.node();
    let says = format!("{says} Volume {}{driver}, node {node}.", at.name);
    let finding = Finding::said(id, &object, text, says);
    let finding = remedies.iter().fold(finding, |finding, (who, remedy)| {
        let finding = finding.remedy(*who, (*remedy).to_owned());
        if remedy.contains("fsck") {
            finding.risk(RISK)
        } else {
            finding
        }
    });
    walk.tell(finding)
}

/// Names of a volume in kubelet's texts: the PersistentVolume, and the volume's name in the pod.
fn volume_names(consumer: Consumer<'_>, at: &Ref) -> Vec<String> {
    let mut names = vec![format!("\"{}\"", at.name)];
    for volume in &consumer.pod.spec.volumes {
        if consumer.pod.claim_of(volume).is_some() || volume.csi.is_some() {
            names.push(format!("unmounted volumes=[{}", volume.name));
        }
    }
    names
}

/// C55: a Secret that the volume references for the node.
fn secret(walk: &mut Walk<'_>, at: &Ref, text: &str) -> Step {
    let volume = walk.get::<Volume>("", &at.name)?.found();
    let csi = volume.and_then(|volume| volume.spec.csi.as_ref());
    let references = csi
        .into_iter()
        .flat_map(|csi| [&csi.node_stage_secret_ref, &csi.node_publish_secret_ref]);
    let references: Vec<&SecretRef> = references.flatten().collect();
    for reference in references {
        let object = Ref::new(Kind::Secret, &reference.namespace, &reference.name);
        if { walk.get::<Secret>(&reference.namespace, &reference.name)? }.is_missing() {
            let words = format!(
                "The {at} names the {object} for its node, which does not exist. A volume keeps the names that it was made with, whatever the class says now."
            );
            return walk.tell(
                Finding::proved("C55", &object, words)
                    .quoting(text)
                    .admin(format!("create the {object} again, under this name")),
            );
        }
    }
    let words = format!(
        "Kubelet cannot get the Secret that the {at} names for its node. A volume keeps the names that it was made with."
    );
    walk.tell(
        Finding::said("C55", at, text, words)
            .admin("create that Secret again, under the same name"),
    )
}

/// C56: kubelet reports nothing against the volumes: it may be changing the ownership of files.
pub(super) fn silent(walk: &mut Walk<'_>, consumer: Consumer<'_>) -> Step {
    let pod = consumer.pod;
    let events = walk.events(consumer.at)?;
    let failed = newest(&events, &[], |_| true);
    walk.last_words = failed
        .map(|event| event.message.to_string())
        .or(walk.last_words.take());
    let security = pod.spec.security_context.as_ref();
    let Some(security) = security
        .filter(|one| one.fs_group.is_some() && one.fs_group_change_policy != "OnRootMismatch")
    else {
        return Ok(());
    };
    let claims = pod
        .spec
        .volumes
        .iter()
        .any(|volume| pod.claim_of(volume).is_some());
    let mount_failed = newest(&events, MOUNTING, |_| true).is_some();
    if !claims
        || mount_failed
        || !walk.causes.is_empty()
        || !walk.is_older(walk.since, super::walk::FRESH)
    {
        return Ok(());
    }
    let text = format!(
        "Nothing says what the pod waits for. It has fsGroup {}, so kubelet may be changing the owner of every file on its volumes, which takes long where there are many.",
        security.fs_group.unwrap_or_default()
    );
    walk.tell(
        Finding::guessed("C56", consumer.at, text).you(
            "wait; for the next time, set securityContext.fsGroupChangePolicy: OnRootMismatch",
        ),
    )
}
