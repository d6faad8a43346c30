//! A cluster with the VolumeSnapshot `default/s1`, a driver that knows its blocks, and backup clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::csi::GetMetadataAllocatedRequest as DriverRequest;
use csi_proto::health::HealthCheckRequest;
use csi_proto::health::health_client::HealthClient;
use csi_proto::snapshot_metadata::snapshot_metadata_client::SnapshotMetadataClient;
use csi_proto::snapshot_metadata::{
    GetMetadataAllocatedRequest, GetMetadataAllocatedResponse, GetMetadataDeltaRequest,
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sidecar_testkit::api::Served;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::driver::{Part, PluginService};
use sidecar_testkit::measure::stood_still;
use sidecar_testkit::process::Process;
use sidecar_testkit::{FakeApi, FakeDriver};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

pub(crate) use sidecar_testkit::controller::{free_address, get, until_answer};
pub(crate) use sidecar_testkit::process::{End, Signal, until};

pub(crate) const DRIVER: &str = "test.csi.driver";
pub(crate) const BLOCK: i64 = 4096;
pub(crate) const USER: &str = "system:serviceaccount:default:backup";
pub(crate) const TOKEN: &str = "token-of-backup";
pub(crate) const SNAPSHOTS: &str = "volumesnapshots";
pub(crate) const CONTENTS: &str = "volumesnapshotcontents";
pub(crate) const CLASSES: &str = "volumesnapshotclasses";
pub(crate) const SERVING: &str = "Serving snapshot metadata";

/// Address that clients connect from by default.
pub(crate) const HERE: [u8; 4] = [127, 0, 0, 1];

/// The ranges of each message, as offset and size.
pub(crate) type Messages = Vec<Vec<(i64, i64)>>;

/// A certificate for the server, written as a pair of files.
pub(crate) struct Pair {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pair {
    pub(crate) fn new(name: &str) -> Self {
        let names = vec![
            name.to_owned(),
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
        ];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            der: made.cert.der().clone(),
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }

    pub(crate) fn write(&self, directory: &Path) {
        std::fs::write(directory.join("tls.crt"), &self.certificate).unwrap();
        std::fs::write(directory.join("tls.key"), &self.key).unwrap();
    }
}

pub(crate) struct Stage {
    pub(crate) api: FakeApi,
    served: Served,
    pub(crate) driver: FakeDriver,
    pub(crate) directory: TempDir,
    pub(crate) pair: Pair,
}

/// The program while it runs.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: String,
    pub(crate) http: String,
    trusted: CertificateDer<'static>,
}

pub(crate) fn command() -> Command {
    let built = env!("CARGO_BIN_EXE_csi-snapshot-metadata");
    let other = std::env::var_os("CSI_SNAPSHOT_METADATA_BINARY");
    let mut command = Command::new(other.unwrap_or_else(|| built.into()));
    command
        .env_remove("TLS_CERT_PATH")
        .env_remove("TLS_KEY_PATH");
    command
}

/// Runs a program that has nothing to connect to, until it exits.
pub(crate) async fn run(arguments: &[&str]) -> End {
    let mut command = command();
    command.args(arguments);
    Process::start(command).ended().await
}

pub(crate) fn snapshot(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeSnapshotClassName": "c1", "source": {"persistentVolumeClaimName": "p"}},
        "status": {"readyToUse": true, "boundVolumeSnapshotContentName": content},
    })
}

pub(crate) fn content(name: &str, handle: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "deletionPolicy": "Delete"},
        "status": {"readyToUse": true, "snapshotHandle": handle},
    })
}

pub(crate) fn class(name: &str, driver: &str, is_default: bool, parameters: &Value) -> Value {
    let annotation = "snapshot.storage.kubernetes.io/is-default-class";
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": name, "annotations": {annotation: is_default.to_string()}},
        "driver": driver, "deletionPolicy": "Delete", "parameters": parameters,
    })
}

pub(crate) fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
        "data": {"password": "aHVudGVyMg=="},
    })
}

