//! S-107 to S-111: the process crashes between two effects.

use sidecar_testkit::api::fault::Gate;
use sidecar_testkit::{CallFault, Fault};

use super::stage::{CREATE, DELETE, NAME, Stage, content};

/// Kills the process while the gate holds a request or call back; the next process meets no gate.
async fn killed(stage: &Stage, gate: &Gate) {
    let program = stage.started(&[]).await;
    stage.until("waits", |_| gate.waiting() > 0).await;
    program.kill().await;
    // A call counts as running until the driver notices that its caller is gone.
    let over = |stage: &Stage| stage.driver.calls().iter().all(|call| !call.is_running());
    stage.until("no call runs", over).await;
}

#[tokio::test]
async fn s_107_s_108_s_109_while_a_snapshot_is_taken() {
    for row in ["S-107", "S-108", "S-109"] {
        let stage = Stage::new().await;
        let gate = Gate::new();
        match row {
            "S-107" => drop(stage.driver.fault(CallFault::on(CREATE).hold(&gate))),
            "S-108" => drop(
                stage
                    .api
                    .fault(Fault::on("PATCH", "*/volumesnapshotcontents/*/status").hold(&gate)),
            ),
            _ => drop(
                stage.api.fault(
                    Fault::on("PATCH", "*/volumesnapshotcontents/*")
                        .skip(2)
                        .hold(&gate),
                ),
            ),
        }
        stage.api.insert(content("u1"));
        killed(&stage, &gate).await;
        stage.api.clear_faults();
        stage.driver.clear_faults();
        stage.api.clear_requests();
        stage.driver.clear_calls();
        let _program = stage.started(&[]).await;
        stage.until_ready(NAME).await;
        let trace = stage.trace();
        match row {
            "S-109" => assert_eq!(trace, ["bc-"], "{row}"),
            _ => {
                let head = ["bc+", "Create snapshot-u1"];
                assert_eq!(trace[..2], head, "{row}: the mark is taken over: {trace:?}");
                assert_eq!(trace.len(), 4, "{row}: {trace:?}");
            }
        }
        stage
            .driver
            .configure(|model| assert_eq!(model.snapshots.len(), 1, "{row}"));
    }
}

#[tokio::test]
async fn s_110_s_111_while_a_snapshot_is_deleted() {
    for row in ["S-110", "S-111"] {
        let stage = Stage::new().await;
        stage.api.insert(content("u1"));
        let program = stage.started(&[]).await;
        stage.until_ready(NAME).await;
        let gate = Gate::new();
        let path = match row {
            "S-110" => "*/volumesnapshotcontents/*/status",
            _ => "*/volumesnapshotcontents/snapcontent-u1",
        };
        stage.api.fault(Fault::on("PATCH", path).hold(&gate));
        stage.forsake();
        stage.until("waits", |_| gate.waiting() > 0).await;
        program.kill().await;
        stage.api.clear_faults();
        stage.driver.clear_calls();
        let _program = stage.started(&[]).await;
        stage.until_gone().await;
        let again = usize::from(row == "S-110");
        assert_eq!(stage.calls(DELETE), again, "{row}");
        stage
            .driver
            .configure(|model| assert!(model.snapshots.is_empty(), "{row}"));
    }
}
