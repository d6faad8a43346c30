//! All programs, by name.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use sidecar::rt::Exit;

/// A program's asynchronous main function at work.
pub(crate) type Main = Pin<Box<dyn Future<Output = Result<(), Exit>>>>;

/// A program of this file.
#[derive(Debug)]
pub(crate) struct Program {
    /// Name of its file when installed alone.
    pub(crate) name: &'static str,
    /// The same function that its own `main` runs.
    pub(crate) main: fn(Vec<OsString>) -> Main,
}

/// Several controllers in one process, selected on the command line.
pub(crate) const TOGETHER: Program = Program {
    name: "csi-sidecars",
    main: |argv| Box::pin(together::run::run(argv)),
};

/// Reports what changes when a driver's sidecar images are replaced.
pub(crate) const PREFLIGHT: Program = Program {
    name: "preflight",
    main: |argv| Box::pin(crate::preflight::run(argv)),
};

/// All programs, sorted by name.
pub(crate) const ALL: &[Program] = &[
    Program {
        name: "csi-attacher",
        main: |argv| Box::pin(attacher::run::run(argv)),
    },
    Program {
        name: "csi-external-health-monitor-controller",
        main: |argv| Box::pin(health_monitor::run::run(argv)),
    },
    Program {
        name: "csi-node-agent",
        main: |argv| Box::pin(node_agent::program::run(argv)),
    },
    Program {
        name: "csi-node-driver-registrar",
        main: |argv| Box::pin(registrar::run::run(argv)),
    },
    Program {
        name: "csi-plugin-manager",
        main: |argv| Box::pin(registrar::kubelet::program::run(argv)),
    },
    Program {
        name: "csi-provisioner",
        main: |argv| Box::pin(provisioner::run::run(argv)),
    },
    Program {
        name: "csi-resizer",
        main: |argv| Box::pin(resizer::run::run(argv)),
    },
    Program {
        name: "csi-snapshot-metadata",
        main: |argv| Box::pin(snapshot_metadata::run::run(argv)),
    },
    Program {
        name: "csi-snapshotter",
        main: |argv| Box::pin(snapshotter::run::run(argv)),
    },
    Program {
        name: "livenessprobe",
        main: |argv| Box::pin(livenessprobe::run::run(argv)),
    },
    Program {
        name: "snapshot-controller",
        main: |argv| Box::pin(snapshot_controller::run::run(argv)),
    },
];

/// The program named by the last component of a path.
pub(crate) fn named(path: &OsStr) -> Option<&'static Program> {
    let name = Path::new(path).file_name()?;
    ALL.iter().find(|program| name == program.name)
}
