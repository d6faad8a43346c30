//! The controllers of the process, and their connections. Each order of leases gets new connections, so
//! that no request sent under a lost head can still go out.

use std::pin::Pin;
use std::sync::Arc;

use ::kube::Client;
use sidecar::controller::lead::{Candidate, Company};
use sidecar::controller::link::Lost;
use sidecar::controller::shared::Working;
use sidecar::controller::{AnyController, ControllerLimits, Election, Link, Process, Seat, Tenure};
use sidecar::election::{Elector, Fence};
use sidecar::flags::Exit;
use sidecar::shutdown::Requested;
use tokio::task::JoinHandle;

use crate::plan::holder;
use crate::plan::order::Place;

/// Resolves once the driver is lost.
pub(super) type DriverLost = Pin<Box<dyn Future<Output = (Lost, Exit)>>>;

/// The controllers of a process, their leases and their driver, as the shell uses them.
pub(super) trait Controllers {
    /// Number of controllers.
    fn count(&self) -> usize;

    /// Name of a controller.
    fn name(&self, place: Place) -> &'static str;

    /// Whether `--controllers` lists its name, and not only `*`.
    fn is_named(&self, place: Place) -> bool;

    /// The fence of the connections, which is the fence of the head.
    fn fence(&self) -> Fence;

    /// The elector of a controller's lease, and the task that writes its events; `None` without leader
    /// election.
    ///
    /// # Errors
    /// If the host has no name.
    fn elector(&self, place: Place, fence: &Fence) -> Result<Option<Candidacy>, Exit>;

    /// Starts a controller, which works until it is asked to end.
    ///
    /// # Errors
    /// If it cannot work with this driver.
    fn begin(&self, place: Place, with: (Fence, Requested)) -> Result<Working<'static>, Exit>;

    /// Follows the driver. The shell polls this one future from first to last: whoever follows first
    /// notifies the others, and the shell must learn of the loss before its controllers do.
    fn driver_lost(&self) -> DriverLost;

    /// Connects to the driver over new connections, and waits until it is reachable.
    ///
    /// # Errors
    /// If the driver has another name now, or the credentials cannot be read.
    async fn anew(&mut self) -> Result<(), Exit>;
}

/// An elector, and the task that writes its events.
pub(super) type Candidacy = (Elector, JoinHandle<()>);

/// A controller, in the order of leases.
pub(super) struct Member {
    pub(super) own: ControllerLimits,
    pub(super) is_named: bool,
    pub(super) controller: Arc<dyn AnyController>,
}

/// The controllers selected on the command line.
pub(super) struct Members {
    process: Arc<Process>,
    list: Vec<Member>,
    /// Leader election, and the client for its requests.
    election: Option<(Election, Client)>,
    tenure: Tenure,
    link: Arc<Link>,
}

impl Members {
    /// # Errors
    /// If the credentials cannot be read.
    pub(super) async fn new(
        process: &Arc<Process>,
        list: Vec<Member>,
        (tenure, link): (Tenure, Arc<Link>),
    ) -> Result<Self, Exit> {
        let election = list.first().and_then(|head| head.controller.election());
        let election = match election {
            Some(election) => Some((election.clone(), process.lease_client().await?)),
            None => None,
        };
        Ok(Self {
            process: Arc::clone(process),
            list,
            election,
            tenure,
            link,
        })
    }
}

impl Controllers for Members {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn name(&self, place: Place) -> &'static str {
        let member = self.list.get(place);
        member.map_or("", |member| member.own.controller)
    }

    fn is_named(&self, place: Place) -> bool {
        let member = self.list.get(place);
        member.is_some_and(|member| member.is_named)
    }

    fn fence(&self) -> Fence {
        self.tenure.fence.clone()
    }

    fn elector(&self, place: Place, fence: &Fence) -> Result<Option<Candidacy>, Exit> {
        let (Some(member), Some((election, client))) = (self.list.get(place), &self.election)
        else {
            return Ok(None);
        };
        let head = self.name(0);
        let company = Company {
            identity: holder::identity,
            head,
            succeeds: (place > 0).then(|| holder::mark(head)),
        };
        let candidate = Candidate {
            owner: member.controller.program().owner,
            driver: self.link.name(),
            election,
            metrics: &self.process.election,
            health: &self.process.health,
            fence,
            company: Some(&company),
        };
        candidate.elector(client.clone()).map(Some)
    }

    fn begin(&self, place: Place, with: (Fence, Requested)) -> Result<Working<'static>, Exit> {
        let Some(member) = self.list.get(place) else {
            return Ok(Box::pin(std::future::pending()));
        };
        let (process, program) = (Arc::clone(&self.process), member.controller.program());
        let seat = Seat::among(process, &self.tenure, program, &member.own, with);
        Arc::clone(&member.controller).begin(seat, &self.link)
    }

    fn driver_lost(&self) -> DriverLost {
        let link = Arc::clone(&self.link);
        Box::pin(async move { link.lost().await })
    }

    async fn anew(&mut self) -> Result<(), Exit> {
        let tenure = self.process.tenure().await?;
        self.link = Box::pin(self.link.anew(tenure.fence.clone())).await?;
        self.tenure = tenure;
        Ok(())
    }
}
