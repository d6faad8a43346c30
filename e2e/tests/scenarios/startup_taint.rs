//! The start-up taint of a node: real kubelet code registers the driver, csi-node-sidecars removes the taint with the permissions
//! of the chart. O-101, O-119; O-120 and O-121 on nodes that are new.

mod fresh;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::api::{Api, text};
use e2e::chart::Release;
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::process::Process;
use e2e::suite::{Scenario, Verdict};
use e2e::{manifest, program, wait};
use kube::config::Kubeconfig;
use rustix::process::geteuid;
use serde_json::{Value, json};

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "o_101_the_start_up_taint_goes_when_csinode_has_the_driver",
        run: goes,
    },
    Scenario {
        name: "o_119_nothing_but_the_taint_of_the_own_node_may_be_changed",
        run: guarded,
    },
    Scenario {
        name: "o_120_o_121_pods_that_wait_for_a_new_node_mount_at_once",
        run: fresh::all,
    },
];

const SOON: Duration = Duration::from_secs(30);

/// A pod of the chart on a node of its own.
struct Pod<'a> {
    cluster: &'a Cluster,
    api: Api,
    seat: Seat<'a>,
    namespace: String,
    account: String,
    objects: Vec<Value>,
}

impl<'a> Pod<'a> {
    fn new(cluster: &'a Cluster, name: &str) -> Result<Self> {
        Self::on(cluster, name, cluster.add_node(name)?)
    }

    /// The pod on an existing node.
    fn on(cluster: &'a Cluster, name: &str, dir: PathBuf) -> Result<Self> {
        let api = cluster.api()?;
        let driver = format!("{name}.example.com");
        let seat = Seat::on(cluster, name, dir, &driver)?;
        let driver = format!("driver.name={driver}");
        let release = Release {
            chart: "csi-sidecars",
            namespace: name,
            file: "",
            set: &[
                &driver,
                "image.registry=registry.example.com",
                "controller.create=false",
                "node.create=false",
                "node.startupTaint.enabled=true",
            ],
        };
        let mut objects = release.objects()?;
        let component = "/metadata/labels/app.kubernetes.io~1component";
        objects.retain(|object| {
            let is_account = text(object, "/kind") == Some("ServiceAccount");
            match text(object, component) {
                Some("startup-taint") => true,
                Some("node") => is_account,
                _ => false,
            }
        });
        ensure!(objects.len() == 5, "{objects:?}");
        let account = objects
            .iter()
            .find(|it| text(it, "/kind") == Some("ServiceAccount"));
        let account = account.and_then(|it| text(it, "/metadata/name"));
        let account = account.context("no account")?.to_owned();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        manifest::create(&api, &namespace)?;
        for object in &objects {
            manifest::create(&api, object)?;
        }
        Ok(Self {
            cluster,
            api,
            seat,
            namespace: name.to_owned(),
            account,
            objects,
        })
    }

    fn node(&self) -> String {
        format!("/api/v1/nodes/{}", self.seat.node)
    }

    fn key(&self) -> String {
        format!("{}/agent-not-ready", self.seat.driver)
    }

    fn taints(&self) -> Result<Vec<Value>> {
        let node = self.api.get(&self.node())?;
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        Ok(taints.cloned().unwrap_or_default())
    }

    fn set_taints(&self, keys: &[&str]) -> Result<()> {
        let taint = |key: &&str| json!({"key": key, "effect": "NoSchedule"});
        let taints: Vec<_> = keys.iter().map(taint).collect();
        self.api
            .merge(&self.node(), &json!({"spec": {"taints": taints}}))?;
        Ok(())
    }

    fn keys(&self) -> Result<Vec<String>> {
        let taints = self.taints()?;
        let keys = taints.iter().filter_map(|taint| text(taint, "/key"));
        // Kubernetes adds and removes its own taints.
        Ok(keys
            .filter(|key| !key.contains("kubernetes.io"))
            .map(str::to_owned)
            .collect())
    }

