//! A volume that another node has.

use super::attach::{not_detached, of, on_its_way};
use super::pod::Consumer;
use super::verdict::Finding;
use super::way::{Got, Step, Way, Which};
use super::words::{clock, listed, span};
use crate::model::{Attachment, Kind, Node, Pod, Ref, Volume};

/// Kubernetes detaches a volume by force after so long.
const FORCED: i64 = 6 * 60;

/// C35, C36, C45, C46: another node has it.
pub(super) fn held(
    way: &mut Way<'_>,
    at: &Ref,
    depth: usize,
    volume: &Volume,
    consumer: Consumer<'_>,
) -> Step {
    let all = way.list::<Attachment>(Kind::Attachment, &Which::all())?;
    let other = { all.items.iter() }.find(|one| {
        one.spec.source.persistent_volume_name == *at.name && one.spec.node_name != *consumer.node()
    });
    let Some(other) = other else { return Ok(()) };
    let holder = &*other.spec.node_name;
    let leaving = other.metadata.deletion_timestamp.0;
    way.at(depth, &of(other), format!("still on {holder}"));
    let node = way.get::<Node>(Kind::Node, "", holder)?;
    if let Some(error) = other
        .status
        .detach_error
        .as_ref()
        .filter(|error| !error.message.is_empty())
    {
        return not_detached(way, other, error);
    }
    let down = node.found().and_then(Node::not_ready);
    if let Some(down) = down {
        return unanswered(way, depth, at, holder, down.0);
    }
    if leaving.is_some() {
        return on_its_way(way, depth, other);
    }
    let claim = volume.spec.claim_ref.as_ref();
    let pods = match claim {
        Some(claim) => way.list::<Pod>(Kind::Pod, &Which::of(&claim.namespace))?,
        None => way.list::<Pod>(Kind::Pod, &Which::of(&consumer.at.namespace))?,
    };
    let name = claim.map(|claim| &*claim.name).unwrap_or_default();
    let user = pods
        .items
        .iter()
        .find(|pod| pod.names_claim(name) && pod.spec.node_name == *holder && !pod.is_over());
    if let Some(user) = user {
        let user_at = super::pod::of(user);
        way.at(depth + 1, &user_at, "uses it there");
        let text = format!(
            "The {at} may be on one node at a time ({}), and {user_at} uses it on {holder}.",
            listed(
                &volume
                    .spec
                    .access_modes
                    .iter()
                    .map(|mode| &**mode)
                    .collect::<Vec<_>>()
            )
        );
        let finding = Finding::proved("C35", at, text)
            .you(format!("end {user_at}; a Deployment that replaces its pod needs strategy Recreate; for pods on several nodes at once the claim needs ReadWriteMany, if the driver can do that"));
        return way.tell(finding);
    }
    if !pods.whole || matches!(node, Got::Unseen) {
        return Ok(());
    }
    let handle = volume
        .spec
        .csi
        .as_ref()
        .map(|csi| format!("^{}", csi.volume_handle))
        .unwrap_or_default();
    let in_use = node.found().is_some_and(|node| {
        node.status
            .volumes_in_use
            .iter()
            .any(|one| one.ends_with(&handle))
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
    way.tell(finding)
}

/// C36: the node that has the volume does not answer.
fn unanswered(
    way: &mut Way<'_>,
    depth: usize,
    at: &Ref,
    holder: &str,
    down: Option<jiff::Timestamp>,
) -> Step {
    let object = Ref::new(Kind::Node, "", holder);
    let since = down.map(|down| format!(" for {}", span(way.ago(down))));
    way.at(
        depth + 1,
        &object,
        format!("NotReady{}", since.unwrap_or_default()),
    );
    let answered = down
        .map(|down| format!(" since {}", clock(down)))
        .unwrap_or_default();
    let until = down.and_then(|down| {
        down.checked_add(jiff::SignedDuration::from_secs(FORCED))
            .ok()
    });
    let over = way.is_older(down, FORCED);
    let then = match until.filter(|_| !over) {
        Some(until) => format!(
            "so Kubernetes lets go only six minutes after the pods there are deleted, and not before {}.",
            clock(until)
        ),
        None => {
            "so Kubernetes lets go only six minutes after the pods there are deleted.".to_owned()
        }
    };
    let text = format!(
        "The volume is still attached to {holder}, which has not answered{answered}. It may be written to there, {then}"
    );
    let finding = Finding::proved("C36", at, text)
        .you(if over {
            "delete the pods that hang on that node, if their owner has not"
        } else {
            "nothing until then"
        })
        .admin(format!("if {holder} is certainly off"))
        .command(format!(
            "kubectl taint node {holder} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        ))
        .risk("if it still runs, two nodes write to the volume");
    way.tell(finding)
}
