//! A program with its driver, under permissions that the test can remove.

use anyhow::{Context, Result};
use e2e::api::{Api, text};
use e2e::cluster::Cluster;
use e2e::controller::{Controller, Route};
use e2e::node::Seat;
use e2e::node_agent::NodeAgent;
use e2e::process::Process;
use e2e::{manifest, snapshots, wait};
use serde_json::{Value, json};

use super::grant::{Grant, grants};
use super::rendered::items;
use super::setup::{Program, Setup};

const SOON: std::time::Duration = std::time::Duration::from_secs(30);

/// A setup with a running driver and all permissions.
pub(super) struct Stage<'a> {
    setup: &'static Setup,
    api: Api,
    program: Started<'a>,
    roles: Vec<Value>,
    _driver: Process,
}

/// A program ready to start.
enum Started<'a> {
    Sidecar(Controller<'a>, Vec<(&'static str, String)>),
    NodeAgent(NodeAgent, Seat<'a>),
}

impl<'a> Stage<'a> {
    pub(super) fn new(cluster: &'a Cluster, setup: &'static Setup) -> Result<Self> {
        let api = cluster.api()?;
        let seat = Seat::controller(cluster, setup.driver)?;
        let driver = seat.start_driver(setup.driver_flags)?;
        let (program, roles) = match setup.program {
            Program::Sidecar(sidecar, values) => {
                let controller = Controller::powerless(cluster, sidecar, &seat)?;
                sidecar_of_a_deployment(cluster, &api, controller, values)?
            }
            Program::NodeAgent => {
                let agent = NodeAgent::install(cluster, &api)?;
                let roles = vec![agent.role().clone()];
                let dir = cluster.dir().join("run");
                let seat = Seat::without_kubelet(&dir, "agent-rbac", setup.driver)?;
                (Started::NodeAgent(agent, seat), roles)
            }
        };
        let stage = Self {
            setup,
            api,
            program,
            roles,
            _driver: driver,
        };
        for grant in stage.grants() {
            stage.until_allowed(&grant, true)?;
        }
        Ok(stage)
    }

    /// The setup's name in the table.
    pub(super) fn title(&self) -> &'static str {
        self.setup.title
    }

    pub(super) fn namespace(&self) -> String {
        self.setup.driver.replace('.', "-")
    }

    pub(super) fn grants(&self) -> Vec<Grant> {
        grants(&self.roles).into_iter().collect()
    }

    fn user(&self) -> String {
        match &self.program {
            Started::Sidecar(controller, _) => controller.user(),
            Started::NodeAgent(..) => NodeAgent::USER.to_owned(),
        }
    }

    pub(super) fn start(&self) -> Result<Process> {
        let mut flags = vec!["-v=2"];
        flags.extend(self.setup.flags);
        match &self.program {
            Started::Sidecar(controller, environment) => {
                let environment = environment.iter().map(|(name, value)| (*name, &**value));
                let environment: Vec<_> = environment.collect();
                controller.start_in("0", Route::Direct, &flags, &environment)
            }
            Started::NodeAgent(agent, seat) => agent.start(seat, &flags),
        }
    }

    /// Removes one permission, or restores all.
    pub(super) fn permit_all_but(&self, grant: Option<&Grant>) -> Result<()> {
        for role in &self.roles {
            let changed = grant.and_then(|grant| super::grant::without(role, grant));
            let rules = changed.as_ref().unwrap_or(role).get("rules");
            let name = text(role, "/metadata/name").context("a role's name")?;
            let base = "/apis/rbac.authorization.k8s.io/v1";
            let path = match text(role, "/metadata/namespace") {
                Some(namespace) => format!("{base}/namespaces/{namespace}/roles/{name}"),
                None => format!("{base}/clusterroles/{name}"),
            };
            self.api.merge(&path, &json!({"rules": rules}))?;
        }
        Ok(())
    }

    /// Waits until the API server's authorizer applies the change.
    pub(super) fn until_allowed(&self, grant: &Grant, allowed: bool) -> Result<()> {
        let (resource, sub) = grant
            .resource
            .split_once('/')
            .unwrap_or((&grant.resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user(),
                "resourceAttributes": {
                    "group": grant.group, "resource": resource, "subresource": sub,
                    "verb": grant.verb, "namespace": grant.namespace, "name": grant.name,
                },
            },
        });
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        wait::until_true(SOON, &format!("{grant}: allowed is {allowed}"), || {
            let answer = self.api.create(reviews, &review)?;
            Ok(answer.pointer("/status/allowed") == Some(&json!(allowed)))
        })
    }

    /// Deletes the Lease, so that the program has to create it.
    pub(super) fn forget_leases(&self) -> Result<()> {
        let namespace = self.namespace();
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let list = self.api.get(&leases)?;
        for lease in items(&list, "/items").filter_map(|it| text(it, "/metadata/name")) {
            self.api.delete(&format!("{leases}/{lease}"))?;
        }
        Ok(())
    }
}

/// A controller with the chart's permissions and the variables of the downward API.
fn sidecar_of_a_deployment<'a>(
    cluster: &Cluster,
    api: &Api,
    controller: Controller<'a>,
    values: &[&str],
) -> Result<(Started<'a>, Vec<Value>)> {
    snapshots::install(cluster, api)?;
    reference_grants(api)?;
    let objects = controller.charts_permissions(values)?;
    for object in &objects {
        manifest::create(api, object)?;
    }
    let roles = objects.into_iter().filter(|it| it.get("rules").is_some());
    let namespace = controller.namespace().to_owned();
    let environment = vec![
        ("NODE_NAME", cluster.node(0)?.0),
        ("POD_NAME", pod_of_a_deployment(api, &namespace)?),
        ("NAMESPACE", namespace),
    ];
    Ok((Started::Sidecar(controller, environment), roles.collect()))
}

/// The name of a pod that a ReplicaSet of a Deployment controls.
fn pod_of_a_deployment(api: &Api, namespace: &str) -> Result<String> {
    let labels = json!({"app": "sidecars"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "sidecars", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "pause", "image": "pause"}]},
            },
        },
    });
    manifest::create(api, &deployment)?;
    wait::until(SOON, "the Deployment has a pod", || {
        let pods = api.get(&format!("/api/v1/namespaces/{namespace}/pods"))?;
        let mut names = items(&pods, "/items").filter_map(|it| text(it, "/metadata/name"));
        Ok(names.next().map(str::to_owned))
    })
}

/// Creates the CRD of ReferenceGrant, which is not part of Kubernetes, without its schema.
fn reference_grants(api: &Api) -> Result<()> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = "referencegrants.gateway.networking.k8s.io";
    if api.find(&format!("{path}/{name}"))?.is_some() {
        return Ok(());
    }
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"},
        },
        "spec": {
            "group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": {
                "plural": "referencegrants", "singular": "referencegrant",
                "kind": "ReferenceGrant", "listKind": "ReferenceGrantList",
            },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    });
    api.create(path, &definition)?;
    wait::until_true(SOON, "ReferenceGrants are served", || {
        let served = "/apis/gateway.networking.k8s.io/v1beta1/referencegrants";
        Ok(api.find(served)?.is_some())
    })
}
