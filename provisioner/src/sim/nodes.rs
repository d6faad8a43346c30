//! Nodes come and go, and topologies gain and lose capacity.

use super::run::{Faults, World};
use super::scene::{Scene, ZONE, registered, zone};
use super::server::NodeInfo;
use crate::model::Pairs;
use crate::plan::topology::Entry;

impl World {
    /// A node goes, comes, or loses its labels or its driver; a topology runs out of capacity.
    pub(super) fn move_house(&mut self) {
        let nodes = self.case.scene.nodes();
        let node = nodes[self.dice.below(nodes.len())];
        match self.dice.below(6) {
            0 => self.put_node(node, false),
            1 => {
                let info = NodeInfo {
                    labels: Some(Pairs::default()),
                    driver: registered(),
                };
                self.server.put_node(&node.into(), Some(info));
            }
            2 => {
                let info = NodeInfo {
                    labels: Some([(ZONE, &*zone(node))].into_iter().collect()),
                    driver: Entry::NotInstalled,
                };
                self.server.put_node(&node.into(), Some(info));
            }
            3 => self.put_node(node, true),
            _ => self.fill(),
        }
    }

    pub(super) fn put_node(&mut self, name: &str, present: bool) {
        let info = NodeInfo {
            labels: Some([(ZONE, &*zone(name))].into_iter().collect()),
            driver: registered(),
        };
        let zone = zone(name);
        if present {
            self.driver.silent.remove(&zone);
        } else {
            // From now on calls for it may get no answer.
            if self.faulty() {
                self.driver.silent.insert(zone.clone());
            }
            self.away.insert(zone);
        }
        self.server.put_node(&name.into(), present.then_some(info));
    }

    /// A topology runs out of capacity, or gets some again.
    pub(super) fn fill(&mut self) {
        if self.case.faults == Faults::None {
            return;
        }
        let nodes = self.case.scene.nodes();
        let node = match self.case.scene {
            Scene::Nodes | Scene::Apart => nodes[self.driver.site],
            Scene::Plain | Scene::Topology | Scene::Sources | Scene::Moved => {
                nodes[self.dice.below(nodes.len())]
            }
        };
        let zone = zone(node);
        if !self.driver.full.remove(&zone) {
            self.driver.full.insert(zone);
        }
    }
}
