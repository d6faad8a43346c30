//! A call up to the request to the driver: rows CB-10 to CB-19.

use std::time::Duration;

use csi_proto::csi::GetMetadataDeltaRequest as DriverDelta;
use csi_proto::snapshot_metadata::{GetMetadataAllocatedRequest, GetMetadataDeltaRequest};
use serde_json::json;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::driver::Probe;
use tonic::Code;

use crate::stage::{
    DRIVER, SNAPSHOTS, Stage, TOKEN, USER, blocks, delta, get, get_snapshots, request, until,
    until_answer,
};

const NOT_SERVING: i32 = 2;
const IS_SERVING: i32 = 1;

#[tokio::test]
async fn cb_10_a_driver_that_is_not_ready_yet() {
    let stage = Stage::new().await;
    stage
        .driver
        .configure(|model| model.probes.extend(vec![Probe::NotReady; 10_000]));
    let running = stage.start(&[]);
    running.process.says("CSI driver is not ready").await;
    assert_eq!(
        get(&running.http, "/health").await,
        (503, "not ready".to_owned())
    );
    assert_eq!(running.health().await, NOT_SERVING);
    let not_ready = "the CSI driver is not yet ready".to_owned();
    assert_eq!(
        running.refused(request()).await,
        (Code::Unavailable, not_ready)
    );
    let nameless = GetMetadataAllocatedRequest {
        security_token: String::new(),
        ..request()
    };
    assert_eq!(running.refused(nameless).await.0, Code::InvalidArgument);
    until("six probes", async || {
        stage.driver.calls_to("Probe").len() >= 6
    })
    .await;
    stage.driver.configure(|model| model.probes.clear());
    running.process.says(crate::stage::SERVING).await;
    assert!(running.allocated(request()).await.1.is_ok());
    assert_eq!(running.health().await, IS_SERVING);
    until_answer(&running.http, "/health", 200, "ok").await;
}

#[tokio::test]
async fn cb_11_cb_12_a_good_call() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    stage.api.clear_requests();
    let (messages, end) = running.allocated(request()).await;
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(
        messages,
        [blocks(0, 256), blocks(256, 256), blocks(512, 256)]
    );
    let asked = stage.asked();
    assert_eq!(
        (
            &*asked.snapshot_id,
            asked.starting_offset,
            asked.max_results,
            asked.secrets.len()
        ),
        ("snap-1", 0, 0, 0)
    );
    let deadline = stage.driver.calls_to("GetMetadataAllocated")[0]
        .deadline
        .unwrap();
    let ten = Duration::from_mins(10);
    assert!(
        deadline <= ten && deadline > ten - Duration::from_secs(60),
        "{deadline:?}"
    );
    // The program's own requests come at any time, so they are left out.
    let requests = stage.api.requests().into_iter();
    let requests: Vec<_> = requests
        .filter(|it| !it.path.contains("selfsubject"))
        .collect();
    let shown: Vec<String> = { requests.iter() }
        .map(|it| format!("{} {}", it.method, it.path.rsplit('/').next().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            format!("GET {DRIVER}"),
            "POST tokenreviews".to_owned(),
            "POST subjectaccessreviews".to_owned(),
            "GET s1".to_owned(),
            "GET vc1".to_owned(),
            "GET c1".to_owned(),
        ]
    );
    assert_eq!(
        requests[1].body["spec"],
        json!({"token": TOKEN, "audiences": ["aud1"]})
    );
    assert_eq!(
        requests[2].body["spec"],
        json!({
            "user": USER, "uid": format!("uid-of-{USER}"),
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
            "resourceAttributes": {
                "verb": "get", "group": "snapshot.storage.k8s.io", "version": "v1",
                "resource": "volumesnapshots", "namespace": "default",
            },
        })
    );
    // The program caches reviews for a short time, objects never.
    stage.api.clear_requests();
    assert!(running.allocated(request()).await.1.is_ok());
    let mut reviews = stage.api.requests_to("POST", "*reviews");
    reviews.retain(|it| !it.path.contains("selfsubject"));
    assert_eq!(reviews.len(), 0);
    assert_eq!(stage.api.requests_to("GET", "*/s1").len(), 1);
}

#[tokio::test]
async fn cb_13_a_delta() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    let answer = running.client().await.get_metadata_delta(delta()).await;
    let mut stream = answer.unwrap().into_inner();
    let mut ranges = 0;
    while let Some(message) = stream.message().await.unwrap() {
        ranges += message.block_metadata.len();
    }
    assert_eq!(ranges, 768);
    let calls = stage.driver.calls_to("GetMetadataDelta");
    let asked = calls[0].request::<DriverDelta>().unwrap();
    assert_eq!(
        (&*asked.base_snapshot_id, &*asked.target_snapshot_id),
        ("snap-0", "snap-1")
    );
}

