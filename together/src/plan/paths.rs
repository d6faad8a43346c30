//! What the HTTP server of the whole process answers.
//!
//! The shell looks at what a path is about, which for `/healthz` means to ask the driver, and hands it in.
//! What only one of the controllers has to say it answers itself, as in a process of its own.

use http::StatusCode;
use sidecar::http::Reply;

/// The driver, or on nodes without livenessprobe the registration socket.
pub const HEALTH: &str = "/healthz";
/// Whether leases that are held are renewed.
pub const LEADER_ELECTION: &str = "/healthz/leader-election";
/// This process, for its own container's probe.
pub const LIVE: &str = "/livez";
/// Whether all of it does what it was started for.
pub const READY: &str = "/readyz";
/// How far kubelet has come with the driver, on nodes.
pub const REGISTRATION: &str = "/registration";

/// A permission that the process lacks and cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing<'a> {
    /// As the log names it, for example `list persistentvolumes`.
    pub rule: &'a str,
    /// The controllers that need it.
    pub controllers: &'a [&'a str],
}

/// A controller that does not work and will not do so by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off<'a> {
    /// Its name.
    pub controller: &'a str,
    /// Why, on one line.
    pub reason: &'a str,
}

/// What readiness is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness<'a> {
    /// The driver has told its name to all that ask for it.
    pub is_named: bool,
    /// Permissions that are missing.
    pub missing: &'a [Missing<'a>],
    /// Controllers that are off.
    pub off: &'a [Off<'a>],
    /// No lease is held or asked for: the driver is met first.
    pub is_idle: bool,
    /// Why kubelet has not confirmed the driver; `None` if it has, or is not asked to.
    pub unregistered: Option<&'a str>,
    /// Why the API server cannot be worked with.
    pub unreachable: Option<&'a str>,
    /// Why leases cannot be asked for.
    pub refused: &'a [String],
    /// What keeps controllers from their work or some of it, a line for each.
    pub hindered: Option<&'a str>,
    /// A signal has come: what runs is ended, nothing is begun.
    pub is_ending: bool,
}

/// `/healthz`: what livenessprobe says of the driver, or else what the registrar says of its socket. A process
/// with neither has no such path.
#[must_use]
pub fn health(driver: Option<Reply>, registration: Option<Reply>) -> Reply {
    driver.or(registration).unwrap_or_else(Reply::not_found)
}

/// `/healthz/leader-election`; `hangs` says which lease is held and was not renewed for too long, if there is one.
#[must_use]
pub fn leader_election(hangs: Option<String>) -> Reply {
    Reply::leader_health(hangs)
}

/// `/livez`. `hangs` is as above, and `registration` is what the registrar says of its socket, once it has one: before
/// that the driver is waited for, which is no fault of this process.
#[must_use]
pub fn live(hangs: Option<String>, registration: Option<Reply>) -> Reply {
    if hangs.is_some() {
        return leader_election(hangs);
    }
    match registration {
        Some(reply) if reply.status != StatusCode::OK => {
            // A socket that is gone is 404 at the registrar's own path, and no path is missing here.
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
