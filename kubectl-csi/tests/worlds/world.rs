//! Worlds of objects: a healthy one, and edits of it.
//!
//! An edit is a line: `KIND NAME PATH = JSON` sets, `KIND NAME PATH` takes away, `- KIND NAME` deletes, `+ JSON` adds an object,
//! `!KIND` makes a kind unknown to the API server, `@NAME` is one of the edits in `MACROS`.

use std::collections::{BTreeMap, BTreeSet};

use kubectl_csi::model::{Kind, Ref};
use kubectl_csi::plan::{
    Answer, Audit, Compare, Next, NoteKind, Overview, Question, Read, Scope, Seen, Stock, Storage,
    Stored, Verdict, Want, compare, decide, survey,
};
use serde_json::Value;

pub(crate) const NOW: &str = "2026-11-27T14:32:00Z";

/// Names for edits that many worlds share.
const MACROS: &[(&str, &str)] = &[
    // The pod is scheduled and does not start.
    (
        "creating",
        r#"pod shop/db-0 status = {"phase":"Pending","startTime":"2026-11-27T14:25:00Z","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-27T14:25:00Z"}],"containerStatuses":[{"name":"db","ready":false,"state":{"waiting":{"reason":"ContainerCreating"}}}]}"#,
    ),
    // The claim is pending.
    (
        "pending",
        "pvc shop/data-db-0 status = {\"phase\":\"Pending\"}\npvc shop/data-db-0 spec.volumeName\n- pv pvc-1\n- va csi-c4",
    ),
    // The claim is pending, and the scheduler has selected a node.
    (
        "selected",
        "@pending\npvc shop/data-db-0 metadata.annotations = {\"volume.kubernetes.io/selected-node\":\"worker-2\"}\n@unscheduled\npod shop/db-0 status.conditions.0.message = \"\"",
    ),
    (
        "unscheduled",
        r#"pod shop/db-0 spec.nodeName
pod shop/db-0 status = {"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"","lastTransitionTime":"2026-11-27T14:25:00Z"}]}"#,
    ),
    // The pod has a second volume, in another zone.
    (
        "two",
        r#"pod shop/db-0 spec.volumes = [{"name":"data","persistentVolumeClaim":{"claimName":"data-db-0"}},{"name":"log","persistentVolumeClaim":{"claimName":"log"}}]
+ {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"log","namespace":"shop"},"spec":{"volumeName":"pvc-2","storageClassName":"standard"},"status":{"phase":"Bound"}}
+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-2"},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"vol-2"},"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"topology.example.com/zone","operator":"In","values":["b"]}]}]}}},"status":{"phase":"Bound"}}"#,
    ),
    (
        "unattached",
        r#"@creating
va csi-c4 status = {"attached":false}
va csi-c4 metadata.creationTimestamp = "2026-11-27T14:25:00Z""#,
    ),
    // The volume is attached to another node.
    (
        "elsewhere",
        r#"@creating
- va csi-c4
+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"csi-c4","creationTimestamp":"2026-11-27T10:00:00Z","finalizers":["external-attacher/csi-example-com"]},"spec":{"attacher":"csi.example.com","nodeName":"worker-1","source":{"persistentVolumeName":"pvc-1"}},"status":{"attached":true}}"#,
    ),
    (
        "nobody",
        "- lease storage/csi-example-com\n- lease storage/external-attacher-leader-csi-example-com\n- lease storage/external-resizer-csi-example-com\n- lease storage/external-snapshotter-leader-csi-example-com\n- statefulset storage/csi-controller\n- pod storage/csi-controller-0",
    ),
    (
        "uninstalled",
        "- csidriver csi.example.com\n- daemonset storage/csi-node\ncsinode worker-1 spec.drivers = []\ncsinode worker-2 spec.drivers = []\ncsinode worker-3 spec.drivers = []",
    ),
    (
        "growing",
        "pvc shop/data-db-0 spec.resources.requests.storage = \"20Gi\"",
    ),
    ("unready", "vs shop/snap status.readyToUse = false"),
    (
        "gone",
        r#"pvc shop/data-db-0 metadata.deletionTimestamp = "2026-11-27T14:20:00Z""#,
    ),
];

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<Ref, Value>,
    pub(crate) unserved: BTreeSet<Kind>,
    /// Kinds whose requests are refused.
    pub(crate) forbidden: BTreeSet<Kind>,
}

