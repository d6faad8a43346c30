//! Z-68 to Z-72 and Z-134 to Z-149: the driver answers each claim's calls with one code for ever.

use sidecar_testkit::CallFault;
use tonic::Code;

use super::stage::{DRIVER, EXPAND, MODIFY, NEVER_AGAIN, Stage, claim, settle, volume};

/// The meaning of a code: whether the outcome is certain, and whether the request can ever succeed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    InDoubt,
    Final,
    Impossible,
}

use Says::{Final, Impossible, InDoubt};

/// Row, code, Go's name, and the code's meaning for an expansion and for a modification.
const CODES: [(&str, Code, &str, Says, Says); 16] = [
    ("Z-134", Code::Cancelled, "Canceled", InDoubt, InDoubt),
    ("Z-135", Code::Unknown, "Unknown", Final, Final),
    (
        "Z-136",
        Code::InvalidArgument,
        "InvalidArgument",
        Impossible,
        Impossible,
    ),
    (
        "Z-137",
        Code::DeadlineExceeded,
        "DeadlineExceeded",
        InDoubt,
        InDoubt,
    ),
    ("Z-138", Code::NotFound, "NotFound", Impossible, Final),
    ("Z-139", Code::AlreadyExists, "AlreadyExists", Final, Final),
    (
        "Z-140",
        Code::PermissionDenied,
        "PermissionDenied",
        Final,
        Final,
    ),
    (
        "Z-141",
        Code::ResourceExhausted,
        "ResourceExhausted",
        InDoubt,
        InDoubt,
    ),
    (
        "Z-142",
        Code::FailedPrecondition,
        "FailedPrecondition",
        Final,
        Final,
    ),
    ("Z-143", Code::Aborted, "Aborted", InDoubt, InDoubt),
    ("Z-144", Code::OutOfRange, "OutOfRange", Impossible, Final),
    ("Z-145", Code::Unimplemented, "Unimplemented", Final, Final),
    ("Z-146", Code::Internal, "Internal", Final, Final),
    ("Z-147", Code::Unavailable, "Unavailable", InDoubt, InDoubt),
    ("Z-148", Code::DataLoss, "DataLoss", Final, Final),
    (
        "Z-149",
        Code::Unauthenticated,
        "Unauthenticated",
        Final,
        Final,
    ),
];

/// Inserts a claim for each code, on a volume whose handle starts with the code.
fn claims(stage: &Stage, method: &str) {
    for (_, code, name, _, _) in CODES {
        let lower = name.to_lowercase();
        let (key, pv, handle) = (
            format!("ns/{lower}"),
            format!("pv-{lower}"),
            format!("h-{lower}"),
        );
        stage.api.insert(volume(&pv, &handle, &key));
        stage.api.insert(claim(&key, &pv));
        stage.driver.volume(&handle);
        stage
            .driver
            .fault(CallFault::on(method).volume(&handle).fail(code, "msg"));
    }
}

fn change_all(stage: &Stage, change: impl Fn(&mut serde_json::Value)) {
    for (_, _, name, _, _) in CODES {
        let key = format!("ns/{}", name.to_lowercase());
        stage.api.edit("persistentvolumeclaims", &key, &change);
    }
}

/// Message of the claim's event with this reason.
fn message(stage: &Stage, claim: &str, reason: &str) -> Option<String> {
    let all = stage.api.objects("events");
    let found = all
        .iter()
        .find(|event| event["involvedObject"]["name"] == claim && event["reason"] == reason);
    found.map(|event| event["message"].as_str().unwrap().to_owned())
}

const FAST: [&str; 4] = [
    NEVER_AGAIN,
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
    "--workers=16",
];

