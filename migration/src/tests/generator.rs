//! Random requests over the values of volumes and classes, with the traps of each plugin.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::notation::key;
use crate::Driver;
use crate::model::drivers::{AZURE_DISK, AZURE_FILE, CINDER, EBS, GCE_PD, PORTWORX, VSPHERE};

/// The operations of each driver.
pub(super) const OPERATIONS: [&str; 5] = ["pv-to-csi", "csi-to-pv", "class", "inline", "repair"];

pub(super) fn request(driver: &Driver, op: &str, draw: &mut Draw) -> Value {
    match op {
        "pv-to-csi" => json!({"op": op, "pv": in_tree(driver, draw)}),
        "csi-to-pv" => json!({"op": op, "pv": of_csi(driver, draw)}),
        "class" => super::classes::request(driver, draw),
        "inline" => {
            let mut volume = json!({"name": draw.pick(&["v", "data-0", "v#1"])});
            volume[driver.source] = source(driver, draw);
            json!({"op": op, "volume": volume, "namespace": draw.pick(&["", "ns1", "kube-system"])})
        }
        _ => json!({
            "op": op,
            "driver": driver.name,
            "handle": located(draw, "disks"),
            "node": located(draw, "instances"),
        }),
    }
}

/// Zones of a driver's cloud: those of one region, those of others, and invalid ones.
pub(super) fn zones(driver: &Driver) -> [&'static [&'static str]; 3] {
    match driver.name {
        name if name == EBS.name => [
            &["us-east-1a", "us-east-1b", "us-east-1c"],
            &[
                "us-east-1a",
                "us-west-2a",
                "us-gov-east-1a",
                "us-west-2-lax-1a",
                "us-east-1-wl1-bos-wlz-1",
            ],
            &[
                "us-east-1a",
                "us-east-1",
                "us-west",
                "zone1",
                "",
                "us-west-é",
                "us-gov-west-é",
                "US-EAST-1A",
                " us-east-1a ",
                "us-east-1ab",
                "a-b-c-d-e-f",
                "é-1-1a",
                "us-east-é1",
            ],
        ],
        name if name == GCE_PD.name => [
            &["us-east1-a", "us-east1-b", "us-east1-c"],
            &["us-east1-a", "us-west2-b", "europe-west1-d"],
            &[
                "us-east1-a",
                "us-east1",
                "",
                "ä-ö-ü",
                "US-EAST1-A",
                "a-b-c-d",
                "us-east1-",
                "--",
            ],
        ],
        name if name == CINDER.name => [
            &["nova"],
            &["nova", "az 2", "az-1", "a.b"],
            &["nova", "", "né", " x ", "us-east-1a"],
        ],
        name if name == AZURE_DISK.name => [
            &["westus2-1", "westus2-2"],
            &["0", "1", "westus2-1"],
            &["", "12a", "é", "١"],
        ],
        _ => [
            &["z1", "z2"],
            &["zone a", "z1", "us-east-1a"],
            &["", "é", " z1 ", "_"],
        ],
    }
}

/// The pool of zones for one object: mostly of one region, or nearly nothing would be translated.
pub(super) fn pool(driver: &Driver, draw: &mut Draw) -> &'static [&'static str] {
    let [home, abroad, odd] = zones(driver);
    match draw.below(10) {
        0..7 => home,
        7 => abroad,
        _ => odd,
    }
}

fn labels(draw: &mut Draw, pool: &[&str]) -> Value {
    let mut labels = Map::new();
    for short in ["Z", "z", "R", "r"] {
        if draw.chance(60) {
            continue;
        }
        let (a, b) = (draw.pick(pool), draw.pick(pool));
        let value = match draw.below(10) {
            0 => String::new(),
            1 => format!("{a}__"),
            2 => format!("{a}___{b}"),
            3 => format!(" {a} __\t{b}"),
            4..6 => format!("{a}__{b}"),
            _ => a.to_owned(),
        };
        labels.insert(key(short).to_owned(), value.into());
    }
    if draw.chance(20) {
        labels.insert("app".into(), "x".into());
    }
    labels.into()
}

