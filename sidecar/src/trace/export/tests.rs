use csi_proto::otlp::{
    ExportTracePartialSuccess, ExportTraceServiceResponse, RETRY_INFO, RetryInfo, RichStatus,
};
use prost::Message as _;
use sidecar_testkit::api::ClientCertificate;
use sidecar_testkit::collector::{Answer, Collector};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tonic::{Code, Status};

use super::super::settings::{Process, read};
use super::*;
use crate::clock::testing::in_small_steps;

const LONG: Duration = Duration::from_secs(600);

/// An exporter with these variables, and its metrics.
fn exporter(variables: &[(&str, &str)]) -> (Exporter, Registry) {
    let process = Process {
        program: "csi-attacher",
        version: "v1",
        instance: "pod",
    };
    let environment = read(&process, |name| {
        let mut variables = variables.iter();
        variables
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    });
    assert!(environment.warnings.is_empty(), "{environment:?}");
    let registry = Registry::new();
    let settings = environment.settings.unwrap();
    let exporter = Exporter::start(settings, "v1", &registry).unwrap();
    (exporter, registry)
}

async fn beside(collector: &Collector, variables: &[(&str, &str)]) -> (Exporter, Registry) {
    let endpoint = collector.endpoint();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str());
    let variables: Vec<_> = variables.iter().copied().chain([endpoint]).collect();
    exporter(&variables)
}

fn spans(exporter: &Exporter, scope: &'static str, count: usize) {
    for number in 0..count {
        let span = Span {
            name: format!("{scope} {number}"),
            ..Span::default()
        };
        exporter.take(scope, span);
    }
}

