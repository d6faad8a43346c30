//! Asks registered drivers for their volume limit again, as often as their CSIDriver object says.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use sidecar::controller::watch::{Watch, keep};
use sidecar::kube::cache::{self, Cache, Record};
use sidecar::kube::feed::Feeds;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{Meta, Object, nullable};
use sidecar::kube::reflect::Resource;
use sidecar::verbose;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::error;

use super::plugin::CsiPlugin;
use crate::kubelet::plan::keys::clip;
use crate::kubelet::plan::refresh::{Period, Refresh, Task};

/// What makes a driver's task worth a look. The channel is not bounded: there is one event for each
/// registration, spaced by the back-off, and one for each change of a CSIDriver object, which are
/// as rare as installations of drivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A driver was registered or deregistered.
    Driver {
        /// Its name.
        name: String,
        /// Whether it is registered now.
        registered: bool,
    },
    /// A CSIDriver object appeared, changed or went away.
    Object {
        /// Its name.
        name: String,
        /// What it says now; `None` if it is gone.
        period: Option<Period>,
    },
}

/// The drivers and CSIDriver objects as the refresher knows them.
#[derive(Clone, Debug, Default)]
pub struct Known(Arc<Mutex<Refresh>>);

impl Known {
    /// The period of the CSIDriver object `name`; `None` if there is no such object.
    #[must_use]
    pub fn period(&self, name: &str) -> Option<Period> {
        self.lock().period(name)
    }

    fn lock(&self) -> MutexGuard<'_, Refresh> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loop.
pub struct Refresher {
    known: Known,
    plugin: Arc<CsiPlugin>,
    tasks: JoinSet<()>,
    by_driver: HashMap<String, AbortHandle>,
}

impl Refresher {
    /// A loop that has not begun.
    #[must_use]
    pub fn new(known: Known, plugin: Arc<CsiPlugin>) -> Self {
        Self {
            known,
            plugin,
            tasks: JoinSet::new(),
            by_driver: HashMap::new(),
        }
    }

    /// Runs until nobody can send events any more, or until dropped; the tasks end with it.
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

/// What is kept of a CSIDriver object.
struct CsiDriver {
    period: Period,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(default, deserialize_with = "nullable")]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(rename = "nodeAllocatableUpdatePeriodSeconds")]
    period: Period,
}

impl Object for Wire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for CsiDriver {
    type Wire<'a> = Wire<'a>;

    fn from_wire(wire: Self::Wire<'_>, _strings: &Interner) -> Option<Self> {
        Some(Self {
            period: wire.spec.period,
        })
    }
}

/// Reports all CSIDriver objects and their changes, for ever.
pub async fn watch(client: Client, events: UnboundedSender<Event>) -> Infallible {
    let report = move |name: &str, period| {
        // The receiver ends with the program.
        let _ = events.send(Event::Object {
            name: name.to_owned(),
            period,
        });
    };
    let cache: Cache<CsiDriver> = Cache::new(
        Interner::default(),
        move |event: cache::Event<'_, CsiDriver>| match event {
            cache::Event::Upserted { key, new, .. } => report(key.name(), Some(new.period)),
            cache::Event::Deleted { key, .. } => report(key.name(), None),
            cache::Event::Resync { .. } => {}
        },
    );
    let resource = Resource::new("storage.k8s.io", "v1", "csidrivers");
    let watches: [Watch; 1] = [Watch::all(resource, &cache)];
    keep(&Feeds::new(client, Duration::ZERO), &watches).await
}
