//! The replies of the HTTP server of the whole process.
//!
//! The shell determines the state behind each path, which for `/healthz` means calling the driver, and
//! passes it in. Paths that belong to a single controller are served by that controller, as in its own
//! process.

use http::StatusCode;
use sidecar::http::Reply;

/// Health of the driver, or on nodes without livenessprobe of the registration socket.
pub const HEALTH: &str = "/healthz";
/// Whether held leases are being renewed.
pub const LEADER_ELECTION: &str = "/healthz/leader-election";
/// Health of this process, for its own container's probe.
pub const LIVE: &str = "/livez";
/// Whether all parts of the process are working.
pub const READY: &str = "/readyz";
/// State of the registration with kubelet, on nodes.
pub const REGISTRATION: &str = "/registration";

/// A missing permission that the process needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing<'a> {
    /// The permission as the log spells it, for example `list persistentvolumes`.
    pub rule: &'a str,
    /// The controllers that need it.
    pub controllers: &'a [&'a str],
}

/// A controller that is off and will not restart by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off<'a> {
    /// The controller's name.
    pub controller: &'a str,
    /// The reason, on one line.
    pub reason: &'a str,
}

/// The state that readiness depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness<'a> {
    /// Whether all parts that need the driver's name know it.
    pub is_named: bool,
    /// Permissions that are missing.
    pub missing: &'a [Missing<'a>],
    /// Controllers that are off.
    pub off: &'a [Off<'a>],
    /// Whether the process neither holds nor requests a lease, because it waits for the driver.
    pub is_idle: bool,
    /// Why kubelet has not confirmed the registration; `None` if it has, or if there is no registrar.
    pub unregistered: Option<&'a str>,
    /// Why the API server cannot be used.
    pub unreachable: Option<&'a str>,
    /// Why leases cannot be requested.
    pub refused: &'a [String],
    /// Problems that keep controllers from some or all of their work, one per line.
    pub hindered: Option<&'a str>,
    /// Whether a signal has arrived: running work is finished, nothing new is started.
    pub is_ending: bool,
}

/// `/healthz`: livenessprobe's reply about the driver, or else the registrar's about its socket. Without
/// either, the path does not exist.
#[must_use]
pub fn health(driver: Option<Reply>, registration: Option<Reply>) -> Reply {
    driver.or(registration).unwrap_or_else(Reply::not_found)
}

/// `/healthz/leader-election`; `hangs` names a held lease that was not renewed for too long, if any.
#[must_use]
pub fn leader_election(hangs: Option<String>) -> Reply {
    Reply::leader_health(hangs)
}

/// `/livez`. `hangs` as for [`leader_election`]; `registration` is the registrar's reply about its
/// socket, once that exists. Before, the process waits for the driver, which is not its own fault.
#[must_use]
pub fn live(hangs: Option<String>, registration: Option<Reply>) -> Reply {
    if hangs.is_some() {
        return leader_election(hangs);
    }
    match registration {
        Some(reply) if reply.status != StatusCode::OK => {
            // For a missing socket the registrar answers 404 on its own path; here the path itself
            // exists.
            Reply::text(StatusCode::INTERNAL_SERVER_ERROR, reply.body)
        }
        Some(_) | None => Reply::ok(),
    }
}

/// `/readyz`, with one line for each reason.
#[must_use]
pub fn ready(state: &Readiness<'_>) -> Reply {
    let mut reasons = Vec::new();
    if state.is_ending {
        reasons.push("shutting down".to_owned());
    }
    if !state.is_named {
        reasons.push("the driver's name is not known yet".to_owned());
    }
    if state.is_idle {
        reasons.push("not requesting a lease: waiting for the driver".to_owned());
    }
    for Missing { rule, controllers } in state.missing {
        reasons.push(format!("{}: not allowed to {rule}", controllers.join(", ")));
    }
    for Off { controller, reason } in state.off {
        reasons.push(format!("{controller} is off: {reason}"));
    }
    reasons.extend(state.unregistered.map(str::to_owned));
    reasons.extend(state.unreachable.map(str::to_owned));
    reasons.extend(state.refused.iter().cloned());
    reasons.extend(state.hindered.map(str::to_owned));
    Reply::ready(reasons)
}

#[cfg(test)]
mod tests;
