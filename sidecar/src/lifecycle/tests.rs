use std::time::{Duration, Instant};

use ::kube::client::Body;
use http::header::DATE;
use http::{Request, Response};
use jiff::SignedDuration;
use tower::service_fn;
use tower_service::Service as _;

use super::*;
use crate::kube::rate::{Limiter, Rate, RequestMetrics};
use crate::metrics::Registry;

/// The metrics of a process.
struct Shown {
    registry: Registry,
    metrics: LifecycleMetrics,
    requests: RequestMetrics,
}

impl Shown {
    fn new() -> Self {
        let registry = Registry::new();
        Self {
            metrics: LifecycleMetrics::new(&registry).unwrap(),
            requests: RequestMetrics::new(&registry).unwrap(),
            registry,
        }
    }

    fn lifecycle(&self, stages: &'static [Stage]) -> Lifecycle {
        Lifecycle::new(Parts {
            driver: "test.driver".into(),
            stages,
            counted_until: None,
            metrics: self.metrics.clone(),
            skew: self.requests.skew(),
        })
    }

    fn shown(&self) -> Vec<String> {
        let text = self.registry.render();
        let lines = text.lines().filter(|line| {
            line.starts_with("csi_sidecar_lifecycle_") && !line.contains("_bucket{")
        });
        lines.map(str::to_owned).collect()
    }
}

fn now() -> u32 {
    u32::try_from(Timestamp::now().as_second()).unwrap()
}

fn open(stage: Stage, uid: &str, since: u32) -> Step<'static> {
    let since = Since::At(since);
    Step::new(stage, Id::of(uid), Progress::Open { since, moves: true })
}

fn done(stage: Stage, uid: &str) -> Step<'static> {
    let done = Progress::DONE;
    Step::new(stage, Id::of(uid), done)
}

#[test]
fn o_92_at_most_51_classes_of_15_series() {
    let stage = Shown::new();
    let lifecycle = stage.lifecycle(&[Stage::Provisioned]);
    lifecycle.listed();
    for class in 0..60 {
        let class = format!("class-{class}");
        lifecycle.take(vec![open(Stage::Provisioned, "u1", now())]);
        lifecycle.take(vec![done(Stage::Provisioned, "u1").of_class(&class)]);
    }
    let text = stage.registry.render();
    let series = |line: &&str| line.starts_with("csi_sidecar_lifecycle_seconds_");
    assert_eq!(text.lines().filter(series).count(), 51 * 15);
    let others = r#"csi_sidecar_lifecycle_seconds_count{class="other",driver_name="test.driver",stage="provisioned"} 10"#;
    assert!(text.contains(others), "{text}");
    // Stages without a class use up none of the fifty names.
    let plain = stage.lifecycle(&[Stage::Attached]);
    plain.listed();
    plain.take(vec![open(Stage::Attached, "u2", now())]);
    plain.take(vec![done(Stage::Attached, "u2")]);
    let plain = r#"csi_sidecar_lifecycle_seconds_count{class="",driver_name="test.driver",stage="attached"} 1"#;
    assert!(stage.shown().iter().any(|line| line == plain));
}

