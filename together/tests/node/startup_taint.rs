//! The start-up taint, removed by the program in a pod-like environment: rows O-100 to O-116.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sidecar_testkit::api::Served;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::api::fault::Fault;
use sidecar_testkit::build::{Object as _, csinode, node};
use sidecar_testkit::process::{Process, must_not_skip, until, within};
use sidecar_testkit::{CallFault, FakeApi, FakeDriver, Gate};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use super::{NAME, Node, kubelet, program};

const KEY: &str = "d.example.com/agent-not-ready";
const TOKEN: &str = "of-the-pod";
const LINE: &str = "Removed the start-up taint";
const NODE_PATH: &str = "/api/v1/nodes/n1";
const CSI_NODE_PATH: &str = "/apis/storage.k8s.io/v1/csinodes/n1";

/// A cluster with one Node.
struct Cluster {
    api: FakeApi,
    served: Served,
    /// Address at which pods find the API server.
    address: SocketAddr,
    /// The pod's credentials.
    account: TempDir,
}

impl Cluster {
    async fn new() -> Self {
        let api = FakeApi::new();
        api.accept_tokens([TOKEN]);
        let served = api.serve().await;
        let account = account(&served, TOKEN);
        let this = Self {
            address: served.address(),
            api,
            served,
            account,
        };
        this.api.insert(node("n1").build());
        this.taint(&[("a", ""), (KEY, ""), ("b", "2026-11-28T00:00:00Z")]);
        this.api.insert(csinode("n1").driver(NAME, "n1").build());
        this
    }

    fn show_token(&self, token: &str) {
        fs::write(self.account.path().join("token"), token).unwrap();
    }

    fn taint(&self, taints: &[(&str, &str)]) {
        let taint = |(key, added): &(&str, &str)| {
            let mut taint = json!({"key": key, "effect": "NoSchedule"});
            if !added.is_empty() {
                taint["timeAdded"] = (*added).into();
            }
            taint
        };
        let taints: Vec<Value> = taints.iter().map(taint).collect();
        self.api
            .edit("nodes", "n1", |node| node["spec"]["taints"] = taints.into());
    }

    fn taints(&self) -> Vec<String> {
        let node = self.api.object("nodes", "n1").unwrap();
        let taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let key = |taint: &Value| taint["key"].as_str().unwrap().to_owned();
        taints.iter().map(key).collect()
    }

    fn has_ours(&self) -> bool {
        self.taints().iter().any(|key| key == KEY)
    }

    async fn until_gone(&self, limit: Duration) {
        within(limit, "the taint is gone", async || !self.has_ours()).await;
    }

    /// The requests, in order.
    fn asked(&self) -> Vec<String> {
        let requests = self.api.requests();
        let line =
            |it: &sidecar_testkit::api::record::Request| format!("{} {}", it.method, it.path);
        requests.iter().map(line).collect()
    }

    /// The program with the variables and files that kubelet gives a pod.
    fn pod(&self, account: &TempDir) -> Option<Command> {
        const SCRIPT: &str = "run=$(readlink -f /var/run) && mount -t tmpfs none $run && \
            mkdir -p $run/secrets/kubernetes.io && ln -s \"$0\" $run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
        let allowed = Command::new("unshare").args(["--mount", "true"]).output();
        if !allowed.is_ok_and(|output| output.status.success()) {
            must_not_skip("a mount namespace");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT]);
        command.arg(account.path()).arg(program());
        self.set_variables(&mut command);
        Some(command)
    }

    fn set_variables(&self, command: &mut Command) {
        command.env("KUBERNETES_SERVICE_HOST", self.address.ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", self.address.port().to_string());
        command.env("NODE_NAME", "n1");
    }

    /// Starts the program beside a driver, with `--remove-taint`.
    async fn beside_driver(&self, taint: &str) -> Option<Node> {
        self.beside(NAME, taint, &self.account).await
    }

    async fn beside(&self, name: &str, taint: &str, account: &TempDir) -> Option<Node> {
        self.with("node-driver-registrar", name, taint, account)
            .await
    }

    async fn with(
        &self,
        controllers: &str,
        name: &str,
        taint: &str,
        account: &TempDir,
    ) -> Option<Node> {
        let driver = FakeDriver::new(name);
        driver.start();
        let flag = format!("--node-driver-registrar-remove-taint={taint}");
        let mut node = Node::start_as(self.pod(account)?, driver, controllers, &[flag]).await;
        let socket = node.socket_of(name);
        node.process.listening(&socket).await;
        Some(node)
    }
}

