//! The loop's connections as others see them: K-79 to K-83.

use tokio::io::AsyncWriteExt;

use crate::script::Answer;
use crate::stage::{CSINODE, D, NODE_STATUS, Stage, pass};

#[tokio::test(start_paused = true)]
async fn k_79_an_endpoint_is_a_path_and_nothing_else() {
    let stage = Stage::started().await;
    let endpoint = format!("unix://{}", stage.driver.socket().display());
    let registrar = stage.script("d-reg.sock").endpoint(&endpoint).listen();
    let refusal = registrar.refused().await;
    assert!(refusal.contains("code = Unavailable"), "{refusal}");
    assert_eq!(stage.node_get_infos(), 0);
}

#[tokio::test(start_paused = true)]
async fn k_80_no_events_are_made() {
    let stage = Stage::started().await;
    let unwell = Answer::Fail(tonic::Status::internal("boom"));
    let registrar = stage.script("d-reg.sock").notify(unwell).listen();
    pass(30.0).await;
    registrar.change(|script| script.notify(Answer::Good));
    stage
        .until("the driver is entered", |stage| stage.entry(D).is_some())
        .await;
    pass(5.0).await;
    registrar.remove();
    stage
        .until("the annotation is removed", |stage| {
            stage.annotation().is_none()
        })
        .await;
    assert!(stage.api.objects("events").is_empty());
    let events = stage.api.requests_to("*", "*/events*");
    assert!(events.is_empty(), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn k_81_calls_to_drivers_are_measured() {
    let stage = Stage::started().await;
    stage.registered().await;
    let expected = "csi_operations_seconds_count{driver_name=\"d.example.com\",\
                    grpc_status_code=\"OK\",method_name=\"/csi.v1.Node/NodeGetInfo\",\
                    migrated=\"false\"} 1\n";
    let metrics = stage.metrics();
    assert!(metrics.contains(expected), "{metrics}");
    assert!(metrics.contains("le=\"600\""), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn k_82_authorities_are_kubelets() {
    let stage = Stage::started().await;
    // Long enough for a length that takes more than one byte in HPACK.
    let name = format!("{}-reg.sock", "d".repeat(40));
    let registrar = stage.script(&name).listen();
    registrar.confirmed().await;
    let path = registrar.socket().to_str().unwrap();
    let authority = path.replace('/', "%2F");
    let bytes = registrar.bytes();
    let count = bytes
        .windows(authority.len())
        .filter(|&w| w == authority.as_bytes())
        .count();
    assert_eq!(
        count, 1,
        "sent once, then referred to by its index in the table"
    );
    assert_eq!(registrar.calls().len(), 2, "two calls on that connection");
    assert_eq!(registrar.connections(), 1);
    assert_eq!(stage.driver.calls()[0].authority, "localhost");
}

/// kubelet is rejected by a stock server, without the part of ours that accepts the authority; that the loop cannot
/// register with it shows that it sends the same authority.
#[tokio::test(start_paused = true)]
async fn k_82_a_server_that_insists_on_a_valid_authority_is_not_registered() {
    let stage = Stage::started().await;
    let registrar = stage.script("d-reg.sock").strict().listen();
    pass(30.0).await;
    assert!(registrar.calls().is_empty());
    assert!(registrar.connections() > 2);
}

#[tokio::test(start_paused = true)]
async fn k_83_a_restart_registers_again_without_a_write_to_the_csinode() {
    let mut stage = Stage::started().await;
    let registrar = stage.registered().await;
    stage.stop();
    stage.api.clear_requests();
    stage.start();
    stage
        .until("it is registered again", |_| registrar.notices().len() == 2)
        .await;
    assert!(stage.api.requests_to("PUT", CSINODE).is_empty());
    assert!(stage.api.requests_to("PATCH", NODE_STATUS).is_empty());
    assert_eq!(stage.node_get_infos(), 2);
}

/// Unknown listeners on registration sockets: each is given up, and none blocks the others. In real time, because
/// paused time runs on while megabytes are under way.
#[tokio::test]
async fn strangers_do_no_harm() {
    let stage = Stage::started().await;
    let mute = tokio::net::UnixListener::bind(stage.socket("0-mute.sock")).unwrap();
    let babbling = tokio::net::UnixListener::bind(stage.socket("1-babbling.sock")).unwrap();
    let hanging_up = tokio::net::UnixListener::bind(stage.socket("2-hanging-up.sock")).unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(mute.accept().await.unwrap());
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = babbling.accept().await {
            // An error means that the client has hung up.
            let _ = stream.write_all(&[0xff; 64 * 1024]).await;
        }
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = hanging_up.accept().await {
            drop(stream)
        }
    });
    let megabytes = stage
        .script("3-huge.sock")
        .name(&"n/".repeat(1 << 20))
        .listen();
    let too_large = stage
        .script("4-too-large.sock")
        .name(&"n".repeat(5 << 20))
        .listen();
    let endless = "1".repeat(1 << 20);
    let versions = stage
        .script("5-versions.sock")
        .name("v.example.com")
        .versions(&[&endless])
        .listen();
    let good = stage.script("9-good.sock").listen();
    good.confirmed().await;
    let refusal = megabytes.refused().await;
    assert!(refusal.len() < 64 * 1024, "{} bytes", refusal.len());
    let refusal = versions.refused().await;
    assert!(refusal.contains("none of the CSI versions"), "{refusal}");
    pass(3.0).await;
    assert!(
        too_large.notices().is_empty(),
        "a reply above 4 MiB is an error"
    );
    assert!(stage.is_running());
    assert_eq!(stage.csinode_drivers().unwrap(), [D]);
    assert!(
        stage.metrics().len() < 64 * 1024,
        "strangers are no label values"
    );
}