    /// A token of the account, optionally bound to an object.
    fn token_for(&self, bound: Option<Value>) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
        });
        let (namespace, account) = (&self.namespace, &self.account);
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.api.create(&path, &request)?;
        let token = text(&answer, "/status/token").context("no token")?;
        Ok(token.to_owned())
    }

    /// A token that is bound to a pod on the node, as kubelet asks for it.
    fn token(&self) -> Result<String> {
        let (namespace, node) = (&self.namespace, &self.seat.node);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "node", "namespace": namespace},
            "spec": {
                "nodeName": node, "serviceAccountName": self.account, "tolerations": [{"operator": "Exists"}],
                "automountServiceAccountToken": false,
                "containers": [{"name": "sidecars", "image": "csi-node-sidecars"}],
            },
        });
        let pod = manifest::create(&self.api, &pod)?;
        self.token_for(Some(json!({
            "apiVersion": "v1", "kind": "Pod", "name": "node", "uid": text(&pod, "/metadata/uid"),
        })))
    }

    fn kubeconfig(&self) -> Result<Value> {
        let read = Kubeconfig::read_from(self.cluster.kubeconfig()?)?;
        Ok(serde_json::to_value(read)?)
    }

    /// A client of the API server with the pod's token.
    fn as_pod(&self, token: &str) -> Result<Api> {
        let mut file = self.kubeconfig()?;
        let user = file.pointer_mut("/users/0/user").context("no user")?;
        *user = json!({"token": token});
        let path = self.seat.dir.join("as-pod.kubeconfig");
        fs::write(&path, file.to_string())?;
        Api::from_kubeconfig(&path)
    }

    /// Writes the files that kubelet would mount.
    fn credentials(&self, token: &str) -> Result<PathBuf> {
        let dir = self.seat.dir.join("serviceaccount");
        fs::create_dir_all(&dir)?;
        let path = format!(
            "/api/v1/namespaces/{}/configmaps/kube-root-ca.crt",
            self.namespace
        );
        let published = wait::until(SOON, "the certificate authority is published", || {
            self.api.find(&path)
        })?;
        let authority = text(&published, "/data/ca.crt").context("no ca.crt")?;
        fs::write(dir.join("ca.crt"), authority)?;
        fs::write(dir.join("token"), token)?;
        Ok(dir)
    }

    /// Starts csi-node-sidecars, with files and variables as in a pod of the chart, to remove the taint of this key.
    fn start(&self, token: &str, key: &str) -> Result<Process> {
        const SCRIPT: &str = "run=$(readlink -f /var/run) && mount -t tmpfs none $run && \
            mkdir -p $run/secrets/kubernetes.io && ln -s \"$0\" $run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
        let config = self.kubeconfig()?;
        let server = text(&config, "/clusters/0/cluster/server").context("no server")?;
        let server = server.trim_start_matches("https://");
        let (host, port) = server.rsplit_once(':').context("no port")?;
        let mut command: Command = self.seat.command("/usr/bin/env");
        command.args(["unshare", "--mount", "/bin/sh", "-c", SCRIPT]);
        command
            .arg(self.credentials(token)?)
            .arg(program::node_sidecars()?);
        command
            .arg("--controllers=node-driver-registrar")
            .arg(format!("--csi-address={}", self.seat.socket().display()))
            .arg(format!(
                "--kubelet-registration-path={}",
                self.seat.socket().display()
            ))
            .arg(format!(
                "--plugin-registration-path={}",
                self.seat.registry().display()
            ))
            .arg(format!("--remove-taint={key}"))
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", port)
            .env("NODE_NAME", &self.seat.node);
        Process::start("node-sidecars", command, &self.seat.dir)
    }

    fn remove(self) -> Result<()> {
        for object in &self.objects {
            manifest::delete(&self.api, object)?;
        }
        let pod = format!("/api/v1/namespaces/{}/pods/node", self.namespace);
        self.api
            .delete_with(&pod, &json!({"gracePeriodSeconds": 0}))?;
        self.cluster.remove_node(&self.seat.node)
    }
}

/// Whether the test can run: only root can mount a pod's files.
fn is_shown() -> bool {
    geteuid().is_root()
}

