//! One process, or the single programs that do the same side by side.

use std::fs;
use std::iter::once;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::link::Link;
use e2e::process::Process;
use e2e::program;
use serde_json::json;
use sidecar_testkit::free_address;

use crate::contender::Contender;
use crate::load::Load;
use crate::provisioner::objects::{CSI_NODES, NODES, csi_node, node};
use crate::resizer::objects::create_class;
use crate::usage::{Usage, at_rest};
use crate::world::{Driver, Route, World};

/// Flags of every program.
const FLAGS: [&str; 2] = ["--leader-election=true", "--timeout=60s"];

const LIVENESSPROBE: &str = "livenessprobe";

/// The single programs, with the environment variables for upstream's paths.
const SINGLES: [(&str, &str); 5] = [
    ("csi-provisioner", "PROVISIONER"),
    ("csi-attacher", "ATTACHER"),
    ("csi-resizer", "RESIZER"),
    ("csi-snapshotter", "SNAPSHOTTER"),
    (LIVENESSPROBE, "LIVENESSPROBE"),
];

/// Our single programs, whatever else is measured.
pub(super) fn singles() -> Result<Vec<Contender>> {
    let each = SINGLES.iter();
    each.map(|&(name, _)| single(name, "")).collect()
}

/// Upstream's single programs, if the environment names all of them: a sum of both makers' would mean
/// nothing.
pub(super) fn upstreams() -> Result<Option<Vec<Contender>>> {
    let is_named = |by: &str| std::env::var_os(by).is_some_and(|path| !path.is_empty());
    if !SINGLES.iter().all(|(_, by)| is_named(by)) {
        return Ok(None);
    }
    let each = SINGLES.iter();
    each.map(|&(name, by)| single(name, by))
        .collect::<Result<_>>()
        .map(Some)
}

fn single(name: &'static str, by: &str) -> Result<Contender> {
    Ok(Contender {
        name,
        path: program::find(name, by, "build")?,
        flags: &[],
    })
}

/// Whether the program sends requests to the API server.
pub(super) fn asks(program: &Contender) -> bool {
    program.name != LIVENESSPROBE
}

/// Gives the driver the capabilities that each controller needs.
pub(super) fn equip(driver: &Driver) -> Result<()> {
    let capabilities = json!({ "capabilities": {
        "plugin": ["CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"],
        "controller": [
            "CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "EXPAND_VOLUME",
            "CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS",
        ],
    } });
    Ok(driver.control.set(&capabilities)?)
}

/// The node that volumes are attached to.
pub(super) const NODE: &str = "node";

/// Creates a class for claims, and a node that has the driver.
pub(super) fn create_class_and_node(load: &Load) -> Result<()> {
    create_class(load)?;
    load.create(NODES, once(node(NODE, 0)))?;
    load.create(CSI_NODES, once(csi_node(NODE)))?;
    Ok(())
}

/// Programs that run side by side.
pub(super) struct Side {
    programs: Vec<(&'static str, Process)>,
    links: Vec<Link>,
    /// Address of the driver's health check.
    pub(super) health: String,
}

impl Side {
    /// Starts the programs, each with a connection of its own to the API server.
    pub(super) fn start(world: &World, driver: &Driver, all: &[Contender]) -> Result<Self> {
        let health = free_address();
        let mut side = Self {
            programs: Vec::new(),
            links: Vec::new(),
            health,
        };
        for contender in all {
            let program = side.start_one(world, driver, contender, all.len() == 1)?;
            side.programs.push((contender.name, program));
        }
        std::thread::sleep(Duration::from_millis(300));
        side.must_run().map(|()| side)
    }

    fn start_one(
        &mut self,
        world: &World,
        driver: &Driver,
        contender: &Contender,
        is_alone: bool,
    ) -> Result<Process> {
        let mut command = Command::new(&contender.path);
        command.arg(format!("--csi-address={}", driver.socket.display()));
        let is_asked = is_alone || contender.name == LIVENESSPROBE;
        if is_asked {
            command.arg(format!("--http-endpoint={}", self.health));
        }
        if asks(contender) {
            let direct = world.kubeconfig(contender, Route::Direct)?;
            let text = fs::read_to_string(&direct)?;
            let (_, rest) = text.split_once("https://").context("a server's address")?;
            let address: String = rest
                .chars()
                .take_while(|it| it.is_ascii_digit() || [':', '.'].contains(it))
                .collect();
            let link = Link::to(&address)?;
            let own = direct.with_extension("link");
            fs::write(
                &own,
                text.replace(&address, &format!("127.0.0.1:{}", link.port())),
            )?;
            self.links.push(link);
            command
                .arg(format!("--kubeconfig={}", own.display()))
                .args(FLAGS);
        }
        command.args(contender.flags);
        world.spawn(contender.name, command)
    }

    /// Waits until all programs are idle. Returns how long the last one was busy.
    pub(super) fn at_rest(&mut self, limit: Duration) -> Result<Duration> {
        let mut longest = Duration::ZERO;
        let began = std::time::Instant::now();
        for (_, process) in &mut self.programs {
            let so_far = began.elapsed();
            let (_, busy) = at_rest(process, limit)?;
            if !busy.is_zero() {
                longest = longest.max(so_far + busy);
            }
        }
        Ok(longest)
    }

    /// Usage of all programs together.
    pub(super) fn usage(&self) -> Result<Usage> {
        let each = self.each()?;
        let sum = each.into_iter().map(|(_, one)| one);
        let sum = sum.reduce(|sum, one| Usage {
            resident: sum.resident + one.resident,
            anonymous: sum.anonymous + one.anonymous,
            peak: sum.peak + one.peak,
            cpu: sum.cpu + one.cpu,
        });
        sum.context("no program")
    }

    /// Usage of each program, by name.
    pub(super) fn each(&self) -> Result<Vec<(&'static str, Usage)>> {
        let each = self.programs.iter();
        each.map(|(name, process)| Ok((*name, Usage::of(process)?)))
            .collect()
    }

    /// Bytes received from the API server.
    pub(super) fn bytes(&self) -> u64 {
        self.links.iter().map(Link::bytes).sum()
    }

    /// Fails if a program has ended.
    pub(super) fn must_run(&mut self) -> Result<()> {
        let mut all = self.programs.iter_mut();
        all.try_for_each(|(_, process)| process.must_run())
    }
}
