//! Paths and limits.
//!
//! Answers are rendered one at a time, hold a hundred keys, and take a twentieth of the thread's time at most.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, StatusCode};
use serde_json::Value;

use super::explainers::{Explainers, ProcessFacts};
use super::object::Object;
use super::rate::Rate;
use crate::controller::engine;
use crate::controller::flags::Http;
use crate::controller::serve;
use crate::flags::{Exit, Values};
use crate::http::{PathRequest, Reply, RouteError, Routes, Server};

const ENDPOINT: &str = "why-endpoint";
/// The same with its dashes.
const FLAG: &str = "--why-endpoint";

/// Paths below this one answer.
const BELOW: &str = "/why/";
const JSON: &str = "application/json";

/// The address of `--why-endpoint`, and who answers there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    http: Http,
    pub(crate) explainers: Explainers,
    rate: Arc<Mutex<Rate>>,
}

impl Endpoint {
    /// `None` without the flag.
    pub(crate) fn from_flags(
        values: &Values,
        facts: impl FnOnce() -> ProcessFacts,
    ) -> Option<Self> {
        let address = values.has(ENDPOINT).then(|| values.string(ENDPOINT))?;
        (!address.is_empty()).then(|| Self {
            http: Http {
                address: address.to_owned(),
                flag: FLAG,
                metrics_path: None,
                health: false,
            },
            explainers: Explainers::new(facts()),
            rate: Arc::default(),
        })
    }

    /// Listens, if there is an endpoint. `refused` is the exit code for an address that cannot be listened on.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub(crate) async fn listen(
        this: Option<&Self>,
        refused: u8,
    ) -> Result<Option<(Server, Routes)>, Exit> {
        let Some(endpoint) = this else {
            return Ok(None);
        };
        let mut routes = Routes::new();
        let server = serve::bind(&endpoint.http, refused).await?;
        announce(&server);
        let is_loopback = server.local_addr().is_ok_and(|at| at.ip().is_loopback());
        let hosts = if is_loopback {
            Hosts::Loopback
        } else {
            Hosts::Any
        };
        let added = endpoint.add(&mut routes, hosts);
        added.map_err(|error| Exit::failure(2, format_args!("{FLAG}: {error}")))?;
        Ok(Some((server, routes)))
    }

    /// Adds the paths to a server that authenticates its clients.
    ///
    /// # Errors
    /// They are taken.
    pub(crate) fn add_to(&self, routes: &mut Routes) -> Result<(), RouteError> {
        self.add(routes, Hosts::Any)
    }

    fn add(&self, routes: &mut Routes, hosts: Hosts) -> Result<(), RouteError> {
        let endpoint = self.clone();
        let answer = move |request: PathRequest| {
            let reply = match hosts.refuse(request.host.as_deref()) {
                Some(refused) => refused,
                None => endpoint.answer(&request),
            };
            std::future::ready(reply)
        };
        routes.add_below(BELOW, answer)
    }

    fn answer(&self, asked: &PathRequest) -> Reply {
        if ![Method::GET, Method::HEAD].contains(&asked.method) {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        }
        let now = engine::now().instant;
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if !rate.admit(now) {
            let text = "too many questions, try again in a second\n";
            return Reply::text(StatusCode::TOO_MANY_REQUESTS, text);
        }
        drop(rate);
        let reply = self.rendered(&asked.rest);
        let end = engine::now().instant;
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.took(end.saturating_duration_since(now), end);
        reply
    }

    fn rendered(&self, rest: &str) -> Reply {
        match rest {
            "" => json(StatusCode::OK, &self.explainers.list()),
            "driver" => json(StatusCode::OK, &self.explainers.driver()),
            "journal" => match self.explainers.journal() {
                Some(journal) => json(StatusCode::OK, &journal),
                None => Reply::text(StatusCode::NOT_FOUND, "no journal is kept here\n"),
            },
            rest => match Object::of_path(rest) {
                Some(object) => {
                    let (is_known, answer) = self.explainers.about(&object);
                    let status = if is_known {
                        StatusCode::OK
                    } else {
                        StatusCode::NOT_FOUND
                    };
                    json(status, &answer)
                }
                None => Reply::not_found(),
            },
        }
    }
}

/// The hosts that clients may ask for.
#[derive(Clone, Copy, Debug)]
enum Hosts {
    Any,
    /// A web page whose name resolves to the loopback address must not read answers.
    Loopback,
}

impl Hosts {
    fn refuse(self, host: Option<&str>) -> Option<Reply> {
        let name = host.map(|host| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        });
        let is_local = |name: &str| {
            name.eq_ignore_ascii_case("localhost") || ["127.0.0.1", "[::1]"].contains(&name)
        };
        match self {
            Self::Loopback if !name.is_none_or(is_local) => {
                let text = "ask for localhost, 127.0.0.1 or [::1]\n";
                Some(Reply::text(StatusCode::MISDIRECTED_REQUEST, text))
            }
            Self::Any | Self::Loopback => None,
        }
    }
}

/// Says where it listens, and who can ask there.
fn announce(server: &Server) {
    let Ok(address) = server.local_addr() else {
        return;
    };
    tracing::info!(%address, "Answering questions about objects");
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "--why-endpoint answers everybody who reaches this address, without authentication: names of claims \
             of all namespaces and texts of the driver; listen on localhost, or use --secure-http-endpoint"
        );
    }
}

fn json(status: StatusCode, value: &Value) -> Reply {
    Reply {
        content_type: JSON,
        ..Reply::text(status, format!("{value:#}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_the_loopback_address_names_it() {
        for (host, answers) in [
            (None, true),
            (Some("localhost:8095"), true),
            (Some("LOCALHOST"), true),
            (Some("127.0.0.1:1"), true),
            (Some("[::1]:8095"), true),
            (Some("[::1]"), true),
            (Some("evil.example.com:8095"), false),
            (Some("localhost.example.com"), false),
            (Some(""), false),
        ] {
            assert_eq!(Hosts::Loopback.refuse(host).is_none(), answers, "{host:?}");
            assert!(Hosts::Any.refuse(host).is_none(), "{host:?}");
        }
    }
}
