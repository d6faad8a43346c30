//! Nodes in zones of their own.

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::deployment::NodePod;
use serde_json::{Value, json};

use super::scene::Scene;

/// One node with the driver in each zone. Dropping it removes them, so that a failed scenario does
/// not spoil the next one.
pub(super) struct Zones<'a> {
    cluster: &'a Cluster,
    /// Label and topology key. A kubelet keeps the labels of drivers that are gone on its node, so
    /// each scenario has a key of its own.
    key: String,
    nodes: Vec<(&'static str, NodePod<'a>)>,
    added: Vec<&'static str>,
}

impl<'a> Zones<'a> {
    /// The first zone has the cluster's first node, the other zones get additional nodes. The
    /// driver's processes there get `flags`.
    pub(super) fn start(
        cluster: &'a Cluster,
        scene: &Scene<'a>,
        names: &[&'static str],
        flags: &[&str],
    ) -> Result<Self> {
        let key = format!("{}/zone", scene.deployment.driver());
        let topology = |name: &&str| format!("--topology={key}={name}");
        let topologies: Vec<_> = names.iter().map(topology).collect();
        let nodes = names.iter().zip(&topologies).map(|(name, topology)| {
            let mut flags = flags.to_vec();
            flags.push(topology);
            (*name, flags)
        });
        let mut zones = Self {
            cluster,
            nodes: Vec::new(),
            added: names.iter().skip(1).copied().collect(),
            key: key.clone(),
        };
        let pods = scene.deployment.start_nodes(&nodes.collect::<Vec<_>>())?;
        zones.nodes = names.iter().copied().zip(pods).collect();
        Ok(zones)
    }

    pub(super) fn pod(&self, zone: &str) -> Result<&NodePod<'a>> {
        let pod = self.nodes.iter().find(|(name, _)| *name == zone);
        pod.map(|(_, pod)| pod)
            .with_context(|| format!("no zone {zone}"))
    }

    /// The node of the zone.
    pub(super) fn node(&self, zone: &str) -> Result<&str> {
        Ok(&self.pod(zone)?.seat.node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(&'static str, NodePod<'a>)> {
        self.nodes.iter()
    }

    /// The segments that the driver has for the zone.
    pub(super) fn segments(&self, zone: &str) -> Value {
        json!({ &self.key: zone })
    }

    /// An entry of a class's `allowedTopologies`.
    pub(super) fn allowed(driver: &str, zone: &str) -> Value {
        let key = format!("{driver}/zone");
        json!({ "matchLabelExpressions": [{ "key": key, "values": [zone] }] })
    }

    /// Asserts that the PersistentVolume can be used in that zone only.
    pub(super) fn must_hold(&self, zone: &str, volume: &Value) -> Result<()> {
        let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms");
        let expected = json!([{ "matchExpressions": [
            { "key": self.key, "operator": "In", "values": [zone] },
        ]}]);
        ensure!(
            terms == Some(&expected),
            "a volume in zone {zone}: {terms:?}"
        );
        Ok(())
    }

    /// The zone that the PersistentVolume can be used in.
    pub(super) fn of(&self, volume: &Value) -> Result<&'static str> {
        let holds = |(zone, _): &&(&'static str, _)| self.must_hold(zone, volume).is_ok();
        let zone = self.nodes.iter().find(holds).map(|(zone, _)| *zone);
        zone.with_context(|| format!("the zone of {volume}"))
    }
}

impl Drop for Zones<'_> {
    fn drop(&mut self) {
        self.nodes.clear();
        for name in &self.added {
            // Otherwise the cluster's shutdown removes it, and reports what it could not remove.
            let _ = self.cluster.remove_node(name);
        }
    }
}