pub(crate) fn get_snapshots(namespace: &str) -> Allow {
    Allow::new("snapshot.storage.k8s.io", SNAPSHOTS, "get").within(namespace)
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let api = FakeApi::new();
        let served = api.serve_plain().await;
        let driver = FakeDriver::new(DRIVER);
        driver.configure(|model| {
            model.services = vec![
                PluginService::ControllerService,
                PluginService::SnapshotMetadataService,
            ];
            model.metadata = vec![Part::Blocks(256), Part::Blocks(256), Part::Blocks(256)];
        });
        driver.start();
        let directory = tempfile::tempdir().unwrap();
        let pair = Pair::new("first");
        pair.write(directory.path());
        api.insert(json!({
            "apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": DRIVER},
            "spec": {"address": "first:6443", "audience": "aud1", "caCert": "eA=="},
        }));
        api.insert(class("c1", DRIVER, false, &json!({})));
        api.insert(content("vc1", "snap-1"));
        api.insert(snapshot("s1", "vc1"));
        api.issue_token(TOKEN, USER, &["aud1"]);
        api.grant(USER, get_snapshots("default"));
        Self {
            api,
            served,
            driver,
            directory,
            pair,
        }
    }

    /// A stage whose driver streams these parts.
    pub(crate) async fn streaming(parts: impl IntoIterator<Item = Part>) -> Self {
        let stage = Self::new().await;
        stage.streams(parts);
        stage
    }

    pub(crate) fn streams(&self, parts: impl IntoIterator<Item = Part>) {
        let parts = parts.into_iter().collect();
        self.driver.configure(|model| model.metadata = parts);
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.served.kubeconfig()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn arguments(&self, address: &str, http: &str) -> Vec<String> {
        let port = address.rsplit(':').next().unwrap();
        vec![
            format!("--kubeconfig={}", self.kubeconfig().display()),
            format!("--csi-address={}", self.driver.socket().display()),
            format!("--port={port}"),
            format!("--http-endpoint={http}"),
            format!("--tls-cert={}", self.file("tls.crt").display()),
            format!("--tls-key={}", self.file("tls.key").display()),
        ]
    }

    /// Starts the program with additional flags; the last of equal flags counts.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        let (address, http) = (free_address(), free_address());
        let mut command = command();
        command.args(self.arguments(&address, &http)).args(more);
        Running {
            process: Process::start(command),
            address,
            http,
            trusted: self.pair.der.clone(),
        }
    }

    /// Starts the program and waits until it serves.
    pub(crate) async fn started(&self, more: &[&str]) -> Running {
        let running = self.start(more);
        running.process.says(SERVING).await;
        running
    }

    /// The last GetMetadataAllocated request that the driver got.
    pub(crate) fn asked(&self) -> DriverRequest {
        let calls = self.driver.calls_to("GetMetadataAllocated");
        calls
            .last()
            .unwrap()
            .request::<DriverRequest>()
            .unwrap()
            .clone()
    }
}

impl Running {
    /// A client on a connection of its own, whose window is small.
    pub(crate) async fn client(&self) -> SnapshotMetadataClient<Channel> {
        self.client_at(HERE).await
    }

    /// A client that connects from this address.
    pub(crate) async fn client_at(&self, from: [u8; 4]) -> SnapshotMetadataClient<Channel> {
        self.connected(from).await.unwrap()
    }

    /// A client that connects from this address, or the error if the program refuses the connection.
    pub(crate) async fn connected(
        &self,
        from: [u8; 4],
    ) -> Result<SnapshotMetadataClient<Channel>, tonic::transport::Error> {
        let channel = channel(&self.address, &self.trusted, from).await?;
        Ok(SnapshotMetadataClient::new(channel).max_decoding_message_size(4 << 20))
    }

    /// A client of the health service that connects from this address.
    pub(crate) async fn health_client_at(&self, from: [u8; 4]) -> HealthClient<Channel> {
        HealthClient::new(channel(&self.address, &self.trusted, from).await.unwrap())
    }

