use std::fs;

use ::kube::Api;
use ::kube::api::ListParams;
use k8s_openapi::api::core::v1::Node;
use sidecar_testkit::FakeApi;
use sidecar_testkit::api::Served;
use sidecar_testkit::build::{Object as _, node};

use super::*;

const DIRECT: Rate = Rate::Unlimited;

fn by_file(path: &Path) -> Options {
    let source = Source::File {
        path: path.to_owned(),
        named_by: NamedBy::Flag,
        server: None,
    };
    Options::new(source, DIRECT, "csi-attacher", "v1.2.3")
}

async fn served() -> (FakeApi, Served) {
    let api = FakeApi::new();
    api.insert(node("n1").build());
    let served = api.serve().await;
    (api, served)
}

async fn names(options: &Options) -> Vec<String> {
    let client = connect(options, None).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    let list = nodes.list(&ListParams::default()).await.unwrap();
    list.items
        .into_iter()
        .filter_map(|node| node.metadata.name)
        .collect()
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_server_over_tls() {
    let (api, served) = served().await;
    assert_eq!(names(&by_file(&served.kubeconfig())).await, ["n1"]);
    let request = api.requests().remove(0);
    assert!(
        request
            .user_agent
            .starts_with("csi-attacher/v1.2.3 (linux/"),
        "{}",
        request.user_agent
    );
    assert_eq!(request.authorization, "Bearer test-token");
}

#[tokio::test]
async fn the_pods_credentials_lead_to_the_server() {
    let (api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    fs::copy(served.ca_file(), directory.path().join("ca.crt")).unwrap();
    fs::write(directory.path().join("token"), "pod-token").unwrap();
    let port = served.address().port().to_string();
    let source = resolve(Given {
        host: Some("127.0.0.1"),
        port: Some(&port),
        ..Given::default()
    });
    let mut options = Options::new(source.unwrap(), DIRECT, "csi-attacher", "v1");
    options.service_account = directory.path().to_owned();
    assert_eq!(names(&options).await, ["n1"]);
    assert_eq!(api.requests()[0].authorization, "Bearer pod-token");
}

#[tokio::test]
async fn master_alone_and_master_over_a_file() {
    let api = FakeApi::new();
    api.insert(node("n1").build());
    let plain = api.serve_plain().await;
    let url = plain.url().to_owned();
    let bare = url.trim_start_matches("http://").to_owned();
    for url in [url.clone(), bare] {
        let options = Options::new(Source::Server(url), DIRECT, "p", "v1");
        assert_eq!(names(&options).await, ["n1"]);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let text = fs::read_to_string(plain.kubeconfig()).unwrap();
    fs::write(&path, text.replace(&url, "http://127.0.0.1:1")).unwrap();
    let mut options = by_file(&path);
    if let Source::File { server, .. } = &mut options.source {
        *server = Some(url);
    }
    assert_eq!(names(&options).await, ["n1"]);
    assert_eq!(
        api.requests().last().unwrap().authorization,
        "Bearer test-token"
    );
}

#[tokio::test]
async fn fs_9_a_request_that_waited_for_its_turn_is_not_sent_without_the_lease() {
    let (api, served) = served().await;
    let mut options = by_file(&served.kubeconfig());
    options.rate = Rate::new(0.01, 1).unwrap();
    let client = connect(&options, None).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    options
        .fence
        .hold_until(crate::clock::now() + Duration::from_secs(3600));
    assert!(nodes.get("n1").await.is_ok(), "the burst");
    let waiting = tokio::spawn(async move { nodes.get("n1").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(api.requests().len(), 1, "it waits");
    crate::clock::testing::SUSPENDED.set(Duration::from_secs(3600));
    // Its turn comes.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(101)).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(api.requests().len(), 1);
    assert!(!waiting.is_finished(), "nobody is told, the process ends");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (api, served) = served().await;
    let (_, other) = self::served().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    fs::copy(other.ca_file(), directory.path().join("ca.crt")).unwrap();
    fs::copy(served.kubeconfig(), &path).unwrap();
    let client = connect(&by_file(&path), None).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    let error = nodes.list(&ListParams::default()).await.unwrap_err();
    let error = Chain(&error).to_string();
    assert!(error.contains("certificate"), "{error}");
    assert!(api.requests().is_empty());
}

async fn refusal(text: Option<&str>, suffix: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    if let Some(text) = text {
        fs::write(&path, text).unwrap();
    }
    let path = if suffix.is_empty() {
        path
    } else {
        directory.path().join(suffix)
    };
    let error = connect(&by_file(&path), None)
        .await
        .map(|_| ())
        .unwrap_err();
    let message = Chain(&error).to_string();
    let prefix = format!("--kubeconfig={}: ", path.display());
    assert!(message.starts_with(&prefix), "{message}");
    assert!(!message.contains('\n'), "{message}");
    message.trim_start_matches(&prefix).to_owned()
}

#[tokio::test]
async fn a_file_that_is_no_kubeconfig_is_named_and_not_quoted() {
    for (text, want) in [
        (None, "No such file or directory"),
        (Some(""), "no current-context"),
        (Some("hello: world\n"), "no current-context"),
        (
            Some("users:\n- token: top-secret\n  : ["),
            "not a kubeconfig in YAML or JSON (line",
        ),
        (
            Some("users: top-secret\n"),
            "not a kubeconfig in YAML or JSON",
        ),
    ] {
        let message = refusal(text, "").await;
        assert!(message.contains(want), "{message}");
        assert!(!message.contains("top-secret"), "{message}");
    }
    let message = refusal(None, ".").await;
    assert!(message.contains("Is a directory"), "{message}");
}

#[tokio::test]
async fn what_is_wrong_in_a_kubeconfig_is_said_in_one_line() {
    let config = |current: &str, cluster: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "{current}",
               "clusters": [{{"name": "k", "cluster": {cluster}}}],
               "users": [{{"name": "u", "user": {{"token": "top-secret"}}}}],
               "contexts": [{{"name": "c", "context": {{"cluster": "k", "user": "u"}}}}]}}"#
        )
    };
    let nowhere = r#"{"server": "https://a", "certificate-authority": "/nonexistent"}"#;
    let damaged = r#"{"server": "https://a", "certificate-authority-data": "!"}"#;
    let proxied = r#"{"server": "https://a", "proxy-url": "socks5://top-secret@p"}"#;
    for (text, want) in [
        (
            config("other", "{}"),
            "failed to load current context: other",
        ),
        (config("c", "{}"), "cluster url is missing"),
        (
            config("c", r#"{"server": "https://a b"}"#),
            "failed to parse cluster url",
        ),
        (config("c", nowhere), "/nonexistent"),
        (config("c", damaged), "certificate authority"),
        (
            config("c", proxied),
            "proxy-url: only proxies with http:// are supported",
        ),
    ] {
        let message = refusal(Some(&text), "").await;
        assert!(message.contains(want), "{message}");
        assert!(!message.contains("top-secret"), "{message}");
    }
}

/// Fields of a kubeconfig that may be empty.
const FIELDS: [(&str, &str); 13] = [
    ("cluster", "certificate-authority-data"),
    ("cluster", "proxy-url"),
    ("cluster", "tls-server-name"),
    ("user", "client-certificate"),
    ("user", "client-certificate-data"),
    ("user", "client-key"),
    ("user", "client-key-data"),
    ("user", "tokenFile"),
    ("user", "username"),
    ("user", "password"),
    ("user", "as"),
    ("user", "as-uid"),
    ("context", "namespace"),
];

#[tokio::test]
async fn row_96_an_empty_field_is_as_good_as_absent() {
    let (api, served) = served().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    fs::copy(served.ca_file(), directory.path().join("ca.crt")).unwrap();
    let text = fs::read_to_string(served.kubeconfig()).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let place = |part: &str| format!("/{part}s/0/{part}");
    let inline = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        fs::read(served.ca_file()).unwrap(),
    );
    // Each field alone, all together, and those whose absence makes another source count, or none.
    let each = FIELDS.iter().map(|field| vec![*field]);
    let rows = each.chain([
        FIELDS.to_vec(),
        vec![("cluster", "certificate-authority")],
        vec![("user", "token")],
        vec![("context", "user")],
    ]);
    for row in rows {
        let mut config = config.clone();
        for (part, field) in &row {
            config.pointer_mut(&place(part)).unwrap()[*field] = "".into();
        }
        if row == [("cluster", "certificate-authority")] {
            config["clusters"][0]["cluster"]["certificate-authority-data"] = inline.clone().into();
        }
        fs::write(&path, config.to_string()).unwrap();
        assert_eq!(names(&by_file(&path)).await, ["n1"], "{row:?}");
        let is_nobody = matches!(row[..], [("user", "token") | ("context", "user")]);
        let want = if is_nobody { "" } else { "Bearer test-token" };
        assert_eq!(
            api.requests().last().unwrap().authorization,
            want,
            "{row:?}"
        );
    }
    for (part, field, want) in [
        ("cluster", "server", "cluster url is missing"),
        ("cluster", "certificate-authority", "certificate"),
    ] {
        let mut config = config.clone();
        config.pointer_mut(&place(part)).unwrap()[field] = "".into();
        let before = api.requests().len();
        fs::write(&path, config.to_string()).unwrap();
        let error = match connect(&by_file(&path), None).await {
            Err(error) => Chain(&error).to_string(),
            // If the system has authorities, this one is not among them.
            Ok(client) => Chain(&client.apiserver_version().await.unwrap_err()).to_string(),
        };
        assert!(error.contains(want), "{field}: {error}");
        assert_eq!(api.requests().len(), before, "{field}");
    }
    let mut config = config.clone();
    config["current-context"] = "".into();
    let message = refusal(Some(&config.to_string()), "").await;
    assert!(message.contains("no current-context"), "{message}");
}

#[tokio::test]
async fn row_97_a_server_is_not_checked_and_left_unchecked_at_once() {
    let (api, served) = served().await;
    let text = fs::read_to_string(served.kubeconfig()).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["insecure-skip-tls-verify"] = true.into();
    let both = cluster.clone();
    let message = refusal(Some(&config.to_string()), "").await;
    assert!(
        message.contains("with the insecure flag is not allowed"),
        "{message}"
    );
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["certificate-authority"] = "".into();
    cluster["certificate-authority-data"] = "AAAA".into();
    let message = refusal(Some(&config.to_string()), "").await;
    assert!(
        message.contains("with the insecure flag is not allowed"),
        "{message}"
    );
    assert!(api.requests().is_empty());
    // Either field alone counts.
    config["clusters"][0]["cluster"]["certificate-authority-data"] = "".into();
    fs::write(&path, config.to_string()).unwrap();
    assert_eq!(names(&by_file(&path)).await, ["n1"]);
    fs::copy(served.ca_file(), directory.path().join("ca.crt")).unwrap();
    config["clusters"][0]["cluster"] = both;
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = false.into();
    fs::write(&path, config.to_string()).unwrap();
    assert_eq!(names(&by_file(&path)).await, ["n1"]);
}

#[tokio::test]
async fn row_99_what_is_wrong_with_a_certificate_is_told_once_with_the_way_out() {
    let log = crate::log::capture();
    let (_, served) = served().await;
    let (_, other) = self::served().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let authority = directory.path().join("ca.crt");
    fs::copy(other.ca_file(), &authority).unwrap();
    fs::copy(served.kubeconfig(), &path).unwrap();
    let options = by_file(&path);
    let server = Outage::default();
    let api_server = ApiServer::new(&options).await.unwrap();
    let client = api_server.client(options.budget(None), &server);
    for _ in 0..3 {
        client.apiserver_version().await.unwrap_err();
    }
    let lines = log.lines();
    let told: Vec<_> = { lines.iter() }
        .filter(|line| line.contains("Cannot talk to the API server until this is fixed"))
        .collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    let problem = server.problem().unwrap();
    for said in [told[0].as_str(), &problem] {
        assert!(
            said.contains("UnknownIssuer") && said.contains("ca.crt"),
            "{said}"
        );
    }
    // Fixed, whatever else the server answers.
    fs::copy(served.ca_file(), &authority).unwrap();
    let api_server = ApiServer::new(&options).await.unwrap();
    let client = api_server.client(options.budget(None), &server);
    let request = http::Request::get("/nowhere").body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap_err();
    assert_eq!(server.problem(), None);
}

#[tokio::test]
async fn a_pod_without_credentials_learns_why() {
    let source = Source::Cluster {
        server: "https://10.0.0.1:443".to_owned(),
    };
    let mut options = Options::new(source, DIRECT, "p", "v1");
    options.service_account = "/nonexistent".into();
    let error = connect(&options, None).await.map(|_| ()).unwrap_err();
    let error = Chain(&error).to_string();
    assert!(error.contains("/nonexistent/token"), "{error}");
    assert!(error.contains("automountServiceAccountToken"), "{error}");
}
