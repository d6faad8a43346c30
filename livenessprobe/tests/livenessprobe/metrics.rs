//! Rows about metrics.

use std::collections::BTreeSet;

use sidecar_testkit::driver::Probe;
use tonic::Code;

use crate::process::{self, NAME, Serving, get, request};

const FAMILY: &str = "csi_sidecar_operations_seconds";

fn sample(driver: &str, code: &str, method: &str) -> String {
    format!(
        "{FAMILY}_count{{driver_name=\"{driver}\",grpc_status_code=\"{code}\",\
         method_name=\"/csi.v1.Identity/{method}\"}}"
    )
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scrape, looked at whole")]
async fn l_21_l_22_l_23_what_is_shown() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--probe-timeout=5s"]).await;
    for _ in 0..2 {
        serving.is_healthy().await;
    }
    driver.configure(|model| {
        let fail = Probe::Fail(Code::Unavailable, "later".to_owned());
        model.probes.push_back(fail);
    });
    assert_eq!(serving.health().await.status, 500);
    // Without connection there is no call.
    driver.stop();
    assert_eq!(serving.health().await.status, 500);

    let answer = get(&serving.address, "/metrics").await;
    assert_eq!(answer.status, 200);
    let text_format = "content-type: text/plain; version=0.0.4";
    assert!(answer.head.contains(text_format), "{}", answer.head);
    assert!(
        answer.head.contains("process-start-time-unix: "),
        "{}",
        answer.head
    );

    let counts: BTreeSet<&str> = answer
        .body
        .lines()
        .filter(|line| line.contains("_count{"))
        .collect();
    let expected = [
        sample(NAME, "OK", "Probe") + " 2",
        sample(NAME, "Unavailable", "Probe") + " 1",
        sample("unknown-driver", "OK", "GetPluginInfo") + " 1",
    ];
    let expected = expected.iter().map(String::as_str).collect();
    assert_eq!(counts, expected, "L-21 L-23");

    let comments: Vec<_> = answer
        .body
        .lines()
        .filter(|line| line.starts_with('#'))
        .collect();
    let build = [
        "# HELP csi_sidecar_build_info [ALPHA] The build of this program, and the upstream program that it \
         behaves as.",
        "# TYPE csi_sidecar_build_info gauge",
    ];
    // Upstream has no such family.
    let build = build.into_iter().filter(|_| !process::is_foreign());
    let expected = [
        "# HELP csi_sidecar_operations_seconds [ALPHA] Container Storage Interface operation \
         duration with gRPC error code status total",
        "# TYPE csi_sidecar_operations_seconds histogram",
        "# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in \
         seconds.",
        "# TYPE process_start_time_seconds gauge",
    ];
    let expected: Vec<_> = build.chain(expected).collect();
    assert_eq!(comments, expected, "L-22, O-65");
    // csi-node-sidecars replaces the registrar, too.
    let mut lines = answer.body.lines();
    let info = lines.find(|line| line.starts_with("csi_sidecar_build_info{"));
    let replaces = info.map(|info| info.contains("livenessprobe v2.19."));
    assert_eq!(replaces, (!process::is_foreign()).then_some(true), "O-65");

    let buckets: Vec<_> = answer
        .body
        .lines()
        .filter(|line| {
            line.contains("_bucket{")
                && line.contains("\"OK\",method_name=\"/csi.v1.Identity/Probe\"")
        })
        .map(|line| {
            line.split("le=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
        })
        .collect();
    let expected = [
        "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15", "25", "50", "120", "300", "600", "+Inf",
    ];
    assert_eq!(buckets, expected, "L-22");
}

#[tokio::test]
async fn metrics_for_every_method() {
    let driver = process::driver();
    let serving = Serving::beside(&driver, &["--metrics-path=/other"]).await;
    for method in ["GET", "HEAD", "POST"] {
        let answer = request(&serving.address, method, "/other").await;
        assert_eq!(answer.status, 200, "{method}");
    }
    assert_eq!(get(&serving.address, "/metrics").await.status, 404);
}
