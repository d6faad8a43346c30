//! Polls VolumeAttributesClasses that claims wait for.
//!
//! They are not watched: manifests allow `get` on them at best, and hardly any cluster has a claim that waits for one.
//! [`class_poller`](crate::plan::class_poller) decides when to read them.

use std::convert::Infallible;

use sidecar::controller::execute::execute;
use sidecar::controller::reactor::Due;
use tokio::time::{Instant, sleep};

use super::executor::{Engine, Executor};
use crate::model::Text;
use crate::plan::class_poller::{ClassPoller, PACE};
use crate::plan::reactor::Change;
use crate::plan::request::{Found, Object, Reply, Request};

/// Retries claims as soon as the class exists without which they failed.
pub async fn look_for_attributes_classes(engine: &Engine) -> Infallible {
    let executor = engine.shell();
    let mut class_poller = ClassPoller::default();
    loop {
        let awaited: Vec<Text> = engine.turn(|provisioner, _| {
            let awaited = provisioner.in_flight().awaited_attributes_classes();
            (awaited.cloned().collect(), Due::default())
        });
        if awaited.is_empty() {
            class_poller = ClassPoller::default();
            executor.looked_for.notified().await;
            continue;
        }
        for name in class_poller.due(awaited, Instant::now().into_std()) {
            if executor.has_attributes_class(&name).await {
                engine.observe(Change::AttributesClass(name));
            }
        }
        sleep(PACE).await;
    }
}

impl Executor {
    /// Whether the class exists and is this driver's, so that an attempt would not fail because of it.
    async fn has_attributes_class(&self, name: &Text) -> bool {
        let driver = self.driver.current();
        let request = Request::Get(Object::AttributesClass(name.clone()));
        matches!(
            execute(self, request).await,
            Reply::Get(_, Ok(Found::AttributesClass(class))) if *class.driver == *driver.name
        )
    }
}