fn affinity(driver: &Driver, draw: &mut Draw, pool: &[&str]) -> Value {
    match draw.below(12) {
        0 => json!({}),
        1 => json!({"required": {"nodeSelectorTerms": []}}),
        2..5 => Value::Null,
        _ => {
            let terms: Vec<Value> = (0..=draw.below(3))
                .map(|_| term(driver, draw, pool))
                .collect();
            json!({"required": {"nodeSelectorTerms": terms}})
        }
    }
}

fn term(driver: &Driver, draw: &mut Draw, pool: &[&str]) -> Value {
    let mut term = json!({});
    let own = match &driver.topology {
        Some(keys) => keys.zone,
        None => key("D"),
    };
    let count = draw.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
    let all: Vec<Value> = (0..count).map(|_| expression(draw, own, pool)).collect();
    if !all.is_empty() {
        term["matchExpressions"] = all.into();
    }
    if draw.chance(5) {
        term["matchFields"] = json!([{"key": key("Z"), "operator": "In", "values": ["z9"]}]);
    }
    term
}

fn expression(draw: &mut Draw, own: &str, pool: &[&str]) -> Value {
    let short = match draw.below(20) {
        0..10 => own,
        10..12 => "Z",
        12 => "z",
        13..15 => "R",
        15 => "r",
        16 => "VR",
        17 => "G",
        18 => "E",
        _ => "kubernetes.io/os",
    };
    let operator = draw.pick(&[
        "In",
        "In",
        "In",
        "In",
        "In",
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "Gt",
    ]);
    let count = match operator {
        "Exists" | "DoesNotExist" => 0,
        _ => draw.pick(&[0, 1, 1, 1, 1, 2, 3]),
    };
    let values: Vec<&str> = (0..count).map(|_| draw.pick(pool)).collect();
    json!({"key": key(short), "operator": operator, "values": values})
}

