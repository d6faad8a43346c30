//! Looks for VolumeAttributesClasses that claims wait for.
//!
//! They are not watched: manifests allow `get` on them at best, and hardly any cluster has a claim
//! that waits for one. When to look is decided in [`lookout`](crate::plan::lookout).

use std::convert::Infallible;

use tokio::time::{Instant, sleep};

use super::provisioner::Provisioner;
use crate::model::Text;
use crate::plan::claim::Answer;
use crate::plan::lookout::{Lookout, PACE};
use crate::plan::outcome::Cure;

impl Provisioner {
    /// Tries claims again as soon as the class is there that they failed without.
    pub async fn look_for_attributes_classes(&self) -> Infallible {
        let cluster = &self.cluster;
        let mut lookout = Lookout::default();
        loop {
            let awaited: Vec<Text> = { cluster.memory() }
                .awaited_attributes_classes()
                .cloned()
                .collect();
            if awaited.is_empty() {
                lookout = Lookout::default();
                cluster.looked_for.notified().await;
                continue;
            }
            for name in lookout.due(awaited, Instant::now().into_std()) {
                if self.has_attributes_class(&name).await {
                    cluster.cured(&Cure::AttributesClass(name));
                }
            }
            sleep(PACE).await;
        }
    }

    /// Whether an attempt would get past this class now.
    async fn has_attributes_class(&self, name: &str) -> bool {
        let driver = self.driver.current();
        match self.attributes_class(name).await {
            Ok(Answer::AttributesClass(class)) => *class.driver == *driver.name,
            Ok(_) | Err(_) => false,
        }
    }
}
