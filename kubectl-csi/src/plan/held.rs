//! A volume that is attached to another node.

use super::attach::{all_of, not_detached, of, on_its_way};
use super::pod::Consumer;
use super::store::{By, within};
use super::verdict::Finding;
use super::walk::{Listed, Lookup, ObjectSelector, Step, Walk};
use super::words::{clock, listed, span};
use crate::model::{Attachment, Kind, Node, Pod, Ref, Volume};

/// C35, C36, C45, C46: the volume is attached to another node.
pub(super) fn held(
    walk: &mut Walk<'_>,
    at: &Ref,
    depth: usize,
    volume: &Volume,
    consumer: Consumer<'_>,
) -> Step {
    let all = all_of(walk, at)?;
    let other = all
        .into_iter()
        .find(|one| one.spec.node_name != *consumer.node());
    let Some(other) = other else { return Ok(()) };
    let holder = &*other.spec.node_name;
    let leaving = other.metadata.deletion_timestamp.0;
    walk.at(depth, &of(other), format!("still on {holder}"));
    let node = walk.get::<Node>("", holder)?;
    if let Some(error) = other
        .status
        .detach_error
        .as_ref()
        .filter(|error| !error.message.is_empty())
    {
        return not_detached(walk, other, error);
    }
    let users = users(walk, volume, consumer, holder)?;
    if let Some(down) = node.found().and_then(Node::not_ready) {
        return unanswered(walk, depth, at, holder, down.0, &users);
    }
    if leaving.is_some() {
        return on_its_way(walk, depth, other);
    }
    if let Some(user) = users.items.first() {
        let user_at = super::pod::of(user);
        walk.at(depth + 1, &user_at, "uses it there");
        let text = format!(
            "The {at} may be on one node at a time ({}), and {user_at} uses it on {holder}.",
            listed(&volume.spec.access_modes)
        );
        // Proved only if that node could be read: whether it responds decides between C35 and C36.
        let finding = Finding::proved_if(node.found().is_some(), "C35", at, text)
            .you(format!("end {user_at}; a Deployment that replaces its pod needs strategy Recreate; for pods on several nodes at once the claim needs ReadWriteMany, if the driver can do that"));
        return walk.tell(finding);
    }
    if !users.whole || matches!(node, Lookup::Unseen) {
        return Ok(());
    }
    unused(walk, at, volume, other, node)
}

/// The pods on a node that use a volume.
fn users<'a>(
    walk: &mut Walk<'a>,
    volume: &Volume,
    consumer: Consumer<'_>,
    node: &str,
) -> Step<Listed<'a, Pod>> {
    let claim = volume.spec.claim_ref.as_ref();
    let namespace = claim.map_or(&*consumer.at.namespace, |claim| &claim.namespace);
    let name = claim.map(|claim| &*claim.name).unwrap_or_default();
    let mut pods = walk.by::<Pod>(
        &ObjectSelector::of(namespace),
        By::Claim,
        &within(namespace, name),
    )?;
    pods.items
        .retain(|pod| pod.spec.node_name == *node && !pod.is_over());
    Ok(pods)
}

/// C46: the volume is attached to a node where no pod uses it.
fn unused(
    walk: &mut Walk<'_>,
    at: &Ref,
    volume: &Volume,
    other: &Attachment,
    node: Lookup<'_, Node>,
) -> Step {
    let holder = &*other.spec.node_name;
    let csi = volume.spec.csi.as_ref();
    let handle = csi
        .map(|csi| format!("^{}", csi.volume_handle))
        .unwrap_or_default();
    let in_use = node.found().is_some_and(|node| {
        let mut used = node.status.volumes_in_use.iter();
        used.any(|one| one.ends_with(&handle))
    });
    let text = match (in_use, node.is_missing()) {
        (_, true) => format!(
            "The {at} is attached to {holder}, which does not exist any more, and no pod uses it there."
        ),
        (true, _) => format!(
            "No pod uses the {at} on {holder} any more, but its kubelet says that it is still mounted there, so Kubernetes does not detach it."
        ),
        (false, _) => format!(
            "No pod uses the {at} on {holder} any more; kube-controller-manager is about to detach it."
        ),
    };
    let finding = Finding::proved("C46", &of(other), text);
    let finding = if in_use {
        finding.admin(format!("see in the log of the kubelet on {holder} why it does not unmount; a reboot of that node ends it"))
    } else {
        finding.you("wait: Kubernetes detaches it within six minutes")
    };
    walk.tell(finding)
}

/// C36: the node that has the volume attached does not respond. Kubernetes force-detaches from a node that is not
/// ready six minutes after the last pod there with this volume was removed from the API server.
fn unanswered(
    walk: &mut Walk<'_>,
    depth: usize,
    at: &Ref,
    holder: &str,
    down: Option<jiff::Timestamp>,
    users: &Listed<'_, Pod>,
) -> Step {
    let object = Ref::new(Kind::Node, "", holder);
    let since = down.map(|down| format!(" for {}", span(walk.ago(down))));
    walk.at(
        depth + 1,
        &object,
        format!("NotReady{}", since.unwrap_or_default()),
    );
    let answered = down
        .map(|down| format!(" since {}", clock(down)))
        .unwrap_or_default();
    let held =
        format!("The volume is still attached to {holder}, which has not answered{answered}.");
    let user = users
        .items
        .first()
        .map(|pod| (super::pod::of(pod), pod.metadata.is_leaving()));
    let (then, you) = match &user {
        Some((user, leaving)) => {
            walk.at(depth + 2, user, if *leaving { "is being deleted" } else { "is recorded there" });
            let ends = match leaving {
                true => "It is being deleted, which ends only when the node answers again or is gone",
                false => "Kubernetes deletes it five minutes after the node fell silent, which ends only when the node answers again or is gone",
            };
            (
                format!("The {user} is still recorded there and may write to it, so Kubernetes detaches the volume only six minutes after that pod is gone. {ends}."),
                format!("nothing as long as {holder} may still run"),
            )
        }
        None if users.whole => (
            "No pod is recorded there any more, so Kubernetes detaches it by force six minutes after the last one was gone.".to_owned(),
            "wait six minutes".to_owned(),
        ),
        None => (
            "It may be written to there, so Kubernetes detaches it only six minutes after the pods there that use it are gone.".to_owned(),
            format!("nothing as long as {holder} may still run"),
        ),
    };
    let finding = Finding::proved("C36", at, format!("{held} {then}"))
        .you(you)
        .admin(format!(
            "if {holder} is certainly off: this ends its pods and detaches at once"
        ))
        .command(format!(
            "kubectl taint node {holder} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        ))
        .risk("if it still runs, two nodes write to the volume");
    walk.tell(finding)
}
