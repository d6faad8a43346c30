//! Each cause as a world of objects: the tables in `worlds`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong here is a failed test"
)]

#[path = "worlds/world.rs"]
mod world;

use std::collections::BTreeSet;

use kubectl_csi::model::Kind;
use kubectl_csi::plan::{CAUSES, Certainty, State};
use world::{World, rows};

/// What only the endpoint of this project's controllers can tell, and one that is two others.
const ELSEWHERE: &[&str] = &["C11", "C27", "C90"];

#[test]
fn w_20_w_70_each_cause_is_told_from_its_world() {
    let mut wrong = Vec::new();
    for (number, row) in rows().iter().enumerate() {
        let (verdict, _) = row.world().ask(&row.subject, false);
        let first = verdict.causes.first();
        let told = first.map(|first| format!("{} {}", first.id, first.certainty.word()));
        let expected = format!("{} {}", row.id, row.certainty);
        if told.as_deref() != Some(&*expected) {
            wrong.push(format!(
                "row {number}, {expected} of {}: {told:?}, {:?}, {:?}",
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
        // A file that has no object of a kind proves nothing of that kind: it says so.
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
