//! Assembles the driver and runs it until a signal arrives.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Config;
use crate::backing::storage::Storage;
use crate::backing::target::Targets;
use crate::control::routes::Control;
use crate::control::server;
use crate::instrument::call::Instrument;
use crate::instrument::record::Recorder;
use crate::instrument::rules::Rule;
use crate::instrument::settings::Settings;
use crate::model::state::{Change, Node};
use crate::plan::Refusal;
use crate::server::dispatch::Dispatch;
use crate::server::listener::Listener;
use crate::service::Driver;
use crate::service::busy::Busy;
use crate::store::Store;

/// Initial rules and settings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Setup {
    settings: serde_json::Map<String, serde_json::Value>,
    rules: Vec<Rule>,
}

/// Runs the driver until SIGTERM or SIGINT.
pub async fn run(config: Config) -> Result<()> {
    let setup = match &config.setup {
        Some(path) => read_setup(path).with_context(|| format!("--setup {}", path.display()))?,
        None => Setup::default(),
    };
    let settings = Settings::default()
        .merge(setup.settings)
        .context("--setup")?;
    let recorder = config.record.as_deref().map(Recorder::open).transpose();
    let recorder = recorder.context("cannot open the file of --record")?;
    let instrument = Arc::new(Instrument::new(
        &config.identity.node,
        recorder,
        config.seed,
    ));
    instrument.rules(|rules| {
        setup
            .rules
            .into_iter()
            .for_each(|rule| drop(rules.add(rule)))
    });

    let driver = Arc::new(driver(&config, settings)?);
    let dispatch = Dispatch::new(Arc::clone(&driver));
    let listener = Listener::new(config.endpoint.clone(), Arc::clone(&instrument), dispatch);
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    // The control socket comes first: a client that sees the CSI socket may rely on both.
    if let Some(path) = &config.control {
        let control = Control {
            driver,
            instrument,
            listener: Arc::clone(&listener),
        };
        server::start(path, Arc::new(control)).context("--control")?;
    }
    listener.start()?;
    tracing::info!(
        driver = config.identity.name,
        node = config.identity.node,
        endpoint = %config.endpoint.display(),
        "listening"
    );
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM"),
        _ = interrupt.recv() => tracing::info!("SIGINT"),
    }
    // Volumes stay published, as with any driver: pods outlive it.
    listener.stop();
    if let Some(path) = &config.control {
        // A leftover socket would mislead clients that look for a live driver.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn read_setup(path: &Path) -> Result<Setup> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

fn driver(config: &Config, settings: Settings) -> Result<Driver> {
    let store = Store::open(&config.state, config.sync).context("--statedir")?;
    let storage = Storage::open(&config.state).context("--statedir")?;
    if config.features.node {
        let node = Node {
            id: config.identity.node.clone(),
            topology: config.identity.topology.clone(),
            attach_limit: config.attach_limit,
        };
        // This tells the controller, which may be another process, about the node.
        store.transact(|state| {
            let known = state.nodes.get(&node.id) == Some(&node);
            Ok::<_, Refusal>((
                if known {
                    Vec::new()
                } else {
                    vec![Change::PutNode(node)]
                },
                (),
            ))
        })?;
    }
    Ok(Driver {
        identity: config.identity.clone(),
        policy: config.policy.clone(),
        features: config.features.clone(),
        store,
        targets: Targets {
            storage,
            mounts: config.mounts,
        },
        busy: Busy::default(),
        settings: Mutex::new(settings),
    })
}
