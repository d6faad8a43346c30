//! The trace of one claim, by all programs that worked for it.

use anyhow::Result;
use e2e::api::Api;
use e2e::story::Story;
use e2e::traces::{API_SERVER, Traces, find, trace_of};
use sidecar_testkit::collector::{Received, tree};

use crate::pods::Programs;
use crate::workload::{CLAIMS, Member};

/// Waits until the collector has the trace of the member's claim, and prints it.
pub(crate) fn tell(
    story: &mut Story,
    api: &Api,
    programs: &mut Programs,
    traces: &Traces,
    member: &Member,
) -> Result<()> {
    let claim = api.get(&format!("{CLAIMS}/{}", member.claim))?;
    let trace = trace_of(&claim)?;
    let what = format!(
        "the collector has trace {trace} of claim {}: csi-provisioner's and csi-attacher's part, and what the API server links to it",
        member.claim
    );
    let spans = story.step(&what, || {
        programs.until(&what, || {
            let spans = traces.spans();
            Ok(is_complete(&spans, &trace).then_some(spans))
        })
    })?;
    story.note("after       took       what");
    for line in tree(&spans, &trace) {
        story.note(&line);
    }
    Ok(())
}

fn is_complete(spans: &[Received], trace: &str) -> bool {
    let root = find(spans, trace, "PersistentVolumeClaim");
    let attach = find(spans, trace, "VolumeAttachment attach");
    let (Some(root), Some(attach)) = (root, attach) else {
        return false;
    };
    let of_server = |span: &Received| {
        let mut links = span.links().into_iter();
        span.program() == API_SERVER && links.any(|(to, _)| to == trace)
    };
    attach.parent() == root.id() && spans.iter().any(of_server)
}