pub(crate) struct Json<'a>(pub(crate) &'a Value);

impl Read for Json<'_> {
    type Error = serde_json::Error;

    fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Self::Error> {
        serde_json::from_value(self.0.clone())
    }
}

fn reference(object: &Value) -> Ref {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = Kind::of_object(text("/apiVersion"), text("/kind"));
    let kind = kind.unwrap_or_else(|| panic!("no kind: {object}"));
    Ref::new(kind, text("/metadata/namespace"), text("/metadata/name"))
}

fn kind(word: &str) -> Kind {
    let named = |kind: &Kind| {
        kind.name().eq_ignore_ascii_case(word) || kind.plural() == word || kind.called() == word
    };
    Kind::all()
        .find(named)
        .unwrap_or_else(|| panic!("no kind {word}"))
}

impl World {
    pub(crate) fn healthy() -> Self {
        let list: Value = serde_json::from_str(include_str!("healthy.json")).unwrap();
        let objects = list["items"].as_array().unwrap().iter();
        Self {
            objects: objects
                .map(|object| (reference(object), object.clone()))
                .collect(),
            ..Self::default()
        }
    }

    fn find(&self, kind_word: &str, name: &str) -> Ref {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let exact = Ref::new(kind(kind_word), namespace, name);
        if self.objects.contains_key(&exact) {
            return exact;
        }
        // A prefix suffices: names of attachments are long.
        let mut long = self
            .objects
            .keys()
            .filter(|one| one.kind == exact.kind && one.namespace == exact.namespace);
        let found = long.find(|one| exact.name.starts_with("csi-") && one.name.starts_with("csi-"));
        found.unwrap_or_else(|| panic!("no {exact}")).clone()
    }

