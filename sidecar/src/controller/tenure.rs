//! Connections to the API server, with and without a lease that guards them.

use std::time::Duration;

use ::kube::Client;

use crate::election::Fence;
use crate::kube::connect::{self, ApiServer, ConnectError};
use crate::kube::feed::Feeds;
use crate::kube::rate::{Rate, RateMetrics};
use crate::outage::Outage;

/// The controllers' connections, which send nothing without the lease, and the lists and watches on them;
/// clones share them.
#[derive(Clone)]
pub struct Tenure {
    /// Guards what this process may do only as leader: all its requests already, and calls to the driver
    /// if given to the link.
    pub fence: Fence,
    pub(super) api_server: ApiServer,
    pub(super) client: Client,
    pub(super) feeds: Feeds,
}

impl Tenure {
    pub(super) async fn new(
        options: &connect::Options,
        server: &Outage,
        rates: Option<RateMetrics>,
        gather: Duration,
    ) -> Result<Self, ConnectError> {
        let fence = Fence::default();
        let options = connect::Options {
            fence: fence.clone(),
            ..options.clone()
        };
        let api_server = ApiServer::new(&options).await?;
        let client = api_server.client(options.budget(rates), server);
        Ok(Self {
            fence,
            feeds: Feeds::reporting_to(server, client.clone(), gather),
            api_server,
            client,
        })
    }
}

/// A client over a connection of its own, guarded by no lease.
pub(super) async fn unguarded(
    options: &connect::Options,
    server: &Outage,
    rate: Option<Rate>,
) -> Result<Client, ConnectError> {
    let options = connect::Options {
        fence: Fence::default(),
        ..options.clone()
    };
    let mut budget = options.budget(None);
    budget.rate = rate.unwrap_or(budget.rate);
    Ok(ApiServer::new(&options).await?.client(budget, server))
}
