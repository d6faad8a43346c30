//! Rows 151 to 175, N-1 to N-3 and the properties that hold for every cluster.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::super::term::term;
use super::*;
use crate::model::Pairs;

/// A node of the cluster: name, labels, and the driver's entry in its CSINode; `-` without one.
#[derive(Clone, Debug)]
struct Node {
    name: &'static str,
    labels: Option<&'static str>,
    driver: Option<&'static str>,
}

fn node(name: &'static str, labels: &'static str, keys: &'static str) -> Node {
    Node {
        name,
        labels: Some(labels),
        driver: Some(keys),
    }
}

fn pairs(labels: &str) -> Pairs {
    let term = term(labels);
    let labels = term.iter().flat_map(|(key, value)| [key, value]);
    Pairs::new(labels.cloned().collect())
}

fn keys(keys: &str) -> List {
    keys.split(' ')
        .filter(|key| !key.is_empty())
        .map(Text::from)
        .collect()
}

fn add(topology: &mut TopologyIndex, node: &Node) {
    let name = Text::from(node.name);
    topology.set_labels(&name, node.labels.map(pairs));
    let driver = match node.driver {
        None => Entry::NoCsiNode,
        Some("-") => Entry::NotInstalled,
        Some(registered) => Entry::Keys(keys(registered)),
    };
    topology.set_driver(&name, driver);
}

fn topology(nodes: &[Node]) -> TopologyIndex {
    let mut topology = TopologyIndex::default();
    for node in nodes {
        add(&mut topology, node);
    }
    topology
}

/// The specification's cluster.
fn three() -> Vec<Node> {
    vec![
        node("n0", "zone=1 rack=A arch=arm", "zone rack"),
        node("n1", "zone=2 rack=B arch=arm", "zone rack"),
        node("n2", "zone=3 rack=C arch=arm", "zone rack"),
    ]
}

/// The classes `a=1,2 b=3; c=4`: terms by `;`, expressions by space, values by comma.
fn allowed(text: &str) -> Vec<SelectorTerm> {
    let expression = |text: &str| {
        let (key, values) = text.split_once('=').unwrap();
        (Text::from(key), values.split(',').map(Text::from).collect())
    };
    let topology = |text: &str| {
        let expressions = text.split(' ').filter(|text| !text.is_empty());
        expressions.map(expression).collect()
    };
    if text.is_empty() {
        return Vec::new();
    }
    text.split(';').map(topology).collect()
}

fn show<'a>(terms: impl IntoIterator<Item = &'a Term>) -> Vec<String> {
    let label = |(key, value): (&Text, &Text)| format!("{key}={value}");
    let term = |term: &Term| term.iter().map(label).collect::<Vec<_>>().join(" ");
    terms.into_iter().map(term).collect()
}

/// A row: input and result.
struct Row {
    row: String,
    claim: &'static str,
    node: &'static str,
    allowed: &'static str,
    strict: bool,
    immediate: bool,
    nodes: Vec<Node>,
    /// Requisite, and the index of the preferred term.
    expected: Result<Option<(Vec<&'static str>, usize)>, &'static str>,
}

impl Row {
    fn new(row: impl ToString, claim: &'static str) -> Self {
        Self {
            row: row.to_string(),
            claim,
            node: "",
            allowed: "",
            strict: false,
            immediate: true,
            nodes: three(),
            expected: Ok(None),
        }
    }

    fn node(self, node: &'static str) -> Self {
        Self { node, ..self }
    }

    fn allowed(self, allowed: &'static str) -> Self {
        Self { allowed, ..self }
    }

    fn strict(self) -> Self {
        Self {
            strict: true,
            ..self
        }
    }

    fn not_immediate(self) -> Self {
        Self {
            immediate: false,
            ..self
        }
    }

    fn nodes(self, nodes: &[Node]) -> Self {
        let nodes = nodes.to_vec();
        Self { nodes, ..self }
    }

