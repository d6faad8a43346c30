//! Models around the shell: controllers, a driver, and leases on a model API server.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::link::Lost;
use sidecar::controller::serve::LeaderHealth;
use sidecar::controller::shared::Working;
use sidecar::duration::GoDuration;
use sidecar::election::{Config, Elector, Fence, Timing};
use sidecar::flags::Exit;
use sidecar::shutdown::Requested;
use sidecar_testkit::api::FakeApi;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::plan::holder;
use crate::plan::order::Place;
use crate::run::members::{Candidacy, Controllers, DriverLost};

pub(super) const NAMES: [&str; 3] = ["provisioner", "attacher", "resizer"];

/// Behaviour of a controller.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conduct {
    /// Ends this long after it was asked to.
    Obeys(Duration),
    /// Ends by itself after this time.
    Fails(Duration),
    /// Never ends.
    Hangs,
}

/// A running controller.
pub(super) struct Run {
    pub(super) place: Place,
    pub(super) fences: [Fence; 2],
    /// How long it has been running without one of its leases.
    pub(super) astray: Cell<Duration>,
}

/// The state that a story checks.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) runs: RefCell<Vec<Weak<Run>>>,
    pub(super) conduct: Cell<Option<Conduct>>,
    pub(super) idle: Cell<Duration>,
}

/// The models.
pub(super) struct MadeUp {
    pub(super) api: FakeApi,
    pub(super) seen: Rc<Seen>,
    pub(super) fence: Fence,
    pub(super) driver: watch::Receiver<bool>,
    pub(super) health: LeaderHealth,
    /// Cloned into each elector, to count them.
    pub(super) electors: Arc<()>,
}

impl Controllers for MadeUp {
    fn count(&self) -> usize {
        NAMES.len()
    }

    fn name(&self, place: Place) -> &'static str {
        NAMES[place]
    }

    fn is_named(&self, _: Place) -> bool {
        true
    }

    fn fence(&self) -> Fence {
        self.fence.clone()
    }

    fn elector(&self, place: Place, fence: &Fence) -> Result<Option<Candidacy>, Exit> {
        let seconds = GoDuration::from_secs;
        let (name, token) = (NAMES[place].to_owned(), Arc::clone(&self.electors));
        let config = Config {
            namespace: "ns".to_owned(),
            identity: holder::identity("pod-0", NAMES[0]),
            succeeds: (place > 0).then(|| holder::mark(NAMES[0])),
            shown: name.clone(),
            timing: Timing::new(seconds(15), seconds(10), seconds(5))?,
            labels: Vec::new(),
            metrics: None,
            fence: fence.clone(),
            on_event: Box::new(move |_| {
                let _alive = &token;
            }),
            name: name.clone(),
        };
        let elector = Elector::new(self.api.client(), config);
        self.health.set(&name, elector.health());
        Ok(Some((elector, tokio::spawn(async {}))))
    }

    fn begin(
        &self,
        place: Place,
        (fence, ending): (Fence, Requested),
    ) -> Result<Working<'static>, Exit> {
        let run = Rc::new(Run {
            place,
            fences: [fence, self.fence()],
            astray: Cell::default(),
        });
        self.seen.runs.borrow_mut().push(Rc::downgrade(&run));
        let conduct = self
            .seen
            .conduct
            .get()
            .unwrap_or(Conduct::Obeys(Duration::from_secs(1)));
        Ok(Box::pin(async move {
            let _run = run;
            match conduct {
                Conduct::Obeys(after) => {
                    ending.requested().await;
                    sleep(after).await;
                    Ok(())
                }
                Conduct::Fails(after) => {
                    sleep(after).await;
                    Err(Exit::failure(1, "failed"))
                }
                Conduct::Hangs => std::future::pending().await,
            }
        }))
    }

    fn driver_lost(&self) -> DriverLost {
        let mut driver = self.driver.clone();
        Box::pin(async move {
            let _ = driver.wait_for(|is_there| !is_there).await;
            (Lost::StaysAway, Exit::failure(1, "lost"))
        })
    }

    async fn anew(&mut self) -> Result<(), Exit> {
        let _ = self.driver.wait_for(|is_there| *is_there).await;
        self.fence = Fence::default();
        Ok(())
    }
}
