//! H-38 to H-45 and H-59: how the API server handles writes.

use std::time::{Duration, Instant};

use sidecar_testkit::Fault;
use sidecar_testkit::build::Object as _;
use sidecar_testkit::measure::usual_pause;

use super::stage::{CLAIMS, ELECTION, LIST, STATUS, Stage, claim, entry, settle, stored, volume};

#[tokio::test]
async fn h_38_to_40_whatever_the_driver_says_fits_into_a_claim() {
    let stage = Stage::listing().await;
    let long = "x".repeat(300);
    let mut wild: Vec<_> = ["", "has space", "a-b", "9x", &long]
        .map(|reason| entry(1, reason, &"é".repeat(800)))
        .into();
    wild.push(entry(1, "a-b", "again"));
    wild.extend((0..14).map(|number| entry(2, &format!("I{number}"), "m")));
    stage.driver.configure(|model| {
        model.health.insert("h10".into(), wild);
    });
    let _program = stage.started(&[]).await;
    stage
        .until("sixteen conditions", || stage.conditions(10).len() == 16)
        .await;
    let conditions = stage.conditions(10);
    assert_eq!(conditions[..2], ["Inaccessible I0", "Inaccessible I1"]);
    assert_eq!(
        conditions[14..],
        ["Degraded Unspecified", "Degraded has_space"]
    );
    let message = stage.health(10)["healthConditions"][14]["message"]
        .as_str()
        .unwrap()
        .len();
    assert_eq!(message, 1024);
    stage.cycles(1).await;
    assert_eq!(stage.patches().len(), 1);
}

#[tokio::test]
async fn h_41_to_43_an_api_server_that_drops_the_field_costs_next_to_nothing() {
    let stage = Stage::listing().await;
    for number in 0..50 {
        let key = format!("ns/more{number}");
        stage.api.insert(volume(
            &format!("more{number}"),
            &format!("more{number}"),
            &key,
        ));
        stage.api.insert(claim(&key, &format!("more{number}")));
        stage.suffers(&format!("more{number}"), &[(1, "A")]);
    }
    // A condition that was written while the gate was on.
    stage.has(12, &["Degraded A"]);
    stage.suffers("h12", &[]);
    stage.api.forget_field(CLAIMS, "/status/healthStatus");
    let program = stage.started(&[]).await;
    program
        .logs("The API server drops status.healthStatus")
        .await;
    stage.until_conditions(12, &[]).await;
    stage.cycles(3).await;
    let dropped = stage.api.requests_to("PATCH", "*/more*/status").len();
    assert_eq!(dropped, 1, "H-41");
    assert_eq!(
        program.log().matches("drops status.healthStatus").count(),
        1,
        "H-41"
    );
    assert_eq!(stage.patches().len(), 2, "H-43");
}

