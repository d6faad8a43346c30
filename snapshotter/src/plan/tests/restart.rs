//! Section 10.6: a process ends between two effects, and the next one takes over.

use super::{CLEARED, CREATE, TAKEN, lines};
use crate::model::{Content, Text};
use crate::testing::{Bench, status};

/// The lines of a new process for the content as the earlier one left it.
fn left_with(change: impl FnOnce(&mut Content)) -> (Bench, Vec<String>) {
    let mut bench = Bench::new();
    bench.content(change);
    bench.restart();
    let trace = bench.run();
    (bench, trace)
}

#[test]
fn s_107_to_111_after_a_crash() {
    let marked = |content: &mut Content| content.being_created = true;
    let (_, trace) = left_with(marked);
    // The mark is renewed first: no patch of the earlier process can remove it any more.
    let expected = ["bc+ again", CREATE, TAKEN, "bc-"];
    assert_eq!(trace, lines(&expected), "S-107, S-108");
    let (_, trace) = left_with(|content| {
        marked(content);
        content.marked_again = true;
    });
    assert_eq!(trace, lines(&["bc+", CREATE, TAKEN, "bc-"]), "S-107, twice");
    let (_, trace) = left_with(|content| {
        marked(content);
        content.status = Some(status(true));
    });
    assert_eq!(trace, lines(&["bc-"]), "S-109");
    let going = |content: &mut Content| {
        (content.deleting, content.being_deleted) = (true, true);
    };
    let (bench, trace) = left_with(|content| {
        going(content);
        content.status = Some(status(true));
    });
    assert_eq!(trace, lines(&["Delete snap-1 {}", CLEARED, "F-"]), "S-110");
    assert!(bench.server.contents.is_empty(), "S-110");
    let (bench, trace) = left_with(|content| {
        going(content);
        content.status = Some(Default::default());
    });
    assert_eq!(trace, lines(&["F-"]), "S-111");
    assert!(bench.server.contents.is_empty(), "S-111");
}

#[test]
fn w_16_a_pending_deletion_starts_at_once() {
    let (bench, trace) = left_with(|content| {
        (content.deleting, content.being_deleted) = (true, true);
        content.being_created = true;
        content.status = Some(status(true));
    });
    assert_eq!(trace, lines(&["bc-", "Delete snap-1 {}", CLEARED, "F-"]));
    assert!(
        !bench
            .server
            .contents
            .contains_key(&Text::from("snapcontent-U1"))
    );
}
