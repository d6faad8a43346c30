//! Which changes of objects start an attempt.
//!
//! This determines how often the attacher calls the driver: its own writes must not requeue the
//! object, or it would retry every failure at once.

use super::Driver;
use crate::model::Attachment;

/// Whether the change from `before` to `after` starts an attempt. Changes of recorded errors do
/// not: the attacher writes them itself, and the back-off schedules the retry.
#[must_use]
pub fn is_work(before: Option<&Attachment>, after: &Attachment, driver: &Driver) -> bool {
    if *after.attacher != *driver.name {
        return false;
    }
    let Some(before) = before else {
        return true;
    };
    let seen = |attachment: &Attachment| Attachment {
        version: 0,
        attach_error: None,
        detach_error: None,
        ..attachment.clone()
    };
    seen(before) != seen(after)
}

/// Whether the `failures`-th failure in a row deserves an event on the volume: no transient
/// failure, and then so seldom that an endless failure neither floods the API server nor lets the
/// event expire.
#[must_use]
pub fn is_worth_warning(failures: u32) -> bool {
    failures == 3 || (failures > 0 && failures.is_multiple_of(6))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{attached, driver, list, va};

    #[test]
    fn own_error_patches_are_no_work_and_everything_else_is() {
        let failed = || Attachment {
            attach_error: Some(Arc::default()),
            ..va()
        };
        let detach_failed = Attachment {
            detach_error: Some(Arc::default()),
            ..attached()
        };
        let deleting = Attachment {
            deleting: true,
            ..failed()
        };
        let renewed = Attachment {
            uid: "uid-2".into(),
            ..va()
        };
        let rows = [
            ("79", Some(va()), failed(), false),
            ("79 cleared", Some(failed()), va(), false),
            ("79 detach", Some(attached()), detach_failed, false),
            (
                "unchanged but for the resource version",
                Some(va()),
                va(),
                false,
            ),
            (
                "45",
                Some(attached()),
                Attachment {
                    attached: false,
                    ..attached()
                },
                true,
            ),
            ("deleted while failing", Some(failed()), deleting, true),
            ("same name, other object", Some(va()), renewed, true),
            (
                "finalizer taken",
                Some(attached()),
                Attachment {
                    finalizers: list(&[]),
                    ..attached()
                },
                true,
            ),
            ("new", None, va(), true),
        ];
        for (row, before, after, expected) in rows {
            assert_eq!(
                is_work(before.as_ref(), &after, &driver()),
                expected,
                "{row}"
            );
        }
    }

    #[test]
    fn warnings_are_for_lasting_failures() {
        let warned: Vec<u32> = (0..25).filter(|n| is_worth_warning(*n)).collect();
        assert_eq!(warned, [3, 6, 12, 18, 24]);
    }
}
