use sidecar_testkit::collector::Collector;
use tokio::time::sleep;
use tonic::Status;

use super::super::asked::{call, request};
use super::super::export::Exporter;
use super::super::settings::{Process, read};
use super::*;
use crate::election::Fence;
use crate::metrics::Registry;
use crate::refusal::ApiError;

mod related;

const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The attempts of an engine, whose spans reach the collector when the exporter ends.
fn traces(collector: &Collector) -> (Traces<u32>, Exporter) {
    sampled(collector, "1")
}

/// Like [`traces`], recording this share of all objects.
fn sampled(collector: &Collector, share: &str) -> (Traces<u32>, Exporter) {
    let process = Process {
        program: "csi-attacher",
        version: "v1",
        instance: "pod",
    };
    let environment = read(&process, |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(collector.endpoint()),
        "OTEL_BSP_SCHEDULE_DELAY" => Some("600000".to_owned()),
        "OTEL_TRACES_SAMPLER" => Some("traceidratio".to_owned()),
        "OTEL_TRACES_SAMPLER_ARG" => Some(share.to_owned()),
        _ => None,
    });
    let settings = environment.settings.unwrap();
    let exporter = Exporter::start(settings, "v1", &Registry::new()).unwrap();
    let tracer = Tracer::new(exporter.clone(), "attacher", Fence::default());
    (Traces::new(tracer), exporter)
}

fn provision() -> Subject {
    let attributes = [
        ("k8s.persistentvolumeclaim.name", "c"),
        ("k8s.node.name", ""),
    ];
    Subject::new(UID, "provision", Goal::Part).with(&attributes)
}

/// The subject after an attempt.
fn left(open: bool) -> Option<Subject> {
    Some(Subject {
        open,
        ..provision()
    })
}

#[tokio::test]
async fn o_14_failed_attempts_and_what_lies_between_them() {
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector);
    for failures in 0..2 {
        let running = traces.begin(&1, provision(), failures, Duration::from_millis(1));
        within(Some(&running), async {
            let asked = call("/csi.v1.Controller/CreateVolume", true).unwrap();
            let status = Status::resource_exhausted("no room for hunter2");
            asked.called(Err(&status));
        })
        .await;
        traces.ended(running, Ending::Failed, left(true));
        sleep(Duration::from_millis(20)).await;
    }
    let running = traces.begin(&1, provision(), 2, Duration::ZERO);
    within(Some(&running), async {
        let asked = request(&http::Method::POST, "/api/v1/persistentvolumes").unwrap();
        asked.requested(&Ok(()), true);
    })
    .await;
    traces.ended(running, Ending::Done, left(false));
    // Nothing is left to do, so no span is emitted.
    let running = traces.begin(&1, provision(), 0, Duration::ZERO);
    traces.ended(running, Ending::Done, left(false));
    exporter.end(Duration::from_secs(60)).await;

    let spans = collector.spans();
    let names = spans.iter().map(|one| &*one.span.name);
    let expected = [
        "csi.v1.Controller/CreateVolume",
        "queue",
        "attempt",
        "csi.v1.Controller/CreateVolume",
        "backoff",
        "queue",
        "attempt",
        "POST persistentvolumes",
        "backoff",
        "attempt",
        "provision",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    let trace = TraceId::of(UID);
    assert!(spans.iter().all(|one| one.trace() == trace.to_string()));
    let attempts = collector.named("attempt");
    let numbers = attempts.iter().map(|one| one.attribute("csi.attempt"));
    assert_eq!(numbers.collect::<Vec<_>>(), ["1", "2", "3"]);
    let error = Some("csi.v1.Controller/CreateVolume: ResourceExhausted");
    let errors: Vec<_> = attempts.iter().map(|one| one.error()).collect();
    assert_eq!(errors, [error, error, None]);
    assert!(
        attempts
            .iter()
            .all(|one| one.parent() == trace.span("provision").to_string())
    );
    let call = &spans[0];
    assert_eq!(
        call.attribute("rpc.response.status_code"),
        "RESOURCE_EXHAUSTED"
    );
    assert_eq!(call.attribute("csi.migrated"), "true");
    assert_eq!(call.span.kind, i32::from(SpanKind::Client));
    let work = spans.last().unwrap();
    assert_eq!(work.id(), trace.span("provision").to_string());
    assert_eq!(work.parent(), trace.root().to_string());
    let first = &collector.named("queue")[0].span;
    assert_eq!(work.span.start_time_unix_nano, first.start_time_unix_nano);
    let backoff = &collector.named("backoff")[0].span;
    assert!(backoff.end_time_unix_nano - backoff.start_time_unix_nano > 10_000_000);
    for body in collector.bodies() {
        assert!(!body.windows(7).any(|bytes| bytes == b"hunter2"));
    }
}

