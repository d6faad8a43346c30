//! The connection to the API server, as observable in the built program.

use super::stage::Stage;

#[tokio::test]
async fn fs_15_an_api_server_without_tls_needs_no_certificate_on_the_machine() {
    let stage = Stage::new().await;
    stage.attach("va1", "pv1");
    let nowhere = [
        ("SSL_CERT_FILE", "/nonexistent"),
        ("SSL_CERT_DIR", "/nonexistent"),
    ];
    let _attacher = stage.start_in(&[], &nowhere);
    stage.until_attached("va1").await;
}

#[tokio::test]
async fn fs_12_lists_are_streamed_unless_the_environment_says_no() {
    for (environment, streams) in [
        (None, true),
        (Some(("KUBE_FEATURE_WatchListClient", "false")), false),
    ] {
        let stage = Stage::new().await;
        stage.api.allow_streaming_lists();
        stage.attach("va1", "pv1");
        let environment: Vec<_> = environment.into_iter().collect();
        let _attacher = stage.start_in(&[], &environment);
        stage.until_attached("va1").await;
        let requests = stage.api.requests();
        let streamed = |name: &str| {
            requests
                .iter()
                .any(|request| request.query.contains_key(name))
        };
        assert_eq!(streamed("sendInitialEvents"), streams);
        assert_eq!(streamed("limit"), !streams);
    }
}

#[tokio::test]
async fn fs_2_requests_share_a_connection_that_speaks_http_2() {
    let stage = Stage::over_tls().await;
    stage.attach("va1", "pv1");
    let _attacher = stage.start(&[]);
    stage.until_attached("va1").await;
    assert!(stage.api.requests().iter().all(|request| request.http2));
}
