//! The controllers of one process while it leads: watches, workers and sweeps.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::reactor::Due;
use sidecar::controller::seat::until_ending;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::rate::Rate;
use sidecar::lifecycle::Lifecycle;
use sidecar::names;
use sidecar::retry::RetryPolicy;
use sidecar::slow_set::SWEEP_INTERVAL;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::args::Config;
use crate::model::Pairs;
use crate::permission::{self, Uses};
use crate::plan::Settings;
use crate::plan::capacity::Producer;
use crate::plan::journal::{Journal, Lost};
use crate::plan::lifecycle;
use crate::plan::ownership::Pace;
use crate::plan::reactor::{Change, Setup};
use crate::plan::settings::Protection;
use crate::plan::topology::{Term, TopologyIndex};
use crate::work::api::{ATTACHMENTS, CLAIMS, CLASSES, CSI_NODES, GRANTS, NODES, VOLUMES};
use crate::work::attributes::look_for_attributes_classes;
use crate::work::capacity::{self, Capacity};
use crate::work::driver::{DriverView, OwnNode};
use crate::work::events::Events;
use crate::work::executor::{self, Engine, Executor, Pacing};
use crate::work::journal::{Keeper, keep_journal, not_to_be_opened, recover};
use crate::work::metrics::{CapacityMetrics, Metrics};
use crate::work::protection::sweep_snapshots;

mod journal;

use journal::Ended;

/// Interval of the resync of claims and volumes.
const RESYNC: Duration = Duration::from_secs(15 * 60);

/// How long running attempts may go on after a signal: longer than a call takes by default, and less than a pod's
/// default of thirty seconds.
const GRACE: Duration = Duration::from_secs(15);

/// Time limit of the last write of the journal.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Parts of the controllers.
pub(crate) struct Parts<'a> {
    pub(crate) seat: &'a Seat,
    pub(crate) config: &'a Config,
    pub(crate) driver: &'a Arc<DriverView>,
    /// The driver's information about the node of this process, in a node deployment.
    pub(crate) node: Option<&'a OwnNode>,
    pub(crate) metrics: Metrics,
    /// Publishes CSIStorageCapacity objects; `None` without `--enable-capacity`.
    pub(crate) producer: Option<&'a CapacityProducer>,
}

/// Parts of the producer of CSIStorageCapacity objects.
#[derive(Debug)]
pub(crate) struct CapacityProducer {
    pub(crate) producer: Producer,
    /// Rate limit of this producer alone.
    pub(crate) rate: Rate,
    pub(crate) metrics: CapacityMetrics,
}

/// Works until a signal comes, then finishes the running attempts.
///
/// # Errors
/// The exit of the process: the driver restarted as one that the process cannot continue with.
pub(crate) async fn work(parts: &Parts<'_>) -> Result<(), Exit> {
    loop {
        let journal = journal::open(parts).await;
        let wanted = parts.config.settings.protection == Protection::Journal;
        parts.metrics.without_journal(wanted && journal.is_err());
        let without = { journal.as_ref() }.err().copied();
        let engine = engine(parts, journal.ok())?;
        let rival = OnceCell::new();
        let result = Box::pin(lead(parts, &engine, (&rival, without))).await;
        // From here on the engine does nothing any more.
        drop(engine);
        parts.seat.last_events().await;
        let Some(lost) = rival.get() else {
            return result;
        };
        if let Err(Ended(result)) = Box::pin(journal::wait_for_rival(parts, lost)).await {
            return result;
        }
    }
}

/// The topology segment of a node; `None` if it is empty.
fn pairs(segment: &Term) -> Option<Pairs> {
    let texts = segment.iter().flat_map(|(key, value)| [key, value]);
    (!segment.is_empty()).then(|| Pairs::new(texts.cloned().collect()))
}

