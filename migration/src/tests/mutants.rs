//! Tables with one wrong entry: each must be noticed.

use super::answer::answer;
use super::draw::Draw;
use super::generator::{OPERATIONS, request};
use super::rows;
use crate::model::driver::{
    AccessModes, Attribute, ClassRules, Driver, Fallback, InlineMode, Origin, Otherwise, Parameter,
    Part, Region, Secrets, Topology, ZoneForm, ZoneLabel,
};
use crate::model::drivers::DRIVERS;
use crate::{TRANSLATOR, Translator};

/// Number of random objects for each driver and operation of a mutant that no row catches.
const OBJECTS: usize = 2_000;

type Mutant = (String, Driver);
type Change = fn(&mut Fallback);

/// Entries that make no difference: a pod has no annotations, its namespace is the Secret's, and no vSphere volume is
/// read-only.
const WITHOUT_EFFECT: [&str; 4] = [
    "kubernetes.io/azure-file: inline name without 0",
    "kubernetes.io/azure-file: inline name other 0",
    "kubernetes.io/azure-file: inline name other 8",
    "kubernetes.io/vsphere-volume: inline mode",
];

/// `text` with another character, for the lifetime of the program.
fn longer(text: &str) -> &'static str {
    Box::leak(format!("{text}x").into_boxed_str())
}

/// Each list without one of its entries, and with one entry replaced by `change`.
fn lists<T: Copy>(
    list: &'static [T],
    change: impl Fn(T) -> Option<T>,
) -> Vec<(String, &'static [T])> {
    let mut all = Vec::new();
    for at in 0..list.len() {
        let mut less = list.to_vec();
        less.remove(at);
        all.push((format!("without {at}"), less));
        if let Some(changed) = change(list[at]) {
            let mut other = list.to_vec();
            other[at] = changed;
            all.push((format!("other {at}"), other));
        }
    }
    let leaked = all
        .into_iter()
        .map(|(what, list)| (what, &*Box::leak(list.into_boxed_slice())));
    leaked.collect()
}

struct Mutants {
    of: Driver,
    made: Vec<Mutant>,
}

impl Mutants {
    fn one(&mut self, what: &str, change: impl FnOnce(&mut Driver)) {
        let mut mutant = self.of;
        change(&mut mutant);
        self.made
            .push((format!("{}: {what}", self.of.plugin), mutant));
    }