/// Takes as long as the program leaves such a server alone: `cargo test -p health-monitor --test process h_42 --
/// --ignored`.
#[tokio::test]
#[ignore = "takes ten minutes"]
async fn h_42_all_is_written_within_ten_minutes_once_the_gate_is_on() {
    const MANY: usize = 50;
    let stage = Stage::listing().await;
    for number in 0..MANY {
        let (name, key) = (format!("more{number}"), format!("ns/more{number}"));
        stage.api.insert(volume(&name, &name, &key));
        stage.api.insert(claim(&key, &name));
        stage.suffers(&name, &[(1, "A")]);
    }
    stage.api.forget_field(CLAIMS, "/status/healthStatus");
    let mut program = stage.started(&["--monitor-interval=5s"]).await;
    program
        .logs("The API server drops status.healthStatus")
        .await;
    stage.api.recall_field(CLAIMS, "/status/healthStatus");
    let switched_on = Instant::now();
    // A list may come between the end of the ten minutes and the first write.
    let limit = Duration::from_secs(10 * 60 + 15);
    while stage.patches().len() <= MANY && switched_on.elapsed() < limit {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    settle().await;
    let patches = stage.patches();
    assert_eq!(patches.len(), 1 + MANY, "one was dropped");
    let waited = patches[1].at - patches[0].at;
    println!("all are written {waited:?} after the first was dropped");
    for claim in stage.api.objects(CLAIMS) {
        if claim["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("more")
        {
            let conditions = &claim["status"]["healthStatus"]["healthConditions"];
            assert_eq!(conditions[0]["reason"], "A", "{claim}");
        }
    }
    let kept = "The API server keeps status.healthStatus";
    assert_eq!(program.log().matches(kept).count(), 1);
    assert!(program.is_running());
}

#[tokio::test]
async fn h_44_and_45_only_the_claim_of_the_volume_is_written() {
    let stage = Stage::listing().await;
    for number in [10, 11, 12] {
        stage.suffers(&format!("h{number}"), &[(1, "A")]);
    }
    stage.api.remove(CLAIMS, "ns/c10");
    stage.api.insert(claim("ns/c10", "pv10").uid("another"));
    stage.api.edit("persistentvolumes", "pv11", |object| {
        object["status"]["phase"] = "Released".into()
    });
    stage.api.edit(CLAIMS, "ns/c12", |object| {
        object["status"]["phase"] = "Lost".into()
    });
    let program = stage.started(&[]).await;
    program
        .logs("The claim is not the one that its volume is bound to")
        .await;
    stage.cycles(3).await;
    for number in [10, 11, 12] {
        assert!(stage.health(number).is_null(), "{number}");
    }
    let patches = stage.patches();
    assert_eq!(
        patches.len(),
        1,
        "H-44: refused once, and left alone: {patches:?}"
    );
    assert_eq!(patches[0].status, Some(422), "H-44");
    // The claim has conditions already, so no trial is needed to see that it is another one.
    stage.api.edit(CLAIMS, "ns/c12", |object| {
        object["status"]["healthStatus"] = stored(&["Degraded B"])
    });
    stage.cycles(2).await;
    assert_eq!(stage.patches().len(), 1, "H-45");
}

#[tokio::test]
async fn h_59_many_volumes_turn_unhealthy_at_once() {
    const MANY: usize = 5_000;
    let stage = Stage::listing().await;
    for number in 0..MANY {
        let (name, key) = (format!("more{number}"), format!("ns/more{number}"));
        stage.api.insert(volume(&name, &name, &key));
        stage.api.insert(claim(&key, &name));
    }
    let renewals = "--leader-election-retry-period=200ms";
    let arguments = [&ELECTION[..], &["--kube-api-qps=-1", renewals]].concat();
    let mut program = stage.started(&arguments).await;
    stage.until_calls(LIST, 2).await;
    stage.driver.configure(|model| {
        for number in 0..MANY {
            let ill = vec![entry(1, &format!("A{number}"), "m")];
            model.health.insert(format!("more{number}"), ill);
        }
    });
    stage.until_written("PATCH", STATUS, MANY).await;
    stage.cycles(2).await;
    let patches = stage.patches();
    assert_eq!(patches.len(), MANY);
    assert!(patches.iter().all(|request| request.status == Some(200)));
    for claim in stage.api.objects(CLAIMS) {
        let Some(number) = claim["metadata"]["name"]
            .as_str()
            .unwrap()
            .strip_prefix("more")
        else {
            continue;
        };
        let conditions = &claim["status"]["healthStatus"]["healthConditions"];
        assert_eq!(
            conditions[0]["reason"],
            format!("A{number}"),
            "its own report"
        );
    }
    // The lease is renewed during the writes.
    let (first, last) = (patches[0].at, patches[MANY - 1].at);
    let renewed = stage.api.requests_to("PUT", "*/leases/*");
    let mut between: Vec<_> = { renewed.iter().map(|request| request.at) }
        .filter(|at| (first..last).contains(at))
        .collect();
    between.insert(0, first);
    between.push(last);
    let pause = usual_pause(&between);
    assert!(pause < Duration::from_secs(2), "{between:?}");
    assert!(program.is_running());
}

#[tokio::test]
async fn h_46_and_rule_11_a_claim_that_is_refused_holds_up_no_other_and_waits_longer_each_time() {
    let stage = Stage::listing().await;
    for twin in ["ns/c10a", "ns/c10z"] {
        let name = twin.replace("ns/c", "pv");
        stage.api.insert(volume(&name, "h10", twin));
        stage.api.insert(claim(twin, &name));
    }
    stage.suffers("h10", &[(1, "A")]);
    for name in ["c10", "c10z"] {
        let path = format!("*/{name}/status");
        stage.api.fault(Fault::on("PATCH", &path).answer(403));
    }
    let _program = stage
        .started(&["--retry-interval-start=1h", "--retry-interval-max=1h"])
        .await;
    stage.until_written("PATCH", "*/c10a/status", 1).await;
    stage.cycles(5).await;
    let patches = stage.patches();
    assert_eq!(patches.len(), 3, "each once: {patches:?}");
}

#[tokio::test]
async fn rule_11_the_newest_report_is_written_once_the_api_server_takes_it() {
    let stage = Stage::listing().await;
    stage.suffers("h10", &[(1, "Old")]);
    let refused = stage.api.fault(Fault::on("PATCH", STATUS).answer(500));
    let _program = stage
        .started(&["--retry-interval-start=200ms", "--retry-interval-max=1s"])
        .await;
    stage.until("two refusals", || refused.hits() >= 2).await;
    stage.suffers("h10", &[(1, "New")]);
    stage.cycles(2).await;
    refused.remove();
    stage.until_conditions(10, &["Degraded New"]).await;
    settle().await;
    let taken = stage
        .patches()
        .into_iter()
        .filter(|request| request.status == Some(200));
    assert_eq!(taken.count(), 1);
}
