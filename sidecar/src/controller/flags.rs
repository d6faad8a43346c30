//! Settings from the flags that all controllers share.
//!
//! Pure: the program decides the order of the checks, and with it message and exit code.

use std::time::Duration;

use crate::election::Timing;
use crate::flags::{Exit, Values};
use crate::queue::{self, exponential};

/// How many keys are worked on at once, and how failed ones back off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Number of keys worked on at once.
    pub workers: usize,
    /// `--retry-interval-start`
    pub retry_start: Duration,
    /// `--retry-interval-max`
    pub retry_max: Duration,
}

impl Pacing {
    /// From `--retry-interval-start` and `--retry-interval-max`.
    #[must_use]
    pub fn from_flags(values: &Values, workers: usize) -> Self {
        let duration = |name| values.duration(name).to_timeout();
        Self {
            workers,
            retry_start: duration("retry-interval-start"),
            retry_max: duration("retry-interval-max"),
        }
    }

    /// The back-off of a failed key.
    #[must_use]
    pub fn delay(&self) -> queue::Delay {
        exponential(self.retry_start, self.retry_max)
    }
}

/// A number of concurrent operations, from the flag `name`.
///
/// # Errors
/// Exit code 1 if it is not greater than zero.
pub fn at_least_one(values: &Values, name: &str) -> Result<usize, Exit> {
    let number = values.int(name);
    let positive = usize::try_from(number).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| {
        let line = format!("--{name}={number}: must be greater than zero");
        Exit::failure(1, line)
    })
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Address to listen on.
    pub address: String,
    /// The flag that set the address.
    pub flag: &'static str,
    /// `--metrics-path`; `None` if metrics are not served.
    pub metrics_path: Option<String>,
    /// Whether the health of leader election is served.
    pub health: bool,
}

impl Http {
    /// From `--http-endpoint`, `--metrics-address`, `--metrics-path` and `--leader-election`;
    /// `None` without a server.
    ///
    /// # Errors
    /// Exit code 1 if both addresses are set: the two flags configure one listener.
    pub fn from_flags(values: &Values) -> Result<Option<Self>, Exit> {
        let endpoint = values.string("http-endpoint");
        // A controller without the deprecated flag has one address only.
        let metrics = if values.has("metrics-address") {
            values.string("metrics-address")
        } else {
            ""
        };
        let (address, flag) = match (endpoint, metrics) {
            ("", "") => return Ok(None),
            (endpoint, "") => (endpoint, "--http-endpoint"),
            ("", metrics) => (metrics, "--metrics-address"),
            (_, _) => {
                return Err(Exit::failure(
                    1,
                    "only one of --metrics-address and --http-endpoint can be set: remove \
                     --metrics-address, which is deprecated",
                ));
            }
        };
        Ok(Some(Self {
            address: address.to_owned(),
            flag,
            metrics_path: Some(values.string("metrics-path").to_owned()),
            health: values.bool("leader-election") && !endpoint.is_empty(),
        }))
    }
}

/// Leader election.
#[derive(Debug, Clone, PartialEq)]
pub struct Election {
    /// `--leader-election-namespace`
    pub namespace: String,
    /// Lease duration, renew deadline and retry period.
    pub timing: Timing,
    /// `--leader-election-labels`
    pub labels: Vec<(String, String)>,
}

impl Election {
    /// From `--leader-election` and its companions; `None` if leader election is off.
    ///
    /// # Errors
    /// Exit code 2 if the durations contradict each other; upstream panics with the same words.
    pub fn from_flags(values: &Values) -> Result<Option<Self>, Exit> {
        if !values.bool("leader-election") {
            return Ok(None);
        }
        let timing = Timing::new(
            values.duration("leader-election-lease-duration"),
            values.duration("leader-election-renew-deadline"),
            values.duration("leader-election-retry-period"),
        );
        Ok(Some(Self {
            namespace: values.string("leader-election-namespace").to_owned(),
            timing: timing.map_err(|error| Exit::failure(2, error))?,
            labels: if values.has("leader-election-labels") {
                values.pairs("leader-election-labels")
            } else {
                Vec::new()
            },
        }))
    }
}