fn engine(parts: &Parts<'_>, journal: Option<(Journal, Keeper)>) -> Result<Arc<Engine>, Exit> {
    let Parts { seat, config, .. } = parts;
    let pacing = Pacing {
        threads: config.threads,
        clone_threads: config.clone_threads,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let segment = parts.node.map(|node| Term::from_csi(&node.topology));
    let topology = match (&config.settings.node, &segment) {
        (Some(deployment), Some(segment)) => TopologyIndex::of_node(&deployment.name, segment),
        (_, _) => TopologyIndex::default(),
    };
    let setup = Setup {
        settings: Settings {
            // Without a journal requests are kept in memory only, as in upstream.
            protection: match &journal {
                Some(_) => config.settings.protection,
                None => Protection::Off,
            },
            ..config.settings.clone()
        },
        retention: pacing.retry_max,
        topology,
        node: segment.as_ref().and_then(pairs),
        pace: Pace {
            base: config.ownership.base,
            max: config.ownership.max,
        },
        seed: RandomState::new().hash_one(0_u8),
    };
    let name = parts.driver.current().name.clone();
    let host = names::hostname().unwrap_or_default();
    // Part of the component of events, as in upstream's library.
    let process = Uuid::from_bytes(process_bytes()).to_string();
    let events = Events::new(seat, &name, &host, &process);
    let made = executor::Parts {
        driver: Arc::clone(parts.driver),
        api: seat.api(),
        setup,
        metrics: parts.metrics.clone(),
        events,
        journal,
        lifecycle: measured(parts, &name),
    };
    let engine = executor::engine(made, pacing, seat.queues())?;
    engine.depends_on(&seat.process.server);
    engine.traced_by(seat.tracer());
    seat.explained(&engine, Some(&**parts.driver));
    if let (Some(config), Some(producer)) = (&config.capacity, parts.producer) {
        let informers = &engine.shell().informers;
        let client = seat.another_client(producer.rate);
        let capacity = Capacity::new(capacity::Parts {
            producer: producer.producer.clone(),
            config,
            retry: RetryPolicy::new(pacing.retry_start, pacing.retry_max),
            driver: Arc::clone(parts.driver),
            client: &client,
            classes: informers.classes.clone(),
            strings: informers.strings.clone(),
            queues: seat.queues(),
            metrics: &producer.metrics,
        });
        let capacity = capacity?;
        capacity.queue.depends_on(&seat.process.server);
        engine.shell().capacity.get_or_init(|| capacity);
    }
    report_unknown_outcomes(parts, &engine);
    Ok(engine)
}

/// Measures how long users of the driver of this name wait.
fn measured(parts: &Parts<'_>, driver: &str) -> Lifecycle {
    let node = parts.config.settings.node.as_ref();
    let lifecycle = parts.seat.lifecycle(driver, lifecycle::STAGES);
    lifecycle.of_node(node.map(|node| &*node.name))
}

/// Gauges of calls with unknown outcome, read from the in-flight state when they are scraped.
fn report_unknown_outcomes(parts: &Parts<'_>, engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    parts.metrics.unknown_outcomes.read_from(move || {
        let engine = engine.upgrade()?;
        let now = Instant::now().into_std();
        engine.turn(|provisioner, _| {
            let pending = provisioner.in_flight().pending_creates();
            let ages = pending.flat_map(|(_, pending)| {
                let age = now.saturating_duration_since(pending.since);
                pending.requests().map(move |_| age)
            });
            (Some(ages.collect()), Due::default())
        })
    });
}

fn process_bytes() -> [u8; 16] {
    let one = RandomState::new().hash_one(0_u8).to_be_bytes();
    let other = RandomState::new().hash_one(1_u8).to_be_bytes();
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(one.into_iter().chain(other)) {
        *to = from;
    }
    bytes
}

/// Sets `rival` if another process has taken the journal and there is no election; `without` is the reason why there is
/// no journal.
async fn lead(
    parts: &Parts<'_>,
    engine: &Arc<Engine>,
    (rival, without): (&OnceCell<Lost>, Option<&str>),
) -> Result<(), Exit> {
    let Parts { seat, config, .. } = parts;
    let executor = engine.shell();
    let driver = &executor.driver;
    let watches = watches(config, executor);
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = executor.informers.attachments.whenever_current(|| {
                engine.observe(Change::AttachmentsKnown);
            }) => never,
            never = look_for_attributes_classes(engine) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = executor.look_for_gone_nodes() => never,
            never = until_ending(
                &seat.ending,
                sweep_snapshots(engine, seat, config.sweep),
            ) => never,
            never = advise(parts, executor) => never,
        }
    };
    let lost = async {
        tokio::select! {
            biased;
            lost = keep_journal(engine, |why| seat.hindered(why)) => {
                let exit = not_leading(&lost);
                if config.election.is_none() && matches!(lost, Lost::Fenced(..)) {
                    // The journal is lost once.
                    let _ = rival.set(lost);
                }
                exit
            }
            exit = driver.follow() => exit,
        }
    };
    let tasks = Tasks {
        lost,
        serving: serve(seat, engine, &watches, without),
        background,
        grace: GRACE,
    };
    // Attempts that run longer than the grace are cut off; their requests stay in the journal for the next process.
    Box::pin(tasks.run(engine, &seat.ending)).await?;
    let _ = timeout(LAST_WORDS, executor.flush_journal()).await;
    Ok(())
}

