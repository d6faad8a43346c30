//! Links to the traces of other objects, and attributes that attempts find out.

use super::super::super::asked::link;
use super::*;

const SOURCE: &str = "0b0c2a5e-6c2d-4f53-8a2e-1f5f0e6f7a10";

/// The first of two attempts reads the source and calls the driver. The second writes the volume.
#[tokio::test]
async fn o_20_o_21_the_source_is_linked_and_a_volume_of_an_in_tree_plugin_says_so() {
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector);
    let since = Timestamp::now();
    let running = traces.begin(&1, provision(), 0, Duration::ZERO);
    within(Some(&running), async {
        link(SOURCE);
        link(SOURCE);
        link("");
        let asked = call("/csi.v1.Controller/CreateVolume", true).unwrap();
        asked.called(Err(&Status::unavailable("no")));
    })
    .await;
    traces.ended(running, Ending::Failed, left(true));
    writes(&traces, provision()).await;
    // A later attempt that fails finds out nothing, and takes nothing away.
    let again = traces.begin(&1, provision(), 0, Duration::ZERO);
    traces.ended(again, Ending::Failed, left(true));
    traces.over(over(since, None));
    exporter.end(Duration::from_secs(60)).await;
    let source = TraceId::of(SOURCE);
    for name in ["provision", "PersistentVolumeClaim"] {
        let found = collector.named(name);
        let links = found[0].links();
        assert_eq!(links, [(source.to_string(), source.root().to_string())]);
        assert_eq!(found[0].attribute("csi.migrated"), "true", "{name}");
    }
}

/// A group's members exist only after the attempt that makes them.
#[tokio::test]
async fn o_18_what_an_object_is_related_to_after_an_attempt_is_linked() {
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector);
    let group = || Subject {
        open: true,
        ..Subject::new(UID, "VolumeGroupSnapshot", Goal::Root)
    };
    let running = traces.begin(&1, group(), 0, Duration::ZERO);
    within(Some(&running), async {
        let asked = request(&http::Method::PATCH, "/apis/x/v1/groups/g/status").unwrap();
        asked.requested(&Ok(()), true);
    })
    .await;
    let members = ["a", "b", "c"];
    let left = Subject {
        open: false,
        links: members.map(Text::from).to_vec(),
        ..group()
    };
    traces.ended(running, Ending::Done, Some(left));
    exporter.end(Duration::from_secs(60)).await;
    let root = &collector.named("VolumeGroupSnapshot")[0];
    assert_eq!(root.trace(), TraceId::of(UID).to_string());
    let expected = members.map(|uid| {
        let member = TraceId::of(uid);
        (member.to_string(), member.root().to_string())
    });
    assert_eq!(root.links(), expected);
}

#[tokio::test]
async fn o_15_what_is_shown_in_a_claims_trace_is_below_its_root_and_sampled_with_it() {
    let claim = TraceId::of(SOURCE);
    let attach = || Subject {
        open: true,
        ..Subject::new(UID, "attach", Goal::Root).shown_in(Some(SOURCE))
    };
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector);
    let running = traces.begin(&1, attach(), 0, Duration::ZERO);
    within(Some(&running), async {
        let asked = request(&http::Method::PATCH, "/apis/x/v1/attachments/a/status").unwrap();
        asked.requested(&Ok(()), true);
    })
    .await;
    traces.ended(running, Ending::Done, left(false));
    let detach = Subject {
        goal: Goal::Again("".into()),
        work: "detach",
        ..attach()
    };
    writes(&traces, detach).await;
    exporter.end(Duration::from_secs(60)).await;
    let [attach_span, detach] = ["attach", "detach"].map(|name| collector.named(name)[0].clone());
    let trace = claim.to_string();
    assert_eq!(attach_span.trace(), trace);
    assert_eq!(attach_span.parent(), claim.root().to_string());
    assert_ne!(attach_span.id(), claim.root().to_string());
    assert_ne!(detach.trace(), trace);
    assert_eq!(detach.links(), [(trace, attach_span.id())]);
    let (traces, _exporter) = sampled(&collector, "0.5");
    for object in 0..200 {
        let home = format!("claim-{object}");
        let subjects = [
            Subject::new(&*home, "provision", Goal::Part),
            attach().shown_in(Some(&home)),
        ];
        let taken = subjects.map(|subject| {
            let running = traces.begin(&1, subject, 0, Duration::ZERO);
            running.attempt.sampled
        });
        assert_eq!(taken[0], taken[1], "{home}");
    }
}