    pub(crate) fn edit(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        if let Some(name) = line.strip_prefix('@') {
            let (_, lines) = MACROS
                .iter()
                .find(|(one, _)| *one == name)
                .unwrap_or_else(|| panic!("no macro {name}"));
            return lines.lines().for_each(|line| self.edit(line));
        }
        if let Some(word) = line.strip_prefix('!') {
            let kind = kind(word);
            self.unserved.insert(kind);
            self.objects.retain(|object, _| object.kind != kind);
            return;
        }
        if let Some(json) = line.strip_prefix("+ ") {
            let object: Value =
                serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
            self.objects.insert(reference(&object), object);
            return;
        }
        if let Some(rest) = line.strip_prefix("- ") {
            let (kind, name) = rest.split_once(' ').unwrap();
            let object = self.find(kind, name);
            self.objects.remove(&object);
            return;
        }
        let (left, value) = match line.split_once(" = ") {
            Some((left, value)) => (
                left,
                Some(
                    serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {value}")),
                ),
            ),
            None => (line, None),
        };
        let words: Vec<_> = left.split(' ').collect();
        let [kind, name, path] = *words else {
            panic!("what is {line}")
        };
        let object = self.find(kind, name);
        let mut place = self.objects.get_mut(&object).unwrap();
        let (front, last) = path.rsplit_once('.').unwrap_or(("", path));
        for part in front.split('.').filter(|part| !part.is_empty()) {
            place = match part.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => {
                    if place.get(part).is_none() {
                        place[part] = serde_json::json!({});
                    }
                    &mut place[part]
                }
            };
        }
        match (value, last.parse::<usize>()) {
            (Some(value), Ok(index)) => place[index] = value,
            (Some(value), Err(_)) => place[last] = value,
            (None, _) => drop(place.as_object_mut().unwrap().remove(last)),
        }
    }

    fn fits(want: &Want, object: &Ref, value: &Value) -> bool {
        let field = |(name, expected): &(&str, String)| {
            let pointer = format!("/{}", name.replace('.', "/"));
            value
                .pointer(&pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                == expected
        };
        object.kind == want.kind
            && want
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == object.namespace)
            && want.name.as_ref().is_none_or(|name| *name == object.name)
            && want.fields.iter().all(field)
    }

    fn look(&self, seen: &mut Seen, want: Want) {
        let answer = if self.forbidden.contains(&want.kind) {
            Answer::Refused("no permission".to_owned())
        } else if self.unserved.contains(&want.kind) {
            Answer::NotServed
        } else {
            for (object, value) in self
                .objects
                .iter()
                .filter(|(object, value)| Self::fits(&want, object, value))
            {
                seen.put(object.kind, Json(value))
                    .unwrap_or_else(|error| panic!("{object}: {error}"));
            }
            Answer::Whole
        };
        seen.answer(want, answer);
    }

    /// The answer, and the number of requests for it.
    pub(crate) fn ask(&self, subject: &str, all: bool) -> (Verdict, usize) {
        let (word, name) = subject.split_once('/').unwrap();
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let mut subject = Ref::new(kind(word), namespace, name);
        if subject.kind == Kind::Attachment {
            subject = self
                .objects
                .keys()
                .find(|one| one.kind == Kind::Attachment)
                .unwrap()
                .clone();
        }
        let question = Question { subject, all };
        let mut seen = Seen::default();
        for _ in 0..60 {
            match decide(&seen, &question, NOW.parse().unwrap()) {
                Next::Say(verdict) => return (*verdict, seen.requests()),
                Next::Look(wants) => {
                    assert!(!wants.is_empty());
                    for want in wants {
                        assert!(seen.standing(&want).is_none(), "asked for twice: {want:?}");
                        self.look(&mut seen, want);
                    }
                }
            }
        }
        panic!("no end: {question:?}");
    }

    /// A world with `copies` of every object that users create; each copy has names of its own, in texts too.
    pub(crate) fn times(&self, copies: usize) -> Self {
        let copied = |of: &Ref| {
            let cluster = [Kind::Volume, Kind::Attachment, Kind::Content];
            cluster.contains(&of.kind) || (of.namespace == "shop" && of.kind != Kind::Quota)
        };
        let names: BTreeSet<&str> = { self.objects.keys() }
            .filter(|of| copied(of))
            .map(|of| &*of.name)
            .collect();
        let mut world = self.clone();
        world.objects.retain(|of, _| !copied(of));
        let part_of_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        for object in self
            .objects
            .iter()
            .filter(|(of, _)| copied(of))
            .map(|(_, one)| one)
        {
            let text = object.to_string();
            for copy in 0..copies {
                let mut own = String::new();
                for word in text.split_inclusive(|c| !part_of_name(c)) {
                    let name = word.trim_end_matches(|c| !part_of_name(c));
                    let (_, behind) = word.split_at(name.len());
                    own.push_str(name);
                    if names.contains(name) {
                        own.push_str(&format!("-{copy}"));
                    }
                    own.push_str(behind);
                }
                let object: Value = serde_json::from_str(&own).unwrap();
                world.objects.insert(reference(&object), object);
            }
        }
        world
    }

    /// The healthy world with a second volume and a second snapshot, so that one of them may be lost.
    pub(crate) fn two() -> Self {
        let mut world = Self::healthy();
        for edit in [
            r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-k"},"spec":{"csi":{"driver":"csi.example.com","volumeHandle":"kept-1"}},"status":{"phase":"Bound"}}"#,
            r#"+ {"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshotContent","metadata":{"name":"content-k"},"spec":{"driver":"csi.example.com","source":{"snapshotHandle":"kept-s"}}}"#,
        ] {
            world.edit(edit);
        }
        world
    }

    /// The differences between these objects and a driver's storage, after two looks.
    pub(crate) fn audit(&self, storage: &Storage, owned: &str) -> Audit {
        let first = self.audited(storage, owned, None).0;
        self.again(storage, owned, &first)
    }

    /// The second look.
    pub(crate) fn again(&self, storage: &Storage, owned: &str, first: &Audit) -> Audit {
        self.audited(storage, owned, Some(first)).0.confirms(first)
    }

    /// One look, and the number of objects that it iterated over.
    pub(crate) fn audited(
        &self,
        storage: &Storage,
        owned: &str,
        first: Option<&Audit>,
    ) -> (Audit, usize) {
        let mut seen = Seen::default();
        let compared = Compare {
            storage,
            owned,
            first,
        };
        loop {
            match compare(&seen, compared, NOW.parse().unwrap()) {
                Ok(audit) => return (audit, seen.visited()),
                Err(wants) => wants
                    .into_iter()
                    .for_each(|want| self.look(&mut seen, want)),
            }
        }
    }

    /// The overview, and the number of requests for it.
    pub(crate) fn survey(&self, namespace: Option<&str>) -> (Overview, usize) {
        let (overview, seen) = self.surveyed(namespace);
        (overview, seen.requests())
    }

    /// The overview, and the objects read for it.
    pub(crate) fn surveyed(&self, namespace: Option<&str>) -> (Overview, Seen) {
        let scope = Scope {
            namespace: namespace.map(str::to_owned),
        };
        let mut seen = Seen::default();
        loop {
            match survey(&seen, &scope, NOW.parse().unwrap()) {
                Ok(overview) => return (overview, seen),
                Err(wants) => wants
                    .into_iter()
                    .for_each(|want| self.look(&mut seen, want)),
            }
        }
    }

    /// The answer with the objects from a file.
    pub(crate) fn ask_file(&self, subject: &Ref) -> Verdict {
        let mut seen = Seen::offline();
        for (object, value) in &self.objects {
            seen.put(object.kind, Json(value)).unwrap();
        }
        let question = Question {
            subject: subject.clone(),
            all: false,
        };
        match decide(&seen, &question, NOW.parse().unwrap()) {
            Next::Say(verdict) => *verdict,
            Next::Look(wants) => panic!("a file answers everything: {wants:?}"),
        }
    }

    pub(crate) fn json(&self) -> String {
        let items: Vec<_> = self.objects.values().collect();
        serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }
}

