//! Nodes and CSINodes.

use serde_json::{Value, json};

use super::{Object, builder, object, push};

builder!(
    /// A `Node`.
    Node
);

/// A node; its uid is `uid-of-NAME`.
#[must_use]
pub fn node(name: &str) -> Node {
    let node = object("v1", "Node", name);
    Node(node).uid(&format!("uid-of-{name}"))
}

builder!(
    /// A `CSINode`.
    CsiNode
);

/// The `CSINode` of a node, owned by the node that [`node`] makes, without drivers.
#[must_use]
pub fn csinode(name: &str) -> CsiNode {
    let mut csinode = object("storage.k8s.io/v1", "CSINode", name);
    csinode["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-of-{name}")}]);
    csinode["spec"] = json!({"drivers": []});
    CsiNode(csinode)
}

impl CsiNode {
    /// Adds a driver that knows the node by this id.
    #[must_use]
    pub fn driver(mut self, name: &str, node_id: &str) -> Self {
        let driver = json!({"name": name, "nodeID": node_id, "topologyKeys": null});
        push(&mut self.0["spec"]["drivers"], driver);
        self
    }

    fn last(&mut self) -> &mut Value {
        let drivers = self.0["spec"]["drivers"].as_array_mut();
        drivers
            .and_then(|drivers| drivers.last_mut())
            .expect("add a driver first")
    }

    /// The topology keys of the driver added last.
    #[must_use]
    pub fn topology(mut self, keys: &[&str]) -> Self {
        self.last()["topologyKeys"] = json!(keys);
        self
    }

    /// The volume limit of the driver added last.
    #[must_use]
    pub fn limit(mut self, count: i32) -> Self {
        self.last()["allocatable"] = json!({ "count": count });
        self
    }
}
