//! The process of several controllers, from the command line to its end.
//!
//! Decisions are made in [`plan`](crate::plan) and by the programs themselves; this module carries them
//! out.

mod chosen;
mod liveness;
mod members;
mod registering;
mod shell;
mod shown;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sidecar::build;
use sidecar::controller::link::{Calls, Identity, Questions, Settings};
use sidecar::controller::ready::FlagSummary;
use sidecar::controller::{
    AnyController, ControllerLimits, DriverHandshake, Link, Process, Program, Seat, Tenure,
};
use sidecar::flags::{Exit, Values};
use sidecar::in_cluster::{InCluster, user_agent};
use sidecar::kube::connect::Variable;
use sidecar::kube::rate::{Rate, RateMetrics};
use sidecar::log;
use sidecar::names::LeaseOwner;
use tokio::time::sleep;

use crate::plan::ends;
use crate::plan::order::Place;
use crate::plan::split::{Line, Part, list_of, split};
use crate::registration::Registering;
use crate::{node, programs};
use chosen::{Chosen, Read, Selection};
use liveness::Liveness;
use members::{Member, Members};
use shown::Shown;

/// The name of the binary, as the API server sees it.
pub const NAME: &str = "csi-sidecars";

const CRATES: &[&str] = &["together", "csi_sidecars"];

/// Pause before a controller repeats a failed preparation.
const PAUSE: Duration = Duration::from_secs(5);

/// The crates whose log lines carry a controller's name.
const CONTROLLERS: &[(&str, &str)] = &[
    ("attacher", "attacher"),
    ("health_monitor", "health-monitor"),
    ("livenessprobe", "livenessprobe"),
    ("registrar", "node-driver-registrar"),
    ("provisioner", "provisioner"),
    ("resizer", "resizer"),
    ("snapshotter", "snapshotter"),
];

/// Runs the controllers that the command line names, in one process.
///
/// # Errors
/// Returns the exit, unless a signal ended the process in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    if node::is_asked_for(&argv) {
        return node::run_as(NAME, argv).await;
    }
    let arguments = texts(argv.into_iter().skip(1))?;
    let parts = match split(arguments.iter().map(String::as_str), programs::ALL)? {
        Line::Version => return Err(Exit::version(NAME)),
        Line::Help(text) => {
            return Err(Exit {
                stdout: text,
                ..Exit::with_code(0)
            });
        }
        Line::Run(parts) => parts,
    };
    let read = chosen::read(parts)?;
    let Some(first) = read.first() else {
        return Ok(());
    };
    let config = log::Config::from_flags(&first.values)?;
    log::init_with_controllers(&config, CRATES, CONTROLLERS);
    build::announce(NAME);
    let selection = chosen::decide(&read)?;
    let Some(head) = selection.chosen.first() else {
        return Err(Exit::failure(
            2,
            "--controllers names none that works with the API server",
        ));
    };
    let program = program(&selection.chosen);
    let replaces: Vec<_> = { selection.chosen.iter() }
        .map(|one| one.decided.program().replaces)
        .collect();
    let list = list_of(arguments.iter().map(String::as_str)).unwrap_or_default();
    let flags = || chosen::flags(&read, list);
    let process = Process::of_several(head.values, program, &replaces.join(", "), flags).await?;
    Box::pin(start(process, program, selection)).await
}

/// The command line as UTF-8, which Go's flags require as well.
fn texts(argv: impl Iterator<Item = OsString>) -> Result<Vec<String>, Exit> {
    argv.map(OsString::into_string)
        .collect::<Result<_, _>>()
        .map_err(|argument| Exit {
            stderr: format!("{NAME}: {} is not UTF-8\n", argument.to_string_lossy()),
            ..Exit::with_code(2)
        })
}

