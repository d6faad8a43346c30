//! The metrics of leader election.

use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::{RegisterError, Registry};

/// `leader_election_master_status` and `leader_election_slowpath_total`.
///
/// The label `name` is empty if there is only one lease: the Go sidecars never set it.
#[derive(Clone, Debug)]
pub struct ElectionMetrics {
    /// The lease's name, if there are several.
    name: String,
    status: IntGaugeVec,
    slowpath: IntCounterVec,
}

impl ElectionMetrics {
    /// Adds the families to `registry`; a series appears with its first value.
    ///
    /// # Errors
    /// The registry has them already.
    pub fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let status = IntGaugeVec::new(
            Opts::new(
                "leader_election_master_status",
                "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 \
                 indicates backup, 1 indicates master. 'name' is the string used to identify the \
                 lease. Please make sure to group by name.",
            ),
            &["name"],
        )?;
        let slowpath = IntCounterVec::new(
            Opts::new(
                "leader_election_slowpath_total",
                "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is \
                 the string used to identify the lease. Please make sure to group by name.",
            ),
            &["name"],
        )?;
        registry.register(Box::new(status.clone()))?;
        registry.register(Box::new(slowpath.clone()))?;
        Ok(Self {
            name: String::new(),
            status,
            slowpath,
        })
    }

    /// The same families for one of several leases.
    #[must_use]
    pub fn named(&self, lease: &str) -> Self {
        Self {
            name: lease.to_owned(),
            ..self.clone()
        }
    }

    /// Records that the election runs, and whether this process holds the lease.
    pub fn set_leading(&self, leading: bool) {
        let status = self.status.with_label_values(&[&self.name]);
        status.set(i64::from(leading));
    }

    /// Counts a renewal that had to read the lease first.
    pub fn slow_path(&self) {
        self.slowpath.with_label_values(&[&self.name]).inc();
    }
}