/// The storage of the healthy world.
pub(crate) fn storage() -> Storage {
    let two = |handles: [&str; 2], nodes: Option<Vec<Box<str>>>| {
        let one = |bytes, nodes: Option<Vec<Box<str>>>| Stored {
            bytes,
            attached: nodes.clone().unwrap_or_default(),
            nodes,
            group: None,
        };
        let [first, second] = handles;
        let none = nodes.as_ref().map(|_| Vec::new());
        let all = [
            (first.into(), one(10 << 30, nodes)),
            (second.into(), one(0, none)),
        ];
        Stock::new(Ok(all.into()))
    };
    Storage {
        driver: "csi.example.com".to_owned(),
        volumes: two(["vol-1", "kept-1"], Some(vec!["worker-2".into()])),
        snapshots: two(["s-1", "kept-s"], None),
        sources: BTreeMap::new(),
    }
}

/// The result of an audit with every kind of difference.
pub(crate) fn shown() -> Audit {
    let mut world = World::two();
    for edit in [
        r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-2"},"spec":{"capacity":{"storage":"20Gi"},"persistentVolumeReclaimPolicy":"Retain","csi":{"driver":"csi.example.com","volumeHandle":"vol-2"}},"status":{"phase":"Released"}}"#,
        r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-3","annotations":{"pv.kubernetes.io/provisioned-by":"csi.example.com"}},"spec":{"capacity":{"storage":"20Gi"},"persistentVolumeReclaimPolicy":"Delete","csi":{"driver":"csi.example.com","volumeHandle":"vol-3"}},"status":{"phase":"Bound"}}"#,
        r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-5","annotations":{"pv.kubernetes.io/provisioned-by":"csi.example.com"}},"spec":{"capacity":{"storage":"20Gi"},"persistentVolumeReclaimPolicy":"Delete","csi":{"driver":"csi.example.com","volumeHandle":"vol-5"}},"status":{"phase":"Bound"}}"#,
        r#"+ {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-4"},"spec":{"csi":{"driver":"old.example.com","volumeHandle":"x"}},"status":{"phase":"Bound"}}"#,
        r#"+ {"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"csi-5"},"spec":{"attacher":"csi.example.com","nodeName":"worker-9","source":{"persistentVolumeName":"pvc-2"}},"status":{"attached":true}}"#,
        r#"pvc shop/data-db-0 status.conditions = [{"type":"Unused","status":"True","lastTransitionTime":"2026-05-02T00:00:00Z"}]"#,
    ] {
        world.edit(edit);
    }
    let storage = stored(&[
        "- volume vol-1",
        "+ volume vol-1 10 worker-2 worker-1",
        "+ volume vol-2 40",
        "+ volume vol-7 100",
        "+ volume vol-8 50",
        "+ volume vol-9 20 worker-3",
        "+ volume VOL-3 20",
        "+ snapshot s-9",
        "x volume vol-3",
        "x volume vol-5",
    ]);
    world.audit(&storage, "")
}

