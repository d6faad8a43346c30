//! The beginning of the story: a StatefulSet whose pods run with their volumes.

use anyhow::Result;
use e2e::api::Api;
use e2e::deployment::Pod;
use e2e::story::Story;
use e2e::traces::Traces;

use crate::container::Node;
use crate::pods::Programs;
use crate::traced;
use crate::workload::{self, Member, SET, SMALL};

/// The set's pods with their claims and volumes, and each one's node and pod.
type Running<'n> = (Vec<Member>, Vec<(&'n Node, Pod)>);

/// From the set to pods that run with their volumes.
pub(crate) fn members<'n>(
    story: &mut Story,
    api: &Api,
    nodes: &'n [Node],
    programs: &mut Programs,
    traces: Option<&Traces>,
) -> Result<Running<'n>> {
    story.step(
        &format!("StatefulSet {SET} is created: 2 pods apart, a claim of {SMALL} for each"),
        || workload::create(api),
    )?;
    let members = story.step(
        "csi-provisioner: each claim has a volume where the scheduler wants its pod",
        || workload::until_provisioned(api, programs),
    )?;
    for it in &members {
        story.note(&format!(
            "{} for {} in zone {}",
            it.volume, it.claim, it.zone
        ));
    }
    let attached = story.step("csi-attacher: the volumes are attached", || {
        workload::until_attached(api, programs, &members)
    })?;
    story.note(&format!("to {}", attached.join(" and ")));
    let what = "the kubelets had the driver stage and mount them; the pods run";
    let running = story.step(what, || {
        let mut running = Vec::new();
        for member in &members {
            running.push(workload::until_running(api, programs, nodes, member, None)?);
        }
        Ok(running)
    })?;
    if let (Some(traces), Some(member)) = (traces, members.first()) {
        traced::tell(story, api, programs, traces, member)?;
    }
    Ok((members, running))
}
