//! Row 229: sources that are deleted before their copy is made.

use super::*;

/// The failure, and the change that causes it.
type Case = (&'static str, fn(&mut World));

/// Upstream never lets such a clone finish, and the source keeps its finalizer.
#[test]
fn row_229_a_source_that_is_deleted_while_the_call_is_in_doubt() {
    for (row, base) in [("clone", clone as fn(&mut World)), ("restore", snapshot)] {
        for restart in [false, true] {
            let mut world = World::new(|w| {
                base(w);
                w.creates.insert(0, Err(rpc(Code::DeadlineExceeded)));
            });
            let creates = |trace: &[String]| -> Vec<String> {
                let create = trace.iter().filter(|line| line.starts_with("create"));
                create.cloned().collect()
            };
            let first = creates(&world.run());
            if let Some(source) = world.claims.first_mut() {
                source.deleting = true;
            }
            if let Some(source) = world.snapshots.first_mut() {
                source.deleting = true;
            }
            if restart {
                world.restart();
            }
            let trace = world.run();
            assert_eq!(
                creates(&trace),
                first,
                "{row}, restart {restart}: {trace:#?}"
            );
            assert_eq!(
                trace.last().unwrap(),
                "done Provisioned",
                "{row}, restart {restart}"
            );
        }
    }
}

/// The source waits for its clone: if the clone were refused, each would wait for the other for ever.
#[test]
fn row_229_a_source_that_is_deleted_between_two_attempts() {
    let failures: [Case; 2] = [
        ("the journal is full", |w| w.unwritable = true),
        ("the driver refuses", |w| {
            w.creates.insert(0, Err(rpc(Code::InvalidArgument)));
        }),
    ];
    for (row, fails) in failures {
        for restart in [false, true] {
            let mut world = World::new(|w| {
                clone(w);
                fails(w);
            });
            let first = world.run();
            assert!(
                first.last().unwrap().starts_with("fail"),
                "{row}: {first:#?}"
            );
            world.unwritable = false;
            delete_source(&mut world, 1);
            if restart {
                world.restart();
            }
            let trace = world.run();
            assert_eq!(
                trace.last().unwrap(),
                "done Provisioned",
                "{row}: {trace:#?}"
            );
        }
    }
}
