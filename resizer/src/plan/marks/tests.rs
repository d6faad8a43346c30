use serde_json::json;

use super::*;
use crate::plan::Kind;
use crate::testing::{about, claim};

/// The marks after this patch of the claim, which ended with `refusal`.
fn after(mut marks: Marks, what: ClaimWrite, refusal: Option<Refusal>) -> Marks {
    let about = about(&claim());
    let patch = json!({ "status": { "allocatedResourceStatuses": {} } });
    let message = String::new();
    let error = refusal.map(|refusal| ApiError { message, refusal });
    let reply = Reply::Write(about.patch(what, patch), error.map_or(Ok(()), Err));
    let task = Task::new(Kind::Expand, &about.claim);
    marks.learn(&task, &Log::default(), &reply);
    marks
}

#[test]
fn whoever_refuses_the_mark_the_driver_was_not_asked_for_it() {
    use ClaimWrite::{MarkModifying, MarkResizing};
    let rows = [
        (None, true),
        (Some(Refusal::Forbidden), true),
        (Some(Refusal::AlreadyExists), true),
        (Some(Refusal::Unknown), true),
        (Some(Refusal::Other), true),
        (Some(Refusal::Conflict), false),
        (Some(Refusal::NotFound), false),
    ];
    for (refusal, settled) in rows {
        for what in [MarkResizing, MarkModifying] {
            let marks = after(Marks::default(), what, refusal);
            assert_eq!(marks.settled, settled, "{what:?} {refusal:?}");
        }
    }
}

#[test]
fn fs_9_what_may_still_be_on_its_way_after_a_patch() {
    use ClaimWrite::{
        CancelModify, FinishModify, FinishResize, MarkModifying, MarkPendingClass,
        MarkPendingOnNode, MarkResizing, RecordModifyError, RecordResizeError, TakeOver,
    };
    // Whether the claim is taken over after the patch was applied: if it was not before, and if it
    // was.
    let rows = [
        (MarkResizing, [true, true]),
        (MarkModifying, [true, true]),
        (TakeOver, [true, true]),
        (RecordResizeError, [false, true]),
        (RecordModifyError, [false, true]),
        (MarkPendingClass, [false, true]),
        (MarkPendingOnNode, [false, false]),
        (FinishResize, [false, false]),
        (FinishModify, [false, false]),
        (CancelModify, [false, false]),
    ];
    for (what, expected) in rows {
        for (taken_over, expected) in [false, true].into_iter().zip(expected) {
            let before = || Marks {
                taken_over,
                ..Marks::default()
            };
            let marks = after(before(), what, None);
            assert_eq!(marks.taken_over, expected, "{what:?}");
            let marks = after(before(), what, Some(Refusal::Unknown));
            assert!(!marks.taken_over, "{what:?}: it may be on its way");
            let marks = after(before(), what, Some(Refusal::Other));
            assert_eq!(marks.taken_over, taken_over, "{what:?}: it is not");
        }
    }
}