/// The storage with another volume or snapshot (`+ volume HANDLE GIBIBYTES NODE`, `+ snapshot HANDLE`), without one
/// (`- volume HANDLE`), or without the list (`!volumes` and `!snapshots`; `?volumes HANDLE` for a driver without a list
/// that lacks this one). `# volumes` adds an entry without an ID, `~ volume` makes a driver that can be asked for each
/// and has all, `x volume HANDLE` one that lacks this, `< SOURCE HANDLE` names the source of a volume or snapshot.
pub(crate) fn stored(edits: &[&str]) -> Storage {
    let mut storage = storage();
    for edit in edits {
        let words: Vec<&str> = edit.split(' ').collect();
        if let ["<", source, made] = words.as_slice() {
            { &mut storage.sources }.insert((*source).into(), (*made).into());
            continue;
        }
        let stock = match edit.contains("volume") {
            true => &mut storage.volumes,
            false => &mut storage.snapshots,
        };
        match (words.as_slice(), &mut stock.listed) {
            (["#", _], _) => stock.unnamed += 1,
            (["~", _], _) => stock.missing = Some(BTreeSet::new()),
            (["x", _, handle], _) => {
                { stock.missing.get_or_insert_default() }.insert((*handle).into());
            }
            (["+", _, handle, rest @ ..], Ok(all)) => {
                let size: i64 = rest.first().map_or(0, |size| size.parse().unwrap());
                let nodes = rest.iter().skip(1).filter(|word| !word.contains('='));
                let nodes: Vec<Box<str>> = nodes.map(|node| (*node).into()).collect();
                let group = rest.iter().find_map(|word| word.strip_prefix("group="));
                let one = Stored {
                    bytes: size << 30,
                    attached: nodes.clone(),
                    nodes: edit.contains("volume").then_some(nodes),
                    group: group.map(Into::into),
                };
                all.insert((*handle).into(), one);
            }
            (["-", _, handle], Ok(all)) => drop(all.remove(*handle).unwrap()),
            ([_, rest @ ..], listed) if rest.len() < 2 => {
                *listed = Err("the driver does not list them".to_owned());
                stock.missing = { rest.first() }.map(|handle| [(*handle).into()].into());
            }
            _ => panic!("what is {edit}"),
        }
    }
    storage
}

/// A world of a table, its subject, and the expected cause.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) certainty: String,
    pub(crate) subject: String,
    pub(crate) edits: Vec<String>,
    /// Texts that the first cause has to contain, remedies included.
    pub(crate) says: Vec<String>,
    /// Texts that it must not contain.
    pub(crate) hides: Vec<String>,
}

