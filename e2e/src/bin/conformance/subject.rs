//! The driver under test: the one of the tests, or a driver author's own, whose folder is in
//! `DRIVER`:
//!
//! - `driver` starts it in the foreground. Its environment has `CSI_ENDPOINT`, `NODE_NAME` and
//!   `STATE_DIR`, a folder that is deleted when the run ends.
//! - `definition.yaml` is the file for `--storage.testdriver`.
//! - `objects.yaml` has the CSIDriver, and the classes and Secrets that the definition references.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::api::Api;
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::process::{self, Process};
use e2e::{manifest, program};

use crate::definition::{
    DRIVER, DRIVER_FLAGS, attributes_class, csi_driver, definition, driver_setup,
};

use crate::selection::Present;

const FILES: [&str; 3] = ["driver", "definition.yaml", "objects.yaml"];

/// Capabilities that need csi-resizer.
const GROWTH: [&str; 4] = [
    "controllerExpansion",
    "nodeExpansion",
    "onlineExpansion",
    "offlineExpansion",
];

/// The driver under test.
pub(crate) struct Subject {
    /// CSI driver name.
    pub(crate) name: String,
    /// The definition for the suite.
    pub(crate) definition: String,
    folder: Option<PathBuf>,
}

impl Subject {
    /// The driver that the environment names, or that of the tests.
    pub(crate) fn selected(present: Present) -> Result<Self> {
        match env::var_os("DRIVER").filter(|folder| !folder.is_empty()) {
            Some(folder) => Self::own(Path::new(&folder)),
            None => Ok(Self {
                name: DRIVER.to_owned(),
                definition: definition(present).to_string(),
                folder: None,
            }),
        }
    }

    fn own(folder: &Path) -> Result<Self> {
        let all = FILES.join(", ");
        for name in FILES {
            let file = folder.join(name);
            ensure!(
                file.is_file(),
                "DRIVER={}: {name} is missing; the folder must have {all}",
                folder.display()
            );
        }
        let file = folder.join("definition.yaml");
        let definition = fs::read_to_string(&file)?;
        let name = field(&definition, "Name");
        let name = name.with_context(|| format!("{}: no DriverInfo.Name", file.display()))?;
        Ok(Self {
            name: name.to_owned(),
            folder: Some(folder.canonicalize()?),
            definition,
        })
    }

    /// Whether it supports expansion or modification of volumes.
    pub(crate) fn needs_resizer(&self) -> bool {
        let promises = |capability| field(&self.definition, capability) == Some("true");
        self.folder.is_none()
            || GROWTH.into_iter().any(promises)
            || self.definition.contains("VolumeAttributesClass")
    }

    /// Whether it supports snapshots.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.folder.is_none() || field(&self.definition, "snapshotDataSource") == Some("true")
    }

    /// Whether it reports capacity.
    pub(crate) fn has_capacity(&self) -> bool {
        self.folder.is_none() || field(&self.definition, "capacity") == Some("true")
    }

    /// Creates the driver's objects.
    pub(crate) fn introduce(&self, cluster: &Cluster, api: &Api) -> Result<()> {
        let Some(folder) = &self.folder else {
            manifest::create(api, &csi_driver())?;
            return manifest::create(api, &attributes_class()).map(drop);
        };
        let mut kubectl = Command::new(program::cluster()?);
        kubectl.args(["kubectl", "--dir"]).arg(cluster.dir());
        kubectl
            .args(["apply", "-f"])
            .arg(folder.join("objects.yaml"));
        process::output(&mut kubectl).map(drop)
    }

    /// Starts the driver.
    pub(crate) fn start(&self, seat: &Seat<'_>) -> Result<Process> {
        let Some(folder) = &self.folder else {
            let setup = seat.dir.join("setup.json");
            fs::write(&setup, driver_setup().to_string())?;
            let setup = format!("--setup={}", setup.display());
            let mut flags = DRIVER_FLAGS.to_vec();
            if !program::driver_is_foreign() {
                flags.push(&setup);
            }
            return seat.start_driver(&flags);
        };
        let state = seat.dir.join("state");
        fs::create_dir_all(&state)?;
        let mut command = seat.command(folder.join("driver"));
        command
            .env(
                "CSI_ENDPOINT",
                format!("unix://{}", seat.socket().display()),
            )
            .env("NODE_NAME", &seat.node)
            .env("STATE_DIR", state);
        seat.start_as_driver(command)
    }
}

/// A scalar field somewhere below `DriverInfo`, in YAML or in JSON with one field a line.
fn field<'a>(definition: &'a str, name: &str) -> Option<&'a str> {
    let (_, info) = definition.split_once("DriverInfo")?;
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        let bare = |text: &'a str| text.trim().trim_matches(['"', '\'', ',']);
        (bare(key) == name).then(|| bare(value))
    })
}
