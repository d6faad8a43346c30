use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use ::kube::Client;
use serde_json::{Value, json};
use sidecar_testkit::api::{ClientCertificate, Served};
use sidecar_testkit::build::{Object as _, node};
use sidecar_testkit::{FakeApi, Fault};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{advance, pause, resume, sleep, timeout};

use crate::clock::testing::in_small_steps;
use crate::duration::GoDuration;
use crate::election::{Config as ElectorConfig, Elector, Fence, Timing};
use crate::kube::connect::{ApiServer, Budget, NamedBy, Options, Source, connect};
use crate::kube::rate::Rate;
use crate::outage::Outage;

use super::*;

const S: Duration = Duration::from_secs(1);
const NODE: &str = "/api/v1/nodes/n1";

async fn served() -> (FakeApi, Served) {
    let api = FakeApi::new();
    api.insert(node("n1").build());
    let served = api.serve().await;
    (api, served)
}

/// A modified copy of the server's kubeconfig in `directory`.
fn kubeconfig(served: &Served, directory: &Path, change: impl FnOnce(&mut Value)) -> Options {
    let text = fs::read_to_string(served.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    change(&mut config);
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

fn set_user(config: &mut Value, user: Value) {
    config["users"][0]["user"] = user;
}

async fn status(client: &Client) -> u16 {
    let request = Request::get(NODE).body(Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    answer.status().as_u16()
}

/// Advances the clock by `time` without waiting.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

/// Runs `work` while the clock stands still, however long it takes: a paused clock advances by
/// itself only while no blocking task runs.
async fn in_no_time(work: impl Future<Output = ()>) {
    let (running, until) = std::sync::mpsc::channel::<()>();
    let blocking = tokio::task::spawn_blocking(move || until.recv().is_err());
    pause();
    work.await;
    resume();
    drop(running);
    assert!(blocking.await.unwrap());
}

/// Forwards connections to a server, until the existing ones fall silent without being closed.
struct Proxy {
    address: SocketAddr,
    /// Connections with a lower number are dead.
    alive_from: watch::Sender<usize>,
    accepted: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (alive_from, alive) = watch::channel(0);
        let (count, accepted) = watch::channel(0);
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let number = *count.borrow();
                count.send_modify(|count| *count += 1);
                let mut alive = alive.clone();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let dead = async move {
                        let _sender_is_gone = alive.wait_for(|from| *from > number).await;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                        () = dead => {}
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        Self {
            address,
            alive_from,
            accepted,
            task,
        }
    }

    fn accepted(&self) -> usize {
        *self.accepted.borrow()
    }

    fn swallow_what_exists(&self) {
        self.alive_from.send_replace(self.accepted());
    }
}

async fn behind_proxy(directory: &Path) -> (FakeApi, Served, Proxy, Client) {
    let (api, served) = served().await;
    let proxy = Proxy::before(served.address()).await;
    let url = format!("https://{}", proxy.address);
    let options = kubeconfig(&served, directory, |config| {
        config["clusters"][0]["cluster"]["server"] = url.into();
    });
    let client = connect(&options, None).await.unwrap();
    (api, served, proxy, client)
}

#[tokio::test(start_paused = true)]
async fn fs_2_a_leader_whose_connection_is_dead_keeps_its_lease() {
    tokio::spawn(in_small_steps());
    let directory = tempfile::tempdir().unwrap();
    let (api, _served, proxy, client) = behind_proxy(directory.path()).await;
    let seconds = GoDuration::from_secs;
    let config = ElectorConfig {
        namespace: "default".to_owned(),
        name: "l".to_owned(),
        identity: "me".to_owned(),
        timing: Timing::new(seconds(12), seconds(10), seconds(1)).unwrap(),
        labels: Vec::new(),
        succeeds: None,
        shown: String::new(),
        metrics: None,
        fence: Fence::default(),
        on_event: Box::new(|_| {}),
    };
    let mut elector = Elector::new(client, config);
    elector.acquire().await;
    assert!(api.requests().iter().all(|request| request.http2));
    assert_eq!(proxy.accepted(), 1);
    proxy.swallow_what_exists();
    let renewed =
        |api: &FakeApi| api.object("leases", "default/l").unwrap()["spec"]["renewTime"].clone();
    let before = renewed(&api);
    let again = api.until(|api| renewed(api) != before);
    tokio::select! {
        lost = elector.lead() => panic!("{lost}"),
        () = again => {}
    }
    assert_eq!(proxy.accepted(), 2, "one new connection, no more");
}

#[tokio::test]
async fn fs_2_a_watch_keeps_its_connection_when_another_request_is_given_up() {
    use futures_util::AsyncBufReadExt as _;
    let directory = tempfile::tempdir().unwrap();
    let (api, _served, proxy, client) = behind_proxy(directory.path()).await;
    let watch = format!("/api/v1/nodes?watch=true&resourceVersion={}", api.version());
    let watch = Request::get(watch).body(Vec::new()).unwrap();
    let stream = client.request_stream(watch).await.unwrap();
    let hanging = api.fault(Fault::on("GET", NODE).hang());
    // Given up at once: that proves nothing. Then three together make one new connection.
    in_no_time(async {
        tokio::select! {
            status = status(&client) => panic!("{status}"),
            () = api.until(|api| !api.requests_to("GET", NODE).is_empty()) => {}
        }
    })
    .await;
    hanging.remove();
    assert_eq!((status(&client).await, proxy.accepted()), (200, 1));
    api.fault(Fault::on("GET", NODE).times(3).hang());
    let given_up = || timeout(SUSPECT_AFTER * 2, status(&client));
    let three = tokio::join!(given_up(), given_up(), given_up());
    assert!(three.0.is_err() && three.1.is_err() && three.2.is_err());
    assert_eq!((status(&client).await, proxy.accepted()), (200, 2));
    api.insert(node("n2").build());
    let mut line = String::new();
    let mut stream = std::pin::pin!(stream);
    timeout(10 * S, stream.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    assert!(line.contains("ADDED"), "{line}");
    assert_eq!(api.requests_to("GET", "/api/v1/nodes").len(), 1);
}

#[tokio::test]
async fn fs_6_a_token_file_may_end_with_a_line_break_and_is_read_again() {
    let (api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "first\n").unwrap();
    let options = kubeconfig(&served, directory.path(), |config| {
        // The file takes precedence, as in client-go.
        set_user(config, json!({"tokenFile": token, "token": "inline"}));
    });
    let client = connect(&options, None).await.unwrap();
    api.accept_tokens(["first"]);
    assert_eq!(status(&client).await, 200);
    fs::write(&token, " second\r\n").unwrap();
    assert_eq!(status(&client).await, 200, "not read for each request");
    pass(61 * S).await;
    assert_eq!(status(&client).await, 401);
    api.accept_tokens(["second"]);
    assert_eq!(status(&client).await, 200);
    // Empty for a moment, then gone: the last token is used.
    fs::write(&token, "\n").unwrap();
    pass(61 * S).await;
    assert_eq!(status(&client).await, 200);
    fs::remove_file(&token).unwrap();
    pass(61 * S).await;
    assert_eq!(status(&client).await, 200);
    // After a refusal the file is read at once.
    fs::write(&token, "third").unwrap();
    api.accept_tokens(["third"]);
    assert_eq!(status(&client).await, 401);
    assert_eq!(status(&client).await, 200);
}

#[tokio::test]
async fn fs_6_a_token_that_is_none_is_refused_by_name_and_not_quoted() {
    let (_api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    for (text, user, want) in [
        (Some(""), json!({"tokenFile": token}), "the file is empty"),
        (None, json!({"tokenFile": token}), "No such file"),
        (
            Some("top\nsecret"),
            json!({"tokenFile": token}),
            "control characters",
        ),
        (None, json!({"token": "top\nsecret"}), "control characters"),
    ] {
        let _absent = fs::remove_file(&token);
        if let Some(text) = text {
            fs::write(&token, text).unwrap();
        }
        let options = kubeconfig(&served, directory.path(), |config| set_user(config, user));
        let error = connect(&options, None).await.map(|_| ()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(want), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

fn store(pair: &ClientCertificate, directory: &Path) {
    fs::write(directory.join("tls.crt"), &pair.certificate).unwrap();
    fs::write(directory.join("tls.key"), &pair.key).unwrap();
}

fn presented(api: &FakeApi) -> Option<Vec<u8>> {
    api.requests().last().unwrap().certificate.clone()
}

#[tokio::test]
async fn fs_4_a_client_certificate_that_was_replaced_is_presented() {
    let (api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [ClientCertificate::make(), ClientCertificate::make()];
    store(&first, directory.path());
    let options = kubeconfig(&served, directory.path(), |config| {
        let files = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
        set_user(config, files);
    });
    let client = connect(&options, None).await.unwrap();
    assert_eq!(status(&client).await, 200);
    assert_eq!(presented(&api).as_ref(), Some(&first.der));
    pass(61 * S).await;
    assert_eq!(status(&client).await, 200);
    assert_eq!(
        presented(&api).as_ref(),
        Some(&first.der),
        "nothing changed"
    );
    // Half of a pair is useless.
    fs::write(directory.path().join("tls.crt"), &second.certificate).unwrap();
    pass(61 * S).await;
    assert_eq!(status(&client).await, 200);
    assert_eq!(presented(&api).as_ref(), Some(&first.der));
    store(&second, directory.path());
    pass(61 * S).await;
    assert_eq!(status(&client).await, 200);
    assert_eq!(presented(&api).as_ref(), Some(&second.der));
}

#[tokio::test]
async fn fs_4_an_exec_plugin_is_asked_again_when_its_certificate_is_refused() {
    let (api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [ClientCertificate::make(), ClientCertificate::make()];
    let print = |pair: &ClientCertificate| {
        let credential = json!({
            "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "status": {"clientCertificateData": pair.certificate, "clientKeyData": pair.key},
        });
        fs::write(directory.path().join("credential"), credential.to_string()).unwrap();
    };
    print(&first);
    let options = kubeconfig(&served, directory.path(), |config| {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
            "args": [directory.path().join("credential")], "interactiveMode": "Never",
        });
        set_user(config, json!({ "exec": exec }));
    });
    let client = connect(&options, None).await.unwrap();
    assert_eq!(status(&client).await, 200);
    assert_eq!(presented(&api).as_ref(), Some(&first.der));
    print(&second);
    let (expired, der) = (Fault::on("*", "*"), first.der.clone());
    api.fault(
        expired
            .when(move |request| request.certificate.as_ref() == Some(&der))
            .answer(401),
    );
    assert_eq!(status(&client).await, 401);
    pass(LOOK_AFTER_REFUSAL + S).await;
    assert_eq!(status(&client).await, 200);
    assert_eq!(presented(&api).as_ref(), Some(&second.der));
}

#[tokio::test]
async fn fa_11_what_a_failed_exec_plugin_printed_is_not_told() {
    let (_api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    for (script, want) in [
        ("echo planted-secret; exit 3", "exit status: 3"),
        ("echo '{\"kind\": planted-secret'", "did not print"),
        ("echo 'planted-secret: [1'", "did not print"),
    ] {
        let options = kubeconfig(&served, directory.path(), |config| {
            let exec = json!({
                "apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
                "args": ["-c", script], "interactiveMode": "Never",
            });
            set_user(config, json!({ "exec": exec }));
        });
        let error = connect(&options, None).await.map(|_| ()).unwrap_err();
        let error = crate::error::Chain(&error).to_string();
        assert!(error.contains(want), "{error}");
        assert!(!error.contains("planted"), "{error}");
    }
}

#[tokio::test]
async fn idle_time_does_not_count_as_silence() {
    let directory = tempfile::tempdir().unwrap();
    let (_api, _served, proxy, client) = behind_proxy(directory.path()).await;
    assert_eq!(status(&client).await, 200);
    sleep(SUSPECT_AFTER * 2).await;
    assert_eq!((status(&client).await, proxy.accepted()), (200, 1));
}

#[tokio::test]
async fn a_12_23_32_clients_share_a_connection_and_have_budgets_and_names_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let (api, served) = served().await;
    let proxy = Proxy::before(served.address()).await;
    let url = format!("https://{}", proxy.address);
    let options = kubeconfig(&served, directory.path(), |config| {
        config["clusters"][0]["cluster"]["server"] = url.into();
    });
    let shared = ApiServer::new(&options).await.unwrap();
    let client = |rate, name: &str| {
        let budget = Budget {
            rate,
            user_agent: format!("{name}/v1"),
            metrics: None,
            fence: Fence::default(),
        };
        shared.client(budget, &Outage::default())
    };
    let slow = client(Rate::new(0.001, 1).unwrap(), "csi-provisioner");
    let quick = client(Rate::Unlimited, "csi-attacher");
    assert_eq!(status(&slow).await, 200);
    let waiting = tokio::spawn(async move { status(&slow).await });
    for _ in 0..20 {
        assert_eq!(status(&quick).await, 200);
    }
    assert!(!waiting.is_finished(), "it has had its one request");
    waiting.abort();
    assert_eq!(proxy.accepted(), 1);
    let agents: Vec<_> = { api.requests().into_iter() }
        .map(|request| request.user_agent)
        .collect();
    assert_eq!(agents.first().unwrap(), "csi-provisioner/v1");
    assert!(
        agents
            .iter()
            .skip(1)
            .all(|agent| agent == "csi-attacher/v1")
    );
    assert_eq!(agents.len(), 21);
}

/// Opens a watch of the nodes, which lasts as long as the result lives.
async fn watching(client: &Client) -> impl Sized + use<> {
    let request = Request::get("/api/v1/nodes?watch=true&resourceVersion=0");
    let request = request.body(Body::empty()).unwrap();
    timeout(20 * S, client.send(request))
        .await
        .unwrap()
        .unwrap()
}

async fn ten_watches(client: &Client) -> Vec<impl Sized + use<>> {
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(watching(client).await);
    }
    watches
}

#[tokio::test]
async fn no_request_waits_for_a_stream_that_a_watch_holds() {
    let directory = tempfile::tempdir().unwrap();
    let (api, _served, proxy, client) = behind_proxy(directory.path()).await;
    api.limit_streams(4);
    let watches = ten_watches(&client).await;
    let why = "two are full, and there is room on the third";
    assert_eq!(proxy.accepted(), 3, "{why}");
    assert_eq!(timeout(20 * S, status(&client)).await, Ok(200));
    assert_eq!(proxy.accepted(), 3, "{why}");
    drop(watches);
    let watches = ten_watches(&client).await;
    assert_eq!(proxy.accepted(), 3, "what has ended makes room");
    // All at once, while all existing connections are full.
    let more = futures_util::future::join_all((0..10).map(|_| watching(&client))).await;
    assert_eq!(watches.len() + more.len(), 20);
}

#[tokio::test]
async fn a_23_one_connection_is_enough_where_the_server_has_room() {
    let directory = tempfile::tempdir().unwrap();
    let (_api, _served, proxy, client) = behind_proxy(directory.path()).await;
    let _first = watching(&client).await;
    let watches = futures_util::future::join_all((0..40).map(|_| watching(&client))).await;
    assert_eq!(timeout(20 * S, status(&client)).await, Ok(200));
    assert_eq!((watches.len(), proxy.accepted()), (40, 1));
}

#[tokio::test]
async fn fs_9_each_connection_is_guarded_and_each_is_abandoned() {
    let directory = tempfile::tempdir().unwrap();
    let (api, served) = served().await;
    api.limit_streams(1);
    let proxy = Proxy::before(served.address()).await;
    let url = format!("https://{}", proxy.address);
    let options = kubeconfig(&served, directory.path(), |config| {
        config["clusters"][0]["cluster"]["server"] = url.into();
    });
    let client = connect(&options, None).await.unwrap();
    let _first = watching(&client).await;
    let _second = watching(&client).await;
    assert_eq!(status(&client).await, 200);
    assert_eq!(proxy.accepted(), 3);
    // The third falls silent: requests after one that was given up use a new connection.
    proxy.swallow_what_exists();
    assert!(timeout(S, status(&client)).await.is_err());
    assert_eq!(timeout(20 * S, status(&client)).await, Ok(200));
    assert_eq!(proxy.accepted(), 4);
    // Without the lease nothing is sent on any connection, existing or new.
    let asked = api.requests().len();
    options.fence.close();
    for _ in 0..2 {
        let request = Request::get(NODE).body(Body::empty()).unwrap();
        let sent = timeout(S, client.send(request)).await;
        assert!(!matches!(sent, Ok(Ok(_))), "{sent:?}");
    }
    assert_eq!(api.requests().len(), asked);
}
