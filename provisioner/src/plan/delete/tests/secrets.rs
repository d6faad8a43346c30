//! The Secret of a deletion.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn secrets_come_from_the_volume_or_its_class() {
    let annotated = |name: Option<&str>, namespace: Option<&str>| VolumeDetail {
        deletion_secret_name: name.map(Into::into),
        deletion_secret_namespace: namespace.map(Into::into),
        ..released()
    };
    let legacy = || annotated(None, None);
    const NAME: &str = "csi.storage.k8s.io/provisioner-secret-name";
    const NAMESPACE: &str = "csi.storage.k8s.io/provisioner-secret-namespace";
    let fixed = class(&[(NAME, "s"), (NAMESPACE, "ns")]);
    let templated = class(&[
        (NAME, "${pv.name}-${pvc.name}"),
        (NAMESPACE, "${pvc.namespace}"),
    ]);
    let annotation = class(&[(NAME, "${pvc.annotations['a']}"), (NAMESPACE, "ns")]);
    let half = class(&[(NAME, "s")]);
    let load = |namespace, name| Ok(Seen::Secret(secret(namespace, name)));
    let none = || Ok(call(&[]));
    let rows = [
        ("220", annotated(Some(""), Some("")), Some(&fixed), none()),
        (
            "221",
            annotated(Some("x"), Some("y")),
            Some(&fixed),
            load("y", "x"),
        ),
        (
            "221 class gone",
            annotated(Some("x"), Some("y")),
            None,
            load("y", "x"),
        ),
        (
            "12.4 half empty",
            annotated(Some("x"), Some("")),
            Some(&fixed),
            none(),
        ),
        (
            "223",
            annotated(Some("x"), None),
            Some(&fixed),
            load("ns", "s"),
        ),
        (
            "223 reverse",
            annotated(None, Some("y")),
            Some(&fixed),
            load("ns", "s"),
        ),
        ("224", legacy(), Some(&fixed), load("ns", "s")),
        (
            "224 template",
            legacy(),
            Some(&templated),
            load("ns1", "pv1-c1"),
        ),
        ("225", legacy(), None, none()),
        (
            "225 no claim",
            VolumeDetail {
                claim: None,
                ..legacy()
            },
            Some(&fixed),
            none(),
        ),
        (
            "no secret in the class",
            legacy(),
            Some(&class(&[])),
            none(),
        ),
        ("226", legacy(), Some(&annotation), Err(())),
        ("227", legacy(), Some(&half), Err(())),
    ];
    for (row, volume, class, expected) in rows {
        let known = Known {
            class: class.cloned(),
            ..known(volume.keep())
        };
        let step = begins(&provisioner(None), &known);
        match expected {
            Ok(expected) => assert_eq!(step, expected, "row {row}"),
            Err(()) => assert!(
                matches!(step, Seen::Fail(Failure::Secret(_))),
                "row {row}: {step:?}"
            ),
        }
    }
}

/// Classes of the plugin that a driver replaced are translated, whatever their topologies are.
#[test]
fn m_86_and_87_secrets_of_classes_of_in_tree_plugins() {
    const PORTWORX: &str = "pxd.portworx.com";
    const EBS: &str = "ebs.csi.aws.com";
    const NAME: &str = "openstorage.io/auth-secret-name";
    const NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
    let of = |provisioner: &str, parameters: &[(&str, &str)]| Class {
        provisioner: provisioner.into(),
        allowed_topologies: Arc::from([Arc::from([])]),
        ..class(parameters)
    };
    let secured = [(NAME, "s"), (NAMESPACE, "${pvc.namespace}")];
    let load = || Seen::Secret(secret("ns1", "s"));
    let rows = [
        (
            "M-86",
            PORTWORX,
            of("kubernetes.io/portworx-volume", &secured),
            load(),
        ),
        (
            "M-86 native",
            PORTWORX,
            of(PORTWORX, &secured),
            migrated_call(),
        ),
        (
            "M-86 another's",
            EBS,
            of("kubernetes.io/portworx-volume", &secured),
            migrated_call(),
        ),
        (
            "M-87",
            EBS,
            of("kubernetes.io/aws-ebs", &[("zone", "a")]),
            migrated_call(),
        ),
    ];
    for (row, name, class, expected) in rows {
        let volume = VolumeDetail {
            deletion_secret_name: None,
            deletion_secret_namespace: None,
            ..in_tree(name, owner(None, Some(name), None))
        }
        .keep();
        let known = Known {
            driver: Driver {
                name: name.into(),
                ..driver()
            },
            class: Some(class),
            ..known(volume)
        };
        assert_eq!(begins(&provisioner(None), &known), expected, "{row}");
    }
}

#[test]
fn rows_221_222_the_secret_s_values_are_sent_or_nothing() {
    let volume = VolumeDetail {
        deletion_secret_name: Some("x".into()),
        deletion_secret_namespace: Some("y".into()),
        ..released()
    }
    .keep();
    let values = Secrets::from([("k".to_owned(), "v".to_owned())]);
    let unread = |error| Err(SecretError::Unread(error));
    let rows = [
        ("221", Ok(values), call(&[("k", "v")])),
        ("222", unread(refused(true)), call(&[])),
        ("222 forbidden", unread(refused(false)), call(&[])),
    ];
    for (row, values, expected) in rows {
        let mut attempt = attempt(&volume);
        let step = decide(&volume, &mut attempt);
        assert_eq!(step, Seen::Secret(secret("y", "x")), "row {row}");
        attempt.answered(Reply::Secret(secret("y", "x"), values));
        assert_eq!(attempt.over, None, "row {row}");
        assert_eq!(decide(&volume, &mut attempt), expected, "row {row}");
    }
    let mut attempt = attempt(&volume);
    let not_text = Err(SecretError::NotText);
    attempt.answered(Reply::Secret(secret("y", "x"), not_text));
    let failure = Failure::SecretNotText(secret("y", "x"));
    assert_eq!(attempt.over, Some(End::Failed(failure)));
}

#[test]
fn row_221_another_secret_is_read_if_the_volume_names_another_one_by_then() {
    let named = |name: &str| {
        VolumeDetail {
            deletion_secret_name: Some(name.into()),
            deletion_secret_namespace: Some("y".into()),
            ..released()
        }
        .keep()
    };
    let asks = |name: &str| Seen::Secret(secret("y", name));
    let mut attempt = attempt(&named("x"));
    assert_eq!(decide(&named("x"), &mut attempt), asks("x"));
    let values = Secrets::from([("k".to_owned(), "v".to_owned())]);
    attempt.answered(Reply::Secret(secret("y", "x"), Ok(values)));
    assert_eq!(decide(&named("z"), &mut attempt), asks("z"));
    assert_eq!(decide(&named("x"), &mut attempt), call(&[("k", "v")]));
}
