//! Removes the start-up taint from the Node, after each confirmation of the registration.
//!
//! [`plan::startup_taint`](crate::plan::startup_taint) decides.

use std::convert::Infallible;
use std::future::pending;

use prometheus::{Histogram, HistogramOpts, IntCounter};
use registrar::args::Config;
use registrar::registration_status::RegistrationProgress;
use sidecar::flags::Exit;
use sidecar::in_cluster::{Connection, Failure, InCluster};
use sidecar::metrics::{RegisterError, Registry};
use sidecar::names::is_subdomain;
use sidecar::rt::unit_random;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep};

use crate::plan::startup_taint::{Course, Look, Removal, Step, Wanted, next};

const CONTROLLER: &str = "node-driver-registrar";

/// Environment variables with the Node's name, in order of preference.
const VARIABLES: [&str; 3] = ["NODE_NAME", "KUBE_NODE_NAME", "CSI_NODE_NAME"];

/// The RBAC rules to add after a 403.
const RULES: &str = "the ClusterRole of this pod's service account needs the rules \
                     {apiGroups: [\"\"], resources: [\"nodes\"], verbs: [\"get\", \"patch\"]} and \
                     {apiGroups: [\"storage.k8s.io\"], resources: [\"csinodes\"], verbs: [\"get\"]}";

/// `--remove-taint`.
#[derive(Debug)]
pub(crate) struct StartupTaint {
    wanted: Vec<Wanted>,
    node: String,
    api: InCluster,
    metrics: Metrics,
}

#[derive(Debug)]
struct Metrics {
    removed: IntCounter,
    failed: IntCounter,
    seconds: Histogram,
}

impl Metrics {
    fn new(registry: &Registry) -> Result<Self, RegisterError> {
        let removed = IntCounter::new(
            "csi_sidecar_startup_taint_removed_total",
            "Start-up taints that were removed from the Node.",
        )?;
        let failed = IntCounter::new(
            "csi_sidecar_startup_taint_failures_total",
            "Attempts to look for a start-up taint and remove it that failed.",
        )?;
        let seconds = Histogram::with_opts(
            HistogramOpts::new(
                "csi_sidecar_startup_taint_seconds",
                "Seconds from the kubelet's confirmation of the registration until the first start-up taint was removed.",
            )
            .buckets(vec![0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0]),
        )?;
        registry.register(Box::new(removed.clone()))?;
        registry.register(Box::new(failed.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self {
            removed,
            failed,
            seconds,
        })
    }
}

impl StartupTaint {
    /// Reads the flags; `None` without `--remove-taint`. `variable` reads a variable of the environment.
    ///
    /// # Errors
    /// Exit code 1 and a line that names the flag.
    pub(crate) fn new(
        config: &Config,
        variable: impl Fn(&str) -> Option<String>,
        api: InCluster,
        registry: &Registry,
    ) -> Result<Option<Self>, Exit> {
        let Some((wanted, node)) = read(config, variable).map_err(|text| Exit::failure(1, text))?
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            wanted,
            node,
            api,
            metrics: Metrics::new(registry).map_err(|error| Exit::failure(1, error))?,
        }))
    }

    /// Removes the taint after each confirmation of the registration.
    pub(crate) async fn remove(
        &self,
        driver: &str,
        mut progress: watch::Receiver<RegistrationProgress>,
    ) -> Infallible {
        loop {
            let confirmed = progress.borrow_and_update().confirmation();
            let looking = async {
                if confirmed.is_some() {
                    self.look_on(driver, Instant::now()).await;
                }
                pending::<()>().await;
            };
            tokio::select! {
                biased;
                changed = progress.wait_for(|now| now.confirmation() != confirmed) => {
                    if changed.is_err() {
                        // The registrar has ended.
                        return pending().await;
                    }
                }
                () = looking => {}
            }
        }
    }

    /// Checks repeatedly after one confirmation.
    async fn look_on(&self, driver: &str, confirmed: Instant) {
        let mut course = Course::default();
        let mut last = None;
        let mut is_first = true;
        loop {
            let began = Instant::now();
            let seen = self.look(driver).await;
            let (since, took) = (confirmed.elapsed(), began.elapsed());
            let refused = |look, failure: &Failure| {
                self.metrics.failed.inc();
                (look, Some(explain(failure)))
            };
            let (look, hindrance) = match seen {
                Ok(Seen::Nothing) => (Look::Settled, None),
                Ok(Seen::Removed(removal)) => {
                    self.tell(driver, &removal, since, is_first);
                    is_first = false;
                    (Look::Settled, None)
                }
                Ok(Seen::Kept(text)) => (Look::Settled, Some((text, false))),
                Ok(Seen::Unapplied {
                    removal,
                    status,
                    failure,
                }) => {
                    let look = course.unapplied(removal, status);
                    match look == Look::Failed {
                        true => refused(look, &failure),
                        false => (look, last.clone()),
                    }
                }
                Err(failure) => refused(Look::failed(&failure, took), &failure),
            };
            // A reason is logged only if it differs from that of the last check.
            if let Some((reason, is_error)) = hindrance.as_ref().filter(|_| hindrance != last) {
                let node = self.node.as_str();
                let text = "The start-up taint is not removed";
                if *is_error {
                    tracing::error!(controller = CONTROLLER, driver, node, reason, "{text}");
                } else {
                    tracing::warn!(controller = CONTROLLER, driver, node, reason, "{text}");
                }
            }
            last = hindrance;
            let Some(pause) = course.pause(since, look, unit_random()) else {
                return;
            };
            sleep(pause).await;
        }
    }

    fn tell(&self, driver: &str, removal: &Removal, since: Duration, is_first: bool) {
        let (node, seconds) = (self.node.as_str(), since.as_secs_f64());
        for taint in &removal.taints {
            self.metrics.removed.inc();
            tracing::info!(
                controller = CONTROLLER,
                driver,
                node,
                %taint,
                seconds,
                "Removed the start-up taint"
            );
        }
        if is_first {
            self.metrics.seconds.observe(seconds);
        }
    }

    /// Checks once, over its own connection.
    async fn look(&self, driver: &str) -> Result<Seen, Failure> {
        let mut api = self.api.connect().await?;
        let (mut csi_node, mut node) = (None, None);
        let path = format!("/api/v1/nodes/{}", self.node);
        loop {
            let step = next(driver, &self.wanted, csi_node.as_ref(), node.as_ref());
            match step {
                Step::ReadCsiNode => csi_node = Some(self.csi_node(&mut api).await?),
                Step::ReadNode => node = Some(api.get(&path).await?),
                Step::Nothing => return Ok(Seen::Nothing),
                Step::Keep(hindrance) => return Ok(Seen::Kept(hindrance.to_string())),
                Step::Remove(removal) => {
                    return match api.json_patch(&path, &removal.operations).await {
                        Ok(()) => Ok(Seen::Removed(removal)),
                        Err(
                            failure @ Failure::Refused {
                                status: status @ (409 | 422),
                                ..
                            },
                        ) => Ok(Seen::Unapplied {
                            removal,
                            status,
                            failure,
                        }),
                        Err(failure) => Err(failure),
                    };
                }
            }
        }
    }

    async fn csi_node<T>(&self, api: &mut Connection) -> Result<T, Failure>
    where
        T: Default + serde::de::DeserializeOwned,
    {
        let path = format!("/apis/storage.k8s.io/v1/csinodes/{}", self.node);
        match api.get(&path).await {
            Err(Failure::Refused { status: 404, .. }) => Ok(T::default()),
            read => read,
        }
    }
}

