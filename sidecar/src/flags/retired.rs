//! Flags that upstream's programs had in an earlier release and removed since.
//!
//! Manifests carry them for years, and changing the image must not break them: each is accepted
//! with any value, and one warning names the release that removed it. Data only; every program
//! names its own list in [`super::Spec::retired`].

use super::{Flag, Kind, Note};

/// Flags that one of upstream's programs no longer has.
#[derive(Debug)]
pub struct Retired {
    /// The program, named like its image.
    pub program: &'static str,
    /// The flags by the release that removed them.
    pub releases: &'static [(&'static str, &'static [Flag])],
}

impl Retired {
    /// The flag called `name`, and the release that removed it.
    pub fn find(&self, name: &str) -> Option<(&'static Flag, &'static str)> {
        self.releases.iter().find_map(|(release, flags)| {
            let flag = flags.iter().find(|flag| flag.name == name)?;
            Some((flag, *release))
        })
    }

    /// The warning about the use of `flag`.
    pub(super) fn warning(&self, flag: &Flag, release: &str) -> String {
        let (name, program) = (flag.name, self.program);
        match (flag.note, flag.help) {
            (Note::Renamed(now), _) => {
                format!("Flag --{name} was retired in {program} {release}: it is read as --{now}")
            }
            (_, "") => {
                format!("Flag --{name} was retired in {program} {release} and has no effect")
            }
            (_, hint) => {
                format!(
                    "Flag --{name} was retired in {program} {release} and has no effect: {hint}"
                )
            }
        }
    }
}

/// The list of programs without a predecessor.
pub static NONE: Retired = Retired {
    program: "",
    releases: &[],
};

/// Removed flags of csi-attacher.
pub static ATTACHER: Retired = Retired {
    program: "csi-attacher",
    releases: &[
        ("v4.6.0", KLOG),
        (
            "v2.0.0",
            &[
                CONNECTION_TIMEOUT,
                LEADER_ELECTION_TYPE,
                value("leader-election-identity", ""),
                switch("dummy", ""),
            ],
        ),
    ],
};

/// Removed flags of csi-provisioner.
pub static PROVISIONER: Retired = Retired {
    program: "csi-provisioner",
    releases: &[
        ("v5.2.0", KLOG),
        (
            "v2.1.0",
            &[value(
                "capacity-controller-deployment-mode",
                "use --enable-capacity, and --node-deployment on each node",
            )],
        ),
        (
            "v2.0.0",
            &[
                CONNECTION_TIMEOUT,
                LEADER_ELECTION_TYPE,
                switch("enable-leader-election", "").noted(Note::Renamed("leader-election")),
                value("provisioner", NAMED),
            ],
        ),
    ],
};

/// Removed flags of csi-resizer.
pub static RESIZER: Retired = Retired {
    program: "csi-resizer",
    releases: &[
        ("v1.10.0", KLOG),
        (
            "v1.0.0",
            &[value("csiTimeout", "").noted(Note::Renamed("timeout"))],
        ),
    ],
};

/// Removed flags of csi-snapshotter.
pub static SNAPSHOTTER: Retired = Retired {
    program: "csi-snapshotter",
    releases: &[
        ("v8.3.0", KLOG),
        ("v8.2.0", GROUPS),
        (
            "v2.0.0",
            &[
                CONNECTION_TIMEOUT,
                value("create-snapshotcontent-interval", ""),
                value("create-snapshotcontent-retrycount", ""),
                value("snapshotter", NAMED),
            ],
        ),
    ],
};

/// Removed flags of snapshot-controller.
pub static SNAPSHOT_CONTROLLER: Retired = Retired {
    program: "snapshot-controller",
    releases: &[("v8.3.0", KLOG), ("v8.2.0", GROUPS)],
};

/// Removed flags of csi-external-health-monitor-controller.
pub static HEALTH_MONITOR: Retired = Retired {
    program: "csi-external-health-monitor-controller",
    releases: &[("v0.10.0", KLOG)],
};

/// Removed flags of csi-node-driver-registrar, which still has its `--connection-timeout`.
pub static REGISTRAR: Retired = Retired {
    program: "csi-node-driver-registrar",
    releases: &[("v2.11.0", KLOG)],
};

/// Removed flags of livenessprobe.
pub static LIVENESSPROBE: Retired = Retired {
    program: "livenessprobe",
    releases: &[
        ("v2.12.0", KLOG),
        ("v2.0.0", &[CONNECTION_TIMEOUT]),
        ("v1.1.0", &[value("kubeconfig", "")]),
    ],
};

/// klog's flags, the same in every program.
static KLOG: &[Flag] = &[
    switch("logtostderr", STDERR),
    switch("alsologtostderr", STDERR),
    value("stderrthreshold", STDERR),
    value("log_dir", STDERR),
    value("log_file", STDERR),
    value("log_file_max_size", STDERR),
    switch("one_output", STDERR),
    switch("skip_headers", STDERR),
    switch("skip_log_headers", STDERR),
    switch("add_dir_header", STDERR),
    value("log_backtrace_at", STDERR),
];

static GROUPS: &[Flag] = &[switch(
    "enable-volume-group-snapshots",
    "--feature-gates=CSIVolumeGroupSnapshot=false switches them off",
)];

const CONNECTION_TIMEOUT: Flag = value("connection-timeout", "the driver is waited for");
const LEADER_ELECTION_TYPE: Flag = value("leader-election-type", "the lock is always a Lease");

const STDERR: &str = "the log always goes to stderr";
const NAMED: &str = "the driver says its name itself";

const fn value(name: &'static str, hint: &'static str) -> Flag {
    Flag::new(name, Kind::String, "", hint).noted(Note::Retired)
}

const fn switch(name: &'static str, hint: &'static str) -> Flag {
    Flag::new(name, Kind::Bool, "", hint).noted(Note::Retired)
}
