//! Tables of the decisions without rows of their own: actions for files, and operations of a pass.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use registrar::kubelet::plan::discover::{Action, FileKind, decide_appeared, decide_walked};
use registrar::kubelet::plan::pass::{Operation, plan_pass};
use registrar::kubelet::plan::world::{Actual, Desired, Incarnation, Plugin};

#[test]
fn what_files_mean() {
    use FileKind::{Directory, Missing, Other, Socket};
    // Name, kind of the path, kind of its target; then the answers to an event and in a walk.
    let rows = [
        ("s", Socket, Socket, Action::Desire, Action::Desire),
        ("link to s", Other, Socket, Action::Desire, Action::Desire),
        (".s", Socket, Socket, Action::Ignore, Action::Desire),
        ("d", Directory, Directory, Action::Walk, Action::Watch),
        (".d", Directory, Directory, Action::Ignore, Action::Watch),
        ("link to d", Other, Directory, Action::Watch, Action::Ignore),
        ("file", Other, Other, Action::Ignore, Action::Ignore),
        (
            "dangling link",
            Other,
            Missing,
            Action::Ignore,
            Action::Ignore,
        ),
        ("vanished", Missing, Missing, Action::Ignore, Action::Ignore),
    ];
    for (name, own, target, appeared, walked) in rows {
        assert_eq!(
            decide_appeared(OsStr::new(name), own, target),
            appeared,
            "{name}"
        );
        assert_eq!(decide_walked(own, target), walked, "{name}");
    }
}

fn plugin(incarnation: Incarnation) -> Plugin {
    let text = |text: &str| text.to_owned();
    Plugin {
        incarnation,
        kind: text("CSIPlugin"),
        name: text("d"),
        endpoint: text("/d"),
    }
}

#[test]
fn what_a_pass_starts() {
    let (mut desired, mut actual) = (Desired::default(), Actual::default());
    let socket = PathBuf::from;
    assert_eq!(plan_pass(&desired, &actual), []);

    let first = desired.add_or_update(socket("/a"));
    assert_eq!(
        plan_pass(&desired, &actual),
        [Operation::Register(socket("/a"), first)]
    );

    actual.add(socket("/a"), plugin(first));
    assert_eq!(plan_pass(&desired, &actual), [], "registered and current");

    let second = desired.add_or_update(socket("/a"));
    let again = [
        Operation::Unregister(socket("/a")),
        Operation::Register(socket("/a"), second),
    ];
    assert_eq!(plan_pass(&desired, &actual), again, "another incarnation");

    assert!(desired.remove(Path::new("/a")));
    assert!(!desired.remove(Path::new("/a")));
    assert_eq!(
        plan_pass(&desired, &actual),
        [Operation::Unregister(socket("/a"))]
    );

    let other = desired.add_or_update(socket("/b"));
    let both = [
        Operation::Unregister(socket("/a")),
        Operation::Register(socket("/b"), other),
    ];
    assert_eq!(plan_pass(&desired, &actual), both, "goodbyes first");
}