#[tokio::test]
async fn cb_14_requests_that_lack_something() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    stage.api.clear_requests();
    let without = |change: fn(&mut GetMetadataAllocatedRequest)| {
        let mut request = request();
        change(&mut request);
        request
    };
    for (request, text) in [
        (
            without(|it| it.security_token.clear()),
            "securityToken is missing",
        ),
        (
            without(|it| it.namespace.clear()),
            "namespace parameter cannot be empty",
        ),
        (
            without(|it| it.snapshot_name.clear()),
            "snapshotName cannot be empty",
        ),
    ] {
        let refused = running.refused(request).await;
        assert_eq!(refused, (Code::InvalidArgument, text.to_owned()));
    }
    let mut client = running.client().await;
    for (request, text) in [
        (
            GetMetadataDeltaRequest {
                base_snapshot_id: String::new(),
                ..delta()
            },
            "baseSnapshotId cannot be empty",
        ),
        (
            GetMetadataDeltaRequest {
                target_snapshot_name: String::new(),
                ..delta()
            },
            "targetSnapshotName cannot be empty",
        ),
    ] {
        let status = client.get_metadata_delta(request).await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::InvalidArgument, text)
        );
    }
    assert_eq!(stage.api.requests_to("POST", "*/tokenreviews").len(), 0);
}

fn with_token(token: &str) -> GetMetadataAllocatedRequest {
    GetMetadataAllocatedRequest {
        security_token: token.to_owned(),
        ..request()
    }
}

#[tokio::test]
async fn cb_15_cb_18_tokens_that_are_not_accepted() {
    let stage = Stage::new().await;
    stage.api.issue_token("foreign", USER, &["aud2"]);
    stage.api.issue_token("deleted", USER, &["aud1"]);
    stage.api.revoke_token("deleted");
    let running = stage.started(&[]).await;
    let long = "x".repeat(60_000);
    for token in ["xx", "foreign", "deleted", &long] {
        let refused = running.refused(with_token(token)).await;
        let expected = (Code::Unauthenticated, "unauthenticated user".to_owned());
        assert_eq!(refused, expected);
    }
    assert_eq!(
        stage
            .api
            .requests_to("POST", "*/subjectaccessreviews")
            .len(),
        0
    );
    assert_eq!(stage.driver.calls_to("GetMetadataAllocated").len(), 0);
}

#[tokio::test]
async fn cb_18_a_token_that_was_accepted_counts_for_ten_seconds_at_most() {
    let stage = Stage::new().await;
    let running = stage.started(&[]).await;
    assert!(running.allocated(request()).await.1.is_ok());
    stage.api.revoke_token(TOKEN);
    let (began, mut last) = (std::time::Instant::now(), Duration::ZERO);
    until("the end of what was known of the token", async || {
        let begins = began.elapsed();
        let is_refused = running.allocated(request()).await.1.is_err();
        if !is_refused {
            last = begins;
        }
        is_refused
    })
    .await;
    assert!(last <= Duration::from_secs(10), "accepted after {last:?}");
}

#[tokio::test]
async fn cb_16_cb_17_rights_that_are_missing() {
    let stage = Stage::new().await;
    stage.api.issue_token("other", "nobody", &["aud1"]);
    // A right to single names, or to list, is no right to get all of the namespace.
    let list = Allow::new("snapshot.storage.k8s.io", SNAPSHOTS, "list");
    stage.api.grant("nobody", list);
    let running = stage.started(&[]).await;
    let elsewhere = GetMetadataAllocatedRequest {
        namespace: "other".to_owned(),
        ..request()
    };
    for request in [with_token("other"), elsewhere] {
        let (code, text) = running.refused(request).await;
        assert_eq!(code, Code::PermissionDenied);
        let begins = "user does not have permissions to perform the operation: ";
        assert!(text.starts_with(begins), "{text}");
    }
    assert_eq!(stage.api.requests_to("GET", "*/volumesnapshots/*").len(), 0);
    // A new right takes effect at once.
    stage.api.grant("nobody", get_snapshots("default"));
    assert!(running.allocated(with_token("other")).await.1.is_ok());
}

#[tokio::test]
async fn cb_19_another_audience_by_flag() {
    let stage = Stage::new().await;
    stage.api.issue_token("of-other", USER, &["other"]);
    let running = stage.started(&["--audience=other"]).await;
    assert!(running.allocated(with_token("of-other")).await.1.is_ok());
    assert_eq!(running.refused(request()).await.0, Code::Unauthenticated);
    let read = stage.api.requests_to("GET", "*snapshotmetadataservices*");
    assert_eq!(read.len(), 0);
}
