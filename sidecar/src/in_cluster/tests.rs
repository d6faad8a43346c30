//! The small client against the model API server: its part of O-112 and O-115.

use std::net::SocketAddr;

use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use sidecar_testkit::FakeApi;
use sidecar_testkit::api::fault::Fault;
use sidecar_testkit::api::{Served, signing};
use sidecar_testkit::build::{Object as _, node};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::*;

const PATH: &str = "/api/v1/nodes/n1";

/// A pod's files, with a model API server.
struct Pod {
    api: FakeApi,
    served: Served,
    account: TempDir,
}

impl Pod {
    async fn new(names: &[&str]) -> Self {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new(names)
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let api = FakeApi::new();
        api.insert(node("n1").build());
        let (key, pem) = (signing(key.serialize_der()), made.pem());
        let served = api.serve_as(made.der(), key, &pem).await;
        let account = tempfile::tempdir().unwrap();
        std::fs::write(account.path().join("ca.crt"), &pem).unwrap();
        std::fs::write(account.path().join("token"), "secret-token\n").unwrap();
        Self {
            api,
            served,
            account,
        }
    }

    fn client(&self) -> InCluster {
        self.at(self.served.address())
    }

    fn at(&self, address: SocketAddr) -> InCluster {
        InCluster {
            host: Some(address.ip().to_string()),
            port: Some(address.port().to_string()),
            service_account: self.account.path().to_owned(),
            user_agent: user_agent("p", "v1"),
        }
    }
}

async fn name(client: &InCluster) -> Result<String, Failure> {
    let object: Value = client.connect().await?.get(PATH).await?;
    Ok(object["metadata"]["name"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn o_115_an_address_of_ipv6() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        sidecar_testkit::process::must_not_skip("an address of IPv6");
        return;
    };
    let pod = Pod::new(&["::1"]).await;
    let address = listener.local_addr().unwrap();
    let server = pod.served.address();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(server).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    assert_eq!(name(&pod.at(address)).await.unwrap(), "n1");
}

#[tokio::test]
async fn o_115_the_token_is_read_for_each_request() {
    let pod = Pod::new(&["127.0.0.1"]).await;
    let mut connection = pod.client().connect().await.unwrap();
    for token in ["first", "next"] {
        std::fs::write(pod.account.path().join("token"), token).unwrap();
        let _: Value = connection.get(PATH).await.unwrap();
        let bearer = format!("Bearer {token}");
        assert_eq!(pod.api.requests().pop().unwrap().authorization, bearer);
    }
}

#[tokio::test]
async fn several_requests_go_over_one_connection_and_a_patch_is_one() {
    let pod = Pod::new(&["127.0.0.1"]).await;
    let client = pod.client();
    let mut connection = client.connect().await.unwrap();
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    connection.json_patch(PATH, &patch).await.unwrap();
    let object: Value = connection.get(PATH).await.unwrap();
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
    let shown = format!("{connection:?}");
    assert!(!shown.contains("secret-token"), "{shown}");
    let requests = pod.api.requests();
    for request in requests {
        assert_eq!(request.authorization, "Bearer secret-token");
        assert!(request.user_agent.starts_with("p/v1 ("));
        assert!(!request.http2);
    }
}

#[tokio::test]
async fn o_112_what_cannot_be_had_is_told_apart() {
    let pod = Pod::new(&["127.0.0.1"]).await;
    let file = |name: &str| pod.account.path().join(name);
    let unusable = |failure: Failure, words: &str| match failure {
        Failure::Unusable(text) => assert!(text.contains(words), "{text}"),
        other @ (Failure::Away(_) | Failure::Refused { .. }) => panic!("{words}: {other:?}"),
    };
    let mut outside = pod.client();
    outside.host = None;
    unusable(name(&outside).await.unwrap_err(), "KUBERNETES_SERVICE_HOST");
    let mut named = pod.client();
    named.port = Some("tcp://10.0.0.1:443".to_owned());
    unusable(name(&named).await.unwrap_err(), "enableServiceLinks");
    let address = sidecar_testkit::free_address().parse().unwrap();
    let failure = name(&pod.at(address)).await.unwrap_err();
    assert!(matches!(failure, Failure::Away(_)), "{failure:?}");
    for (status, fault) in [
        (429, Fault::on("GET", PATH).too_many(7)),
        (500, Fault::on("GET", PATH).answer(500)),
        (404, Fault::on("GET", PATH).answer(404)),
    ] {
        let fault = pod.api.fault(fault);
        match name(&pod.client()).await.unwrap_err() {
            Failure::Refused {
                status: said,
                retry_after,
                ..
            } => {
                assert_eq!(said, status);
                let asked = (status == 429).then_some(Duration::from_secs(7));
                assert_eq!(retry_after, asked, "{status}");
            }
            other @ (Failure::Away(_) | Failure::Unusable(_)) => panic!("{status}: {other:?}"),
        }
        fault.remove();
    }
    let huge = "x".repeat(LARGEST + 1);
    for (words, body) in [("cannot be read", "<html>"), ("length limit", &huge)] {
        let fault = pod.api.fault(Fault::on("GET", PATH).answer_raw(200, body));
        let text = name(&pod.client()).await.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
        fault.remove();
    }
    let broken = pod.api.fault(Fault::on("GET", PATH).drop_connection());
    let failure = name(&pod.client()).await.unwrap_err();
    assert!(matches!(failure, Failure::Away(_)), "{failure:?}");
    broken.remove();
    let other = Pod::new(&["127.0.0.1"]).await;
    std::fs::copy(other.account.path().join("ca.crt"), file("ca.crt")).unwrap();
    unusable(
        name(&pod.client()).await.unwrap_err(),
        "ca.crt of its service account",
    );
    std::fs::write(file("ca.crt"), "none").unwrap();
    unusable(name(&pod.client()).await.unwrap_err(), "ca.crt");
    for (token, words) in [("a\nb", "control characters"), ("", "the file is empty")] {
        std::fs::write(file("token"), token).unwrap();
        unusable(name(&pod.client()).await.unwrap_err(), words);
    }
    std::fs::remove_file(file("token")).unwrap();
    unusable(
        name(&pod.client()).await.unwrap_err(),
        "automountServiceAccountToken",
    );
}

#[tokio::test]
async fn every_request_has_a_deadline() {
    let pod = Pod::new(&["127.0.0.1"]).await;
    let _hangs = pod.api.fault(Fault::on("GET", PATH).hang());
    let client = pod.client();
    let mut connection = client.connect().await.unwrap();
    tokio::time::pause();
    let failure = connection.get::<Value>(PATH).await.unwrap_err();
    assert!(failure.to_string().contains("10s"), "{failure}");
}