impl Row {
    pub(crate) fn world(&self) -> World {
        let mut world = World::healthy();
        self.edits.iter().for_each(|edit| world.edit(edit));
        world
    }
}

/// Reads the tables: `ID CERTAINTY SUBJECT`, then indented edits, `? TEXT` for a text that the cause contains and
/// `?! TEXT` for one that it must not.
pub(crate) fn rows() -> Vec<Row> {
    read(&[
        include_str!("claim.txt"),
        include_str!("schedule.txt"),
        include_str!("attach.txt"),
        include_str!("mount.txt"),
        include_str!("delete.txt"),
        include_str!("change.txt"),
        include_str!("snapshot.txt"),
    ])
}

/// Worlds that must not lead to a cause: `ID CERTAINTY SUBJECT`, with `any` for every certainty.
pub(crate) fn never() -> Vec<Row> {
    read(&[include_str!("never.txt")])
}

fn read(tables: &[&str]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in tables.iter().flat_map(|table| table.lines()) {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            let row = rows.last_mut().unwrap();
            match (text.strip_prefix("?! "), text.strip_prefix("? ")) {
                (Some(hidden), _) => row.hides.push(hidden.to_owned()),
                (_, Some(said)) => row.says.push(said.to_owned()),
                _ => row.edits.push(text.to_owned()),
            }
            continue;
        }
        let words: Vec<_> = text.split(' ').collect();
        let [id, certainty, subject] = *words else {
            panic!("what is {line}")
        };
        rows.push(Row {
            id: id.to_owned(),
            certainty: certainty.to_owned(),
            subject: subject.to_owned(),
            edits: Vec::new(),
            says: Vec::new(),
            hides: Vec::new(),
        });
    }
    rows
}

/// The result of an audit, as one word and one name per finding.
pub(crate) fn told(audit: &Audit) -> Vec<String> {
    let differences = audit.differences.iter().map(|one| {
        let node = one.node.as_ref().map(|node| format!(" {node}"));
        format!(
            "{} {}{}",
            one.kind.word(),
            one.handle,
            node.unwrap_or_default()
        )
    });
    let notes = audit.notes.iter().map(|note| {
        let says = note
            .detail
            .as_ref()
            .filter(|_| note.kind != NoteKind::Unused);
        let says = says.map(|says| format!(" {says}"));
        format!(
            "{} {}{}",
            note.kind.word(),
            note.object.name,
            says.unwrap_or_default()
        )
    });
    let unseen = audit
        .unseen
        .iter()
        .map(|(what, _)| format!("unseen: {what}"));
    let refused = audit.refused.iter().map(|why| format!("refused: {why}"));
    let undecided = audit.undecided.iter().map(|one| {
        let why: Vec<&str> = one.why.iter().map(|why| &**why).collect();
        format!("? {} {}: {}", one.kind.word(), one.handle, why.join("; "))
    });
    differences
        .chain(undecided)
        .chain(notes)
        .chain(unseen)
        .chain(refused)
        .collect()
}

/// Whether a finding is the expected one: the whole text, or with `FRONT | WORDS` one that begins with FRONT and
/// contains WORDS.
pub(crate) fn is(told: &str, expected: &str) -> bool {
    match expected.split_once(" | ") {
        Some((front, words)) => told.starts_with(front) && told.contains(words),
        None => told == expected,
    }
}

/// Row, edits of the world, edits of the storage, expected findings, exit code.
pub(crate) type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str], u8);

/// Audits each world of a table twice against its storage.
pub(crate) fn check(cases: &[Case<'_>]) {
    let mut wrong = Vec::new();
    for (row, edits, storage, expected, code) in cases {
        let mut world = World::two();
        edits.iter().for_each(|edit| world.edit(edit));
        let audit = world.audit(&stored(storage), "");
        let all = told(&audit);
        let mut pairs = all.iter().zip(*expected);
        let fits = all.len() == expected.len() && pairs.all(|(one, other)| is(one, other));
        if !fits || audit.code() != *code {
            wrong.push(format!("{row}: {all:#?}, {}", audit.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
