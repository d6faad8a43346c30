//! Row 30, as far as it applies here: attempts that a signal interrupts are not lost.

use serde_json::json;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::{self, Object};

use super::stage::{ANNOTATION, DRIVER, PV, Stage, claim, finalizers};

pub(crate) async fn calls_that_do_not_end_are_resumed() {
    const CALLS: usize = 100;
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on("CreateVolume").lose_reply().times(CALLS));
    let program = stage.start(&["--timeout=10m"]);
    stage.api.insert(claim());
    for number in 1..CALLS {
        let claim = build::claim(&format!("ns1/more{number}"));
        let claim = claim.class("sc1").mode("RWO");
        let claim = claim.uid(&format!("uid-{number}"));
        stage.api.insert(claim.annotation(ANNOTATION, DRIVER));
    }
    stage.until_calls("CreateVolume", CALLS).await;
    program.terminate();
    let ended = program.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(stage.intents().len(), CALLS, "{}", ended.log);
    let claims = stage.api.objects("persistentvolumeclaims");
    assert!(claims.iter().all(|claim| finalizers(claim) == json!([])));
    let asked = stage.creations();
    stage.api.delete("persistentvolumeclaims", "ns1/c1");
    assert!(stage.claim("ns1/c1").is_null(), "it waits for nobody");
    let _successor = stage.start(&[]);
    stage.until_volume(PV).await;
    stage
        .until("all volumes are known", |stage| {
            stage.api.objects("persistentvolumes").len() == CALLS
        })
        .await;
    let all = stage.creations();
    assert_eq!(all.len(), 2 * CALLS);
    for request in &all[CALLS..] {
        assert!(asked.contains(request), "word for word: {request:?}");
    }
    stage
        .driver
        .configure(|model| assert_eq!(model.volumes.len(), CALLS));
}