#[tokio::test]
async fn o_12_the_root_is_from_creation_to_bound_and_o_13_waits_for_a_node() {
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector);
    let created = at(Timestamp::now().as_second() - 60);
    let subject = Subject {
        waited: Some(("waiting for a node", created)),
        ..provision()
    };
    let running = traces.begin(&1, subject, 0, Duration::ZERO);
    within(Some(&running), async {
        let asked = request(&http::Method::POST, "/api/v1/persistentvolumes").unwrap();
        asked.requested(&Ok(()), true);
    })
    .await;
    traces.ended(running, Ending::Done, left(false));
    sleep(Duration::from_millis(20)).await;
    let over = |failure| Over {
        subject: Subject {
            work: "PersistentVolumeClaim",
            goal: Goal::Root,
            ..provision().since(Some(created))
        },
        last: "bind",
        failure,
    };
    traces.over(over(None));
    traces.over(over(Some("deleted before bound")));
    exporter.end(Duration::from_secs(60)).await;

    let trace = TraceId::of(UID);
    let roots = collector.named("PersistentVolumeClaim");
    let ids = roots.iter().map(|one| (one.id(), one.parent()));
    let root = (trace.root().to_string(), String::new());
    assert!(ids.eq([root.clone(), root]));
    assert_eq!(roots[0].error(), None);
    assert_eq!(roots[1].error(), Some("deleted before bound"));
    let [waiting, work, bind] = ["waiting for a node", "provision", "bind"].map(|name| {
        let found = collector.named(name);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].parent(), trace.root().to_string(), "{name}");
        found[0].span.clone()
    });
    // One after the other, without a gap.
    let root = &roots[0].span;
    assert_eq!(root.start_time_unix_nano, waiting.start_time_unix_nano);
    assert_eq!(waiting.end_time_unix_nano, work.start_time_unix_nano);
    assert_eq!(work.end_time_unix_nano, bind.start_time_unix_nano);
    assert_eq!(bind.end_time_unix_nano, root.end_time_unix_nano);
}

#[tokio::test]
async fn o_9_all_that_is_done_about_an_object_is_recorded_or_nothing() {
    let collector = Collector::start().await;
    let (traces, _exporter) = sampled(&collector, "0.5");
    let mut recorded = 0;
    for object in 0..200 {
        let uid = format!("object-{object}");
        let late = Some(at(0));
        let subjects = [
            Subject::new(&*uid, "provision", Goal::Part),
            Subject::new(&*uid, "provision", Goal::Part).since(late),
            Subject::new(&*uid, "expand", Goal::Again("2Gi".into())),
            Subject::new(&*uid, "delete", Goal::Again("".into())),
        ];
        let taken = subjects.map(|subject| {
            let running = traces.begin(&1, subject, 0, Duration::ZERO);
            running.attempt.sampled
        });
        assert!(taken.iter().all(|one| *one == taken[0]), "{uid}: {taken:?}");
        recorded += usize::from(taken[0]);
    }
    assert!((50..150).contains(&recorded), "{recorded}");
}