    fn gives(mut self, requisite: &[&'static str], first: usize) -> Self {
        self.expected = Ok(Some((requisite.to_vec(), first)));
        self
    }

    fn fails(mut self, with: &'static str) -> Self {
        self.expected = Err(with);
        self
    }

    fn check(&self) {
        let row = &self.row;
        let topology = topology(&self.nodes);
        let node = Text::from(self.node);
        let input = Input {
            claim: self.claim,
            node: Some(&node),
            allowed: &allowed(self.allowed),
            strict: self.strict,
            immediate: self.immediate,
            topology: &topology,
        };
        match (requirement(&input), &self.expected) {
            (Ok(None), Ok(None)) => {}
            (Ok(Some(requirement)), Ok(Some((requisite, first)))) => {
                assert_eq!(show(requirement.requisite()), *requisite, "row {row}");
                let mut preferred = requisite.clone();
                preferred.rotate_left(*first);
                assert_eq!(show(requirement.preferred()), preferred, "row {row}");
            }
            (Err(error), Err(with)) => {
                assert!(error.to_string().contains(with), "row {row}: {error}");
                assert_eq!(error.reschedules(), row == "169", "row {row}: {error}");
            }
            (result, expected) => panic!("row {row}: {result:?} instead of {expected:?}"),
        }
    }
}

const ALL: [&str; 3] = ["rack=A zone=1", "rack=B zone=2", "rack=C zone=3"];

#[test]
fn rows_151_to_155_no_selected_node() {
    let zones = [
        node("n0", "zone=1", "zone"),
        node("n1", "zone=2", "zone"),
        node("n2", "zone=3", "zone"),
        node("n3", "zone=4", "zone"),
    ];
    let four = ["zone=1", "zone=2", "zone=3", "zone=4"];
    for row in [
        Row::new(151, "testpvc").gives(&ALL, 2),
        Row::new(152, "testpvcA-testset-1")
            .nodes(&zones)
            .gives(&four, 0),
        Row::new(152, "testpvcB-testset-1")
            .nodes(&zones)
            .gives(&four, 0),
        Row::new(153, "testset-2").nodes(&zones).gives(&four, 1),
        Row::new(153, "testpvc-testset-3")
            .nodes(&zones)
            .gives(&four, 2),
        Row::new(153, "testpvc-testset-4")
            .nodes(&zones)
            .gives(&four, 3),
        Row::new(154, "testpvc").not_immediate(),
        Row::new(155, "testpvc")
            .not_immediate()
            .allowed("zone=1,2 rack=A")
            .gives(&["rack=A zone=1", "rack=A zone=2"], 0),
    ] {
        row.check();
    }
}

#[test]
fn rows_156_to_160_selected_node() {
    let labels = "zone=zone1 rack=rack1 disk=ssd";
    let one = [node("n0", labels, "zone rack disk")];
    let ssd = "disk=ssd zone=zone1";
    for row in [
        Row::new(156, "testpvc").node("n1").gives(&ALL, 1),
        // Immediate topology only concerns claims without a node.
        Row::new(156, "testpvc")
            .node("n1")
            .not_immediate()
            .gives(&ALL, 1),
        Row::new(157, "testpvc")
            .node("n1")
            .strict()
            .gives(&["rack=B zone=2"], 0),
        Row::new(158, "testpvc")
            .node("n0")
            .strict()
            .allowed(ssd)
            .nodes(&one)
            .gives(&["disk=ssd rack=rack1 zone=zone1"], 0),
        Row::new(159, "testpvc")
            .node("n0")
            .allowed(ssd)
            .nodes(&one)
            .gives(&[ssd], 0),
        Row::new(160, "testpvc")
            .node("n1")
            .allowed("zone=1")
            .fails("allowedTopologies"),
        Row::new(160, "testpvc")
            .node("n1")
            .allowed("zone=1")
            .strict()
            .fails("allowedTopologies"),
        // The class names a label that is not one of the driver's keys.
        Row::new(160, "testpvc")
            .node("n1")
            .allowed("arch=arm")
            .fails("allowedTopologies"),
    ] {
        row.check();
    }
}

#[test]
fn rows_161_to_164_allowed_topologies() {
    let racks = [
        node("n0", "zone=z1 rack=rA", "zone rack"),
        node("n1", "zone=z2 rack=rA", "zone rack"),
    ];
    let product = [
        "rack=rA zone=z1",
        "rack=rA zone=z2",
        "rack=rB zone=z1",
        "rack=rB zone=z2",
    ];
    for row in [
        Row::new(161, "testpvc")
            .node("n1")
            .nodes(&racks)
            .allowed("zone=z1,z2 rack=rA,rB")
            .gives(&product, 1),
        Row::new(162, "testset-0")
            .allowed("zone=z1;zone=z1,z2 rack=rA,rB")
            .gives(
                &["zone=z1", product[0], product[1], product[2], product[3]],
                0,
            ),
        Row::new(163, "testpvc")
            .allowed("zone=z1,z2;zone=z2,z3;zone=z2")
            .gives(&["zone=z1", "zone=z2", "zone=z3"], 2),
        Row::new(164, "testpvc").allowed(";"),
        Row::new(164, "testpvc").allowed(";").node("n1"),
        Row::new(164, "testpvc")
            .allowed(";")
            .node("n1")
            .strict()
            .fails("allowedTopologies"),
    ] {
        row.check();
    }
}

#[test]
fn rows_165_to_168_and_175_the_cluster_s_nodes() {
    let one_zone = ["n0", "n1", "n2"].map(|name| node(name, "zone=1", "zone"));
    let mut one_csinode = three();
    one_csinode[0].driver = None;
    one_csinode[2].driver = Some("");
    let none = three()
        .into_iter()
        .map(|node| Node {
            driver: None,
            ..node
        })
        .collect::<Vec<_>>();
    let unlabelled = three().into_iter().map(|node| Node {
        driver: Some("row"),
        ..node
    });
    let unlabelled = unlabelled.collect::<Vec<_>>();
    let mut two_sets = unlabelled.clone();
    two_sets[0].driver = Some("zone row");
    let mut mixed = three();
    mixed[1].driver = Some("zone");
    mixed.push(node("n3", "rack=A", "rack"));
    for row in [
        Row::new(165, "testpvc")
            .nodes(&one_zone)
            .gives(&["zone=1"], 0),
        Row::new(166, "testpvc")
            .nodes(&one_csinode)
            .gives(&[ALL[1]], 0),
        Row::new(167, "testpvc")
            .nodes(&none)
            .fails("no CSINode has topology keys"),
        Row::new(167, "testpvc")
            .nodes(&[])
            .fails("no CSINode has topology keys"),
        Row::new(168, "testpvc")
            .nodes(&unlabelled)
            .fails("no node has all labels of the driver's topology: row"),
        Row::new(175, "testpvc")
            .node("n1")
            .nodes(&mixed)
            .gives(&["zone=1", "zone=2", "zone=3"], 1),
        // Without a node every set of keys counts.
        Row::new(175, "testpvc").nodes(&mixed).gives(
            &[
                "rack=A", "rack=C", "zone=1", "zone=2", "zone=3", ALL[0], ALL[2],
            ],
            4,
        ),
        Row::new(168, "testpvc")
            .nodes(&two_sets)
            .fails("topology: row; row, zone"),
    ] {
        row.check();
    }
}

#[test]
fn n_1a_1b_1c_1d_2a_2b_2c_and_2d_each_set_of_keys_where_it_was_registered() {
    let immediate = |row| Row::new(row, "web-0");
    let east = "region=us-east";
    let west = [
        "region=us-west",
        "region=us-west zone=1",
        "region=us-west zone=2",
    ];
    for row in [
        immediate("N-1a")
            .nodes(&[
                node("n0", "zone=1", "zone"),
                node("n1", "zone=1 rack=A", "zone rack"),
            ])
            .gives(&["zone=1", "rack=A zone=1"], 1),
        immediate("N-1b")
            .nodes(&[
                node("n0", east, "region"),
                node("n1", west[1], "region zone"),
                node("n2", west[2], "region zone"),
            ])
            .gives(&[east, west[0], west[1], west[2]], 1),
        immediate("N-1c")
            .nodes(&[node("n0", east, "region"), node("n1", "zone=1", "zone")])
            .gives(&[east, "zone=1"], 1),
        immediate("N-1d")
            .nodes(&[
                node("n0", west[1], "region zone"),
                node("n1", west[2], "zone region"),
            ])
            .gives(&west[1..], 1),
        immediate("N-2a")
            .nodes(&[
                node("n0", "region=us-east zone=1", "region"),
                node("n1", "region=us-west zone=2", "zone"),
            ])
            .gives(&[east, "zone=2"], 1),
        immediate("N-2b")
            .nodes(&[
                node("n0", east, "region"),
                node("n1", "zone=1", "zone"),
                node("n2", "region=us-west zone=2", ""),
            ])
            .gives(&[east, "zone=1"], 1),
        immediate("N-2c")
            .nodes(&[node("n0", "zone=1", "zone"), node("n1", "zone=2", "-")])
            .gives(&["zone=1"], 0),
        immediate("N-2d")
            .nodes(&[
                node("n0", "region=us-east zone=1", "region"),
                node("n1", "region=us-east zone=2", "region zone"),
            ])
            .gives(&[east, "region=us-east zone=2"], 1),
    ] {
        row.check();
    }
}

#[test]
fn n_3a_3b_and_3c_other_nodes_by_the_selected_one_s_keys() {
    let unregistered = [
        node("n0", "zone=1", "zone"),
        node("n1", "zone=2", ""),
        node("n2", "zone=3", "zone"),
    ];
    let alone = [node("n0", "zone=1", "zone"), node("n1", "zone=2", "-")];
    let finer = [
        node("n0", "region=us-east", "region"),
        node("n1", "region=us-west zone=1", "zone"),
        node("n2", "region=us-central zone=2", "region zone"),
    ];
    let east = "region=us-east";
    let selected = |row| Row::new(row, "testpvc").node("n0");
    for row in [
        selected("N-3a")
            .nodes(&unregistered)
            .gives(&["zone=1", "zone=3"], 0),
        selected("N-3a, strict")
            .nodes(&unregistered)
            .strict()
            .gives(&["zone=1"], 0),
        selected("N-3b").nodes(&alone).gives(&["zone=1"], 0),
        selected("N-3c")
            .nodes(&finer)
            .gives(&["region=us-central", east], 1),
        selected("N-3c, strict")
            .nodes(&finer)
            .strict()
            .gives(&[east], 0),
    ] {
        row.check();
    }
}

#[test]
fn rows_169_to_172_what_the_selected_node_lacks() {
    let mut gone = three();
    gone[1].driver = None;
    let mut no_node = three();
    no_node[1].labels = None;
    let mut no_keys = three();
    no_keys[1].driver = Some("");
    let mut no_label = three();
    no_label[1].labels = Some("zone=2");
    for row in [
        Row::new(169, "testpvc")
            .node("n1")
            .nodes(&gone)
            .fails("CSINode \"n1\" of the selected node does not exist"),
        Row::new(169, "testpvc")
            .node("n1")
            .nodes(&gone)
            .strict()
            .fails("does not exist"),
        Row::new(170, "testpvc")
            .node("n1")
            .nodes(&no_node)
            .fails("selected node \"n1\" does not exist"),
        Row::new(171, "testpvc")
            .node("n1")
            .nodes(&no_keys)
            .fails("has no topology keys"),
        Row::new(172, "testpvc")
            .node("n1")
            .nodes(&no_label)
            .fails("no label \"rack\""),
        Row::new(172, "testpvc").node("n1").gives(&ALL, 1),
    ] {
        row.check();
    }
    let mut topology = topology(&three());
    topology.set_driver(&"n1".into(), Entry::NotInstalled);
    let node = Text::from("n1");
    let result = requirement(&input(&topology, &node));
    assert_eq!(
        result,
        Err(Error::NoKeys(node)),
        "row 171, driver not in the CSINode"
    );
}

fn input<'a>(topology: &'a TopologyIndex, node: &'a Text) -> Input<'a> {
    Input {
        claim: "testpvc",
        node: Some(node),
        allowed: &[],
        strict: false,
        immediate: true,
        topology,
    }
}

#[test]
fn row_172_a_failed_attempt_remembers_nothing() {
    let mut nodes = three();
    nodes[1].labels = Some("zone=2");
    let node = Text::from("n1");
    let mut topology = topology(&nodes);
    assert!(requirement(&input(&topology, &node)).is_err());
    topology.set_labels(&node, Some(pairs("zone=2 rack=late")));
    let requirement = requirement(&input(&topology, &node)).unwrap();
    let requirement = requirement.unwrap();
    assert_eq!(show(requirement.preferred())[0], "rack=late zone=2");
}

#[test]
fn a_class_that_multiplies_out_to_too_much_is_refused() {
    let topology = topology(&three());
    let none = Text::from("");
    let values = (0..50).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let expressions = (0..10)
        .map(|n| format!("k{n}={values}"))
        .collect::<Vec<_>>()
        .join(" ");
    let many = vec![values.as_str(); 3000].join(";k=");
    for class in [expressions, format!("k={many}")] {
        let allowed = allowed(&class);
        let input = Input {
            allowed: &allowed,
            ..input(&topology, &none)
        };
        assert_eq!(requirement(&input), Err(Error::TooMany));
    }
}

#[test]
fn row_157_as_the_driver_gets_it() {
    let topology = topology(&three());
    let node = Text::from("n1");
    let input = input(&topology, &node);
    let requirement = requirement(&input).unwrap();
    let request = requirement.unwrap().to_csi();
    let shown = |topologies: &[csi::Topology]| {
        show(&topologies.iter().map(Term::from_csi).collect::<Vec<_>>())
    };
    assert_eq!(shown(&request.requisite), ALL);
    assert_eq!(shown(&request.preferred), [ALL[1], ALL[2], ALL[0]]);
}

/// A cluster, the changes that lead to it, and a claim.
#[derive(Debug)]
struct Case {
    nodes: Vec<Node>,
    order: Vec<usize>,
    before: Vec<(usize, Node)>,
    claim: String,
    node: Text,
    allowed: Vec<SelectorTerm>,
    strict: bool,
}

fn any_node(name: &'static str) -> impl Strategy<Value = Node> + Clone {
    let labels = select(vec![
        None,
        Some(""),
        Some("zone=1"),
        Some("zone=1 rack=A"),
        Some("zone=1 rack=B"),
        Some("zone=2 rack=A"),
        Some("zone=2 rack=C"),
        Some("rack=D"),
    ]);
    let driver = select(vec![
        None,
        Some(""),
        Some("zone"),
        Some("rack zone"),
        Some("zone rack"),
        Some("rack"),
        Some("-"),
    ]);
    (labels, driver).prop_map(move |(labels, driver)| Node {
        name,
        labels,
        driver,
    })
}

const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

fn any_case() -> impl Strategy<Value = Case> {
    let nodes = NAMES.map(any_node);
    let before = vec((any::<Index>(), nodes.clone()), 0..6);
    let before = before.prop_map(|changes| {
        let at = |(index, nodes): (Index, [Node; 5])| {
            let index = index.index(NAMES.len());
            (index, nodes[index].clone())
        };
        changes.into_iter().map(at).collect::<Vec<_>>()
    });
    let order = Just((0..NAMES.len()).collect::<Vec<_>>()).prop_shuffle();
    let values = subsequence(vec!["1", "2", "A", "B"], 1..3);
    let expressions = btree_map(select(vec!["zone", "rack"]), values, 0..3);
    let allowed = vec(expressions, 0..3).prop_map(|topologies| {
        let expression = |(key, values): (&str, Vec<&str>)| {
            (
                Text::from(key),
                values.into_iter().map(Text::from).collect(),
            )
        };
        let topologies = topologies.into_iter();
        topologies
            .map(|topology| topology.into_iter().map(expression).collect())
            .collect()
    });
    let node = select(vec!["", "n0", "n1", "gone"]);
    let claim = "[a-z]{1,6}(-[a-z]{1,4})?(-[0-9]{1,2})?";
    (nodes, order, before, allowed, (node, claim, any::<bool>())).prop_map(
        |(nodes, order, before, allowed, (node, claim, strict))| Case {
            nodes: nodes.to_vec(),
            order,
            before,
            claim,
            node: node.into(),
            allowed,
            strict,
        },
    )
}

impl Case {
    fn input<'a>(&'a self, topology: &'a TopologyIndex) -> Input<'a> {
        Input {
            claim: &self.claim,
            node: Some(&self.node),
            allowed: &self.allowed,
            strict: self.strict,
            immediate: true,
            topology,
        }
    }

