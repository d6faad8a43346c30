//! Watches the pods of the node and the Node itself; the watches' selectors keep the server from sending
//! others.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use serde::Deserialize;
use sidecar::controller::watch::{Watch, keep};
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::feed::Feeds;
use sidecar::kube::informer::Informer;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{Parts, nullable};
use sidecar::kube::reflect::{Resource, Scope};
use tokio::sync::Notify;

use crate::model::pod::{Pod, Spec, Status};
use crate::model::volume::PodRef;
use crate::plan::node::{CONTROLLER_ATTACHES, NodeView};

/// The Node resource.
pub const NODES: Resource = Resource::new("", "v1", "nodes");

/// A pod from the API server.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct PodObject {
    metadata: ObjectMeta,
    /// The part that the agent keeps.
    pub pod: Pod,
}

#[derive(Deserialize)]
struct Wire {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: Spec,
    #[serde(default, deserialize_with = "nullable")]
    status: Status,
}

impl From<Wire> for PodObject {
    fn from(wire: Wire) -> Self {
        let Wire {
            metadata,
            spec,
            status,
        } = wire;
        // Drops the other metadata, which the agent does not read and which is most of the pod's size.
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        };
        let own = |text: &Option<String>| text.clone().unwrap_or_default();
        let names = PodRef {
            namespace: own(&metadata.namespace),
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            service_account: String::new(),
        };
        let deleting = metadata.deletion_timestamp.is_some();
        let pod = Pod::new(names, deleting, spec, status);
        Self { metadata, pod }
    }
}

impl kube::Resource for PodObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
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

/// `spec` of a Node, of which the agent reads nothing.
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

/// The watched Node and its pods.
#[derive(Clone)]
pub struct Watched {
    /// The pods that are bound to the node.
    pub pods: Store<PodObject>,
    /// The Node. Not a kube-runtime store: this program's own writes count from the response on, not only
    /// once the watch delivers them.
    pub node: Cache<NodeView>,
}

/// The watches that fill [`Watched`].
pub struct Watches {
    pods: Informer<PodObject>,
    node: Cache<NodeView>,
    changed: Arc<Notify>,
}

impl Watched {
    /// Empty caches; `changed` is notified of every change.
    #[must_use]
    pub fn new(changed: &Arc<Notify>) -> (Self, Watches) {
        let notify = Arc::clone(changed);
        let node = Cache::new(Interner::default(), move |_| notify.notify_one());
        let pods = Informer::default();
        let watched = Self {
            pods: pods.store(),
            node: node.clone(),
        };
        let changed = Arc::clone(changed);
        let watches = Watches {
            pods,
            node,
            changed,
        };
        (watched, watches)
    }

    /// Waits until both have their first list.
    pub async fn synced(&self) {
        self.node.synced().await;
        // Its writer lives as long as this program.
        if self.pods.wait_until_ready().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Watches {
    /// Runs the watches for ever.
    pub async fn run(self, client: Client, node: &str) -> Infallible {
        let scope = Scope {
            fields: format!("metadata.name={node}"),
            ..Scope::all(NODES)
        };
        let feeds = Feeds::new(client.clone(), Duration::ZERO);
        let watches: [Watch; 1] = [Watch::of(scope, &self.node)];
        let bound = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let notify = |_| self.changed.notify_one();
        let pods = self.pods.run(Api::all(client), bound, notify);
        tokio::select! {
            never = keep(&feeds, &watches) => never,
            never = pods => never,
        }
    }
}
