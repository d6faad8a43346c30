use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use ::kube::client::Body;
use http::Request;
use serde_json::Value;
use sidecar_testkit::FakeApi;
use sidecar_testkit::api::Served;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::error::Chain;
use crate::kube::connect::{NamedBy, Options, ProxyEnvironment, Source, connect};
use crate::kube::rate::Rate;

/// A proxy that leads to one server whatever the target of a request, or answers with `refusal`;
/// and the heads of the requests that it got.
async fn proxy(
    server: SocketAddr,
    refusal: Option<&'static str>,
) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let heads = heads.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                heads.send(String::from_utf8(head).unwrap()).unwrap();
                if let Some(refusal) = refusal {
                    client.write_all(refusal.as_bytes()).await.unwrap();
                    return;
                }
                // In two pieces.
                client
                    .write_all(b"HTTP/1.1 200 Connection established\r\n")
                    .await
                    .unwrap();
                client.flush().await.unwrap();
                tokio::task::yield_now().await;
                client.write_all(b"Via: test\r\n\r\n").await.unwrap();
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, asked)
}

/// Options for a server whose name only the proxy can resolve.
fn options(served: &Served, directory: &Path, proxy_url: Option<&str>) -> Options {
    let text = fs::read_to_string(served.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["server"] = "https://api.invalid:6443".into();
    cluster["tls-server-name"] = "localhost".into();
    if let Some(url) = proxy_url {
        cluster["proxy-url"] = url.into();
    }
    let path = directory.join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    fs::copy(served.ca_file(), directory.join("ca.crt")).unwrap();
    let source = Source::File {
        path,
        named_by: NamedBy::Flag,
        server: None,
    };
    Options::new(source, Rate::Unlimited, "p", "v1")
}

async fn version(options: &Options) -> Result<u16, String> {
    let client = connect(options, None).await.unwrap();
    let request = Request::get("/version").body(Body::empty()).unwrap();
    let answer = client.send(request).await;
    let answer = answer.map_err(|error| Chain(&error).to_string())?;
    Ok(answer.status().as_u16())
}

#[tokio::test]
async fn fs_17_the_api_server_is_reached_through_the_proxy() {
    let api = FakeApi::new();
    let served = api.serve().await;
    let directory = tempfile::tempdir().unwrap();
    let (address, mut asked) = proxy(served.address(), None).await;
    let named = format!("http://user:pass@{address}");
    let by_kubeconfig = options(&served, directory.path(), Some(&named));
    assert_eq!(version(&by_kubeconfig).await, Ok(200));
    assert_eq!(
        asked.recv().await.unwrap(),
        "CONNECT api.invalid:6443 HTTP/1.1\r\nHost: api.invalid:6443\r\n\
         Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
    );
    let mut by_environment = options(&served, directory.path(), None);
    by_environment.proxies = ProxyEnvironment {
        https: address.to_string(),
        ..ProxyEnvironment::default()
    };
    assert_eq!(version(&by_environment).await, Ok(200));
    assert_eq!(
        asked.recv().await.unwrap(),
        "CONNECT api.invalid:6443 HTTP/1.1\r\nHost: api.invalid:6443\r\n\r\n"
    );
    assert!(api.requests().iter().all(|request| request.http2));
    by_environment.proxies.none = ".invalid".to_owned();
    let error = version(&by_environment).await.unwrap_err();
    assert!(error.contains("dns"), "{error}");
    assert!(asked.try_recv().is_err(), "asked all the same");
}

#[tokio::test]
async fn fs_17_a_proxy_that_refuses_is_named() {
    let served = FakeApi::new().serve().await;
    let directory = tempfile::tempdir().unwrap();
    for (refusal, want) in [
        ("HTTP/1.1 407 Who are you\r\n\r\n", "407 Who are you"),
        ("HTTP/1.1 502 No\r\nA: b\r\n\r\n", "502 No"),
        ("SSH-2.0\r\n\r\n", "SSH-2.0"),
        ("HTTP/1.1 200", "unexpected end of file"),
    ] {
        let (address, _asked) = proxy(served.address(), Some(refusal)).await;
        let named = format!("http://user:pass@{address}");
        let options = options(&served, directory.path(), Some(&named));
        let error = version(&options).await.unwrap_err();
        assert!(error.contains(&format!("proxy {address}: ")), "{error}");
        assert!(error.contains(want) && !error.contains("pass"), "{error}");
    }
}
