//! Rows of the common table, shown with this controller: rows 49 to 54, 63, 80, 83, 85, 86 and 88.

use std::path::Path;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::stage::{PROGRAM, Stage, free_address, get};

const LEASE: &str = "external-attacher-leader-test-csi-driver";

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().to_owned()
}

/// The host name as lease identities spell it.
fn identity() -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric();
    let name = hostname().replace(|letter| !plain(letter), "-");
    if name.ends_with('-') {
        name + "X"
    } else {
        name
    }
}

#[tokio::test]
async fn common_49_and_63_the_lease_and_the_event_about_it() {
    let stage = Stage::new().await;
    let arguments = ["--leader-election", "--leader-election-namespace=ns"];
    let _attacher = stage.start(&arguments);
    let path = format!("*/namespaces/ns/leases/{LEASE}");
    stage.until_written("PUT", &path, 1).await;
    let mut requests = stage.api.requests();
    requests.retain(|request| request.path.contains("/leases"));
    let methods: Vec<&str> = requests
        .iter()
        .map(|request| request.method.as_str())
        .collect();
    assert_eq!(methods[..3], ["GET", "POST", "PUT"], "row 49");
    let lease = stage.api.object("leases", &format!("ns/{LEASE}")).unwrap();
    let spec = &lease["spec"];
    assert_eq!(spec["holderIdentity"], identity(), "row 49");
    assert_eq!(spec["leaseDurationSeconds"], 15, "row 49");
    assert_eq!(spec["leaseTransitions"], 0, "row 49");

    stage
        .until_api(|api| !api.objects("events").is_empty())
        .await;
    let event = stage.api.objects("events").remove(0);
    assert_eq!(event["reason"], "LeaderElection", "row 63");
    let message = format!("{} became leader", identity());
    assert_eq!(event["message"], message, "row 63");
    let component = format!("external-attacher-leader-test.csi.driver/{}", hostname());
    assert_eq!(event["source"]["component"], component, "row 63");
    assert_eq!(event["metadata"]["namespace"], "ns", "row 63");
}

#[tokio::test]
async fn common_52_to_54_the_namespace_of_the_lease() {
    let file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let without = match std::fs::read_to_string(file) {
        Ok(namespace) => namespace.trim().to_owned(),
        Err(_) => "default".to_owned(),
    };
    let rows = [
        (
            "52",
            vec![("POD_NAMESPACE", "env"), ("HOSTNAME", "zzz")],
            "env",
        ),
        ("53", vec![], &without),
    ];
    for (row, environment, namespace) in rows {
        let stage = Stage::new().await;
        let _attacher = stage.start_in(&["--leader-election"], &environment);
        let path = format!("*/namespaces/{namespace}/leases/{LEASE}");
        stage.until_written("PUT", &path, 1).await;
        let lease = stage.api.object("leases", &format!("{namespace}/{LEASE}"));
        let holder = lease.unwrap()["spec"]["holderIdentity"].clone();
        assert_eq!(holder, identity(), "row {row}, and 54");
    }
}

#[tokio::test]
async fn common_80_metrics_where_they_were_asked_for() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let attacher = stage.start(&[&endpoint, "--metrics-path=/m"]);
    attacher.logs("Starting CSI attacher").await;
    assert_eq!(get(&address, "/m").await.0, 200);
    assert_eq!(get(&address, "/metrics").await.0, 404);
}

#[tokio::test]
async fn common_83_every_line_is_an_object() {
    let stage = Stage::new().await;
    let attacher = stage.start(&["--logging-format=json", "-v=5"]);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    attacher
        .logs("/csi.v1.Controller/ControllerPublishVolume")
        .await;
    attacher.terminate();
    let ended = attacher.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(ended.stdout, "");
    assert!(ended.log.lines().count() > 5, "{}", ended.log);
    for line in ended.log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(entry["ts"].is_f64() && entry["msg"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn common_85_automaxprocs() {
    for (flag, code) in [
        ("--automaxprocs", 0),
        ("--automaxprocs=false", 0),
        ("--automaxprocs=bad", 2),
    ] {
        let ended = PROGRAM.run(&[flag, "--version"]).await;
        assert_eq!(ended.code, Some(code), "{flag}: {}", ended.log);
    }
}

#[tokio::test]
async fn common_86_the_flag_and_not_the_variable_names_the_kubeconfig() {
    let stage = Stage::new().await;
    let attacher = stage.start_in(&[], &[("KUBECONFIG", "/nonexistent")]);
    attacher.logs("Starting CSI attacher").await;
}

#[tokio::test]
async fn common_88_a_rate_that_is_asked_for_is_kept_to() {
    let stage = Stage::new().await;
    stage.volume("pv2", Some(json!(["a/b"])));
    stage.volume("pv3", Some(json!(["a/b"])));
    let _attacher = stage.start(&["--kube-api-qps=1", "--kube-api-burst=1"]);
    // The API server may hear late of the first write.
    let begun = Instant::now();
    stage.attach("va2", "pv2");
    stage.attach("va3", "pv3");
    stage.until_attached("va2").await;
    stage.until_attached("va3").await;
    let writes = stage.api.writes();
    assert_eq!(writes.len(), 6);
    let took = (writes[5].at - begun).as_secs_f64();
    assert!(took > 4.5, "{took}");
}

#[tokio::test]
async fn common_99_a_certificate_that_is_not_accepted_is_told_and_named_by_readyz() {
    let (stage, other) = (Stage::over_tls().await, Stage::over_tls().await);
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let authority = |stage: &Stage| {
        let flag = stage.kubeconfig();
        Path::new(flag.trim_start_matches("--kubeconfig=")).with_file_name("ca.crt")
    };
    let own = std::fs::read(authority(&stage)).unwrap();
    std::fs::copy(authority(&other), authority(&stage)).unwrap();
    let attacher = stage.start(&[&endpoint]);
    let told = "Cannot talk to the API server until this is fixed";
    attacher.logs(told).await;
    let (status, text) = get(&address, "/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(
        text.contains("UnknownIssuer; certificate-authority of"),
        "{text}"
    );
    assert_eq!(
        attacher.log().matches(told).count(),
        1,
        "{}",
        attacher.log()
    );
    assert!(stage.api.requests().is_empty());
    attacher.terminate();
    assert_eq!(attacher.end().await.code, Some(0));

    std::fs::write(authority(&stage), own).unwrap();
    let attacher = stage.start(&[&endpoint]);
    attacher.logs("Starting CSI attacher").await;
    assert_eq!(get(&address, "/readyz").await, (200, "ok".to_owned()));
}
