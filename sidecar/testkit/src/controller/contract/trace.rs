//! Traces: none without a flag, and their contents with it. Numbers are rows of `docs/spec/observability.md`.

use std::time::{Duration, Instant};

use super::super::{Effect, Program, Stage, settle};
use crate::collector::{Collector, Received, attribute};

const FLAG: &str = "--enable-otel-tracing";
const AWAY: &str = "The collector does not take spans";

/// Generates the tests of traces.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_traces {
    ($program:path) => {
        #[tokio::test]
        async fn o_1_and_o_3_no_flag_or_a_variable_that_says_so_and_there_are_no_traces() {
            $crate::controller::contract::trace::off(&$program).await;
        }

        #[tokio::test]
        async fn o_2_and_o_28_a_collector_that_is_away_is_one_warning() {
            $crate::controller::contract::trace::away(&$program).await;
        }

        #[tokio::test]
        async fn o_8_and_o_22_who_is_asked_knows_for_which_span() {
            $crate::controller::contract::trace::on(&$program).await;
        }

        #[tokio::test]
        async fn o_9_and_o_22_what_is_not_sampled_is_asked_and_not_exported() {
            $crate::controller::contract::trace::not_sampled(&$program).await;
        }
    };
}

/// All `traceparent` headers that driver and API server got.
fn headers(stage: &Stage) -> Vec<String> {
    let calls = stage.driver.calls().into_iter();
    let calls = calls.map(|call| call.traceparent);
    let requests = stage.api.requests().into_iter();
    let requests = requests.map(|request| request.traceparent);
    calls
        .chain(requests)
        .filter(|text| !text.is_empty())
        .collect()
}

/// Without the flag, whatever the environment says, the program connects to no collector and sends no new
/// headers.
pub async fn off(program: &'static Program) {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str());
    let sampler = ("OTEL_TRACES_SAMPLER", "always_on");
    let disabled = ("OTEL_SDK_DISABLED", "TRUE");
    let none = ("OTEL_TRACES_EXPORTER", "none");
    for (arguments, variable) in [
        (&[][..], sampler),
        (&["--enable-otel-tracing=false"], sampler),
        (&[FLAG], disabled),
        (&[FLAG], none),
    ] {
        let stage = Stage::prepared(program, 1).await;
        let running = stage.start_in(arguments, &[endpoint, variable]);
        running.logs(program.ready).await;
        stage.ask(0);
        stage.until_done(0).await;
        let told = running
            .log()
            .contains("The environment switches traces off");
        assert_eq!(told, arguments == [FLAG], "{}", running.log());
        running.terminate();
        running.end().await.well();
        assert_eq!(collector.connections(), 0, "{arguments:?} {variable:?}");
        assert_eq!(headers(&stage), [""; 0], "{arguments:?} {variable:?}");
    }
}

/// Work gets done, the outage is logged once, and shutdown does not wait.
pub async fn away(program: &'static Program) {
    let stage = Stage::prepared(program, 2).await;
    let address = super::super::free_address();
    let endpoint = format!("http://{address}");
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    let running = stage.start_in(&[FLAG], &environment);
    running.logs(program.ready).await;
    stage.ask(0);
    stage.until_done(0).await;
    running.logs(AWAY).await;
    stage.ask(1);
    stage.until_done(1).await;
    // Longer than the first pause.
    tokio::time::sleep(Duration::from_secs(2)).await;
    running.terminate();
    let begun = Instant::now();
    let ended = running.end().await;
    assert!(begun.elapsed() < Duration::from_secs(60), "{}", ended.log);
    assert_eq!(ended.log.matches(AWAY).count(), 1, "{}", ended.log);
    ended.well();
}

/// Each call and each request of an attempt carries the id of an exported span below that attempt.
pub async fn on(program: &'static Program) {
    let collector = Collector::start().await;
    let stage = Stage::prepared(program, 1).await;
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=%61"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment=test"),
        // Queued spans are sent when the process ends.
        ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
        ("POD_UID", "pod-1"),
    ];
    let running = stage.start_in(&[FLAG], &environment);
    running.logs(program.ready).await;
    stage.ask(0);
    stage.until_done(0).await;
    settle().await;
    running.terminate();
    running.end().await.well();
    let spans = collector.spans();
    let find = |header: &String| {
        let found = spans.iter().find(|one| {
            let header_of_span = format!("00-{}-{}-01", one.trace(), one.id());
            *header == header_of_span
        });
        found.unwrap_or_else(|| panic!("no span for {header}: {:?}", names(&spans)))
    };
    let headers = headers(&stage);
    assert!(!headers.is_empty(), "{:?}", stage.history());
    for header in &headers {
        let asked = find(header);
        let attempt = spans.iter().find(|one| one.id() == asked.parent());
        let attempt = attempt.unwrap_or_else(|| panic!("nothing above {}", asked.span.name));
        assert_eq!(attempt.span.name, "attempt");
        assert_eq!(attempt.attribute("csi.attempt"), "1");
        assert_eq!(attempt.trace(), asked.trace());
        assert!(asked.span.start_time_unix_nano >= attempt.span.start_time_unix_nano);
        assert!(asked.span.end_time_unix_nano <= attempt.span.end_time_unix_nano);
    }
    if let Effect::Call(method) = program.work.effect {
        let calls = stage.driver.calls_to(method);
        let span = find(&calls[0].traceparent);
        let name = &span.span.name;
        assert!(name.ends_with(&format!("/{method}")), "{name}");
        assert_eq!(span.attribute("rpc.method"), *name);
        assert_eq!(span.attribute("rpc.system.name"), "grpc");
        assert_eq!(span.attribute("rpc.response.status_code"), "OK");
    }
    for one in &spans {
        assert_eq!(attribute(&one.resource, "service.instance.id"), "pod-1");
        assert_eq!(attribute(&one.resource, "deployment"), "test");
        assert!(!one.program().is_empty());
        assert!(!one.scope.is_empty());
    }
    for headers in collector.headers() {
        // HTTP ignores blanks around a value.
        assert_eq!(headers["x-tenant"], "a");
    }
}

fn names(spans: &[Received]) -> Vec<String> {
    let texts = spans
        .iter()
        .map(|one| format!("{}-{} {}", one.trace(), one.id(), one.span.name));
    texts.collect()
}

/// Other programs may record the trace all the same, and need its ids.
pub async fn not_sampled(program: &'static Program) {
    let collector = Collector::start().await;
    let stage = Stage::prepared(program, 1).await;
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ];
    let running = stage.start_in(&[FLAG], &environment);
    running.logs(program.ready).await;
    stage.ask(0);
    stage.until_done(0).await;
    running.terminate();
    running.end().await.well();
    let headers = headers(&stage);
    assert!(!headers.is_empty());
    for header in headers {
        assert!(
            header.starts_with("00-") && header.ends_with("-00"),
            "{header}"
        );
    }
    assert_eq!(collector.connections(), 0);
}