fn not_leading(lost: &Lost) -> Exit {
    Exit::failure(1, format_args!("Stopped leading: {lost}"))
}

/// The watches of the provisioner.
fn watches(config: &Config, executor: &Executor) -> Vec<Watch> {
    let caches = &executor.informers;
    let can = executor.driver.current().abilities;
    let settings = &executor.settings;
    let nodes = permission::watches_nodes(can, settings, config.capacity.is_some());
    let mut watches = vec![
        Watch::all(CLAIMS, &caches.claims).resync(RESYNC),
        Watch::all(VOLUMES, &caches.volumes).resync(RESYNC),
        Watch::all(CLASSES, &caches.classes),
        Watch::all(ATTACHMENTS, &caches.attachments)
            .when(can.publish)
            .current(),
        Watch::all(NODES, &caches.nodes).when(nodes),
        Watch::all(CSI_NODES, &caches.csi_nodes).when(nodes),
        Watch::all(GRANTS, &caches.grants).when(settings.gates.cross_namespace),
    ];
    watches.extend(executor.capacity.get().map(|capacity| capacity.watch()));
    watches
}

/// Works on the queues once the caches are complete. `without` is the reason why there is no journal.
async fn serve(seat: &Seat, engine: &Arc<Engine>, watches: &[Watch], without: Option<&str>) {
    watch::ready(watches).await;
    // Recovery comes before any call for a claim, and needs the complete caches. Volumes are deleted and storage
    // capacity is published even without the journal.
    let mut recovering = pin!(recover(engine));
    let recovered = tokio::select! {
        biased;
        () = &mut recovering => true,
        hindrance = not_to_be_opened(engine) => {
            seat.hindered(hindrance);
            false
        }
    };
    let journal = match (without, recovered) {
        (Some(why), _) => why,
        (None, true) => "on",
        (None, false) => "cannot be opened yet",
    };
    seat.begin(watch::kinds(watches), Some(journal)).await;
    tracing::info!("Starting CSI provisioner");
    let workers = async {
        tokio::join!(engine.serve(), produce(engine));
    };
    let forgetting = async {
        if !recovered {
            recovering.await;
            tracing::info!("The provisioning journal is open, provisioning volumes");
        }
        loop {
            sleep(SWEEP_INTERVAL).await;
            let now = Instant::now().into_std();
            engine.turn(|provisioner, _| (provisioner.sweep(now), Due::default()));
        }
    };
    tokio::select! {
        () = workers => {}
        never = forgetting => never,
    }
}

/// Publishes CSIStorageCapacity objects, if they are enabled.
async fn produce(engine: &Engine) {
    if let Some(capacity) = engine.shell().capacity.get() {
        let segments = || {
            engine.turn(|provisioner, _| {
                let segments = provisioner.topology().segments();
                (segments.cloned().collect(), Due::default())
            })
        };
        capacity.serve(segments).await;
    }
}

/// Logs which permissions are missing.
async fn advise(parts: &Parts<'_>, executor: &Executor) -> Infallible {
    let config = parts.config;
    let uses = Uses {
        settings: &executor.settings,
        capacity: config
            .capacity
            .as_ref()
            .map(|capacity| &*capacity.namespace),
        sweep: config.sweep.is_some(),
        journal: executor.journal.as_ref().map(Keeper::namespace),
    };
    let can = executor.driver.current().abilities;
    parts.seat.advise(&permission::rules(can, &uses)).await
}
