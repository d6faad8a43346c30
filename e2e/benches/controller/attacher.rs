//! Measurements of csi-attacher.
//!
//! Layout: `objects` makes the cluster's contents, `large` measures memory, `cycle` and `lanes`
//! measure work.

mod cycle;
mod lanes;
mod large;
pub(crate) mod objects;

use anyhow::Result;

use crate::contender::{Contender, Controller};
use crate::figure::Figure;
use crate::{Profile, rest};

pub(crate) const ATTACHER: Controller = Controller {
    program: "csi-attacher",
    other_by: "ATTACHER",
    flags: &[],
};

pub(crate) static PROFILES: &[Profile] = &[
    Profile {
        name: "size",
        run: size,
    },
    Profile {
        name: "idle",
        run: idle,
    },
    Profile {
        name: "cycle",
        run: cycle::run,
    },
    Profile {
        name: "lanes",
        run: lanes::run,
    },
    Profile {
        name: "large",
        run: large::run,
    },
    Profile {
        name: "shared",
        run: large::shared,
    },
];

fn size(contenders: &[Contender]) -> Result<Vec<Figure>> {
    rest::size(contenders, 8.0)
}

fn idle(contenders: &[Contender]) -> Result<Vec<Figure>> {
    rest::idle(contenders, 8.0)
}