fn goes(cluster: &Cluster) -> Result<Verdict> {
    if !is_shown() {
        return Ok(Verdict::Skipped(
            "needs root, to mount a service account's files".to_owned(),
        ));
    }
    let pod = Pod::new(cluster, "tainted")?;
    let key = pod.key();
    pod.set_taints(&["a.example.com/a", &key, "b.example.com/b"])?;
    let token = pod.token()?;
    // The `=` as well, although the API server drops an empty value.
    let mut sidecars = pod.start(&token, &format!("{key}="))?;
    // The process waits for a driver.
    wait::stays(Duration::from_secs(2), "the taint stays", || {
        Ok(pod.keys()?.contains(&key))
    })?;
    ensure!(
        pod.seat.csinode_entry(&pod.api)?.is_none(),
        "already registered"
    );
    let _driver = pod.seat.start_driver(&[])?;
    // The taint stays until CSINode has the driver: read in this order.
    let registered = wait::until(SOON, "CSINode has the driver", || {
        sidecars.must_run()?;
        let is_gone = !pod.keys()?.contains(&key);
        if pod.seat.csinode_entry(&pod.api)?.is_some() {
            return Ok(Some(Instant::now()));
        }
        if is_gone {
            bail!(
                "the taint went before CSINode had the driver\n{}",
                sidecars.tail()
            );
        }
        Ok(None)
    })?;
    // At once; a look that a busy machine delays is made up for by the next one, some thirty seconds later.
    wait::until_true(Duration::from_secs(60), "the taint is gone", || {
        Ok(!pod.keys()?.contains(&key))
    })
    .with_context(|| sidecars.tail())?;
    e2e::suite::say(&format!(
        "          gone {:.2} s after CSINode had the driver",
        registered.elapsed().as_secs_f64()
    ));
    ensure!(
        pod.keys()? == ["a.example.com/a", "b.example.com/b"],
        "{:?}",
        pod.taints()?
    );
    sidecars.logs(SOON, "Removed the start-up taint")?;
    drop(sidecars);
    pod.remove()?;
    Ok(Verdict::Passed)
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

fn of(taints: &[&Value]) -> Value {
    json!({"spec": {"taints": taints}})
}

/// Patches that the nodes' account must not make.
struct Refused<'a> {
    own: &'a str,
    other: &'a str,
    ours: &'a Value,
    a: &'a Value,
    label: &'a Value,
}

impl Refused<'_> {
    /// Row, path, patch, and the reason of the refusal.
    fn rows(&self) -> Vec<(&'static str, String, Value, &'static str)> {
        let Self { ours, a, label, .. } = *self;
        let own = || self.own.to_owned();
        let added = taint("c.example.com/c", "NoExecute");
        let changed = taint(text(ours, "/key").unwrap_or_default(), "PreferNoSchedule");
        let cordoned = json!({"spec": {"unschedulable": true}});
        vec![
            (
                "another Node",
                self.other.to_owned(),
                of(&[]),
                "the Node of its own pod alone",
            ),
            (
                "a taint more",
                own(),
                of(&[a, ours, &added]),
                "add or change none",
            ),
            (
                "another effect",
                own(),
                of(&[a, &changed]),
                "add or change none",
            ),
            ("another taint away", own(), of(&[ours]), "and no other"),
            ("all taints away", own(), of(&[]), "and no other"),
            ("a label", own(), label.clone(), "change nothing else"),
            ("cordoned", own(), cordoned, "change nothing else"),
            (
                "its status",
                format!("{}/status", self.own),
                label.clone(),
                "cannot patch resource \"nodes/status\"",
            ),
        ]
    }
}

/// A program that is to remove another taint than the chart's logs once why it cannot. The log has `before` such lines
/// of earlier processes.
fn tells(pod: &Pod<'_>, token: &str, before: usize) -> Result<()> {
    let mut sidecars = pod.start(token, "a.example.com/a")?;
    let driver = pod.seat.start_driver(&[])?;
    let told = |log: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| line.contains("is not removed"));
        lines.skip(before).map(str::to_owned).collect()
    };
    wait::until_true(SOON, "a line", || Ok(!told(&sidecars.log()).is_empty()))?;
    // Time for two more attempts.
    wait::stays(Duration::from_secs(4), "the taint stays", || {
        Ok(pod.keys()?.contains(&"a.example.com/a".to_owned()))
    })?;
    sidecars.must_run()?;
    let told = told(&sidecars.log());
    let [line] = told.as_slice() else {
        bail!("not one line: {told:?}");
    };
    for words in ["denied request", "the start-up taint, and no other"] {
        ensure!(line.contains(words), "no {words:?} in {line}");
    }
    ensure!(!line.contains("ClusterRole"), "{line}");
    drop((sidecars, driver));
    Ok(())
}

