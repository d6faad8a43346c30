//! A controller sidecar beside its driver, as a Deployment would run it.
//!
//! It runs under its own service account with exactly the permissions that it would have there: this
//! project's under the RBAC objects of the chart, another project's under upstream's manifest, which
//! Kubernetes' own storage tests contain. `RBAC=upstream` puts this project's under that one too.

mod sidecar;

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::cluster::Cluster;
use crate::node::Seat;
use crate::process::Process;
use crate::{chart, manifest, program, wait};

pub use sidecar::{
    ATTACHER, HEALTH_MONITOR, LONG_LEASE, PROVISIONER, RESIZER, SNAPSHOT_CONTROLLER, SNAPSHOTTER,
    Sidecar, TOGETHER,
};

/// The chart's values that allow a sidecar everything that the scenarios need.
const EVERYTHING: &[&str] = &[
    "features.cloning=true",
    "features.snapshots=true",
    "snapshotter.enabled=true",
    "features.groupSnapshots=true",
    "features.capacity=true",
    "features.volumeAttributesClass=true",
    "healthMonitor.enabled=true",
    "features.volumeHealth=true",
    "secrets.access=all",
];

/// The connection of a replica to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Direct.
    Direct,
    /// Through the fault proxy.
    Proxy,
}

/// The place of one sidecar's replicas beside one driver.
#[derive(Debug)]
pub struct Controller<'a> {
    cluster: &'a Cluster,
    sidecar: Sidecar,
    namespace: String,
    node: String,
    socket: PathBuf,
    dir: PathBuf,
    driver: String,
}

impl<'a> Controller<'a> {
    /// Installs the service account and RBAC objects, in a namespace of the driver's own.
    pub fn install(cluster: &'a Cluster, sidecar: Sidecar, driver: &Seat<'_>) -> Result<Self> {
        let controller = Self::powerless(cluster, sidecar, driver)?;
        let api = cluster.api()?;
        for object in controller.permissions()? {
            manifest::create(&api, &object)?;
        }
        Ok(controller)
    }

    /// Installs only the service account, without permissions.
    pub fn powerless(cluster: &'a Cluster, sidecar: Sidecar, driver: &Seat<'_>) -> Result<Self> {
        let controller = Self {
            cluster,
            sidecar,
            namespace: driver.driver.replace('.', "-"),
            node: cluster.node(0)?.0,
            socket: driver.socket(),
            dir: driver.dir.clone(),
            driver: driver.driver.clone(),
        };
        // Also creates the namespace and the service account.
        controller.kubeconfig(Route::Direct)?;
        Ok(controller)
    }

    /// The same account, beside another process of the driver.
    #[must_use]
    pub fn beside(&self, driver: &Seat<'_>) -> Self {
        Self {
            cluster: self.cluster,
            sidecar: self.sidecar,
            namespace: self.namespace.clone(),
            node: driver.node.clone(),
            socket: driver.socket(),
            dir: driver.dir.clone(),
            driver: driver.driver.clone(),
        }
    }

    /// The same account and place, for another program.
    #[must_use]
    pub fn of(&self, program: fn() -> Result<PathBuf>) -> Self {
        Self {
            cluster: self.cluster,
            sidecar: Sidecar {
                program,
                ..self.sidecar
            },
            namespace: self.namespace.clone(),
            node: self.node.clone(),
            socket: self.socket.clone(),
            dir: self.dir.clone(),
            driver: self.driver.clone(),
        }
    }