/// A pod's credentials.
fn account(served: &Served, token: &str) -> TempDir {
    let account = tempfile::tempdir().unwrap();
    fs::copy(served.ca_file(), account.path().join("ca.crt")).unwrap();
    fs::write(account.path().join("token"), token).unwrap();
    account
}

/// Row, change to the CSINode, and expected log text.
type Kept = (&'static str, fn(&mut Value), &'static str);

/// Something that happens to the API server, or to the pod's access to it.
type Trouble = fn(&Cluster);

const SECOND: Duration = Duration::from_secs(1);
/// Longer than the longest pause between two checks, so that one that a busy machine delays past its end does no harm.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits long enough for a wrong request to show up.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn lines(node: &Node, text: &str) -> usize {
    node.process.log().matches(text).count()
}

#[tokio::test]
async fn o_100_without_the_flag_nobody_is_asked_and_no_token_is_read() {
    let cluster = Cluster::new().await;
    let driver = FakeDriver::new(NAME);
    driver.start();
    // Without the service account's directory.
    let mut command = Command::new(program());
    cluster.set_variables(&mut command);
    let mut node = Node::start_as(command, driver, "node-driver-registrar", &[]).await;
    node.process.listening(&node.socket()).await;
    node.register().await;
    pass(SECOND * 2).await;
    node.says("/readyz", 200, "ok").await;
    assert_eq!(cluster.asked(), [""; 0]);
    assert!(!node.process.log().contains("taint"));
    let metrics = sidecar_testkit::http::get(&node.address, "/metrics").await;
    assert!(!metrics.body.contains("startup_taint"));
}

#[tokio::test]
async fn o_101_o_105_o_116_the_taint_goes_once_kubelet_has_confirmed() {
    let cluster = Cluster::new().await;
    let Some(node) = cluster.beside_driver(KEY).await else {
        return;
    };
    let info = kubelet::ask(&node.socket()).await;
    assert_eq!(info.name, NAME);
    pass(SECOND * 2).await;
    assert_eq!(cluster.asked(), [""; 0], "never before");
    kubelet::notify(&node.socket(), true, "").await.unwrap();
    let confirmed = Instant::now();
    cluster.until_gone(LIMIT).await;
    let took = confirmed.elapsed();
    assert_eq!(cluster.taints(), ["a", "b"]);
    let expected = [
        format!("GET {CSI_NODE_PATH}"),
        format!("GET {NODE_PATH}"),
        format!("PATCH {NODE_PATH}"),
    ];
    assert_eq!(cluster.asked()[..3], expected);
    let patch = cluster.api.requests_to("PATCH", NODE_PATH).remove(0);
    assert_eq!(patch.content_type, "application/json-patch+json");
    let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
    let body = json!([
        test("/metadata/uid", "uid-of-n1"),
        test("/spec/taints/1/key", KEY),
        test("/spec/taints/1/effect", "NoSchedule"),
        {"op": "remove", "path": "/spec/taints/1"},
    ]);
    assert_eq!(patch.body, body);
    assert!(
        patch.user_agent.starts_with("csi-node-sidecars/"),
        "{}",
        patch.user_agent
    );
    node.process.says(LINE).await;
    for line in [
        "csi_sidecar_startup_taint_removed_total 1",
        "csi_sidecar_startup_taint_failures_total 0",
        "csi_sidecar_startup_taint_seconds_count 1",
    ] {
        node.says("/metrics", 200, line).await;
    }
    let log = node.process.log();
    let line = log.lines().find(|line| line.contains(LINE)).unwrap();
    for word in [
        "controller=\"node-driver-registrar\"",
        KEY,
        "node=\"n1\"",
        NAME,
    ] {
        assert!(line.contains(word), "{line}");
    }
    goes_within_a_second(&cluster, &node, took).await;
}

/// At least one of a few confirmations, of which the first took this long, has the taint gone within a second. Behind a
/// timer each of them would take longer; a busy machine only delays some.
async fn goes_within_a_second(cluster: &Cluster, node: &Node, took: Duration) {
    let mut took = vec![took];
    while took.iter().all(|it| *it > SECOND) {
        assert!(took.len() < 5, "{took:?}");
        cluster.taint(&[(KEY, "")]);
        let confirmed = Instant::now();
        node.register().await;
        cluster.until_gone(LIMIT).await;
        took.push(confirmed.elapsed());
    }
}

