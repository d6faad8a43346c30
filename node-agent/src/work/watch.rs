//! The pods of the node, and the Node itself: two watches, each of no more than the server has to
//! send.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use sidecar::controller::watch::{Watch, keep};
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::feed::Feeds;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{Parts, Text};
use sidecar::kube::reflect::{Resource, Scope};
use tokio::sync::Notify;

use crate::model::pod::{Pod, Spec, Status};
use crate::model::volume::PodRef;
use crate::plan::node::{CONTROLLER_ATTACHES, NodeView};

/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods");

/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes");

impl Record for Pod {
    type Wire<'a> = Parts<'a, Spec, Status>;

    fn from_wire(wire: Self::Wire<'_>, _strings: &Interner) -> Option<Self> {
        let meta = wire.metadata;
        let own = |text: Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let deleting = meta.deletion_timestamp.is_some();
        let names = PodRef {
            namespace: own(meta.namespace),
            name: own(meta.name),
            uid: own(meta.uid),
            service_account: String::new(),
        };
        Some(Self::new(names, deleting, wire.spec, wire.status))
    }
}

/// `status` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    volumes_in_use: Option<BTreeSet<String>>,
    volumes_attached: Option<Vec<Attached>>,
}

#[derive(Debug, Deserialize)]
struct Attached {
    name: String,
}

/// Nothing of it is read.
#[derive(Debug, Default, Deserialize)]
pub struct NodeSpec {}

impl Record for NodeView {
    type Wire<'a> = Parts<'a, NodeSpec, NodeStatus>;

    fn from_wire(wire: Self::Wire<'_>, _strings: &Interner) -> Option<Self> {
        let annotations = &wire.metadata.annotations;
        let controller_attaches = annotations.get(CONTROLLER_ATTACHES);
        let attached = wire.status.volumes_attached.unwrap_or_default();
        let labels = wire.metadata.labels.iter();
        Some(Self {
            in_use: wire.status.volumes_in_use.unwrap_or_default(),
            attached: attached.into_iter().map(|it| it.name).collect(),
            labels: labels
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            controller_attaches: controller_attaches.is_some_and(|value| &**value == "true"),
        })
    }
}

/// What is known of the node and its pods.
#[derive(Clone)]
pub struct Watched {
    /// By `namespace/name`.
    pub pods: Cache<Pod>,
    /// One Node, by name.
    pub node: Cache<NodeView>,
}

impl Watched {
    /// Nothing is known yet; `changed` is told of every change.
    #[must_use]
    pub fn new(changed: &Arc<Notify>) -> Self {
        let strings = Interner::default();
        let tell = Arc::clone(changed);
        let pods = Cache::new(strings.clone(), move |_| tell.notify_one());
        let tell = Arc::clone(changed);
        let node = Cache::new(strings, move |_| tell.notify_one());
        Self { pods, node }
    }

    /// Watches, for ever.
    pub async fn run(self, client: Client, node: &str) -> Infallible {
        let scope = |resource, field: &str| Scope {
            fields: format!("{field}={node}"),
            ..Scope::all(resource)
        };
        let watches: [Watch; 2] = [
            Watch::of(scope(PODS, "spec.nodeName"), &self.pods),
            Watch::of(scope(NODES, "metadata.name"), &self.node),
        ];
        keep(&Feeds::new(client, Duration::ZERO), &watches).await
    }
}
