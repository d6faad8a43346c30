//! Each cause, shown by a world of objects: the tables are in `worlds`.

use std::collections::BTreeSet;

use crate::world::{World, never, rows};
use kubectl_csi::model::Kind;
use kubectl_csi::plan::{CAUSES, Certainty, State};

/// Causes that only the endpoint of this project's controllers shows, and one that is two others combined.
const ELSEWHERE: &[&str] = &["C11", "C27", "C90"];

#[test]
fn w_20_w_70_each_cause_is_told_from_its_world() {
    let mut wrong = Vec::new();
    for (number, row) in rows().iter().enumerate() {
        let (verdict, _) = row.world().ask(&row.subject, false);
        let first = verdict.causes.first();
        let told = first.map(|first| format!("{} {}", first.id, first.certainty.word()));
        let expected = format!("{} {}", row.id, row.certainty);
        let words: Vec<_> = { first.iter() }
            .flat_map(|first| {
                let remedies = first.remedies.iter();
                let texts = remedies.flat_map(|one| [Some(&*one.text), one.command.as_deref()]);
                texts.flatten().chain([&*first.text])
            })
            .collect();
        let words = words.join(" ");
        let worded = row.says.iter().all(|text| words.contains(&**text))
            && !row.hides.iter().any(|text| words.contains(&**text));
        if told.as_deref() != Some(&*expected) || !worded {
            wrong.push(format!(
                "row {number}, {expected} of {}: {told:?} {words:?}, {:?}, {:?}",
                row.subject,
                verdict.state,
                verdict
                    .path
                    .iter()
                    .map(|one| format!("{} {}", one.object, one.says))
                    .collect::<Vec<_>>()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn w_20_w_70_a_cause_is_not_told_from_what_only_looks_like_it() {
    for (number, row) in never().iter().enumerate() {
        let (verdict, _) = row.world().ask(&row.subject, true);
        let told = { verdict.causes.iter() }.find(|cause| {
            cause.id == row.id
                && (row.certainty == "any" || cause.certainty.word() == row.certainty)
        });
        assert!(told.is_none(), "row {number}, {}: {told:?}", row.id);
    }
}

#[test]
fn w_20_w_70_every_cause_has_a_world() {
    let told: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    let known: BTreeSet<String> = CAUSES.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(told, known);
    for number in 1..=95 {
        let id = format!("C{number}");
        assert!(known.contains(&id) != ELSEWHERE.contains(&&*id), "{id}");
    }
}

#[test]
fn w_22_a_world_that_is_healed_is_fine() {
    let subjects: BTreeSet<String> = rows().into_iter().map(|row| row.subject).collect();
    for subject in subjects {
        let world = World::healthy();
        let (verdict, _) = world.ask(&subject, true);
        if !verdict.absent {
            assert_eq!(
                verdict.state,
                State::Fine,
                "{subject}: {:?}",
                verdict.causes
            );
        }
    }
}

#[test]
fn w_30_a_file_of_the_same_objects_tells_the_same() {
    let (mut same, mut all) = (0, 0);
    for row in rows() {
        let world = row.world();
        let (verdict, _) = world.ask(&row.subject, false);
        let offline = world.ask_file(&verdict.subject);
        let id =
            |verdict: &kubectl_csi::plan::Verdict| verdict.causes.first().map(|first| first.id);
        all += 1;
        same += usize::from(id(&offline) == id(&verdict));
        // A file without objects of a kind proves nothing about that kind, and the answer says so.
        let honest = !offline.unseen.is_empty() || offline.absent;
        assert!(
            id(&offline) == id(&verdict) || honest,
            "{} of {}: {:?}",
            row.id,
            row.subject,
            id(&offline)
        );
        let proved = offline
            .causes
            .first()
            .filter(|one| one.certainty == Certainty::Proved);
        assert!(
            proved.is_none_or(|one| one.id == row.id || id(&verdict) == Some(one.id)),
            "{} of {}: {:?}",
            row.id,
            row.subject,
            id(&offline)
        );
    }
    assert!(same * 10 >= all * 9, "{same} of {all}");
}

#[test]
fn w_24_an_answer_takes_few_requests() {
    let mut most = 0;
    for row in rows() {
        let (_, requests) = row.world().ask(&row.subject, false);
        assert!(requests <= 20, "{} of {}: {requests}", row.id, row.subject);
        most = most.max(requests);
    }
    println!("at most {most} requests");
}

#[test]
fn w_25_without_a_permission_nothing_false_is_proved() {
    for row in rows() {
        let world = row.world();
        let (whole, _) = world.ask(&row.subject, true);
        let true_ones: BTreeSet<&str> = whole.causes.iter().map(|cause| cause.id).collect();
        for kind in Kind::all() {
            let mut less = world.clone();
            less.forbidden.insert(kind);
            let (verdict, _) = less.ask(&row.subject, false);
            if let Some(first) = verdict
                .causes
                .first()
                .filter(|first| first.certainty == Certainty::Proved)
            {
                assert!(
                    true_ones.contains(first.id),
                    "{} of {} without {}: {} is proved",
                    row.id,
                    row.subject,
                    kind.plural(),
                    first.id
                );
            }
            if verdict.causes.is_empty() && !verdict.absent {
                let named = verdict
                    .unseen
                    .iter()
                    .any(|(what, _)| what.contains(kind.plural()) || what.contains(kind.noun()));
                assert!(
                    named || verdict.state != State::Unknown,
                    "{} without {}: {:?}",
                    row.id,
                    kind.plural(),
                    verdict.unseen
                );
            }
        }
    }
}

#[test]
fn w_42_what_may_lose_something_says_so() {
    let risky = [
        "finalizers",
        "out-of-service",
        "fsck",
        "claimRef",
        "drain",
        "delete pvc",
        "allow-volume-mode-change",
        "scale",
    ];
    for row in rows() {
        let (verdict, _) = row.world().ask(&row.subject, true);
        for remedy in verdict.causes.iter().flat_map(|cause| &cause.remedies) {
            let text = format!(
                "{} {}",
                remedy.text,
                remedy.command.clone().unwrap_or_default()
            );
            let said = remedy.risk.is_some();
            assert!(
                said || remedy.command.is_none() || !risky.iter().any(|word| text.contains(word)),
                "{}: {text}",
                row.id
            );
        }
    }
}

/// The remedies of a world's cause, as text.
fn remedies(subject: &str, edits: &[&str]) -> Vec<(Option<String>, Option<String>)> {
    let mut world = World::healthy();
    edits.iter().for_each(|edit| world.edit(edit));
    let (verdict, _) = world.ask(subject, false);
    let first = verdict.causes.first().unwrap();
    { first.remedies.iter() }
        .map(|one| (one.command.clone(), one.risk.clone()))
        .collect()
}

#[test]
fn w_42_one_finalizer_is_removed_and_no_other() {
    let edits = |name: &str| {
        format!(
            r#"pvc shop/data-db-0 metadata.finalizers = ["kubernetes.io/pvc-protection","{name}"]"#
        )
    };
    let own = edits("database.example.com/protect");
    let world = ["@gone", "- pod shop/db-0", &own];
    let commands: Vec<_> = remedies("pvc/shop/data-db-0", &world)
        .into_iter()
        .filter_map(|(command, _)| command)
        .collect();
    assert_eq!(
        commands,
        [
            r#"kubectl -n shop patch persistentvolumeclaims data-db-0 --type=json -p '[{"op":"test","path":"/metadata/finalizers/1","value":"database.example.com/protect"},{"op":"remove","path":"/metadata/finalizers/1"}]'"#
        ]
    );
    let strange = edits("a'b");
    let world = ["@gone", "- pod shop/db-0", &strange];
    let mut commands = remedies("pvc/shop/data-db-0", &world).into_iter();
    assert!(commands.all(|(command, _)| command.is_none()));
    // Whether a pod uses the claim is unknown.
    let mut world = World::healthy();
    world.edit("@gone");
    world.edit(&own);
    world.forbidden.insert(Kind::Pod);
    let (verdict, _) = world.ask("pvc/shop/data-db-0", false);
    let first = verdict.causes.first().unwrap();
    assert!(first.text.contains("could not be seen"), "{}", first.text);
    assert!(first.remedies.iter().all(|one| one.command.is_none()));
    for row in rows() {
        let (verdict, _) = row.world().ask(&row.subject, true);
        for remedy in verdict.causes.iter().flat_map(|cause| &cause.remedies) {
            let command = remedy.command.clone().unwrap_or_default();
            assert!(!command.contains("null"), "{}: {command}", row.id);
        }
    }
}

/// A claim in another namespace may be in provisioning from the snapshot.
#[test]
fn w_42_no_command_takes_a_snapshot_from_a_claim_that_may_not_be_seen() {
    let mut world = World::healthy();
    world.edit(r#"vs shop/snap metadata.deletionTimestamp = "2026-11-27T14:20:00Z""#);
    world.edit(
        r#"vs shop/snap metadata.finalizers = ["provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"]"#,
    );
    for kind in [Kind::Claim, Kind::Lease] {
        let mut less = world.clone();
        less.forbidden.insert(kind);
        let (verdict, _) = less.ask("vs/shop/snap", true);
        let own = { verdict.causes.iter() }.find(|one| one.id == "C69");
        let own = own.unwrap_or_else(|| panic!("{kind:?}: {:?}", verdict.causes));
        assert_eq!(own.certainty, Certainty::Guessed, "{kind:?}");
        assert!(
            own.remedies.iter().all(|one| one.command.is_none()),
            "{own:?}"
        );
    }
}

#[test]
fn w_42_a_pod_whose_end_deletes_data_is_not_deleted_without_a_word() {
    let unscheduled = [
        "@unscheduled",
        "@gone",
        r#"pod shop/db-0 status.conditions.0.message = "persistentvolumeclaim \"data-db-0\" is being deleted""#,
    ];
    let ended = ["@gone", r#"pod shop/db-0 status.phase = "Succeeded""#];
    for (subject, edits) in [
        ("pod/shop/db-0", &unscheduled[..]),
        ("pvc/shop/data-db-0", &ended[..]),
    ] {
        let told = remedies(subject, edits);
        let keep = { told.iter() }
            .position(|(command, _)| command.as_ref().is_some_and(|text| text.contains("Retain")));
        let delete = { told.iter() }.position(|(command, _)| {
            { command.as_ref() }.is_some_and(|text| text.contains("delete pod"))
        });
        assert!(keep.is_some() && keep < delete, "{told:?}");
        let risk = told[delete.unwrap()].1.clone().unwrap();
        assert!(risk.contains("its data"), "{risk}");
        let mut kept = edits.to_vec();
        kept.push(r#"pv pvc-1 spec.persistentVolumeReclaimPolicy = "Retain""#);
        let told = remedies(subject, &kept);
        let data = |text: &Option<String>| text.as_ref().is_some_and(|one| one.contains("data"));
        assert!(!told.iter().any(|(_, risk)| data(risk)), "{told:?}");
    }
}

#[test]
fn w_29_many_that_are_stuck_for_one_cause_are_one_line() {
    let mut world = World::healthy();
    for number in 0..300 {
        world.edit(&format!(
            r#"+ {{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"a{number}","namespace":"shop","creationTimestamp":"2026-11-27T10:00:00Z"}},"spec":{{"storageClassName":"missing"}},"status":{{"phase":"Pending"}}}}"#
        ));
    }
    for number in 0..2 {
        world.edit(&format!(
            r#"+ {{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"b{number}","namespace":"shop","creationTimestamp":"2026-11-27T10:00:00Z"}},"spec":{{"storageClassName":"fast"}},"status":{{"phase":"Pending"}}}}"#
        ));
    }
    let (overview, requests) = world.survey(None);
    let counted: Vec<_> = { overview.found.iter() }
        .map(|found| (found.id, found.subjects.len(), found.waits))
        .collect();
    assert_eq!(counted, [(Some("C5"), 300, false), (Some("C1"), 2, true)]);
    assert_eq!(overview.code(), 3);
    assert!(requests <= 20, "{requests}");
    let text = kubectl_csi::show::overview(
        &overview,
        "",
        kubectl_csi::show::Format::Human,
        Default::default(),
    );
    assert!(
        text.contains("300 claims: the StorageClass does not exist"),
        "{text}"
    );
}

/// Twice as many objects take twice the work, whatever the cause. The test counts the objects that decisions iterate
/// over: with a constant `a` and `b` per object, the second doubling adds twice as much as the first.
#[test]
fn w_29_the_work_grows_with_the_objects_and_no_faster() {
    let mut wrong = Vec::new();
    let mut causes = BTreeSet::new();
    for (number, row) in rows().iter().enumerate() {
        let world = row.world();
        let visited = [6, 12, 24].map(|copies| {
            let (overview, seen) = world.times(copies).surveyed(None);
            causes.extend(overview.found.iter().filter_map(|found| found.id));
            seen.visited()
        });
        let [first, second, third] = visited;
        if (third - second) * 10 > (second - first) * 22 {
            wrong.push(format!("row {number}, {}: {visited:?}", row.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(causes.len() > 60, "{causes:?}");
}

#[test]
fn w_29_nothing_found_is_not_all_well_where_lists_are_missing() {
    use kubectl_csi::show::{Format, overview};
    let mut world = World::healthy();
    let (whole, _) = world.survey(None);
    assert_eq!((whole.state(), whole.code()), (State::Fine, 0));
    world.forbidden.insert(Kind::Attachment);
    let (partial, _) = world.survey(None);
    assert_eq!((partial.state(), partial.code()), (State::Unknown, 1));
    let text = overview(&partial, "here", Format::Human, Default::default());
    assert!(
        text.starts_with("Nothing stuck was found here, but not everything could be looked at\n"),
        "{text}"
    );
    let json = overview(&partial, "", Format::Json, Default::default());
    assert!(json.contains(r#""state": "unknown""#), "{json}");
}

#[test]
fn w_39_a_name_is_no_option_and_a_strange_lease_no_panic() {
    let mut world = World::healthy();
    world.edit("@gone");
    world.edit("- pod shop/db-0");
    world.edit(
        r#"+ {"apiVersion":"v1","kind":"Pod","metadata":{"name":"--all","namespace":"shop"},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-db-0"}}]},"status":{"phase":"Running"}}"#,
    );
    let (verdict, _) = world.ask("pvc/shop/data-db-0", true);
    assert!(verdict.causes.is_empty(), "{:?}", verdict.causes);
    let mut world = World::healthy();
    world.edit("@selected");
    world.edit("lease storage/csi-example-com spec.leaseDurationSeconds = 9223372036854775807");
    world.ask("pvc/shop/data-db-0", true);
}