#[tokio::test]
async fn o_102_who_is_not_confirmed_removes_nothing() {
    for (controllers, is_refused) in [
        ("node-driver-registrar", false),
        ("node-driver-registrar", true),
        ("node-driver-registrar,livenessprobe", true),
    ] {
        let cluster = Cluster::new().await;
        let beside = cluster.with(controllers, NAME, KEY, &cluster.account).await;
        let Some(mut node) = beside else {
            return;
        };
        let gate = Gate::new();
        if is_refused {
            // A refusal is told until the registrar knows the driver's name again.
            let held = CallFault::on("GetPluginInfo").hold(&gate);
            node.driver.fault(held);
            let _ = kubelet::notify(&node.socket(), false, "a name that is taken").await;
        } else {
            pass(SECOND * 2).await;
            node.says("/readyz", 503, "kubelet has not asked yet").await;
        }
        match (is_refused, controllers.contains(',')) {
            (false, _) => {}
            // It ends as the registrar alone does.
            (true, false) => {
                let end = node.process.ended().await;
                end.failed_naming(&["a name that is taken"]);
            }
            (true, true) => {
                node.process.says("The registration ended").await;
                node.says("/readyz", 503, "a name that is taken").await;
                gate.open();
                pass(SECOND * 2).await;
            }
        }
        assert_eq!(cluster.asked(), [""; 0]);
        assert!(cluster.has_ours());
    }
}

#[tokio::test]
async fn o_103_o_104_csinode_must_list_the_driver_and_belong_to_the_node() {
    let rows: [Kept; 3] = [
        (
            "O-103",
            |it| it["spec"]["drivers"] = json!([]),
            "does not list the driver",
        ),
        (
            "O-103",
            |it| it["spec"]["drivers"][0]["name"] = "d".into(),
            "does not list the driver",
        ),
        (
            "O-104",
            |it| it["metadata"]["ownerReferences"][0]["uid"] = "of-an-earlier-life".into(),
            "belongs to another Node of the same name",
        ),
    ];
    for (row, change, reason) in rows {
        let cluster = Cluster::new().await;
        cluster.api.edit("csinodes", "n1", change);
        let Some(node) = cluster.beside_driver(KEY).await else {
            return;
        };
        node.register().await;
        let looks = || cluster.api.requests_to("GET", CSI_NODE_PATH).len();
        until("two looks", async || looks() >= 2).await;
        pass(Duration::from_millis(500)).await;
        assert!(cluster.has_ours(), "{row}");
        assert_eq!(lines(&node, reason), 1, "{row}: {}", node.process.log());
        assert!(cluster.api.writes().is_empty(), "{row}");
        node.says("/readyz", 200, "ok").await;
        cluster.api.remove("csinodes", "n1");
        cluster.api.insert(csinode("n1").driver(NAME, "n1").build());
        cluster.until_gone(LIMIT).await;
    }
}

#[tokio::test]
async fn o_106_a_taint_that_is_put_in_front_meanwhile() {
    let cluster = Cluster::new().await;
    let Some(node) = cluster.beside_driver(KEY).await else {
        return;
    };
    let gate = Gate::new();
    let held = cluster
        .api
        .fault(Fault::on("PATCH", NODE_PATH).times(1).hold(&gate));
    node.register().await;
    until("a patch", async || held.hits() == 1).await;
    cluster.taint(&[("first", ""), ("a", ""), (KEY, ""), ("b", "")]);
    gate.open();
    cluster.until_gone(LIMIT).await;
    assert_eq!(cluster.taints(), ["first", "a", "b"]);
    let patches = cluster.api.requests_to("PATCH", NODE_PATH);
    let answers: Vec<_> = patches.iter().map(|it| it.status.unwrap()).collect();
    assert_eq!(answers, [422, 200]);
    // The program logs after the answer, which the API server has sent by now.
    until("a line", async || lines(&node, LINE) > 0).await;
    assert_eq!(lines(&node, LINE), 1);
}

#[tokio::test]
async fn o_107_a_taint_that_is_put_on_late_or_put_back_goes_at_the_next_look() {
    let cluster = Cluster::new().await;
    let Some(node) = cluster.beside_driver(KEY).await else {
        return;
    };
    node.register().await;
    let confirmed = Instant::now();
    // Already there; restored after its removal; added 8 s after the confirmation.
    for (removals, put_on) in [(1, 0), (2, 0), (3, 8)] {
        pass((SECOND * put_on).saturating_sub(confirmed.elapsed())).await;
        cluster.taint(&[(KEY, ""), ("a", "")]);
        // `o_107_looks_go_on_for_ten_minutes` has how long that may take.
        cluster.until_gone(LIMIT).await;
        let told = async || lines(&node, LINE) == removals;
        until("a line each time", told).await;
        let counted = format!("startup_taint_removed_total {removals}");
        node.says("/metrics", 200, &counted).await;
    }
    assert_eq!(cluster.taints(), ["a"]);
    node.says("/metrics", 200, "startup_taint_seconds_count 1")
        .await;
}