/// A PersistentVolume without a source.
fn volume(driver: &Driver, draw: &mut Draw) -> Value {
    let pool = pool(driver, draw);
    let mut metadata =
        json!({"name": draw.pick(&["p", "pvc-1", "a#b"]), "labels": labels(draw, pool)});
    let mut annotations = Map::new();
    for (key, values) in [
        ("kubernetes.io/azure-file-resource-group", ["rg", ""]),
        ("openstorage.io/auth-secret-name", ["s", ""]),
        ("openstorage.io/auth-secret-namespace", ["n", ""]),
        (
            "pv.kubernetes.io/provisioned-by",
            [driver.plugin, driver.name],
        ),
    ] {
        if draw.chance(45) {
            let value = if draw.chance(85) {
                values[0]
            } else {
                values[1]
            };
            annotations.insert(key.to_owned(), value.into());
        }
    }
    metadata["annotations"] = annotations.into();
    let mut spec = json!({
        "nodeAffinity": affinity(driver, draw, pool),
        "capacity": {"storage": "1Gi"},
        "storageClassName": "sc",
    });
    match draw.below(3) {
        0 => spec["claimRef"] = json!({"name": "c"}),
        1 => spec["claimRef"] = json!({"name": "c", "namespace": "cns", "uid": "u"}),
        _ => {}
    }
    if draw.chance(80) {
        let mut modes = vec![
            "ReadWriteOnce",
            "ReadOnlyMany",
            "ReadWriteMany",
            "ReadWriteOncePod",
            "Odd",
        ];
        let count = draw.below(4);
        let modes: Vec<&str> = (0..count)
            .map(|_| modes.remove(draw.below(modes.len())))
            .collect();
        spec["accessModes"] = modes.into();
    }
    if draw.chance(30) {
        spec["volumeMode"] = draw.pick(&["Block", "Filesystem"]).into();
    }
    if draw.chance(20) {
        spec["mountOptions"] = json!(["uid=0", "ro"]);
    }
    json!({"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})
}

fn in_tree(driver: &Driver, draw: &mut Draw) -> Value {
    let mut volume = volume(driver, draw);
    volume["spec"][driver.source] = source(driver, draw);
    volume
}

/// Sets a field in this percentage of cases.
fn set(object: &mut Value, draw: &mut Draw, percent: usize, field: &str, values: &[Value]) {
    if draw.chance(percent) {
        object[field] = values[draw.below(values.len())].clone();
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "what all plugins can say, side by side"
)]
fn source(driver: &Driver, draw: &mut Draw) -> Value {
    let mut source = json!({});
    set(
        &mut source,
        draw,
        70,
        "fsType",
        &[json!("ext4"), json!("xfs"), json!("")],
    );
    set(
        &mut source,
        draw,
        50,
        "readOnly",
        &[json!(true), json!(false)],
    );
    let numbers = [json!(0), json!(1), json!(255), json!(-1), json!(i32::MAX)];
    match driver.name {
        name if name == EBS.name => {
            source["volumeID"] = aws_id(draw).into();
            set(&mut source, draw, 60, "partition", &numbers);
        }
        name if name == GCE_PD.name => {
            source["pdName"] = draw.pick(&["d", "disk-1", "a/b", "", "é"]).into();
            set(&mut source, draw, 60, "partition", &numbers);
        }
        name if name == CINDER.name => {
            source["volumeID"] = draw.pick(&["u", "", "a/b", "é"]).into();
            set(&mut source, draw, 30, "secretRef", &[json!({"name": "s"})]);
        }
        name if name == AZURE_DISK.name => {
            source["diskURI"] = azure_uri(draw).into();
            source["diskName"] = "n".into();
            let modes = [
                json!("None"),
                json!("ReadOnly"),
                json!("ReadWrite"),
                json!(""),
                json!("odd"),
            ];
            set(&mut source, draw, 60, "cachingMode", &modes);
            let kinds = [
                "Managed",
                "managed",
                "MANAGED",
                "mAnAgEd",
                "Managed",
                "Shared",
                "Dedicated",
                "",
            ];
            set(&mut source, draw, 70, "kind", &kinds.map(Value::from));
        }
        name if name == AZURE_FILE.name => {
            source["secretName"] = secret(draw).into();
            source["shareName"] = draw.pick(&["sh", "sh#1", "a/b", "", "é"]).into();
            let namespaces = [json!("ns1"), json!("kube-system"), json!(""), Value::Null];
            set(&mut source, draw, 70, "secretNamespace", &namespaces);
            source.as_object_mut().unwrap().remove("fsType");
        }
        name if name == VSPHERE.name => {
            let paths = ["[ds] kubevols/a.vmdk", "[d s] ä.vmdk", "a#b", "\"q\"", ""];
            source["volumePath"] = draw.pick(&paths).into();
            set(
                &mut source,
                draw,
                40,
                "storagePolicyName",
                &[json!("gold"), json!("")],
            );
            set(&mut source, draw, 40, "storagePolicyID", &[json!("id")]);
            source.as_object_mut().unwrap().remove("readOnly");
        }
        _ => source["volumeID"] = draw.pick(&["v", "", "1234", "é#"]).into(),
    }
    source
}

fn aws_id(draw: &mut Draw) -> String {
    let whole = [
        "vol-02399794d890f9375",
        "vol-1",
        "x",
        "anything/at all",
        "",
        "aws://",
        "AWS://z/vol-1",
        "aws:/vol-1",
        "aws://vol-1",
        "aws://z/x",
        "aws://[::1]:80/vol-1",
        "aws://[fe80::1%25en0]/vol-1",
        "aws://[v1.a]/vol-1",
        "aws://[::ffff:1.2.3.4]/vol-1",
        "aws://u:p@z:80/vol-1?q#f",
        "aws://a:b:1/vol-1",
        "aws:///vol%2D1",
        "aws:///vol-1%2F",
        "aws:///vol-%C3",
        "aws:///vol-%c3%a9",
        "aws://u@v@z/vol-1",
    ];
    let formed = [
        "aws://us-east-1a/vol-1",
        "aws:///vol-1",
        "aws:////vol-1//",
        "aws://u@us-east-1a:1/vol-1",
    ];
    let id = match draw.below(10) {
        0..3 => draw.pick(&whole),
        _ => draw.pick(&formed),
    };
    if draw.chance(50) {
        return id.to_owned();
    }
    let ascii = u8::try_from(draw.below(128)).unwrap();
    let change = match draw.below(8) {
        0..3 => char::from(ascii).to_string(),
        3 => format!("%{ascii:02X}"),
        4 => format!("%{:02x}", ascii | 0x80),
        5 => draw
            .pick(&["/", "?", "#", "@", ":", "[", "]", "%", "%z", "//", "-"])
            .to_owned(),
        6 => draw
            .pick(&["é", "\u{7f}", "\u{1}", "\n", "\u{85}", "%zz", "%25"])
            .to_owned(),
        _ => draw
            .pick(&["vol-", "aws://", "%2F", "@@", "::", "[::1]", "%41"])
            .to_owned(),
    };
    draw.inserted(id, &change)
}

fn azure_uri(draw: &mut Draw) -> String {
    let mut words = [
        "/subscriptions/",
        "s",
        "/resourceGroups/",
        "g",
        "/providers/",
        "Microsoft.Compute",
        "/disks/",
        "n",
    ]
    .map(str::to_owned);
    match draw.below(12) {
        0..4 => {}
        4 | 5 => {
            let at = draw.below(words.len());
            words[at] = draw.cased(&words[at]);
        }
        6 => words[draw.below(8)].clear(),
        7 => words[7] = "n/providers/Microsoft.Compute/disks/m/o".to_owned(),
        8 => {
            let tails = [
                "",
                "/",
                "n\nx",
                "\n",
                "n/disks/m",
                "é",
                "/providers/Microsoft.Compute/disks/",
            ];
            words[7] = draw.pick(&tails).to_owned();
        }
        9 => {
            words[5] = draw
                .pick(&[
                    "MicrosoftXCompute",
                    "MicrosoftéCompute",
                    "Microsoft\nCompute",
                    "MicrosoftCompute",
                ])
                .to_owned()
        }
        _ => return azure_blob(draw),
    }
    let uri = words.concat();
    match draw.below(10) {
        0 => draw.inserted(&uri, "\n"),
        1 => draw.inserted(&uri, "/"),
        2 => format!("{uri}/subscriptions/s/resourceGroups/g"),
        3 => format!("x\n{uri}"),
        _ => uri,
    }
}

fn azure_blob(draw: &mut Draw) -> String {
    let scheme = draw.pick(&[
        "https", "http", "HTTP", "httpx", "http\n", "htt", "http", "https",
    ]);
    let middle = draw.pick(&["://", "://", "://", ":/", "//"]);
    let host = draw.pick(&["a.blob.core.windows.net", "", "a\nb", "http://a"]);
    let container = draw.pick(&["/vhds/", "/vhds/", "/vhds/", "/c/", "/VHDS/", "/vhds/vhds/"]);
    let name = draw.pick(&["k.vhd", "", "a/vhds/b", "é", "k\nl"]);
    format!("{scheme}{middle}{host}{container}{name}")
}

fn secret(draw: &mut Draw) -> String {
    let before = draw.pick(&["", "", "x-", "azure-storage-account-", "a\n"]);
    let middle = draw.pick(&["acc", "a-secret-b", "", "é", "a\nb", "acc-secret"]);
    let after = draw.pick(&[
        "-secret",
        "-secret",
        "-secret-secret",
        "-secret-c",
        "",
        "-Secret",
    ]);
    match draw.below(5) {
        0 => draw
            .pick(&["s", "", "azure-storage-account--secret"])
            .to_owned(),
        _ => format!("{before}azure-storage-account-{middle}{after}"),
    }
}

fn located(draw: &mut Draw, kind: &str) -> String {
    let place = draw.pick(&["zones", "zones", "regions", "regions", "global", "ZONES"]);
    let unknown = [
        "UNSPECIFIED",
        "UNSPECIFIED",
        "UNSPECIFIED",
        "unspecified",
        "p",
        "",
    ];
    let mut parts = vec!["projects", draw.pick(&unknown), place];
    parts.push(draw.pick(&[
        "us-east1-b",
        "zn",
        "UNSPECIFIED",
        "UNSPECIFIED",
        "",
        "a-b-c-d",
    ]));
    parts.extend([kind, draw.pick(&["d", "", "UNSPECIFIED", "é"])]);
    match draw.below(10) {
        0 => parts.truncate(draw.below(6)),
        1 => parts.extend(&["x", "y", "z"][..draw.below(4)]),
        2 => parts[draw.below(6)] = "",
        _ => {}
    }
    parts.join("/")
}

#[expect(
    clippy::too_many_lines,
    reason = "what all plugins can say, side by side"
)]
fn of_csi(driver: &Driver, draw: &mut Draw) -> Value {
    let mut csi = json!({"driver": driver.name});
    set(
        &mut csi,
        draw,
        60,
        "fsType",
        &[json!("ext4"), json!("xfs"), json!("")],
    );
    set(&mut csi, draw, 50, "readOnly", &[json!(true), json!(false)]);
    let mut attributes = Map::new();
    if draw.chance(60) {
        attributes.insert(
            "storage.kubernetes.io/csiProvisionerIdentity".into(),
            "i".into(),
        );
    }
    let handle = match driver.name {
        name if name == EBS.name => draw.pick(&["vol-1", "aws://z/vol-1", "", "é"]).to_owned(),
        name if name == GCE_PD.name => located(draw, "disks"),
        name if name == AZURE_DISK.name => azure_uri(draw),
        name if name == AZURE_FILE.name => {
            let parts = ["rg", "acc", "share", "disk", "uuid", "ns", "sub", ""];
            let mut all: Vec<&str> = parts[..=draw.below(8).min(7)].to_vec();
            if draw.chance(30) {
                let at = draw.below(all.len());
                all[at] = "";
            }
            all.join("#")
        }
        _ => draw.pick(&["h", "a/b", "", "é"]).to_owned(),
    };
    csi["volumeHandle"] = handle.into();
    let partitions = [
        "",
        "0",
        "3",
        "+007",
        "-1",
        " 1",
        "1 ",
        "1_0",
        "0x1",
        "x",
        "+",
        "-",
        "--1",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "4294967297",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "٣",
    ];
    let known: &[(&str, &[&str])] = match driver.name {
        name if name == EBS.name || name == GCE_PD.name => &[("partition", &partitions)],
        name if name == AZURE_DISK.name => &[
            ("cachingmode", &["None", "ReadOnly", "", "odd"]),
            ("fstype", &["ext4", "xfs", ""]),
            ("kind", &["Managed", "x"]),
        ],
        name if name == AZURE_FILE.name => &[
            ("sharename", &["S", "a#b", ""]),
            ("secretname", &["N", ""]),
            ("secretnamespace", &["M", ""]),
        ],
        name if name == VSPHERE.name => &[
            ("initialvolumefilepath", &["[ds] a.vmdk", "é", ""]),
            ("storagepolicyname", &["gold"]),
        ],
        _ => &[("a", &["b"])],
    };
    for (key, values) in known {
        if draw.chance(60) {
            let key = if draw.chance(70) {
                (*key).to_owned()
            } else {
                draw.cased(key)
            };
            attributes.insert(key, draw.pick(values).into());
        }
    }
    csi["volumeAttributes"] = attributes.into();
    for (field, percent) in [
        ("nodeStageSecretRef", 50),
        ("controllerExpandSecretRef", 20),
    ] {
        let names = [
            json!({"name": "B", "namespace": "Q"}),
            json!({"name": "B"}),
            json!({"namespace": "Q"}),
            json!({}),
        ];
        set(&mut csi, draw, percent, field, &names);
    }
    let mut volume = volume(driver, draw);
    volume["spec"]["csi"] = csi;
    volume
}

/// Each request has the driver's own source and name.
#[test]
fn each_driver_has_its_own_values() {
    for driver in [
        EBS, GCE_PD, CINDER, AZURE_DISK, AZURE_FILE, VSPHERE, PORTWORX,
    ] {
        let mut draw = Draw(1);
        let volume = request(&driver, "pv-to-csi", &mut draw);
        assert!(volume["pv"]["spec"][driver.source].is_object(), "{volume}");
        let volume = request(&driver, "csi-to-pv", &mut draw);
        assert_eq!(volume["pv"]["spec"]["csi"]["driver"], driver.name);
    }
}