#[tokio::test]
async fn o_16_and_o_17_what_is_done_once_more_does_not_change_what_was_told() {
    let again = Goal::Again("2Gi".into());
    for (goal, opens, told) in [
        (Goal::Root, &[true, true, false][..], 1),
        // The work was done before this process started.
        (Goal::Root, &[false], 0),
        (Goal::Part, &[false, false], 1),
        (again, &[false, false], 1),
    ] {
        let collector = Collector::start().await;
        let (traces, exporter) = traces(&collector);
        for open in opens {
            let subject = Subject::new(UID, "work", goal.clone());
            let open = *open;
            writes(&traces, Subject { open, ..subject }).await;
        }
        exporter.end(Duration::from_secs(60)).await;
        let works = collector.named("work");
        assert_eq!(works.len(), told, "{goal:?} {opens:?}");
        let attempts = collector.named("attempt");
        assert_eq!(attempts.len(), opens.len());
        for work in works {
            assert!(attempts.iter().all(|one| one.parent() == work.id()));
        }
    }
}

/// An attempt that creates a volume.
async fn writes(traces: &Traces<u32>, subject: Subject) {
    let running = traces.begin(&1, subject, 0, Duration::ZERO);
    within(Some(&running), async {
        let asked = request(&http::Method::POST, "/api/v1/persistentvolumes").unwrap();
        asked.requested(&Ok(()), true);
    })
    .await;
    traces.ended(running, Ending::Done, left(false));
}

fn over(created: Timestamp, failure: Option<&'static str>) -> Over {
    Over {
        subject: Subject {
            work: "PersistentVolumeClaim",
            goal: Goal::Root,
            ..provision().since(Some(created))
        },
        last: "bind",
        failure,
    }
}

#[tokio::test]
async fn o_12_and_o_13_what_is_late_has_its_root_all_the_same() {
    let created = at(Timestamp::now().as_second() - 2 * 3600);
    let waits = Subject {
        waited: Some(("waiting for a node", created)),
        ..provision()
    };
    for (subject, own_trace) in [(waits, false), (provision().since(Some(created)), true)] {
        let collector = Collector::start().await;
        let (traces, exporter) = traces(&collector);
        writes(&traces, subject).await;
        traces.over(over(created, None));
        exporter.end(Duration::from_secs(60)).await;
        let trace = TraceId::of(UID);
        let [root, work, _bind] = ["PersistentVolumeClaim", "provision", "bind"].map(|name| {
            let found = collector.named(name);
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].trace(), trace.to_string(), "{name}");
            found[0].clone()
        });
        assert_eq!(work.parent(), root.id());
        let attempt = &collector.named("attempt")[0];
        assert_eq!(attempt.trace() != trace.to_string(), own_trace);
        assert_eq!(attempt.parent() != work.id(), own_trace);
    }
}

#[tokio::test]
async fn o_12_attempts_of_a_claim_that_goes_unbound_are_below_its_work() {
    for failure in [Some("deleted before bound"), None] {
        let collector = Collector::start().await;
        let (traces, exporter) = traces(&collector);
        let running = traces.begin(&1, provision(), 0, Duration::ZERO);
        traces.ended(running, Ending::Failed, left(false));
        traces.over(over(Timestamp::now(), failure));
        exporter.end(Duration::from_secs(60)).await;
        let [root, work, attempt] = ["PersistentVolumeClaim", "provision", "attempt"].map(|name| {
            let found = collector.named(name);
            assert_eq!(found.len(), 1, "{name}");
            found[0].clone()
        });
        assert_eq!((attempt.parent(), work.parent()), (work.id(), root.id()));
        assert_eq!((work.error(), root.error()), (failure, failure));
    }
}

