//! Refreshes the volume limits of registered drivers, with the period of their CSIDriver objects.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::{Api, ObjectMeta};
use kube::core::ClusterResourceScope;
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::Deserialize;
use sidecar::kube::informer::{Change, Informer};
use sidecar::kube::lean::nullable;
use sidecar::verbose;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::error;

use super::plugin::CsiPlugin;
use crate::kubelet::plan::keys::clip;
use crate::kubelet::plan::refresh::{Period, Refresh, Task};

/// An event that re-evaluates a driver's task. The channel is not bounded: there is one event for each registration,
/// spaced by the back-off, and one for each change of a CSIDriver object, which are as rare as installations of
/// drivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A driver was registered or deregistered.
    Driver {
        /// Name of the driver.
        name: String,
        /// Whether it is registered now.
        registered: bool,
    },
    /// A CSIDriver object appeared, changed or went away.
    Object {
        /// Name of the CSIDriver object.
        name: String,
        /// The object's period; `None` if the object is gone.
        period: Option<Period>,
    },
}

/// The drivers and CSIDriver objects that the refresher knows.
#[derive(Clone, Debug, Default)]
pub struct Known(Arc<Mutex<Refresh>>);

impl Known {
    /// The period of the CSIDriver object `name`; `None` if the object does not exist.
    #[must_use]
    pub fn period(&self, name: &str) -> Option<Period> {
        self.lock().period(name)
    }

    fn lock(&self) -> MutexGuard<'_, Refresh> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The refresher's loop.
pub struct Refresher {
    known: Known,
    plugin: Arc<CsiPlugin>,
    tasks: JoinSet<()>,
    by_driver: HashMap<String, AbortHandle>,
}

impl Refresher {
    /// A loop that has not started.
    #[must_use]
    pub fn new(known: Known, plugin: Arc<CsiPlugin>) -> Self {
        Self {
            known,
            plugin,
            tasks: JoinSet::new(),
            by_driver: HashMap::new(),
        }
    }

    /// Runs until all senders of events are gone, or until dropped; the tasks end with it.
    pub async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(Event::Driver { name, registered }) => {
                        let task = self.known.lock().driver(&name, registered);
                        self.act(&name, task);
                    }
                    Some(Event::Object { name, period }) => {
                        let task = self.known.lock().object(&name, period);
                        self.act(&name, task);
                    }
                    None => return,
                },
                Some(_) = self.tasks.join_next() => {} // only replaced tasks end
            }
        }
    }

    fn act(&mut self, name: &str, task: Task) {
        if task == Task::Keep {
            return;
        }
        if let Some(running) = self.by_driver.remove(name) {
            running.abort();
        }
        if let Task::Replace(period) = task {
            verbose!(
                2,
                driver = clip(name),
                ?period,
                "refreshing the driver's volume limit"
            );
            let task = refresh(Arc::clone(&self.plugin), name.to_owned(), period);
            self.by_driver
                .insert(name.to_owned(), self.tasks.spawn(task));
        }
    }
}

async fn refresh(plugin: Arc<CsiPlugin>, driver: String, period: Duration) {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if let Err(error) = plugin.refresh(&driver).await {
            error!(driver = clip(&driver), %error, "cannot refresh the driver's volume limit");
        }
    }
}

/// A CSIDriver object, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
struct CsiDriver {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(rename = "nodeAllocatableUpdatePeriodSeconds")]
    period: Period,
}

impl Resource for CsiDriver {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "CSIDriver".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "storage.k8s.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "csidrivers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Reports all CSIDriver objects and their changes, for ever.
pub async fn watch(client: Client, events: UnboundedSender<Event>) -> Infallible {
    let report = |change: Change<CsiDriver>| {
        let (object, period) = match &change {
            Change::Upserted(object) => (object, Some(object.spec.period)),
            Change::Deleted(object) => (object, None),
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        // The receiver ends with the program.
        let _ = events.send(Event::Object { name, period });
    };
    let informer = Informer::default();
    informer
        .run(Api::all(client), watcher::Config::default(), report)
        .await
}