/// The result of one check.
enum Seen {
    Nothing,
    Removed(Removal),
    Kept(String),
    /// The list of taints has changed, or a policy rejected the patch.
    Unapplied {
        removal: Removal,
        status: u16,
        failure: Failure,
    },
}

/// The message about a failure, and whether somebody has to fix it.
fn explain(failure: &Failure) -> (String, bool) {
    match failure {
        // The text of an RBAC refusal, which distinguishes it from one by admission.
        Failure::Refused {
            status: 403, error, ..
        } if error.message.contains("\" cannot ") => (format!("{error}; {RULES}"), true),
        Failure::Unusable(_)
        | Failure::Refused {
            status: 403 | 422, ..
        } => (failure.to_string(), true),
        Failure::Away(_) | Failure::Refused { .. } => (failure.to_string(), false),
    }
}

fn read(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<(Vec<Wanted>, String)>, String> {
    let flag = |text: &str| format!("--node-driver-registrar-remove-taint={text}");
    let texts = config.remove_taint.iter().filter(|text| !text.is_empty());
    let Some(first) = texts.clone().next().map(|text| flag(text)) else {
        return Ok(None);
    };
    let wanted = texts
        .map(|text| Wanted::parse(text).map_err(|problem| format!("{}: {problem}", flag(text))));
    let wanted = wanted.collect::<Result<_, _>>()?;
    let of_pod = || {
        let mut variables = VARIABLES.iter().filter_map(|name| variable(name));
        variables.find(|name| !name.is_empty())
    };
    let given = Some(config.node_name.clone()).filter(|name| !name.is_empty());
    let node = given.or_else(of_pod).ok_or_else(|| {
        format!(
            "{first}: the name of the Node is missing: set --node-driver-registrar-node-name or the environment \
             variable NODE_NAME, from the field spec.nodeName of the pod"
        )
    })?;
    if !is_subdomain(&node) {
        return Err(format!("{first}: {node:?} is not the name of a Node"));
    }
    Ok(Some((wanted, node)))
}

#[cfg(test)]
mod tests;
