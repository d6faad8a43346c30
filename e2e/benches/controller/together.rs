//! Measurements of all of a driver's sidecars in one process, `ours`, beside the sum of the single programs, `other`.
//!
//! Layout: `side` starts either of them; `cycle`, `flood`, `idle`, `large` and `restart` measure.

mod cycle;
mod flood;
mod idle;
mod large;
mod restart;
mod side;

use anyhow::Result;
use figures::record;

use crate::contender::{Contender, Controller};
use crate::figure::Figure;
use crate::{Profile, rest};

pub(crate) const CSI_SIDECARS: Controller = Controller {
    program: "csi-sidecars",
    other_by: "",
    flags: &["--controllers=provisioner,attacher,resizer,snapshotter,livenessprobe"],
};

pub(crate) static PROFILES: &[Profile] = &[
    Profile {
        name: "size",
        run: size,
    },
    Profile {
        name: "cycle",
        run: cycle::run,
    },
    Profile {
        name: "flood",
        run: flood::run,
    },
    Profile {
        name: "idle",
        run: idle::run,
    },
    Profile {
        name: "large",
        run: large::run,
    },
    Profile {
        name: "restart",
        run: restart::run,
    },
];

/// Names and versions of upstream's single programs, if all are measured.
pub(crate) fn upstream_versions() -> Option<String> {
    let all = side::upstreams().ok()??;
    let each = all.iter();
    let named = each.map(|it| Some(format!("{} {}", it.name, record::version(&it.path)?)));
    Some(named.collect::<Option<Vec<_>>>()?.join(", "))
}

fn size(contenders: &[Contender]) -> Result<Vec<Figure>> {
    rest::size(contenders, 11.7)
}
