//! Row 137, and faults that a leader survives.

use std::time::Duration;

use serde_json::json;
use sidecar_testkit::build;
use sidecar_testkit::controller::ELECTION;
use sidecar_testkit::measure::usual_pause;
use sidecar_testkit::process::{Process, Signal};
use tokio::time::{Instant, sleep, timeout};

use super::stage::{PATIENCE, Stage, free_address, get};

const LEASE: &str = "ns/external-attacher-leader-test-csi-driver";

#[tokio::test]
async fn common_68_the_lease_is_renewed_on_time_while_the_controllers_wait_for_their_turn() {
    const RENEWALS: usize = 12;
    let stage = Stage::new().await;
    for number in 0..20 {
        stage.volume(&format!("v{number}"), None);
    }
    let slow = [
        "--leader-election-retry-period=1s",
        "--kube-api-qps=0.2",
        "--kube-api-burst=1",
    ];
    let mut attacher = stage.start(&[&ELECTION[..], &slow].concat());
    attacher.logs("Starting CSI attacher").await;
    let begun = Instant::now();
    for number in 0..20 {
        stage.attach(&format!("va{number}"), &format!("v{number}"));
    }
    stage.until_written("PATCH", "*", 1).await;
    let since = Instant::now();
    let renewals = || -> Vec<Instant> {
        let renewals = stage.api.requests_to("PUT", "*/leases/*").into_iter();
        let times = renewals.map(|renewal| renewal.at);
        times.filter(|at| *at >= since).collect()
    };
    stage.until_api(|_| renewals().len() > RENEWALS).await;
    let writes = stage.api.requests_to("PATCH", "*").len() as u64;
    let most = 2 + begun.elapsed().as_secs() / 5;
    assert!(writes <= most, "one in five seconds: {writes}");
    // One second; renewals that wait for their turn would be five seconds apart.
    let pause = usual_pause(&renewals());
    assert!(pause < Duration::from_secs(3), "{pause:?}");
    assert!(attacher.is_running(), "{}", attacher.log());
}

/// A driver's name that ends with a sign becomes `…-X` in names. In a lease's name, as upstream's,
/// an API server refuses the upper-case letter.
#[tokio::test]
async fn row_137_names_of_lease_and_finalizer() {
    let stage = Stage::new().await;
    // Without the sign at its end, so that the API server accepts the Lease: common row 112.
    stage
        .driver
        .configure(|model| model.name = "a/b_c.d".into());
    let driver = "a/b_c.d-";
    stage.volume("pv2", None);
    stage
        .api
        .insert(build::csinode("node2").driver(driver, "NID2"));
    let leader = stage.start(&ELECTION);
    leader.logs("Successfully acquired lease").await;
    let path = "*/namespaces/ns/leases/external-attacher-leader-a-b-c-d";
    assert!(
        !stage.api.requests_to("GET", path).is_empty(),
        "{:#?}",
        stage.api.requests()
    );
    drop(leader);

    stage.driver.configure(|model| model.name = driver.into());
    let _attacher = stage.start(&[]);
    stage
        .api
        .insert(build::attachment("va2").by(driver).on("node2").of("pv2"));
    stage.until_attached("va2").await;
    let finalizers = stage.attachment("va2")["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["external-attacher/a-b-c-d-X"]));
}

#[tokio::test]
async fn fs_9_a_leader_whose_log_nobody_reads_stays_leader_and_works() {
    let stage = Stage::new().await;
    let address = free_address();
    let endpoint = format!("--http-endpoint={address}");
    let more = ["--leader-election-retry-period=1s", "-v=5", &endpoint];
    let command = stage.command(&[&ELECTION[..], &more].concat());
    let (mut process, stderr) = Process::start_unread(command);
    stage.attach("va1", "pv1");
    stage.until_attached("va1").await;
    let renewed = || {
        let lease = stage.api.object("leases", LEASE).unwrap();
        lease["spec"]["renewTime"].as_str().unwrap().to_owned()
    };
    for _ in 0..3 {
        let before = renewed();
        let again = async {
            while renewed() == before {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, again)
            .await
            .expect("the lease is renewed");
        assert_eq!(get(&address, "/healthz/leader-election").await.0, 200);
    }
    // The refused Lease does not delay the end.
    process.signal(Signal::TERM);
    let end = process.ended_within(PATIENCE).await;
    assert_eq!(end.status.code(), Some(0));
    drop(stderr);
}