    /// Creates the pod that a replica claims to be, for objects that it owns; no node runs it.
    /// Returns its path.
    pub fn create_pod(&self, api: &Api, replica: &str) -> Result<String> {
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let name = format!("{}-{replica}", self.sidecar.name);
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name },
            "spec": {
                "serviceAccountName": self.sidecar.name,
                "schedulingGates": [{ "name": "e2e.test/runs-elsewhere" }],
                "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }],
            },
        });
        api.create(&pods, &pod)?;
        Ok(format!("{pods}/{name}"))
    }

    /// The user name on the API server.
    pub fn user(&self) -> String {
        let (namespace, name) = (&self.namespace, self.sidecar.name);
        format!("system:serviceaccount:{namespace}:{name}")
    }

    /// Name of the program and of its account.
    pub fn name(&self) -> &'static str {
        self.sidecar.name
    }

    /// The namespace of service account and leases.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The account's kubeconfig.
    pub fn kubeconfig(&self, route: Route) -> Result<PathBuf> {
        let (suffix, flag) = match route {
            Route::Direct => ("direct", "--create"),
            Route::Proxy => ("proxy", "--proxy"),
        };
        let name = format!("{}.{suffix}.kubeconfig", self.sidecar.name);
        let file = self.dir.join(name);
        if !file.exists() {
            let account = format!("{}/{}", self.namespace, self.sidecar.name);
            let path = file.to_string_lossy();
            self.cluster.run(&[
                "kubeconfig",
                "--serviceaccount",
                &account,
                flag,
                "-o",
                &path,
            ])?;
        }
        Ok(file)
    }

    /// Whether it runs under upstream's RBAC objects instead of the chart's.
    pub fn is_under_upstreams_rules(&self) -> Result<bool> {
        match env::var("RBAC").as_deref() {
            Err(_) | Ok("" | "chart") => program::is_foreign(&(self.sidecar.program)()?),
            Ok("upstream") => Ok(true),
            Ok(other) => bail!("RBAC={other}: must be chart or upstream"),
        }
    }

    fn permissions(&self) -> Result<Vec<Value>> {
        if self.is_under_upstreams_rules()? {
            return self.upstreams_permissions();
        }
        let values = if self.sidecar.has_driver {
            EVERYTHING
        } else {
            &[
                "features.distributedSnapshotting=true",
                "features.groupSnapshots=true",
            ]
        };
        let permissions = self.charts_permissions(values);
        permissions.context("the chart's RBAC objects (RBAC=upstream does without)")
    }

    /// The chart's RBAC objects with these values.
    pub fn charts_permissions(&self, values: &[&str]) -> Result<Vec<Value>> {
        let account = self.sidecar.name;
        if !self.sidecar.has_driver {
            return chart::controller_permissions(&self.namespace, account, values);
        }
        let mut objects = Vec::new();
        for program in sidecar::sections(account) {
            let namespace = &self.namespace;
            objects.extend(chart::permissions(
                program,
                namespace,
                account,
                &self.driver,
                values,
            )?);
        }
        Ok(objects)
    }

    /// Upstream's RBAC objects, moved into this namespace; cluster-wide ones get a unique name.
    fn upstreams_permissions(&self) -> Result<Vec<Value>> {
        let mut objects = manifest::read(self.cluster, self.sidecar.manifest)?;
        objects.retain(|object| text(object, "/kind") != Some("ServiceAccount"));
        for object in &mut objects {
            for place in ["/metadata/namespace", "/subjects/0/namespace"] {
                set(object, place, |_| self.namespace.clone());
            }
            let own = |name: &str| format!("{}:{name}", self.namespace);
            set(object, "/subjects/0/name", |_| self.sidecar.name.to_owned());
            if text(object, "/kind").is_some_and(|kind| kind.starts_with("Cluster")) {
                set(object, "/metadata/name", own);
                // Upstream's manifest of snapshot-controller gives a cluster-scoped object a
                // namespace, which is invalid.
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.remove("namespace");
                }
            }
            if text(object, "/roleRef/kind") == Some("ClusterRole") {
                set(object, "/roleRef/name", own);
            }
        }
        Ok(objects)
    }

    /// Grants further rules, cluster-wide: those that upstream asks drivers to add.
    pub fn allow(&self, api: &Api, rules: &Value) -> Result<()> {
        let (namespace, account) = (&self.namespace, self.sidecar.name);
        let version = "rbac.authorization.k8s.io/v1";
        let role = manifest::create(
            api,
            &json!({
                "apiVersion": version, "kind": "ClusterRole",
                "metadata": { "generateName": format!("{namespace}:{account}:more-") },
                "rules": rules,
            }),
        )?;
        let name = text(&role, "/metadata/name");
        manifest::create(
            api,
            &json!({
                "apiVersion": version, "kind": "ClusterRoleBinding",
                "metadata": { "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
                },
            }),
        )
        .map(drop)
    }

    /// Also grants upstream's RBAC objects, for upstream's program in its place.
    pub fn allow_as_upstream(&self, api: &Api) -> Result<()> {
        for mut object in self.upstreams_permissions()? {
            // The chart's objects may have the same names.
            for place in ["/metadata/name", "/roleRef/name"] {
                set(&mut object, place, |name| format!("{name}-upstream"));
            }
            manifest::create(api, &object)?;
        }
        Ok(())
    }

    /// Waits until the API server's authorizer knows the roles, which takes a moment: a sidecar that
    /// starts earlier is refused, which is not what most scenarios test.
    pub fn until_permitted(
        &self,
        api: &Api,
        group: &str,
        resource: &str,
        verb: &str,
    ) -> Result<()> {
        let user = self.user();
        let what = format!("{user} may {verb} {resource}");
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "resourceAttributes": {
                    "group": group, "resource": resource, "verb": verb,
                    "namespace": self.namespace,
                },
            },
        });
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        wait::until_true(Duration::from_secs(60), &what, || {
            let answer = api.create(reviews, &review)?;
            Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
        })
    }

    /// Starts a replica like a pod: on a node, with a host name of its own, which identifies
    /// replicas in leader election.
    pub fn start(&self, replica: &str, route: Route, flags: &[&str]) -> Result<Process> {
        self.start_in(replica, route, flags, &[])
    }

    /// The same, with variables that the downward API would set.
    pub fn start_in(
        &self,
        replica: &str,
        route: Route,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Process> {
        self.start_with(replica, &self.kubeconfig(route)?, flags, environment)
    }

    /// The same, with a kubeconfig of its own.
    pub fn start_with(
        &self,
        replica: &str,
        kubeconfig: &Path,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Process> {
        let program = (self.sidecar.program)()?;
        let name = format!("{}-{replica}", self.sidecar.name);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = self.cluster.on_node(&self.node, "/usr/bin/env");
            let script = "echo \"$0\" > /proc/sys/kernel/hostname; exec \"$@\"";
            command.args(["unshare", "--uts", "/bin/sh", "-c", script]);
            command.arg(&name);
            command.arg(program);
            command
        } else {
            self.cluster.on_node(&self.node, program)
        };
        if self.sidecar.has_driver {
            command.arg(format!("--csi-address={}", self.socket.display()));
        }
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(flags)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("POD_NAMESPACE", &self.namespace)
            // Namespace and owner of csi-provisioner's capacity objects, and its node.
            .env("NAMESPACE", &self.namespace)
            .env("POD_NAME", &name)
            .env("NODE_NAME", &self.node)
            .envs(environment.iter().copied());
        Process::start(&name, command, &self.dir)
    }

    /// Another Lease in the election's namespace.
    ///
    /// # Errors
    /// It does not exist, or the API server does not respond.
    pub fn lease(&self, api: &Api, name: &str) -> Result<Value> {
        let leases = "/apis/coordination.k8s.io/v1/namespaces";
        api.get(&format!("{leases}/{}/leases/{name}", self.namespace))
    }

    /// The holder of a lease in the namespace; empty if it was released.
    pub fn holder(&self, api: &Api, lease: &str) -> Result<Option<String>> {
        let leases = "/apis/coordination.k8s.io/v1/namespaces";
        let lease = api.find(&format!("{leases}/{}/leases/{lease}", self.namespace))?;
        Ok(lease.map(|lease| {
            text(&lease, "/spec/holderIdentity")
                .unwrap_or_default()
                .to_owned()
        }))
    }
}

fn set(object: &mut Value, pointer: &str, new: impl Fn(&str) -> String) {
    if let Some(field) = object.pointer_mut(pointer) {
        let text = new(field.as_str().unwrap_or_default());
        *field = Value::String(text);
    }
}