#[tokio::test]
async fn o_108_ten_drivers_at_once() {
    let cluster = Cluster::new().await;
    let names: Vec<String> = (0..10).map(|it| format!("d{it}.example.com")).collect();
    let keys: Vec<String> = names
        .iter()
        .map(|name| format!("{name}/not-ready"))
        .collect();
    let all: Vec<_> = keys.iter().map(|key| (&**key, "")).collect();
    cluster.taint(&all);
    let of_all = names
        .iter()
        .fold(csinode("n1"), |it, name| it.driver(name, "n1"));
    cluster.api.remove("csinodes", "n1");
    cluster.api.insert(of_all.build());
    // Each has its own token, which identifies its requests.
    cluster.api.accept_tokens(names.iter().map(String::as_str));
    let mut nodes = Vec::new();
    for (name, key) in names.iter().zip(&keys) {
        let account = account(&cluster.served, name);
        let Some(node) = cluster.beside(name, key, &account).await else {
            return;
        };
        nodes.push((node, account));
    }
    // All read the same list before the first one writes.
    let gate = Gate::new();
    let held = cluster
        .api
        .fault(Fault::on("PATCH", NODE_PATH).times(10).hold(&gate));
    for ((node, _), name) in nodes.iter().zip(&names) {
        kubelet::notify(&node.socket_of(name), true, "")
            .await
            .unwrap();
    }
    until("ten patches", async || held.hits() == 10).await;
    gate.open();
    let empty = async || cluster.taints().is_empty();
    within(LIMIT, "all are gone", empty).await;
    let requests = cluster.api.requests();
    for name in &names {
        let bearer = format!("Bearer {name}");
        let its: Vec<_> = { requests.iter() }
            .filter(|it| it.authorization == bearer)
            .map(|it| (&*it.method, it.status))
            .collect();
        // Turns of 200 ms may coincide on a busy machine: `o_108_ten_drivers_take_turns` counts them exactly.
        let most = 3 * (names.len() + 1);
        assert!(its.contains(&("PATCH", Some(200))), "{name}: {its:?}");
        assert!(its.len() <= most, "{name}: {its:?}");
    }
}

#[tokio::test]
async fn o_110_no_such_taint() {
    let cluster = Cluster::new().await;
    cluster.taint(&[("a", "")]);
    let Some(node) = cluster.beside_driver(&format!("{KEY}:NoExecute")).await else {
        return;
    };
    node.register().await;
    until("two looks", async || cluster.asked().len() >= 4).await;
    let look = [format!("GET {CSI_NODE_PATH}"), format!("GET {NODE_PATH}")];
    assert_eq!(cluster.asked()[..4], [&look[..], &look[..]].concat());
    assert_eq!(cluster.taints(), ["a"]);
}

#[tokio::test]
async fn o_111_who_may_not_says_which_rule_is_missing() {
    for (allowed, refused) in [
        (vec![], "csinodes"),
        (
            vec![Allow::new("storage.k8s.io", "csinodes", "get")],
            "nodes",
        ),
        (
            vec![
                Allow::new("storage.k8s.io", "csinodes", "get"),
                Allow::new("", "nodes", "get"),
            ],
            "nodes",
        ),
    ] {
        let cluster = Cluster::new().await;
        cluster.api.allow_only(allowed);
        let Some(mut node) = cluster.beside_driver(KEY).await else {
            return;
        };
        node.register().await;
        node.process.says("The start-up taint is not removed").await;
        // A repeated failure logs nothing new.
        pass(SECOND * 2).await;
        let log = node.process.log();
        let told: Vec<_> = log
            .lines()
            .filter(|line| line.contains("is not removed"))
            .collect();
        assert_eq!(told.len(), 1, "{log}");
        for word in [
            refused,
            "forbidden",
            r#"resources: [\"nodes\"], verbs: [\"get\", \"patch\"]"#,
            r#"resources: [\"csinodes\"], verbs: [\"get\"]"#,
        ] {
            assert!(told[0].contains(word), "no {word} in {}", told[0]);
        }
        assert!(told[0].starts_with('E'), "{}", told[0]);
        node.says("/readyz", 200, "ok").await;
        node.says("/registration", 200, "registered").await;
        node.process.must_run();
        let failures = async || {
            let metrics = sidecar_testkit::http::get(&node.address, "/metrics")
                .await
                .body;
            let mut values = metrics
                .lines()
                .filter_map(|line| line.strip_prefix("csi_sidecar_startup_taint_failures_total "));
            values.next().is_some_and(|count| count != "0")
        };
        until("failures are counted", failures).await;
        // A rule that is added takes effect.
        cluster.api.allow_only([
            Allow::new("storage.k8s.io", "csinodes", "get"),
            Allow::new("", "nodes", "get,patch"),
        ]);
        cluster.until_gone(LIMIT).await;
    }
}