#[tokio::test]
async fn o_14_the_error_of_an_attempt_is_why_it_failed() {
    const REFUSED: Option<bool> = Some(false);
    const DONE: Option<bool> = Some(true);
    let driver = "csi.v1.Controller/CreateVolume: Internal";
    // The API server's earlier response, the driver's, and the API server's after that.
    for (before, driver_answered, after, expected) in [
        (REFUSED, DONE, None, DECIDED),
        (None, None, None, DECIDED),
        (DONE, REFUSED, DONE, driver),
        (REFUSED, REFUSED, None, driver),
        (None, REFUSED, REFUSED, "API server: Refused"),
        (REFUSED, None, None, "API server: Refused"),
    ] {
        let collector = Collector::start().await;
        let (traces, exporter) = traces(&collector);
        let running = traces.begin(&1, provision(), 0, Duration::ZERO);
        let requested = |answer: Option<bool>| {
            let Some(done) = answer else { return };
            let asked = request(&http::Method::GET, "/api/v1/nodes/n").unwrap();
            let answer = if done {
                Ok(())
            } else {
                Err(ApiError::local("no"))
            };
            asked.requested(&answer, false);
        };
        within(Some(&running), async {
            requested(before);
            if let Some(done) = driver_answered {
                let asked = call("/csi.v1.Controller/CreateVolume", false).unwrap();
                let status = Status::internal("no");
                asked.called(if done { Ok(()) } else { Err(&status) });
            }
            requested(after);
        })
        .await;
        traces.ended(running, Ending::Failed, left(true));
        exporter.end(Duration::from_secs(60)).await;
        assert_eq!(collector.named("attempt")[0].error(), Some(expected));
    }
}

#[tokio::test]
async fn o_19_and_o_27_what_is_cut_off_says_so() {
    for lost in [false, true] {
        let collector = Collector::start().await;
        let (traces, exporter) = traces(&collector);
        let running = traces.begin(&1, provision(), 0, Duration::ZERO);
        within(Some(&running), async {
            drop(call("/csi.v1.Controller/CreateVolume", false));
        })
        .await;
        if lost {
            traces.tracer.fence.close();
        }
        drop(running);
        exporter.end(Duration::from_secs(60)).await;
        let [call, attempt] = &*collector.spans() else {
            panic!("{:?}", collector.spans());
        };
        assert_eq!(call.attribute("csi.answer"), "unknown");
        assert_eq!(attempt.attribute("csi.fenced"), lost.to_string());
        assert!(call.span.status.is_none() && attempt.span.status.is_none());
    }
}

#[tokio::test]
async fn o_26_the_values_of_a_secret_are_in_no_text_of_an_attempt() {
    let collector = Collector::start().await;
    let (traces, exporter) = traces(&collector);
    let running = traces.begin(&1, provision(), 0, Duration::ZERO);
    within(Some(&running), async {
        // In forms that no search for the value would find.
        for words in [r#"{"pin":"planted\u0026"}"#, "pin planted is wrong"] {
            let asked = call("/csi.v1.Controller/CreateVolume", false).unwrap();
            asked.called(Err(&Status::internal(words)));
        }
        let path = "/api/v1/namespaces/planted-ns/secrets/planted-name";
        let asked = request(&http::Method::GET, path).unwrap();
        asked.requested(&Ok(()), false);
        let asked = request(&http::Method::PATCH, "/api/v1/persistentvolumes/x").unwrap();
        let error = ApiError::local("invalid value planted-c");
        asked.requested(&Err::<(), _>(error), true);
    })
    .await;
    traces.ended(running, Ending::Failed, left(true));
    exporter.end(Duration::from_secs(60)).await;
    assert_eq!(collector.spans().len(), 5);
    let secret = &collector.named("GET secrets")[0];
    assert_eq!(secret.attribute("http.request.method"), "GET");
    let path = collector.named("PATCH persistentvolumes")[0].attribute("url.path");
    assert_eq!(path, "/api/v1/persistentvolumes/x");
    for body in collector.bodies() {
        assert!(!body.windows(7).any(|bytes| bytes == b"planted"));
    }
}
