//! Measurements of csi-provisioner.
//!
//! Layout: `objects` makes the cluster's contents, `large` measures memory, `provision` work, `journal` the cost of the
//! provisioning journal; `reference` is a client that writes what any provisioner must write, and nothing else.

mod journal;
pub(crate) mod large;
pub(crate) mod objects;
mod provision;
mod reference;

use anyhow::Result;

use crate::contender::{Contender, Controller};
use crate::figure::Figure;
use crate::{Profile, rest};

pub(crate) const PROVISIONER: Controller = Controller {
    program: "csi-provisioner",
    other_by: "PROVISIONER",
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
        name: "provision",
        run: provision::run,
    },
    Profile {
        name: "journal",
        run: journal::run,
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
    rest::size(contenders, 9.0)
}

fn idle(contenders: &[Contender]) -> Result<Vec<Figure>> {
    rest::idle(contenders, 9.0)
}
