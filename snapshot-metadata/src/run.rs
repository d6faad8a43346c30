//! Start-up in upstream's order, service, and shutdown.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::StatusCode;
use sidecar::controller::{self, Program, Seat};
use sidecar::error::Chain;
use sidecar::flags::{Exit, Values};
use sidecar::http::{Reply, listen};
use sidecar::kube::api::Api;
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;
use sidecar::secure::certificates::{Certificates, Files, Named, Shown};
use sidecar::secure::concurrency::ConcurrencyLimit;
use sidecar::secure::handshakes::Handshakes;
use sidecar::shutdown::Requested;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::args::{self, Command, Config, Environment};
use crate::permission;
use crate::work::call::Service;
use crate::work::client::Reviews;
use crate::work::driver::Driver;
use crate::work::metrics::Metrics;
use crate::work::objects::Objects;
use crate::work::server::{AT_ONCE, Server};

const PROGRAM: Program = Program {
    name: "csi-snapshot-metadata",
    replaces: "csi-snapshot-metadata 739e81f1, after v1.1.0",
    crates: &["snapshot_metadata", "csi_snapshot_metadata"],
    owner: LeaseOwner::Nobody,
    gates: &[],
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Path of the process's health endpoint.
const HEALTH: &str = "/health";

/// Runs csi-snapshot-metadata.
///
/// # Errors
/// The exit code and text; none after a signal if the shutdown was clean.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(PROGRAM, &args::SPEC, argv, decide, start).await
}

fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    let read = |name: &str| std::env::var(name).ok();
    let environment = Environment {
        certificate: read("TLS_CERT_PATH"),
        key: read("TLS_KEY_PATH"),
    };
    args::decide(values, &environment)
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let process = Arc::clone(&seat.process);
    let metrics = Metrics::new(&process.registry, config.snapshot_labels)?;
    let ready = watch::Sender::new(false);
    let (is_ready, ending) = (ready.subscribe(), process.shutdown.watch());
    let health = move || {
        let reply = if *is_ready.borrow() && !*ending.borrow() {
            Reply::ok()
        } else {
            Reply::text(StatusCode::SERVICE_UNAVAILABLE, "not ready")
        };
        std::future::ready(reply)
    };
    let http = config.http.clone();
    let working = Box::pin(work(&seat, config, metrics, ready));
    process
        .serve_also(
            http.as_ref(),
            |routes| routes.add(HEALTH, health.clone()),
            working,
        )
        .await
}

fn listening(port: u16) -> Result<TcpListener, Exit> {
    listen(port).map_err(|error| {
        let error = Chain(&error).to_string();
        Exit::failure(1, format_args!("--port={port}: cannot listen: {error}"))
    })
}

async fn work(
    seat: &Seat,
    config: Config,
    metrics: Metrics,
    ready: watch::Sender<bool>,
) -> Result<(), Exit> {
    let process = &*seat.process;
    let serving = ready.subscribe();
    let met = (config.address, config.timeout);
    let meeting = Driver::meet(met, &metrics.operations, ready.clone());
    let driver = Arc::new(process.unless_ended(meeting).await?);
    let named = |flag, path| Named { flag, path };
    let files = Files {
        certificate: named("--tls-cert", config.certificate),
        key: named("--tls-key", config.key),
        authority: None,
    };
    let shown = Shown {
        not_after: metrics.not_after.clone(),
        failures: None,
    };
    let certificates = Certificates::new(files, config.tls, "h2", shown);
    let certificates = Arc::new(certificates.map_err(|problem| Exit::failure(1, problem))?);
    let listener = listening(config.port)?;
    tracing::info!(
        driver = driver.name(),
        port = config.port,
        "Waiting for the driver to be ready"
    );
    let objects = Objects {
        core: Api::new(seat.another_client(config.rate)),
        snapshots: seat.api(),
        services: Api::new(seat.another_client(config.rate)),
    };
    let rules = permission::rules(config.audience.is_some());
    let (over, is_over) = Requested::channel();
    let server = Arc::new(Server {
        service: Service {
            reviews: Reviews::new(objects.clone(), driver.name(), config.audience),
            driver: Arc::clone(&driver),
            objects,
            streams: ConcurrencyLimit::new(config.streams, config.streams.div_ceil(2)),
            longest: config.longest,
            certificates: Arc::clone(&certificates),
            metrics,
            ending: process.shutdown.watch(),
            over: is_over,
            count: AtomicU64::new(0),
        },
        ending: seat.ending.clone(),
        ready: serving,
        calls: watch::Sender::new(0),
        limit: ConcurrencyLimit::new(AT_ONCE.0, AT_ONCE.1),
        handshakes: Handshakes::default(),
    });
    let not_ready = async {
        seat.ending.requested().await;
        ready.send_replace(false);
        std::future::pending::<()>().await;
    };
    let serving = Box::pin(server.serve(listener, config.grace, over));
    tokio::select! {
        biased;
        kept = driver.keep() => kept.map(|never| match never {}),
        () = serving => Ok(()),
        () = not_ready => Ok(()),
        never = certificates.watch() => match never {},
        never = seat.advise(&rules) => match never {},
    }
}
