use sidecar::lifecycle::End;

use super::*;

const DONE: Progress = Progress::Done {
    at: None,
    end: End::Own,
};

fn open(since: Since, moves: bool) -> Progress {
    Progress::Open { since, moves }
}

fn growing() -> ClaimSeen<'static> {
    ClaimSeen {
        uid: "u1",
        bound: true,
        grows: true,
        ..ClaimSeen::default()
    }
}

/// What is said of `expanded_storage`, `expanded_node` and `modified`.
fn said(claim: &ClaimSeen<'_>, look: Look) -> Vec<Progress> {
    let steps = of_claim(claim, look);
    assert!(steps.iter().all(|step| step.object == Id::of("u1")));
    steps.iter().map(|step| step.progress).collect()
}

#[test]
fn o_89_the_storage_is_larger_at_once_and_the_node_when_a_pod_comes() {
    let gone = Progress::Dropped;
    let quiet = ClaimSeen {
        grows: false,
        ..growing()
    };
    let asked = ClaimSeen {
        resize: Some(ResizeStatus::ControllerInProgress),
        resizing: 7,
        ..growing()
    };
    let pending = ClaimSeen {
        resize: Some(ResizeStatus::NodePending),
        ..growing()
    };
    let marked = ClaimSeen {
        node_left: true,
        ..growing()
    };
    let node = ClaimSeen {
        resize: Some(ResizeStatus::NodeInProgress),
        ..growing()
    };
    let (seen, dated) = (Since::Seen, Since::At(7));
    let rows = [
        (
            "larger",
            growing(),
            [open(seen, true), open(seen, false), gone],
        ),
        (
            "asked",
            asked,
            [open(dated, true), open(dated, false), gone],
        ),
        ("the node is left", pending, [DONE, open(seen, false), gone]),
        ("by its condition", marked, [DONE, open(seen, false), gone]),
        ("the node expands it", node, [DONE, open(seen, true), gone]),
        ("as large as asked", quiet, [DONE, DONE, gone]),
    ];
    for (row, claim, expected) in rows {
        assert_eq!(said(&claim, Look::Again), expected, "{row}");
        assert_eq!(said(&claim, Look::Gone), [gone; 3], "{row}");
        let first = said(&claim, Look::First);
        match claim.grows {
            true => assert_eq!(first, expected, "{row}"),
            false => assert_eq!(first, [], "{row}"),
        }
    }
}

#[test]
fn o_89_another_class_is_waited_for_until_the_claim_has_it() {
    let of = |class, current_class, modifying| ClaimSeen {
        grows: false,
        class,
        current_class,
        modifying,
        ..growing()
    };
    for (claim, expected) in [
        (of("b", "a", 0), open(Since::Seen, true)),
        (of("b", "a", 9), open(Since::At(9), true)),
        (of("b", "", 0), open(Since::Seen, true)),
        (of("b", "b", 0), DONE),
        (of("", "a", 9), Progress::Dropped),
    ] {
        assert_eq!(said(&claim, Look::Again)[2], expected, "{claim:?}");
    }
    let unbound = ClaimSeen {
        bound: false,
        ..of("b", "a", 0)
    };
    assert_eq!(said(&unbound, Look::First), []);
    assert_eq!(
        stages(true, false).len() + stages(false, true).len(),
        stages(true, true).len()
    );
    assert_eq!(stages(false, false), []);
}