/// Sent, dropped, refused.
fn counts(registry: &Registry) -> [u64; 3] {
    ["sent", "dropped", "refused"].map(|result| {
        let text = registry.render();
        let start = format!("csi_sidecar_otel_spans_total{{result=\"{result}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap().parse().unwrap()
    })
}

async fn until_counts(registry: &Registry, expected: [u64; 3]) {
    let counted = async {
        while counts(registry) != expected {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(60);
    if timeout(limit, counted).await.is_err() {
        panic!("{:?} instead of {expected:?}", counts(registry));
    }
}

fn refusal(code: Code) -> Answer {
    Answer::Refused(Status::new(code, "no"))
}

#[tokio::test]
async fn o_10_and_o_27_a_full_batch_goes_at_once_and_says_which_controller_it_is_of() {
    let collector = Collector::start().await;
    let variables = [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
    ];
    let (exporter, registry) = beside(&collector, &variables).await;
    spans(&exporter, "attacher", 2);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(collector.connections(), 0);
    spans(&exporter, "resizer", 3);
    collector
        .until("batch", |collector| collector.exports() == 1)
        .await;
    until_counts(&registry, [4, 0, 0]).await;
    let received = collector.spans();
    let received = received.iter().map(|one| (&*one.scope, &*one.span.name));
    let expected = [
        ("attacher", "attacher 0"),
        ("attacher", "attacher 1"),
        ("resizer", "resizer 0"),
        ("resizer", "resizer 1"),
    ];
    assert_eq!(received.collect::<Vec<_>>(), expected);
    exporter.end(LONG).await;
    assert_eq!(counts(&registry), [5, 0, 0]);
    assert_eq!(collector.connections(), 1);
}

#[tokio::test]
async fn o_10_what_waits_long_enough_goes_alone() {
    let collector = Collector::start().await;
    let (exporter, registry) = beside(&collector, &[("OTEL_BSP_SCHEDULE_DELAY", "50")]).await;
    for count in 1..=3 {
        spans(&exporter, "attacher", 1);
        until_counts(&registry, [count, 0, 0]).await;
    }
    assert_eq!(collector.exports(), 3);
}

#[tokio::test]
async fn o_10_a_timeout_that_grpc_has_no_word_for_and_one_of_zero_send_all_the_same() {
    for value in ["18446744073709551615", "0"] {
        let collector = Collector::start().await;
        let variables = [
            ("OTEL_BSP_SCHEDULE_DELAY", "20"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", value),
        ];
        let (exporter, registry) = beside(&collector, &variables).await;
        spans(&exporter, "attacher", 1);
        until_counts(&registry, [1, 0, 0]).await;
    }
}

/// The collector is busy, and names a pause.
fn busy(code: Code, seconds: i64, nanos: i32) -> Answer {
    let retry = RetryInfo {
        retry_delay: Some(otlp::Duration { seconds, nanos }),
    };
    let details = RichStatus {
        details: vec![otlp::Any {
            type_url: RETRY_INFO.to_owned(),
            value: retry.encode_to_vec(),
        }],
    };
    let details = details.encode_to_vec();
    Answer::Refused(Status::with_details(code, "busy", details.into()))
}

#[tokio::test(start_paused = true)]
async fn o_11_a_collector_that_says_at_once_is_not_asked_at_once() {
    tokio::spawn(in_small_steps());
    for (code, seconds) in [(Code::Unavailable, 0), (Code::ResourceExhausted, -1)] {
        let collector = Collector::start().await;
        collector.answer([busy(code, seconds, 0)]);
        let variables = [("OTEL_BSP_SCHEDULE_DELAY", "20")];
        let (exporter, _registry) = beside(&collector, &variables).await;
        spans(&exporter, "attacher", 1);
        collector.until("try", |it| it.exports() == 1).await;
        sleep(Duration::from_millis(500)).await;
        assert_eq!(collector.exports(), 1, "{code:?} {seconds}");
    }
}

#[tokio::test]
async fn o_11_what_becomes_of_spans() {
    let busy = busy(Code::ResourceExhausted, 0, 50_000_000);
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: "too long".to_owned(),
        }),
    };
    let taken = Answer::Taken(ExportTraceServiceResponse::default());
    for (answers, counted, exports) in [
        (vec![taken.clone()], [3, 0, 0], 1),
        (
            vec![refusal(Code::Unavailable), taken.clone()],
            [3, 0, 0],
            2,
        ),
        (vec![busy, taken.clone()], [3, 0, 0], 2),
        (vec![refusal(Code::ResourceExhausted)], [0, 0, 3], 1),
        (vec![refusal(Code::InvalidArgument)], [0, 0, 3], 1),
        (vec![refusal(Code::Unauthenticated)], [0, 0, 3], 1),
        (vec![Answer::Taken(partial)], [2, 0, 1], 1),
        (vec![Answer::Never, taken], [3, 0, 0], 2),
    ] {
        let collector = Collector::start().await;
        let variables = [
            ("OTEL_BSP_SCHEDULE_DELAY", "20"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "60000"),
        ];
        let shown = format!("{answers:?}");
        let is_silent = matches!(answers[0], Answer::Never);
        collector.answer(answers);
        let (exporter, registry) = beside(&collector, &variables).await;
        spans(&exporter, "attacher", 3);
        if is_silent {
            collector.until("try", |it| it.exports() == 1).await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(61)).await;
            tokio::time::resume();
        }
        until_counts(&registry, counted).await;
        assert_eq!(collector.exports(), exports, "{shown}");
    }
}

#[tokio::test]
async fn o_11_a_full_queue_drops_the_newest() {
    let collector = Collector::start().await;
    let variables = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "3"),
        ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
    ];
    collector.answer([refusal(Code::Unavailable)]);
    let (exporter, registry) = beside(&collector, &variables).await;
    spans(&exporter, "first", 3);
    collector
        .until("try", |collector| collector.exports() == 1)
        .await;
    spans(&exporter, "second", 5);
    assert_eq!(counts(&registry), [0, 2, 0]);
    collector.answer([Answer::Taken(ExportTraceServiceResponse::default())]);
    until_counts(&registry, [6, 2, 0]).await;
    assert_eq!(collector.named("second 2").len(), 1);
    assert_eq!(collector.named("second 3").len(), 0);
}

#[tokio::test]
async fn o_7_and_o_26_no_header_gets_into_the_log_with_the_collectors_words() {
    let collector = Collector::start().await;
    let answer = Status::unauthenticated("who is Bearer planted-token?");
    collector.answer([Answer::Refused(answer)]);
    let variables = [
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20planted-token,b=%20x",
        ),
    ];
    let log = crate::log::capture();
    let (exporter, registry) = beside(&collector, &variables).await;
    spans(&exporter, "attacher", 1);
    until_counts(&registry, [0, 0, 1]).await;
    let headers = &collector.headers()[0];
    assert_eq!(headers["authorization"], "Bearer planted-token");
    let log = log.lines().join("\n");
    assert!(log.contains("The collector refuses spans"), "{log}");
    assert!(
        log.contains("who is ***?") && !log.contains("planted"),
        "{log}"
    );
}