/// The API server's message about a change that a policy denies; status 422 unless the policy sets a
/// reason.
const DENIED: &str = "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not this one";

#[tokio::test]
async fn o_111_a_change_that_a_policy_refuses_is_told_once_and_counted() {
    for status in [422, 403] {
        let cluster = Cluster::new().await;
        let denied = Fault::on("PATCH", NODE_PATH).answer_saying(status, DENIED);
        let denied = cluster.api.fault(denied);
        let Some(node) = cluster.beside_driver(KEY).await else {
            return;
        };
        node.register().await;
        node.process.says("The start-up taint is not removed").await;
        // A repeated failure logs nothing new.
        until("another attempt", async || denied.hits() > 1).await;
        let log = node.process.log();
        let told: Vec<_> = { log.lines() }
            .filter(|line| line.contains("is not removed"))
            .collect();
        assert_eq!(told.len(), 1, "{status}: {log}");
        assert!(
            told[0].contains("denied request: not this one"),
            "{}",
            told[0]
        );
        assert!(told[0].starts_with('E'), "{}", told[0]);
        assert!(!told[0].contains("ClusterRole"), "{}", told[0]);
        let metrics = sidecar_testkit::http::get(&node.address, "/metrics").await;
        let counts = |line: &&str| line.starts_with("csi_sidecar_startup_taint_failures_total ");
        let counted = metrics.body.lines().find(counts).unwrap();
        assert!(!counted.ends_with(" 0"), "{status}: {counted}");
        node.says("/readyz", 200, "ok").await;
        denied.remove();
        cluster.until_gone(LIMIT).await;
    }
}

#[tokio::test]
async fn o_112_an_api_server_that_does_not_answer_is_asked_again() {
    let rows: [(&str, Trouble); 6] = [
        ("away", |it| it.api.set_down(true)),
        ("429", |it| {
            drop(it.api.fault(Fault::on("*", "*").too_many(1)))
        }),
        ("500", |it| {
            drop(it.api.fault(Fault::on("*", "*").answer(500)))
        }),
        ("no answer to the patch", |it| {
            drop(it.api.fault(Fault::on("PATCH", "*").drop_connection()));
        }),
        ("no JSON", |it| {
            drop(
                it.api
                    .fault(Fault::on("GET", "*").answer_raw(200, "<html>")),
            )
        }),
        ("TLS", |it| {
            fs::write(it.account.path().join("ca.crt"), "none").unwrap()
        }),
    ];
    for (row, fault) in rows {
        let cluster = Cluster::new().await;
        fault(&cluster);
        let Some(mut node) = cluster.beside_driver(KEY).await else {
            return;
        };
        node.register().await;
        node.process.says("The start-up taint is not removed").await;
        pass(Duration::from_millis(1500)).await;
        assert!(cluster.has_ours(), "{row}");
        node.process.must_run();
        node.says("/readyz", 200, "ok").await;
        cluster.api.clear_faults();
        cluster.api.set_down(false);
        fs::copy(
            cluster.served.ca_file(),
            cluster.account.path().join("ca.crt"),
        )
        .unwrap();
        let gone = async || !cluster.has_ours();
        // `o_112_an_api_server_that_returns_is_noticed` has how long that may take.
        within(LIMIT, row, gone).await;
        node.process.says(LINE).await;
    }
}

