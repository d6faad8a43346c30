//! Objects for tests: the fixture of the acceptance tables.
//!
//! Decision tables and crash simulation start from the same objects.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::keys::STORAGE_PROVISIONER;
use crate::model::{BindingMode, Claim, ClaimPhase, Class, Grant, Quantity, Text, Volume};
use crate::plan::driver::Abilities;
use crate::plan::journal::Journal;
use crate::plan::ownership::Pace;
use crate::plan::reactor::Setup;
use crate::plan::settings::Protection;
use crate::plan::topology::TopologyIndex;
use crate::plan::{Driver, Informers, Provisioner, Settings};

/// The fixture's driver: creates and deletes volumes, nothing else.
pub(crate) fn driver() -> Driver {
    Driver {
        name: "test-driver".into(),
        abilities: Abilities {
            controller: true,
            create_delete: true,
            ..Abilities::default()
        },
    }
}

/// The fixture claim's UID.
pub(crate) const U: &str = "11111111-2222-3333-4444-555555555555";

/// The fixture's claim `ns1/c1`: 1Gi, ReadWriteOnce, class `sc1`.
pub(crate) fn claim() -> Claim {
    Claim {
        namespace: "ns1".into(),
        name: "c1".into(),
        uid: U.into(),
        version: 7,
        annotations: [(STORAGE_PROVISIONER, "test-driver")].into_iter().collect(),
        class: Some("sc1".into()),
        access_modes: [Text::from("ReadWriteOnce")].into(),
        request: Some(Quantity::from_bytes(1 << 30)),
        phase: ClaimPhase::Pending,
        ..Claim::default()
    }
}

/// The fixture's class `sc1`: Immediate, Delete, no parameters.
pub(crate) fn class() -> Class {
    Class {
        name: "sc1".into(),
        uid: "class-uid".into(),
        provisioner: "test-driver".into(),
        reclaim_policy: Some("Delete".into()),
        binding_mode: BindingMode::Immediate,
        ..Class::default()
    }
}

/// A provisioner that knows nothing yet, and writes no journal unless it gets one.
pub(crate) fn provisioner(journal: Option<Journal>) -> Provisioner {
    let setup = Setup {
        settings: Settings {
            protection: Protection::Off,
            ..Settings::default()
        },
        retention: Duration::from_secs(300),
        topology: TopologyIndex::default(),
        node: None,
        pace: Pace {
            base: Duration::from_secs(1),
            max: Duration::from_secs(1),
        },
        seed: 1,
    };
    Provisioner::new(setup, journal)
}

/// Caches with at most one object of each kind, whatever its name.
pub(crate) struct Known {
    pub(crate) driver: Driver,
    pub(crate) claim: Option<Claim>,
    pub(crate) volume: Option<Volume>,
    pub(crate) class: Option<Class>,
    pub(crate) attachments_missed: bool,
    /// How often somebody went through a whole list.
    pub(crate) listed: Cell<u32>,
}

impl Known {
    fn list(&self) {
        self.listed.set(self.listed.get() + 1);
    }
}

impl Default for Known {
    fn default() -> Self {
        Self {
            driver: driver(),
            claim: None,
            volume: None,
            class: None,
            attachments_missed: false,
            listed: Cell::default(),
        }
    }
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::new(self.driver.clone())
    }

    fn claim(&self, _key: &str) -> Option<Arc<Claim>> {
        self.claim.clone().map(Arc::new)
    }

    fn for_each_claim(&self, _look: &mut dyn FnMut(&Arc<Claim>)) {
        self.list();
    }

    fn volume(&self, _name: &str) -> Option<Arc<Volume>> {
        self.volume.clone().map(Arc::new)
    }

    fn for_each_volume(&self, _look: &mut dyn FnMut(&str, &Volume)) {
        self.list();
    }

    fn class(&self, _name: &str) -> Option<Arc<Class>> {
        self.class.clone().map(Arc::new)
    }

    fn for_each_grant(&self, _look: &mut dyn FnMut(&Arc<Grant>)) {
        self.list();
    }

    fn misses_attachments(&self) -> bool {
        self.attachments_missed
    }
}