/// A policy without a reason, as other projects may have: the API server answers 422.
fn without_reasons(pod: &Pod<'_>) -> Result<()> {
    let is_policy = |it: &&Value| text(it, "/kind") == Some("ValidatingAdmissionPolicy");
    let mut policy = pod.objects.iter().find(is_policy).cloned();
    let policy = policy.as_mut().context("no policy")?;
    let rules = policy.pointer_mut("/spec/validations");
    let rules = rules.and_then(Value::as_array_mut).context("no rules")?;
    for rule in rules {
        rule.as_object_mut().context("no rule")?.remove("reason");
    }
    let name = text(policy, "/metadata/name").context("no name")?;
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}");
    let rules = policy.pointer("/spec/validations");
    pod.api
        .merge(&path, &json!({"spec": {"validations": rules}}))?;
    Ok(())
}

fn guarded(cluster: &Cluster) -> Result<Verdict> {
    let pod = Pod::new(cluster, "guarded")?;
    let key = pod.key();
    pod.set_taints(&["a.example.com/a", &key])?;
    let token = pod.token()?;
    let me = pod.as_pod(&token)?;
    let own = pod.node();
    let other = format!("/api/v1/nodes/{}", cluster.node(0)?.0);
    let a = taint("a.example.com/a", "NoSchedule");
    let ours = taint(&key, "NoSchedule");
    let label = json!({"metadata": {"labels": {"mine": "now"}}});
    // Kubernetes adds and removes its own taints, which would change the lists here.
    let quiet = || Ok(pod.taints()?.len() == 2);
    wait::until_true(SOON, "the node is ready", quiet)?;
    let refusal = |path: &str, patch: &Value| -> Result<Option<String>> {
        match me.merge(path, patch) {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(format!("{error:#}"))),
        }
    };
    // A new policy takes effect after a moment.
    wait::until_true(SOON, "the policy counts", || {
        let refused = refusal(&other, &label)?;
        Ok(refused.is_some_and(|text| text.contains("the Node of its own pod alone")))
    })?;
    let of_policy = Refused {
        own: &own,
        other: &other,
        ours: &ours,
        a: &a,
        label: &label,
    };
    for (row, path, patch, words) in of_policy.rows() {
        let refused = refusal(&path, &patch)?;
        let refused = refused.with_context(|| format!("{row}: nobody refused"))?;
        ensure!(refused.contains(words), "{row}: {refused}");
        // Not 422, which would mean that the Node had changed before the patch.
        ensure!(refused.contains("Forbidden"), "{row}: {refused}");
    }
    let unbound = pod.as_pod(&pod.token_for(None)?)?;
    let refused = unbound.merge(&own, &of(&[&a])).err();
    let refused = refused.map(|error| format!("{error:#}"));
    let refused = refused.context("a token of no pod: nobody refused")?;
    ensure!(refused.contains("which is unknown"), "{refused}");
    if is_shown() {
        tells(&pod, &token, 0)?;
        without_reasons(&pod)?;
        wait::until_true(SOON, "the policy without reasons counts", || {
            let refused = refusal(&other, &label)?.context("nobody refused")?;
            Ok(!refused.contains("Forbidden"))
        })?;
        tells(&pod, &token, 1)?;
    }
    ensure!(
        pod.keys()? == ["a.example.com/a", &key],
        "{:?}",
        pod.taints()?
    );
    let allowed = refusal(&own, &of(&[&a]))?;
    ensure!(allowed.is_none(), "the taint itself: {allowed:?}");
    ensure!(pod.keys()? == ["a.example.com/a"], "{:?}", pod.taints()?);
    pod.remove()?;
    Ok(Verdict::Passed)
}