#[test]
fn o_86_gauges_are_there_while_somebody_leads() {
    let stage = Shown::new();
    assert_eq!(stage.shown(), Vec::<String>::new());
    let lifecycle = stage.lifecycle(&[Stage::Attached, Stage::Detached]);
    lifecycle.listed();
    lifecycle.take(vec![
        open(Stage::Attached, "u1", now() - 3600),
        open(Stage::Attached, "u2", now() - 60),
        // This controller does not measure the stage.
        open(Stage::Deleted, "u3", now()),
    ]);
    let shown = stage.shown();
    let prefix = "csi_sidecar_lifecycle_";
    for line in [
        r#"unfinished{stage="attached"} 2"#,
        r#"unfinished{stage="detached"} 0"#,
        r#"oldest_unfinished_seconds{stage="detached"} 0"#,
    ] {
        assert!(shown.contains(&format!("{prefix}{line}")), "{shown:?}");
    }
    let oldest = format!(r#"{prefix}oldest_unfinished_seconds{{stage="attached"}} "#);
    let oldest = shown.iter().find_map(|line| line.strip_prefix(&oldest));
    let oldest: f64 = oldest.unwrap().parse().unwrap();
    assert!((3600.0..3602.0).contains(&oldest), "{oldest}");
    drop(lifecycle);
    assert_eq!(stage.shown(), Vec::<String>::new());
}

#[test]
fn o_84_what_cannot_be_measured_is_counted() {
    let stage = Shown::new();
    let lifecycle = stage.lifecycle(&[Stage::Provisioned]);
    let since = Since::Chosen;
    let what = Progress::Open { since, moves: true };
    lifecycle.take(vec![Step::new(Stage::Provisioned, Id::of("u1"), what)]);
    lifecycle.listed();
    lifecycle.take(vec![done(Stage::Provisioned, "u1")]);
    let counted = r#"csi_sidecar_lifecycle_unmeasured_total{stage="provisioned"} 1"#;
    let shown = stage.shown();
    assert!(shown.iter().any(|line| line == counted), "{shown:?}");
    assert!(!shown.iter().any(|line| line.contains("_seconds_count{")));
}

#[test]
fn what_is_gone_without_a_word_has_ended_if_its_absence_is_the_end() {
    let stage = Shown::new();
    let lifecycle = stage.lifecycle(&[Stage::Attached, Stage::Detached]);
    lifecycle.listed();
    lifecycle.take(vec![
        open(Stage::Attached, "u1", now()),
        open(Stage::Detached, "u2", now()),
    ]);
    lifecycle.vanished(Id::of("u1"));
    lifecycle.vanished(Id::of("u2"));
    let shown = stage.shown();
    let counts: Vec<_> = { shown.iter() }
        .filter(|line| line.contains("_seconds_count{"))
        .collect();
    let counted = r#"csi_sidecar_lifecycle_seconds_count{class="",driver_name="test.driver",stage="detached"} 1"#;
    assert_eq!(counts, [counted]);
    let none = r#"csi_sidecar_lifecycle_unfinished{stage="attached"} 0"#;
    assert!(shown.iter().any(|line| line == none));
}

#[test]
fn o_89_whose_it_is_may_be_known_once_the_lists_are_complete() {
    let stage = Shown::new();
    let known = Arc::new(Mutex::new(false));
    let lifecycle = stage.lifecycle(&[Stage::Modified]).owned_by({
        let known = Arc::clone(&known);
        move |volume| {
            let driver = match volume {
                "pv1" => "test.driver",
                _ => "another.driver",
            };
            lock(&known).then(|| driver.into())
        }
    });
    for (uid, volume) in [("u1", "pv1"), ("u2", "pv2")] {
        assert!(lifecycle.may_be_ours(uid, volume));
        lifecycle.take(vec![open(Stage::Modified, uid, now())]);
    }
    *lock(&known) = true;
    lifecycle.listed();
    let one = r#"csi_sidecar_lifecycle_unfinished{stage="modified"} 1"#;
    assert!(stage.shown().iter().any(|line| line == one));
    assert!(lifecycle.may_be_ours("u3", "pv1"));
    assert!(!lifecycle.may_be_ours("u4", "pv2"));
    *lock(&known) = false;
    assert!(!lifecycle.may_be_ours("u5", "pv1"));
}

#[test]
fn o_93_a_scrape_with_50_000_open_takes_little() {
    let stage = Shown::new();
    let lifecycle = stage.lifecycle(&[Stage::Bound]);
    lifecycle.listed();
    let since = now();
    for object in 0..50_000 {
        lifecycle.take(vec![open(Stage::Bound, &object.to_string(), since)]);
    }
    let begun = Instant::now();
    let all = r#"csi_sidecar_lifecycle_unfinished{stage="bound"} 50000"#;
    assert!(stage.shown().iter().any(|line| line == all));
    // About one millisecond in a release; the limit leaves room for a busy machine and a debug build.
    let took = begun.elapsed();
    assert!(took.as_millis() < 500, "{took:?}");
}

#[tokio::test]
async fn o_91_samples_are_by_the_api_servers_clock() {
    let shown = Shown::new();
    let behind = Timestamp::now() - SignedDuration::from_secs(90);
    let date = behind.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let answered = service_fn(move |_: Request<Body>| {
        let answer = Response::builder().header(DATE, &date).body(Body::empty());
        std::future::ready(answer)
    });
    let requests = shown.requests.to("server");
    let limiter = Limiter::new(Rate::Unlimited, Duration::from_secs(5), None);
    let mut client = limiter.counting(Some(requests)).limit(answered);
    let request = Request::get("/api/v1/pods").body(Body::empty()).unwrap();
    client.call(request).await.unwrap();
    let lifecycle = shown.lifecycle(&[Stage::Attached]);
    lifecycle.listed();
    // Created just now by the API server's clock.
    lifecycle.take(vec![open(Stage::Attached, "u1", now() - 90)]);
    lifecycle.take(vec![done(Stage::Attached, "u1")]);
    let text = shown.registry.render();
    let short = r#"stage="attached",le="60"} 1"#;
    assert!(text.contains(short), "{text}");
}

#[test]
fn o_97_administrators_read_of_each_family() {
    let page = include_str!("../../../docs/administrators.md");
    let shown = Shown::new();
    let lifecycle = shown.lifecycle(&[Stage::Attached]);
    let unknown = Progress::Open {
        since: Since::Seen,
        moves: true,
    };
    lifecycle.take(vec![Step::new(Stage::Attached, Id::of("u1"), unknown)]);
    lifecycle.listed();
    lifecycle.take(vec![open(Stage::Attached, "u2", now())]);
    lifecycle.take(vec![
        done(Stage::Attached, "u1"),
        done(Stage::Attached, "u2"),
    ]);
    let text = shown.registry.render();
    let families = { text.lines() }.filter_map(|line| line.strip_prefix("# TYPE "));
    let families = families.filter_map(|line| Some(line.split_once(' ')?.0));
    let ours = ["csi_sidecar_lifecycle", "csi_sidecar_clock"];
    let families: Vec<_> = families
        .filter(|family| ours.iter().any(|ours| family.starts_with(ours)))
        .collect();
    assert_eq!(families.len(), 5, "{families:?}");
    for family in families {
        assert!(page.contains(&format!("`{family}`")), "{family}");
    }
}
