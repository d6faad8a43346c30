//! Measurements of csi-resizer.
//!
//! Layout: `objects` makes the cluster's contents, `large` measures memory, `expand` work.

mod expand;
mod large;
pub(crate) mod objects;

use anyhow::Result;

use crate::contender::{Contender, Controller};
use crate::figure::Figure;
use crate::{Profile, rest};

pub(crate) const RESIZER: Controller = Controller {
    program: "csi-resizer",
    other_by: "RESIZER",
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
        name: "expand",
        run: expand::run,
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
