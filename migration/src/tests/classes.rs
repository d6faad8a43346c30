//! Random classes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::generator::pool;
use super::notation::key;
use crate::Driver;

/// Every parameter that some plugin knows, and some that none does; each with the key that it collides with.
const KEYS: &[(&str, &str)] = &[
    ("fstype", "fstype"),
    ("csi.storage.k8s.io/fstype", "fstype"),
    ("zone", "zone"),
    ("zones", "zone"),
    ("iopspergb", "iops"),
    ("İopspergb", "iops"),
    ("allowautoiopspergbincrease", "iops"),
    ("type", "type"),
    ("availability", "availability"),
    ("kind", "kind"),
    ("cachingmode", "cachingmode"),
    ("storageaccounttype", "storageaccounttype"),
    ("skuname", "skuname"),
    ("datastore", "datastore"),
    ("diskformat", "diskformat"),
    ("dis\u{212a}format", "diskformat"),
    ("hostfailurestotolerate", "hostfailurestotolerate"),
    ("forceprovisioning", "forceprovisioning"),
    ("cachereservation", "cachereservation"),
    ("diskstripes", "diskstripes"),
    ("objectspacereservation", "objectspacereservation"),
    ("iopslimit", "iopslimit"),
    ("storagepolicyname", "storagepolicyname"),
    ("datastore-migrationparam", "datastore"),
    ("csimigration", "csimigration"),
    ("openstorage.io/auth-secret-name", "name"),
    ("openstorage.io/auth-secret-namespace", "namespace"),
    ("csi.storage.k8s.io/provisioner-secret-name", "name"),
    (
        "csi.storage.k8s.io/node-stage-secret-namespace",
        "namespace",
    ),
    ("repl", "repl"),
    ("fs", "fs"),
    ("fſtype", "long s"),
    ("example.com/x", "x"),
];

/// Number of calls of the oracle where its answers are random.
const TIMES: usize = 40;

pub(super) fn request(driver: &Driver, draw: &mut Draw) -> Value {
    let pool = pool(driver, draw);
    let colliding = draw.chance(5);
    let (mut parameters, mut said) = (Map::new(), BTreeSet::new());
    for _ in 0..draw.below(7) {
        let (known, group) = draw.pick(KEYS);
        if !said.insert(group) && !colliding {
            continue;
        }
        let key = if draw.chance(60) {
            known.to_owned()
        } else {
            recased(draw, known)
        };
        parameters.insert(key, value(draw, known, pool).into());
    }
    let mut class =
        json!({"metadata": {"name": "sc"}, "provisioner": driver.plugin, "parameters": parameters});
    let zoned = said.contains("zone");
    match draw.below(if zoned { 20 } else { 4 }) {
        0 => class["allowedTopologies"] = json!([{}]),
        1 => class["allowedTopologies"] = terms(driver, draw, pool, 1),
        2 => class["allowedTopologies"] = terms(driver, draw, pool, 2),
        _ => {}
    }
    if draw.chance(30) {
        class["reclaimPolicy"] = "Delete".into();
        class["mountOptions"] = json!(["ro"]);
    }
    let mut request = json!({"op": "class", "plugin": driver.plugin, "class": class});
    if colliding {
        request["times"] = TIMES.into();
    }
    request
}

/// Another spelling of an ASCII key; other keys stay as they are.
fn recased(draw: &mut Draw, known: &str) -> String {
    if known.is_ascii() {
        draw.cased(known)
    } else {
        known.to_owned()
    }
}

fn value(draw: &mut Draw, known: &str, pool: &[&str]) -> String {
    let (a, b) = (draw.pick(pool), draw.pick(pool));
    match known {
        "zone" => draw.pick(&[a, b, "a,b", "", "12", "12\n"]).to_owned(),
        "zones" => match draw.below(8) {
            0 => format!("{a}, {b}"),
            1 => format!("{a},,{b},{a}"),
            2 => draw.pick(&["", ",", " , ", "0,1", "\t"]).to_owned(),
            3 => a.to_owned(),
            _ => format!("{a},{b}"),
        },
        _ => draw
            .pick(&["x", "ext4", "10", "", "${pvc.namespace}"])
            .to_owned(),
    }
}

fn terms(driver: &Driver, draw: &mut Draw, pool: &[&str], count: usize) -> Value {
    let own = driver.class.and_then(|rules| rules.zone).unwrap_or("x");
    let term = |draw: &mut Draw| {
        let all: Vec<Value> = (0..draw.below(4))
            .map(|_| {
                let short = draw.pick(&[own, "Z", "Z", "z", "R", "r", "VR", "other"]);
                let values: Vec<&str> = (0..draw.below(4))
                    .map(|_| {
                        if draw.chance(80) {
                            draw.pick(pool)
                        } else {
                            draw.pick(&["0", "12", "", "٣"])
                        }
                    })
                    .collect();
                json!({"key": key(short), "values": values})
            })
            .collect();
        json!({"matchLabelExpressions": all})
    };
    (0..count).map(|_| term(draw)).collect()
}
