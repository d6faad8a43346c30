use super::*;
use crate::flags::standard::{CSI_ADDRESS, FEATURE_GATES, HTTP_ENDPOINT, KUBE_API};
use crate::flags::standard::{LEADER_ELECTION, MASTER};
use crate::flags::{Dialect, Flag, Kind, Spec, parse, retired};
use crate::gates::Stage;

static OWN: &[Flag] = &[
    Flag::new("timeout", Kind::Duration, "15s", ""),
    Flag::new("resize-timeout", Kind::Duration, "0", ""),
    Flag::new("worker-threads", Kind::Uint, "10", ""),
];

static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[
        OWN,
        CSI_ADDRESS,
        FEATURE_GATES,
        HTTP_ENDPOINT,
        KUBE_API,
        LEADER_ELECTION,
        MASTER,
    ],
    retired: &retired::NONE,
};

static GATES: &[Gate] = &[
    Gate::new("New", false, Stage::Alpha),
    Gate::new("Known", true, Stage::Beta),
    Gate::new("Old", true, Stage::Ga),
];

fn summary(arguments: &[&str]) -> Arc<FlagSummary> {
    let line = std::iter::once("csi-test").chain(arguments.iter().copied());
    let values = parse(&SPEC, line.map(str::to_owned)).unwrap();
    Arc::new(FlagSummary::new(&values, GATES))
}

#[test]
fn o_70_what_the_command_line_says() {
    let plain = summary(&[]);
    assert_eq!(plain.workers, "10");
    assert_eq!(plain.timeouts, "resize-timeout=0s timeout=15s");
    assert_eq!(plain.endpoints, "csi-address=/run/csi/socket");
    assert_eq!((&*plain.given, &*plain.gates), ("", ""));
    for (arguments, rate) in [
        (&[][..], "no limit"),
        (&["--kube-api-qps=-1"], "no limit"),
        (&["--kube-api-qps=20"], "20 burst 10"),
        (&["--kube-api-burst=7"], "5 burst 7"),
    ] {
        assert_eq!(summary(arguments).rate, rate, "{arguments:?}");
    }
    for (gates, changed) in [
        ("New=false,Known=true", ""),
        ("New=true", "New=true"),
        (
            "AllAlpha=true,AllBeta=false,Elsewhere=true",
            "New=true Known=false",
        ),
        ("AllAlpha=true,New=false,Old=false", "Old=false"),
    ] {
        let told = summary(&[&format!("--feature-gates={gates}")]);
        assert_eq!(told.gates, changed, "{gates}");
    }
}

#[test]
fn o_72_no_user_and_no_password() {
    for (given, shown) in [
        (
            "--master=https://me:secret@host:6443/a@b",
            "master=https://***@host:6443/a@b",
        ),
        ("--master=https://host", "master=https://host"),
        (
            "--csi-address=unix:///run/a@b/socket",
            "csi-address=unix:///run/a@b/socket",
        ),
        (
            "--leader-election-labels=a:b,c:d",
            "leader-election-labels=a:b,c:d",
        ),
    ] {
        assert_eq!(summary(&[given]).given, shown);
    }
}

/// No driver and no command line can make the line longer.
#[test]
fn o_70_the_line_has_at_most_2_kib() {
    let long = "\"\\\n\u{1f4be}a".repeat(500);
    let flags = FlagSummary {
        workers: u64::MAX.to_string(),
        ..(*summary(&[
            &format!("--csi-address={long}"),
            "--kube-api-qps=1.7976931348623157e308",
            "--kube-api-burst=4294967295",
            "--leader-election",
            &format!("--leader-election-namespace={long}"),
        ]))
        .clone()
    };
    let known = Known {
        name: long.clone(),
        version: long.clone(),
        capabilities: vec![long.clone()],
    };
    let begun = Beginning {
        kinds: vec!["persistentvolumeclaims"; 100],
        journal: Some(long),
    };
    let line = line(
        &Arc::new(flags),
        LeaseOwner::Resizer,
        Some(&known),
        &begun,
        Some(usize::MAX),
    );
    let quoted = |text: &str| format!("{text:?}").len();
    let own = [&line.lease, &line.watches].map(|text| quoted(text));
    let optional = [
        &line.driver,
        &line.version,
        &line.capabilities,
        &line.journal,
    ];
    let optional = optional.map(|text| quoted(text.as_deref().unwrap_or_default()));
    let FlagSummary {
        workers,
        timeouts,
        rate,
        gates,
        given,
        endpoints,
        election: _,
    } = &*line.flags;
    let of_flags = [workers, timeouts, rate, gates, given, endpoints].map(|text| quoted(text));
    let texts: usize = { own.iter().chain(&optional) }.chain(&of_flags).sum();
    // Field names, the message, and the JSON around them.
    let around = 380;
    assert!(texts + around <= 2048, "{texts}");
}

#[test]
fn o_71_said_again_where_it_differs() {
    let lines = ReadyLines::default();
    let flags = summary(&["--leader-election", "--leader-election-namespace=ns"]);
    let begun = Beginning::default();
    let of = |version: &str, optional| {
        let known = Known {
            name: "a.driver".to_owned(),
            version: version.to_owned(),
            capabilities: vec!["CREATE_DELETE_VOLUME".to_owned()],
        };
        line(&flags, LeaseOwner::Resizer, Some(&known), &begun, optional)
    };
    assert_eq!(of("1", None).lease, "ns/external-resizer-a-driver");
    assert!(lines.say(None, of("1", None)));
    assert!(!lines.say(None, of("1", None)));
    assert!(lines.say(None, of("2", None)));
    assert!(lines.say(None, of("2", Some(3))));
    assert!(
        lines.say(Some("resizer"), of("2", Some(3))),
        "of another one"
    );
    let without = line(
        &summary(&[]),
        LeaseOwner::SnapshotController,
        None,
        &begun,
        None,
    );
    assert_eq!(without.lease, "no leader election");
}