#[tokio::test]
async fn z_69_to_72_and_134_to_149_expand() {
    let stage = Stage::new().await;
    claims(&stage, EXPAND);
    let _program = stage.started(&FAST).await;
    change_all(&stage, |claim| {
        claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into()
    });
    stage
        .until("all told", |stage| {
            let told = |name: &str| message(stage, &name.to_lowercase(), "VolumeResizeFailed");
            CODES.iter().all(|(_, _, name, _, _)| told(name).is_some())
        })
        .await;
    settle().await;
    for (row, _, name, says, _) in CODES {
        let lower = name.to_lowercase();
        let status = &stage.claim_named(&format!("ns/{lower}"))["status"];
        let state = &status["allocatedResourceStatuses"]["storage"];
        let expected = match says {
            Impossible => "ControllerResizeInfeasible",
            InDoubt | Final => "ControllerResizeInProgress",
        };
        assert_eq!(state, expected, "{row}");
        let list = status["conditions"].as_array().unwrap();
        let error = list
            .iter()
            .find(|condition| condition["type"] == "ControllerResizeError");
        let text = format!("rpc error: code = {name} desc = msg");
        match says {
            InDoubt => {
                assert!(error.is_none(), "{row}: {status}");
                assert_eq!(list.len(), 1, "{row}: {status}");
            }
            Final | Impossible => {
                let expected = format!("failed to expand pvc with {text}");
                assert_eq!(error.unwrap()["message"], expected, "{row}");
                assert_eq!(error.unwrap()["status"], "True", "{row}");
            }
        }
        let expected =
            format!(r#"resize volume "pv-{lower}" by resizer "{DRIVER}" failed: {text}"#);
        assert_eq!(
            message(&stage, &lower, "VolumeResizeFailed"),
            Some(expected),
            "{row}"
        );
        let calls = stage.driver.calls_to(EXPAND);
        let handle = format!("h-{lower}");
        assert_eq!(
            calls.iter().filter(|call| call.volume() == handle).count(),
            1,
            "{row}, Q5"
        );
    }
    // Two writes if an error is shown, else one.
    for (row, _, name, says, _) in CODES {
        let path = format!("*/persistentvolumeclaims/{}/status", name.to_lowercase());
        let writes = stage.api.requests_to("PATCH", &path);
        assert_eq!(
            writes.len(),
            if says == InDoubt { 1 } else { 2 },
            "{row}, section 14.1"
        );
    }
}

#[tokio::test]
async fn z_134_to_149_modify() {
    let stage = Stage::modifying().await;
    claims(&stage, MODIFY);
    change_all(&stage, |claim| {
        claim["spec"]["volumeAttributesClassName"] = "a".into();
        claim["status"]["currentVolumeAttributesClassName"] = "a".into();
    });
    let _program = stage.started(&FAST).await;
    change_all(&stage, |claim| {
        claim["spec"]["volumeAttributesClassName"] = "b".into()
    });
    stage
        .until("all told", |stage| {
            let told = |name: &str| message(stage, &name.to_lowercase(), "VolumeModifyFailed");
            CODES.iter().all(|(_, _, name, _, _)| told(name).is_some())
        })
        .await;
    settle().await;
    for (row, _, name, _, says) in CODES {
        let lower = name.to_lowercase();
        let status = &stage.claim_named(&format!("ns/{lower}"))["status"];
        let modify = &status["modifyVolumeStatus"];
        let phase = if says == Impossible {
            "Infeasible"
        } else {
            "InProgress"
        };
        assert_eq!(modify["status"], phase, "{row}");
        assert_eq!(modify["targetVolumeAttributesClassName"], "b", "{row}");
        let list = status["conditions"].as_array().unwrap();
        let condition = |kind: &str| {
            let found = list.iter().find(|condition| condition["type"] == kind);
            found.unwrap_or_else(|| panic!("{row}: {kind} in {status}"))
        };
        let (text, suffix) = match says {
            InDoubt => ("is still in progress.", ". Still modifying to VAC b"),
            Final | Impossible => ("failed. Waiting for retry.", ""),
        };
        let expected = format!(r#"Modifying volume to "b" {text}"#);
        assert_eq!(condition("ModifyingVolume")["message"], expected, "{row}");
        assert_eq!(condition("ModifyVolumeError")["reason"], name, "{row}");
        assert_eq!(condition("ModifyVolumeError")["message"], "msg", "{row}");
        let expected = format!("rpc error: code = {name} desc = msg{suffix}");
        assert_eq!(
            message(&stage, &lower, "VolumeModifyFailed"),
            Some(expected),
            "{row}"
        );
    }
}

#[tokio::test]
async fn z_68_an_error_that_passes() {
    let stage = Stage::new().await;
    stage
        .driver
        .fault(CallFault::on(EXPAND).fail(Code::Internal, "boom").times(2));
    let _program = stage.started(&["--retry-interval-start=1s"]).await;
    stage.grow("2Gi");
    stage
        .until("error", |stage| {
            !stage.condition("ControllerResizeError").is_null()
        })
        .await;
    let text = "failed to expand pvc with rpc error: code = Internal desc = boom";
    assert_eq!(stage.condition("ControllerResizeError")["message"], text);
    assert_eq!(stage.state(), "CRIP");
    stage.until_capacity("2Gi").await;
    assert_eq!(
        (stage.state(), stage.conditions().len(), stage.calls(EXPAND)),
        ("", 0, 3)
    );
    let calls = stage.driver.calls_to(EXPAND);
    let gaps: Vec<f64> = { calls.windows(2) }
        .map(|pair| (pair[1].started - pair[0].started).as_secs_f64())
        .collect();
    assert!(
        gaps[0] > 0.9 && gaps[1] > 1.9,
        "Q5: back-off alone: {gaps:?}"
    );
}