    /// The same cluster on another way: other states before, every query in between, and the nodes in another order.
    fn places_by_another_way(&self) -> TopologyIndex {
        let mut topology = TopologyIndex::default();
        for (_, node) in &self.before {
            add(&mut topology, node);
            topology.segments().count();
            let _ = topology.everywhere();
        }
        for index in &self.order {
            add(&mut topology, &self.nodes[*index]);
        }
        topology
    }
}

proptest! {
    #[test]
    fn the_requirement_follows_from_the_cluster_alone(case in any_case()) {
        let direct = topology(&case.nodes);
        let other = case.places_by_another_way();
        let result = requirement(&case.input(&direct));
        prop_assert_eq!(&requirement(&case.input(&other)), &result);
        let segments: Vec<_> = direct.segments().collect();
        prop_assert_eq!(other.segments().collect::<Vec<_>>(), segments);
        // Terms of nodes under their own keys are always among those of all sets.
        let everywhere = direct.everywhere();
        prop_assert_eq!(&other.everywhere(), &everywhere);
        for segment in direct.segments().filter(|segment| !segment.is_empty()) {
            prop_assert!(everywhere.contains(segment), "{:?}", segment);
        }
    }

    #[test]
    fn the_request_is_well_formed(case in any_case()) {
        let topology = topology(&case.nodes);
        let Ok(Some(requirement)) = requirement(&case.input(&topology)) else {
            return Ok(());
        };
        let csi::TopologyRequirement { requisite, preferred } = requirement.to_csi();
        prop_assert!(!requisite.is_empty());
        let terms: Vec<_> = requisite.iter().map(Term::from_csi).collect();
        prop_assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
        prop_assert!(terms.iter().all(|term| !term.is_empty()));
        let rotation = |by: &usize| {
            let mut turned = requisite.clone();
            turned.rotate_left(*by);
            turned == preferred
        };
        prop_assert!((0..requisite.len()).any(|by| rotation(&by)));
        if !case.node.is_empty() {
            let first = Term::from_csi(&preferred[0]);
            let node = case.nodes.iter().find(|node| *node.name == *case.node).unwrap();
            prop_assert!(first.is_subset(&term(node.labels.unwrap())), "{first:?}");
        }
    }
}