/// The program description of the process itself.
fn program(chosen: &[Chosen<'_>]) -> Program {
    let programs = chosen.iter().map(|one| one.decided.program());
    let codes: Vec<u8> = programs.clone().map(|program| program.fatal).collect();
    let mut ways = programs.map(|program| program.kubeconfig);
    let overrides = ways.any(|way| way == Variable::Overrides);
    Program {
        name: NAME,
        crates: CRATES,
        // Not used: each controller has its own.
        replaces: "",
        owner: LeaseOwner::Provisioner,
        gates: &[],
        kubeconfig: if overrides {
            Variable::Overrides
        } else {
            Variable::Ignored
        },
        fatal: ends::refusal(&codes),
    }
}

async fn start(
    process: Arc<Process>,
    program: Program,
    selection: Selection<'_>,
) -> Result<(), Exit> {
    let tenure = process.tenure().await?;
    let mut made = Vec::new();
    for one in selection.chosen {
        let own = ControllerLimits {
            controller: one.name,
            rate: Rate::from_flags(one.values)?,
            metrics: RateMetrics::of(one.name, &process.registry)?,
            flags: Arc::new(FlagSummary::new(one.values, one.decided.program().gates)),
        };
        let of = one.decided.program();
        let seat = preliminary(&process, &tenure, of, &own);
        made.push(Made {
            own,
            is_named: one.is_named,
            controller: one.decided.make(&seat, one.is_named)?,
            seat,
        });
    }
    let http = { made.first() }.and_then(|head| head.controller.http().cloned());
    let api = InCluster::new(&user_agent(NAME, build::VERSION));
    let registering = { selection.registrar }
        .map(|config| Registering::new(config, false, (api, &process.registry)))
        .transpose()?;
    let liveness = { selection.liveness }.map(|wanted| Liveness::new(wanted, &process.registry));
    let liveness = liveness.transpose()?;
    let registration = { registering.as_ref() }.map(Registering::registration);
    let shown = Shown::new(&process, registration.clone())?;
    let has_others = liveness.is_some() || registering.is_some();
    let working = async {
        let link = process
            .unless_ended(meet(&process, &tenure, program, &mut made))
            .await?;
        shown.driver_is_named();
        if let Some(liveness) = &liveness {
            liveness.counted_by(link.operations());
        }
        let preparing = async { Ok(prepare(made, &link).await) };
        let (list, idle) = process.unless_ended(preparing).await?;
        let mut members = Members::new(&process, list, (tenure, link)).await?;
        let ending = process.shutdown.request();
        shell::run(&mut members, &ending, idle, (has_others, &shown)).await
    };
    let routes = |routes: &mut _| {
        shown.add_to(routes)?;
        if let Some(registration) = &registration {
            registering::add_to(routes, registration, liveness.is_some())?;
        }
        match &liveness {
            Some(liveness) => liveness.add_to(routes),
            None => Ok(()),
        }
    };
    let working = async {
        let working = Box::pin(working);
        match registering {
            Some(registering) => registering::beside(registering, working).await,
            None => working.await,
        }
    };
    let serving = Box::pin(process.serve_also(http.as_ref(), routes, working));
    match &liveness {
        Some(liveness) => liveness.beside(serving).await,
        None => serving.await,
    }
}

/// A controller whose driver is not known yet.
struct Made {
    own: ControllerLimits,
    is_named: bool,
    controller: Box<dyn AnyController>,
    /// For requests that the controller makes before it leads.
    seat: Seat,
}

/// A seat without a lease: standbys may read objects and query the driver's identity.
fn preliminary(
    process: &Arc<Process>,
    tenure: &Tenure,
    program: Program,
    own: &ControllerLimits,
) -> Seat {
    let (process, ending) = (Arc::clone(process), process.shutdown.request());
    let fence = tenure.fence.clone();
    Seat::among(process, tenure, program, own, (fence, ending))
}

/// Discovers the API server's features, then connects to the driver once for all controllers.
async fn meet(
    process: &Process,
    tenure: &Tenure,
    program: Program,
    made: &mut [Made],
) -> Result<Arc<Link>, Exit> {
    let asking = made
        .iter_mut()
        .map(|one| one.controller.discover(&one.seat));
    try_join_all(asking).await?;
    let controllers = made.iter().map(|one| &one.controller);
    let mut questions = Questions::default();
    let mut calls = Calls {
        timeout: Duration::ZERO,
        methods: &[
            csi_proto::csi::methods::IDENTITY,
            csi_proto::csi::methods::CONTROLLER,
            csi_proto::csi::methods::GROUP_CONTROLLER,
            csi_proto::csi::methods::NODE,
        ],
        response_limit: None,
    };
    let (mut address, mut has_election) = (String::new(), false);
    for controller in controllers {
        questions = questions.and(controller.questions());
        calls.timeout = calls.timeout.max(controller.calls().timeout);
        address = controller.csi_address().to_owned();
        has_election |= controller.election().is_some();
    }
    let settings = Settings {
        address,
        calls,
        identity: Identity::Each(calls.timeout),
        patience: has_election.then_some(sidecar::controller::lead::PATIENCE),
        is_last_word: false,
        mute: program.fatal,
        fence: tenure.fence.clone(),
        hindrances: process.hindrances.clone(),
        info: process.driver.clone(),
    };
    let is_migrated = |driver: &str| made.iter().any(|one| one.controller.is_migrated(driver));
    let handshake = DriverHandshake::connect_counted(settings, &process.registry, is_migrated);
    let handshake = Box::pin(handshake).await?;
    handshake.name_calls();
    tracing::info!(driver = handshake.name(), "CSI driver name");
    handshake.fetch_capabilities(questions).await
}

/// Prepares the controllers for leading. Returns them together with the places of those that cannot work
/// with this driver.
async fn prepare(made: Vec<Made>, link: &Arc<Link>) -> (Vec<Member>, Vec<(Place, Exit)>) {
    let (mut members, mut idle) = (Vec::new(), Vec::new());
    for (place, mut one) in made.into_iter().enumerate() {
        // A driver that restarts during this does not end the process.
        while let Err(exit) = prepare_one(&mut one, link, place, &mut idle).await {
            let (controller, reason) = (one.own.controller, exit.error);
            tracing::error!(controller, reason, "Cannot begin yet");
            sleep(PAUSE).await;
        }
        members.push(Member {
            own: one.own,
            is_named: one.is_named,
            controller: Arc::from(one.controller),
        });
    }
    (members, idle)
}

async fn prepare_one(
    one: &mut Made,
    link: &Arc<Link>,
    place: Place,
    idle: &mut Vec<(Place, Exit)>,
) -> Result<(), Exit> {
    match one.controller.prepare(&one.seat, link) {
        Ok(preparing) => preparing.await,
        Err(exit) => {
            idle.push((place, exit));
            Ok(())
        }
    }
}

/// The flags of one part, for [`chosen::decide`].
fn values(part: &Part) -> Result<Values, Exit> {
    let program = programs::named(part.name);
    let spec = program.map_or(&livenessprobe::args::SPEC, |program| program.spec);
    let argv = std::iter::once(NAME.to_owned()).chain(part.arguments.iter().cloned());
    sidecar::flags::parse(spec, argv)
}

impl Read {
    fn new(part: Part) -> Result<Self, Exit> {
        let values = values(&part)?;
        Ok(Self { part, values })
    }
}