#[tokio::test]
async fn o_113_a_driver_that_is_registered_anew_is_looked_at_anew() {
    let cluster = Cluster::new().await;
    let Some(node) = cluster.beside_driver(KEY).await else {
        return;
    };
    node.register().await;
    cluster.until_gone(LIMIT).await;
    // After the check at 15 s; the next one would be 24 s later at the earliest.
    pass(SECOND * 16).await;
    cluster.taint(&[(KEY, "")]);
    node.register().await;
    cluster.until_gone(SECOND * 20).await;
    node.process.says(LINE).await;
    let counted = async || lines(&node, LINE) == 2;
    until("twice", counted).await;
}

/// A restarted kubelet first requests the plugin's info, and confirms once it has written the CSINode.
#[tokio::test]
async fn o_113_a_kubelet_that_has_asked_again_must_confirm_again() {
    let cluster = Cluster::new().await;
    let Some(node) = cluster.beside_driver(KEY).await else {
        return;
    };
    node.register().await;
    cluster.until_gone(LIMIT).await;
    // The program has read the answer to its PATCH.
    let reported = async || lines(&node, LINE) == 1;
    until("once", reported).await;
    kubelet::ask(&node.socket()).await;
    cluster.taint(&[(KEY, "")]);
    // Looks were due after 1 and 5 s. One that had begun before kubelet asked may still arrive at the API server.
    pass(SECOND * 3).await;
    let asked = cluster.asked().len();
    pass(SECOND * 4).await;
    assert_eq!(cluster.asked().len(), asked, "{:?}", cluster.asked());
    assert!(cluster.has_ours());
    node.says("/registration", 200, "has not confirmed since")
        .await;
    kubelet::notify(&node.socket(), true, "").await.unwrap();
    cluster.until_gone(LIMIT).await;
    let counted = async || lines(&node, LINE) == 2;
    until("twice", counted).await;
}

#[tokio::test]
async fn o_114_flags_that_cannot_be_meant_end_the_program() {
    for (flags, words) in [
        (
            &["--remove-taint=a"][..],
            &["remove-taint=a", "node-name"][..],
        ),
        (
            &["--remove-taint=a b", "--node-name=n1"],
            &["remove-taint=a b", "no key"],
        ),
        (
            &[
                "--node-driver-registrar-remove-taint=a:Never",
                "--node-name=n1",
            ],
            &["remove-taint=a:Never", "no effect"],
        ),
    ] {
        let mut command = Command::new(program());
        command.args([
            "--controllers=node-driver-registrar",
            "--kubelet-registration-path=/p",
        ]);
        command.args(flags);
        let end = Process::start(command).ended().await;
        end.failed_naming(words);
    }
}

/// The API server at an IPv6 address, with a token and a CA that are replaced as kubelet does it: with
/// another file under the same name.
#[tokio::test]
async fn o_115_a_token_and_an_authority_that_are_replaced_count() {
    let mut cluster = Cluster::new().await;
    let server = Arc::new(Mutex::new(cluster.address));
    let Some(address) = forward_ipv6(Arc::clone(&server)).await else {
        return;
    };
    cluster.address = address;
    let path = |cluster: &Cluster, name: &str| cluster.account.path().join(name);
    cluster.show_token("expired");
    let Some(node) = cluster.beside_driver(KEY).await else {
        return;
    };
    node.register().await;
    node.process.says("The start-up taint is not removed").await;
    cluster.show_token(TOKEN);
    cluster.until_gone(LIMIT).await;
    replace(&path(&cluster, "token"), b"next\n");
    cluster.api.accept_tokens(["next"]);
    cluster.taint(&[(KEY, "")]);
    node.register().await;
    cluster.until_gone(LIMIT).await;
    // Another key and another certificate, which the program does not trust yet.
    cluster.served = cluster.api.serve().await;
    *server.lock().unwrap() = cluster.served.address();
    cluster.taint(&[(KEY, "")]);
    node.register().await;
    node.process.says("ca.crt of its service account").await;
    assert!(cluster.has_ours());
    let authority = fs::read(cluster.served.ca_file()).unwrap();
    replace(&path(&cluster, "ca.crt"), &authority);
    cluster.until_gone(LIMIT).await;
    let log = node.process.log();
    assert!(!log.contains(TOKEN) && !log.contains("expired"), "{log}");
}

/// An IPv6 address that forwards connections to `server`; `None` if the machine has no IPv6.
async fn forward_ipv6(server: Arc<Mutex<SocketAddr>>) -> Option<SocketAddr> {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        must_not_skip("an address of IPv6");
        return None;
    };
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let server = *server.lock().unwrap();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    Some(address)
}

fn replace(path: &Path, contents: &[u8]) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, contents).unwrap();
    fs::rename(fresh, path).unwrap();
}
