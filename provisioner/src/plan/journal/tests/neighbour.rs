//! Journals of other nodes.

use super::super::neighbour::{looks_at_empty, pause};
use super::super::object::RESTORED;
use super::*;

fn of_node(node: &str) -> Journal {
    Journal::new(Owner {
        node: node.into(),
        ..owner(node)
    })
}

#[test]
fn j_14_calls_in_the_journal_of_another_node_are_seen() {
    let mut server = Server::default();
    let mut journal = of_node("n1");
    run(&mut journal, &mut server, false).unwrap();
    let name = "d-journal-n1-0";
    let seen = |server: &Server, driver: &str, node: &str| {
        let found = server.found(name).unwrap();
        Neighbour::of(&found, driver, node)
    };
    let empty = seen(&server, "d", "n2").unwrap();
    assert_eq!((&*empty.node, empty.volumes), ("n1", Vec::new()));
    server.edit(name, |all| {
        drop(all.insert(format!("{RESTORED}u0"), "{}".into()))
    });
    intend(&mut journal, "u");
    run(&mut journal, &mut server, false).unwrap();
    server.edit(name, |all| {
        drop(all.insert(format!("{INTENT}broken"), "{".into()))
    });
    let expected = Neighbour {
        node: "n1".into(),
        volumes: vec![
            format!("{INTENT}broken").into(),
            "pvc-u".into(),
            format!("{RESTORED}u0").into(),
        ],
    };
    assert_eq!(seen(&server, "d", "n2"), Some(expected));
    assert_eq!(seen(&server, "d", "n1"), None, "our own");
    assert_eq!(seen(&server, "e", "n2"), None, "another driver's");
    let mut server = Server::default();
    let mut central = open(&mut server, "one");
    intend(&mut central, "u");
    run(&mut central, &mut server, false).unwrap();
    let found = server.found("d-journal-0").unwrap();
    assert_eq!(Neighbour::of(&found, "d", "n2"), None, "no node\'s");
    assert_eq!(Neighbour::of(&Found::default(), "d", "n2"), None);
}

#[test]
fn j_14_thousands_of_nodes_look_seldom() {
    let seconds = |leases, first, random| pause(leases, first, random).as_secs();
    assert_eq!(seconds(3, true, 1.0), 6);
    assert_eq!(seconds(3, false, 0.5), 600);
    assert_eq!(seconds(5_000, true, 0.5), 5_000);
    assert_eq!(seconds(5_000, false, 0.5), 100_000);
    assert!(seconds(usize::MAX, false, 1.0) > 0);
}

#[test]
fn p_8_thousands_of_empty_journals_are_looked_at_a_few_at_a_time() {
    assert!(looks_at_empty(0, 0.9) && looks_at_empty(20, 0.99));
    let looked = (0..5_000).filter(|one| looks_at_empty(5_000, f64::from(*one) / 5_000.0));
    assert_eq!(looked.count(), 20);
}
