//! Acceptance rows 79 to 96 as far as references go.

use proptest::prelude::*;
use sidecar::names::is_subdomain;

use super::*;

const P: &str = "csi.storage.k8s.io/provisioner-secret-";
const D: &str = "csi.storage.k8s.io/secret-";

fn find(purpose: Purpose, parameters: &[(String, &str)]) -> Result<Option<String>, Error> {
    let parameters: Pairs = { parameters.iter() }
        .map(|(key, value)| (key.as_str(), *value))
        .collect();
    let annotations = [("akey", "avalue"), ("bad", "Not Valid")]
        .into_iter()
        .collect();
    let tokens = Tokens {
        volume: "pvc-U",
        namespace: "ns1",
        name: "c1",
        annotations: Some(&annotations),
    };
    let found = reference(&parameters, purpose, &tokens)?;
    Ok(found.map(|found| format!("{}/{}", found.namespace, found.name)))
}

fn key(prefix: &str, part: &str) -> String {
    format!("{prefix}{part}")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn rows_79_to_95_references() {
    let former = |part: &str| match part {
        "name" => "csiProvisionerSecretName".to_owned(),
        _ => "csiProvisionerSecretNamespace".to_owned(),
    };
    let p = |part| key(P, part);
    let d = |part| key(D, part);
    let both = |name, namespace| vec![(p("name"), name), (p("namespace"), namespace)];
    let ok = |text: &str| Ok(Some(text.to_owned()));
    let rows = [
        ("79", both("sec", "ns2"), ok("ns2/sec")),
        ("80", vec![], Ok(None)),
        (
            "81",
            vec![(d("name"), "def"), (d("namespace"), "ns2")],
            ok("ns2/def"),
        ),
        (
            "82",
            vec![(d("name"), "${pvc.name}"), (d("namespace"), "ns2")],
            ok("ns2/c1"),
        ),
        (
            "83",
            vec![
                (p("name"), "own"),
                (p("namespace"), "ns3"),
                (d("name"), "def"),
                (d("namespace"), "ns2"),
            ],
            ok("ns3/own"),
        ),
        ("84 name", vec![(p("name"), "sec")], Err("but not")),
        ("84 namespace", vec![(p("namespace"), "ns")], Err("but not")),
        (
            "84 former name",
            vec![(former("name"), "sec")],
            Err("but not"),
        ),
        (
            "84 former namespace",
            vec![(former("namespace"), "ns")],
            Err("but not"),
        ),
        ("84 default", vec![(d("name"), "sec")], Err("but not")),
        (
            "half a pair is not completed by the default",
            vec![
                (p("name"), "own"),
                (d("name"), "def"),
                (d("namespace"), "ns2"),
            ],
            Err("but not"),
        ),
        ("85", both("", ""), Err("is empty")),
        ("85 name", both("", "ns"), Err("is empty")),
        (
            "85 default",
            vec![(d("name"), ""), (d("namespace"), "")],
            Err("is empty"),
        ),
        (
            "86",
            vec![
                (p("name"), "a"),
                (former("name"), "a"),
                (p("namespace"), "ns"),
            ],
            Err("both"),
        ),
        (
            "86 namespace",
            vec![
                (p("name"), "a"),
                (former("namespace"), "ns"),
                (p("namespace"), "ns"),
            ],
            Err("both"),
        ),
        (
            "87",
            vec![(former("name"), "sec"), (p("namespace"), "ns2")],
            ok("ns2/sec"),
        ),
        (
            "90",
            both("${pvc.annotations['akey']}", "ns2"),
            ok("ns2/avalue"),
        ),
        (
            "91",
            both("${pvc.annotations['none']}", "ns2"),
            Err("pvc.annotations['none']"),
        ),
        ("92", both("sec", "${pvc.name}"), Err("pvc.name")),
        (
            "92 annotation",
            both("sec", "${pvc.annotations['akey']}"),
            Err("pvc.annotations"),
        ),
        ("namespace", both("sec", "${pvc.namespace}"), ok("ns1/sec")),
        (
            "namespace of the volume",
            both("sec", "a-${pv.name}"),
            Err("a-pvc-U"),
        ),
        ("94", both("bad name", "ns"), Err("is not a valid name")),
        (
            "94 namespace",
            both("sec", "bad ns"),
            Err("is not a valid name"),
        ),
        ("94 dots", both("sec", "a.b"), Err("is not a valid name")),
        (
            "94 templated",
            both("${pvc.annotations['bad']}", "ns"),
            Err("resolves to"),
        ),
        ("94 subdomain", both("a.b-c.d", "ns"), ok("ns/a.b-c.d")),
        ("95", both("x$y", "ns"), Err("\"y\"")),
        ("95 dollar", both("x$$", "ns"), Err("\"$\"")),
        ("95 unterminated", both("x${", "ns"), ok("ns/x")),
    ];
    for (row, parameters, expected) in rows {
        match (find(Purpose::Provisioner, &parameters), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{row}"),
            (Err(error), Err(part)) => {
                let text = error.to_string();
                assert!(text.contains(part), "{row}: {text}");
            }
            (found, expected) => panic!("{row}: {found:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn row_93_all_tokens_of_a_name() {
    let parameters: Pairs = [
        (
            "csi.storage.k8s.io/node-stage-secret-name",
            "a-${pv.name}-${pvc.namespace}-${pvc.name}",
        ),
        ("csi.storage.k8s.io/node-stage-secret-namespace", "ns"),
    ]
    .into_iter()
    .collect();
    let tokens = Tokens {
        volume: "pvc-u",
        namespace: "ns1",
        name: "c1",
        annotations: None,
    };
    let found = reference(&parameters, Purpose::NodeStage, &tokens)
        .unwrap()
        .unwrap();
    assert_eq!(&*found.name, "a-pvc-u-ns1-c1");
}

#[test]
fn row_226_annotations_are_unknown_when_a_volume_is_deleted() {
    let parameters: Pairs = [
        (
            "csi.storage.k8s.io/provisioner-secret-name",
            "${pvc.annotations['a']}",
        ),
        ("csi.storage.k8s.io/provisioner-secret-namespace", "ns"),
    ]
    .into_iter()
    .collect();
    let tokens = Tokens {
        volume: "v",
        namespace: "ns1",
        name: "c1",
        annotations: None,
    };
    let error = reference(&parameters, Purpose::Provisioner, &tokens).unwrap_err();
    assert!(
        error.to_string().contains("pvc.annotations['a']"),
        "{error}"
    );
}

#[test]
fn every_purpose_has_its_own_keys_and_the_default() {
    let defaults = [(key(D, "name"), "def"), (key(D, "namespace"), "ns")];
    for purpose in Purpose::ALL {
        assert_eq!(
            find(purpose, &defaults).unwrap().as_deref(),
            Some("ns/def"),
            "row 81"
        );
        let (name, namespace) = purpose.keys();
        let own = [
            (name.now.to_owned(), "own"),
            (namespace.now.to_owned(), "ns"),
        ];
        assert_eq!(
            find(purpose, &own).unwrap().as_deref(),
            Some("ns/own"),
            "row 83"
        );
        assert!(is_key(name.now) && is_key(namespace.now));
        if let (Some(name), Some(namespace)) = (name.former, namespace.former) {
            let former = [(name.to_owned(), "old"), (namespace.to_owned(), "ns")];
            assert_eq!(
                find(purpose, &former).unwrap().as_deref(),
                Some("ns/old"),
                "row 74"
            );
            assert!(
                !is_key(name) && !is_key(namespace),
                "row 74: the driver gets them"
            );
        }
    }
    assert!(is_key(&key(D, "name")) && is_key(&key(D, "namespace")));
    assert!(!is_key("csi.storage.k8s.io/fstype") && !is_key("csi.storage.k8s.io/bim"));
}

proptest! {
    /// Whatever an annotation says, what comes out is a valid reference or an error.
    #[test]
    fn hostile_annotations_give_no_invalid_reference(value in ".{0,80}") {
        let annotations = [("a", value.as_str())].into_iter().collect();
        let parameters: Pairs = [
            ("csi.storage.k8s.io/secret-name", "${pvc.annotations['a']}"),
            ("csi.storage.k8s.io/secret-namespace", "ns"),
        ]
        .into_iter()
        .collect();
        let tokens = Tokens { volume: "v", namespace: "n", name: "c", annotations: Some(&annotations) };
        if let Ok(found) = reference(&parameters, Purpose::NodeStage, &tokens) {
            let found = found.unwrap();
            prop_assert_eq!(&*found.name, value.as_str());
            prop_assert!(is_subdomain(&found.name) && &*found.namespace == "ns");
        }
    }
}