    pub(crate) async fn health(&self) -> i32 {
        let mut client = self.health_client_at(HERE).await;
        let answer = client.check(HealthCheckRequest::default()).await;
        answer.unwrap().into_inner().status
    }

    /// All messages of a successful call, and its status.
    pub(crate) async fn allocated(
        &self,
        request: GetMetadataAllocatedRequest,
    ) -> (Messages, Result<(), Status>) {
        collected(self.client().await.get_metadata_allocated(request).await).await
    }

    /// The status of a call that streams nothing.
    pub(crate) async fn refused(&self, request: GetMetadataAllocatedRequest) -> (Code, String) {
        let (messages, end) = self.allocated(request).await;
        assert_eq!(messages, Messages::new());
        let status = end.expect_err("a refusal");
        (status.code(), status.message().to_owned())
    }
}

pub(crate) async fn collected(
    answer: Result<tonic::Response<Streaming<GetMetadataAllocatedResponse>>, Status>,
) -> (Messages, Result<(), Status>) {
    let mut messages = Messages::new();
    let mut stream = match answer {
        Ok(answer) => answer.into_inner(),
        Err(status) => return (messages, Err(status)),
    };
    loop {
        match stream.message().await {
            Ok(Some(message)) => {
                let ranges = message.block_metadata.iter();
                messages.push(ranges.map(|it| (it.byte_offset, it.size_bytes)).collect());
            }
            Ok(None) => return (messages, Ok(())),
            Err(status) => return (messages, Err(status)),
        }
    }
}

pub(crate) fn config(trusted: &CertificateDer<'static>, protocols: &[&[u8]]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
    config
}

pub(crate) async fn secured(
    address: &str,
    config: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    secured_from(HERE, address, config).await
}

/// A connection from this address that says nothing yet.
pub(crate) async fn connect_from(from: [u8; 4], address: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(address.parse().unwrap()).await
}

async fn secured_from(
    from: [u8; 4],
    address: &str,
    config: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = connect_from(from, address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

pub(crate) async fn channel(
    address: &str,
    trusted: &CertificateDer<'static>,
    from: [u8; 4],
) -> Result<Channel, tonic::transport::Error> {
    let (address, trusted) = (address.to_owned(), trusted.clone());
    let connect = tower::service_fn(move |_: http::Uri| {
        let (address, config) = (address.clone(), config(&trusted, &[b"h2"]));
        async move { secured_from(from, &address, config).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost")
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(1 << 20)
        .connect_with_connector(connect)
        .await
}

/// A request that succeeds.
pub(crate) fn request() -> GetMetadataAllocatedRequest {
    GetMetadataAllocatedRequest {
        security_token: TOKEN.to_owned(),
        namespace: "default".to_owned(),
        snapshot_name: "s1".to_owned(),
        starting_offset: 0,
        max_results: 0,
    }
}

pub(crate) fn delta() -> GetMetadataDeltaRequest {
    GetMetadataDeltaRequest {
        security_token: TOKEN.to_owned(),
        namespace: "default".to_owned(),
        base_snapshot_id: "snap-0".to_owned(),
        target_snapshot_name: "s1".to_owned(),
        starting_offset: 0,
        max_results: 0,
    }
}

pub(crate) fn blocks(from: i64, count: i64) -> Vec<(i64, i64)> {
    (from..from + count).map(|n| (n * BLOCK, BLOCK)).collect()
}

/// Begins what [`took`] measures; standstills are known from the first call on.
pub(crate) fn begin() -> Instant {
    let now = Instant::now();
    let _none_yet = stood_still(now, now);
    Instant::now()
}

/// Asserts that the time since `began` is between `least` and `most`; the program may take longer by as much as the
/// machine stood still.
pub(crate) fn took(began: Instant, least: Duration, most: Duration) {
    let now = Instant::now();
    let (took, still) = (now - began, stood_still(began, now));
    assert!(
        took >= least && took <= most + still,
        "{took:?}, of which {still:?} at a standstill, not {least:?} to {most:?}"
    );
}