#[tokio::test(start_paused = true)]
async fn o_28_what_waits_at_the_end_is_sent_in_time_or_not_at_all() {
    tokio::spawn(in_small_steps());
    let slow = [("OTEL_BSP_SCHEDULE_DELAY", "600000")];
    let collector = Collector::start().await;
    let (exporter, registry) = beside(&collector, &slow).await;
    spans(&exporter, "attacher", 300);
    let begun = Instant::now();
    exporter.end(LAST_SPANS).await;
    assert!(begun.elapsed() < LAST_SPANS);
    assert_eq!(counts(&registry), [300, 0, 0]);

    // The collector accepts the connection and sends nothing.
    let collector = Collector::start().await;
    collector.answer([Answer::Never]);
    let (exporter, registry) = beside(&collector, &slow).await;
    spans(&exporter, "attacher", 600);
    let begun = Instant::now();
    exporter.end(Duration::from_millis(500)).await;
    assert!(begun.elapsed() < LAST_SPANS);
    assert_eq!(counts(&registry), [0, 600, 0]);

    // Nobody listens, and the batch waits for its retry.
    let away = sidecar_testkit::controller::free_address();
    let endpoint = format!("http://{away}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), slow[0]];
    let (exporter, registry) = self::exporter(&variables);
    spans(&exporter, "attacher", 600);
    sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    exporter.end(LAST_SPANS).await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(counts(&registry), [0, 600, 0]);
}

#[tokio::test]
async fn o_5_tls_with_given_roots_and_a_certificate_that_is_read_anew() {
    let (collector, authority) = Collector::over_tls().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let store = |client: &ClientCertificate| {
        std::fs::write(path("tls.crt"), &client.certificate).unwrap();
        std::fs::write(path("tls.key"), &client.key).unwrap();
    };
    let [first, second] = [ClientCertificate::make(), ClientCertificate::make()];
    let files = [path("ca.crt"), path("tls.crt"), path("tls.key")];
    let variables = [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*files[0]),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &*files[1]),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &*files[2]),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
    ];
    // The files appear after the process has started.
    let (exporter, registry) = beside(&collector, &variables).await;
    spans(&exporter, "attacher", 1);
    sleep(Duration::from_millis(300)).await;
    std::fs::write(path("ca.crt"), &authority).unwrap();
    store(&first);
    until_counts(&registry, [1, 0, 0]).await;
    assert_eq!(collector.certificates(), std::slice::from_ref(&first.der));
    store(&second);
    collector.answer([
        refusal(Code::Unavailable),
        Answer::Taken(ExportTraceServiceResponse::default()),
    ]);
    spans(&exporter, "attacher", 1);
    until_counts(&registry, [2, 0, 0]).await;
    assert_eq!(collector.certificates(), [first.der, second.der]);
}

#[tokio::test]
async fn o_5_a_handshake_that_never_ends_leaves_no_connection_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
    ];
    let (exporter, _registry) = exporter(&variables);
    spans(&exporter, "attacher", 1);
    for connection in 0..2 {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut greeting = Vec::new();
        let ended = timeout(Duration::from_secs(20), stream.read_to_end(&mut greeting));
        let ended = ended.await;
        assert!(ended.is_ok(), "connection {connection} stays");
    }
}

#[tokio::test]
async fn o_5_a_collector_that_nobody_vouches_for_gets_nothing() {
    let (collector, _authority) = Collector::over_tls().await;
    let log = crate::log::capture();
    let (exporter, registry) = beside(&collector, &[("OTEL_BSP_SCHEDULE_DELAY", "20")]).await;
    spans(&exporter, "attacher", 1);
    collector
        .until("connection", |it| it.connections() == 1)
        .await;
    sleep(Duration::from_millis(300)).await;
    exporter.end(LAST_SPANS).await;
    assert_eq!(counts(&registry), [0, 1, 0]);
    assert_eq!(collector.exports(), 0);
    let log = log.lines().join("\n");
    assert_eq!(log.matches("does not take spans").count(), 1, "{log}");
}