    fn each<T: Copy>(
        &mut self,
        what: &str,
        list: &'static [T],
        change: impl Fn(T) -> Option<T>,
        put: impl Fn(&mut Driver, &'static [T]),
    ) {
        for (how, list) in lists(list, change) {
            self.one(&format!("{what} {how}"), |driver| put(driver, list));
        }
    }
}

fn part(part: Part) -> Option<Part> {
    Some(match part {
        Part::Text(text) => Part::Text(longer(text)),
        Part::Field(field) => Part::Field(longer(field)),
        Part::AwsId(field) | Part::Account(field) => Part::Field(field),
        Part::Location(_) => Part::Location(ZoneForm::Aws),
        Part::Annotation(key) => Part::Annotation(longer(key)),
        Part::Namespace(field) => Part::Namespace(longer(field)),
        Part::VolumeName => return None,
    })
}

fn attribute((key, value): (&'static str, Attribute)) -> Option<(&'static str, Attribute)> {
    let other = match value {
        Attribute::Fixed(text) => Attribute::Fixed(longer(text)),
        Attribute::Field(field) => Attribute::UnlessEmpty(longer(field)),
        Attribute::IfSet(field) => Attribute::UnlessEmpty(field),
        Attribute::UnlessEmpty(field) => Attribute::IfSet(field),
        Attribute::Number { field, zero } => {
            let zero = if zero.is_empty() { "0" } else { "" };
            Attribute::Number { field, zero }
        }
    };
    Some((key, other))
}

fn origin(origin: Origin) -> Option<Origin> {
    Some(match origin {
        Origin::Handle => Origin::FsType,
        Origin::HandlePart { part, of } => Origin::HandlePart { part, of: of + 1 },
        Origin::AzureDiskName => Origin::Handle,
        Origin::FsType => Origin::Handle,
        Origin::ReadOnly => Origin::Fixed("x"),
        Origin::Fixed(text) => Origin::Fixed(longer(text)),
        Origin::Attribute(key) => Origin::AnyCase(key),
        Origin::AnyCase(key) => Origin::Attribute(key),
        Origin::AnyCaseUnlessEmpty(key) => Origin::AnyCase(longer(key)),
        Origin::Number { key, may_be_empty } => Origin::Number {
            key,
            may_be_empty: !may_be_empty,
        },
        Origin::SecretName => Origin::SecretNamespace,
        Origin::SecretNamespace => Origin::SecretName,
    })
}

fn parameter((key, rule): (&'static str, Parameter)) -> Option<(&'static str, Parameter)> {
    let other = match rule {
        Parameter::Renamed(to) => Parameter::Renamed(longer(to)),
        Parameter::Spread(keys) => Parameter::Spread(&keys[1..]),
        Parameter::With(other, _) => Parameter::With(other, "false"),
        Parameter::Zone => Parameter::Zones,
        Parameter::Zones => Parameter::Zone,
    };
    Some((key, other))
}

fn mutants(of: Driver) -> Vec<Mutant> {
    let mut all = Mutants {
        of,
        made: Vec::new(),
    };
    all.one("plugin", |driver| driver.plugin = longer(driver.plugin));
    all.one("name", |driver| driver.name = longer(driver.name));
    all.one("source", |driver| driver.source = longer(driver.source));
    volumes(&mut all);
    restored(&mut all);
    let Driver {
        topology, class, ..
    } = of;
    if let Some(keys) = topology {
        topologies(&mut all, keys);
    }
    if let Some(rules) = class {
        classes(&mut all, rules);
    } else {
        all.one("class", |driver| driver.class = DRIVERS[0].class);
    }
    if of.repair.is_some() {
        all.one("no repair", |driver| driver.repair = None);
        all.one("repair of five", |driver| {
            driver.repair.as_mut().unwrap().parts = 5
        });
        all.one("repair of AWS", |driver| {
            driver.repair.as_mut().unwrap().zone = ZoneForm::Aws
        });
    } else {
        all.one("repair", |driver| driver.repair = DRIVERS[1].repair);
    }
    all.made
}

fn volumes(all: &mut Mutants) {
    let of = all.of;
    all.each("handle", of.to_csi.handle, part, |driver, list| {
        driver.to_csi.handle = list
    });
    all.each(
        "copied",
        of.to_csi.copied,
        |_| None,
        |driver, list| driver.to_csi.copied = list,
    );
    all.each(
        "attributes",
        of.to_csi.attributes,
        attribute,
        |driver, list| driver.to_csi.attributes = list,
    );
    all.each(
        "only",
        of.to_csi.only,
        |_| None,
        |driver, list| driver.to_csi.only = list,
    );
    all.one("access modes", |driver| {
        driver.to_csi.access_modes = match driver.to_csi.access_modes {
            AccessModes::Keep => AccessModes::One,
            AccessModes::One => AccessModes::Keep,
        };
    });
    match of.to_csi.secrets {
        Secrets::None => {}
        Secrets::NodeStage { .. } => {
            all.one("secrets", |driver| driver.to_csi.secrets = Secrets::None)
        }
        Secrets::Annotated {
            name,
            namespace,
            references,
        } => all.each(
            "references",
            references,
            |one| Some(longer(one)),
            |driver, references| {
                driver.to_csi.secrets = Secrets::Annotated {
                    name,
                    namespace,
                    references,
                };
            },
        ),
    }
    all.each("inline name", of.inline.name, part, |driver, list| {
        driver.inline.name = list
    });
    all.each(
        "inline attributes",
        of.inline.attributes,
        attribute,
        |driver, list| driver.inline.attributes = list,
    );
    all.one("inline mode", |driver| {
        driver.inline.access_mode = match driver.inline.access_mode {
            InlineMode::Always("ReadWriteOnce") => InlineMode::ByReadOnly,
            InlineMode::Always(_) | InlineMode::ByReadOnly => InlineMode::Always("ReadWriteOnce"),
        };
    });
}

fn restored(all: &mut Mutants) {
    let of = all.of;
    all.each(
        "fields",
        of.to_in_tree.fields,
        |mut field| {
            field.field = longer(field.field);
            Some(field)
        },
        |driver, list| driver.to_in_tree.fields = list,
    );
    for (at, field) in of.to_in_tree.fields.iter().enumerate() {
        let put = |driver: &mut Driver, from: &'static [Origin]| {
            let mut fields = driver.to_in_tree.fields.to_vec();
            fields[at].from = from;
            driver.to_in_tree.fields = Box::leak(fields.into_boxed_slice());
        };
        all.each(
            &format!("origin of {}", field.field),
            field.from,
            origin,
            put,
        );
        // Empty text equals an absent field, except for pointers.
        let counts = match field.otherwise {
            Otherwise::Omit => false,
            Otherwise::Text(text) => {
                !text.is_empty() || of.source == "azureDisk" && field.field == "fsType"
            }
            Otherwise::False => true,
        };
        if counts {
            all.one(&format!("{} is omitted", field.field), |driver| {
                let mut fields = driver.to_in_tree.fields.to_vec();
                fields[at].otherwise = Otherwise::Omit;
                driver.to_in_tree.fields = Box::leak(fields.into_boxed_slice());
            });
        }
    }
    if of.to_in_tree.fallback.is_some() {
        let changes: [(&str, Change); 4] = [
            ("separator", |one| one.separator = '/'),
            ("at least", |one| one.at_least = 2),
            ("annotation", |one| one.annotation.1 = 1),
            ("fields", |one| one.fields = &one.fields[1..]),
        ];
        for (what, change) in changes {
            all.one(what, |driver| {
                change(driver.to_in_tree.fallback.as_mut().unwrap())
            });
        }
        all.one("no fallback", |driver| driver.to_in_tree.fallback = None);
    }
}

fn topologies(all: &mut Mutants, keys: Topology) {
    let mut put = |what: &str, keys: Topology| all.one(what, |driver| driver.topology = Some(keys));
    put(
        "zone",
        Topology {
            zone: longer(keys.zone),
            ..keys
        },
    );
    let label = match keys.label {
        ZoneLabel::Joined => ZoneLabel::One,
        ZoneLabel::One => ZoneLabel::Joined,
    };
    put("label", Topology { label, ..keys });
    let others = match keys.region {
        Region::None => vec![Region::OfZones(ZoneForm::Aws)],
        Region::OfZones(ZoneForm::Aws) => vec![Region::None, Region::OfZones(ZoneForm::Gce)],
        Region::OfZones(ZoneForm::Gce) => vec![Region::None, Region::OfZones(ZoneForm::Aws)],
        Region::Key(key) => vec![Region::None, Region::Key(longer(key))],
    };
    for region in others {
        put("region", Topology { region, ..keys });
    }
    all.one("no topology", |driver| driver.topology = None);
}

fn classes(all: &mut Mutants, rules: ClassRules) {
    let put = |driver: &mut Driver, rules: ClassRules| driver.class = Some(rules);
    all.each(
        "parameters",
        rules.parameters,
        parameter,
        |driver, parameters| {
            put(
                driver,
                ClassRules {
                    parameters,
                    ..rules
                },
            );
        },
    );
    all.each(
        "parameter's key",
        rules.parameters,
        |(key, rule)| Some((longer(key), rule)),
        |driver, parameters| {
            put(
                driver,
                ClassRules {
                    parameters,
                    ..rules
                },
            );
        },
    );
    all.each(
        "added",
        rules.added,
        |(key, value)| Some((key, longer(value))),
        |driver, added| {
            put(driver, ClassRules { added, ..rules });
        },
    );
    let mut one =
        |what: &str, rules: ClassRules| all.one(what, |driver| driver.class = Some(rules));
    one(
        "others",
        ClassRules {
            keep_others: !rules.keep_others,
            ..rules
        },
    );
    let zone = rules.zone.map_or(Some("x"), |_| None);
    one("zone of classes", ClassRules { zone, ..rules });
    if let Some(zone) = rules.zone {
        let zone = Some(longer(zone));
        one("other zone of classes", ClassRules { zone, ..rules });
        one(
            "numbers",
            ClassRules {
                numbers_are_no_zones: !rules.numbers_are_no_zones,
                ..rules
            },
        );
    }
    let provisioner = rules.provisioner.map_or(Some("x"), |_| None);
    one(
        "provisioner",
        ClassRules {
            provisioner,
            ..rules
        },
    );
    all.one("no class", |driver| driver.class = None);
}

/// Whether random objects give other results than with the right tables.
fn told_by_objects(translator: &Translator<'_>, driver: &Driver) -> bool {
    OPERATIONS.into_iter().any(|op| {
        let mut draw = Draw(7);
        (0..OBJECTS).any(|_| {
            let request = request(driver, op, &mut draw);
            answer(translator, &request).ok() != answer(&TRANSLATOR, &request).ok()
        })
    })
}

#[test]
fn every_wrong_entry_of_a_table_is_noticed() {
    let cases = rows::cases();
    let (mut by_rows, mut by_objects, mut lived) = (0, 0, Vec::new());
    for (at, driver) in DRIVERS.iter().enumerate() {
        for (what, mutant) in mutants(*driver) {
            let mut drivers = DRIVERS;
            drivers[at] = mutant;
            let translator = Translator::of(&drivers);
            if cases
                .iter()
                .any(|case| rows::fault(&translator, case).is_some())
            {
                by_rows += 1;
            } else if told_by_objects(&translator, driver) {
                by_objects += 1;
                println!("by random objects alone: {what}");
            } else {
                lived.push(what);
            }
        }
    }
    println!("{by_rows} wrong entries are noticed by rows, {by_objects} more by random objects");
    assert_eq!(lived, WITHOUT_EFFECT, "not noticed");
    assert!(by_rows > 200, "only {by_rows}");
}
