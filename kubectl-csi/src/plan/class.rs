//! The class of a pending claim.

use super::provision::{BY_HAND, words};
use super::verdict::Finding;
use super::volume;
use super::walk::{Lookup, Step, Walk};
use super::words::{listed, nearest};
use crate::model::{AttributesClass, Claim, Class, Kind, Node, Ref};

/// C5 to C7: finds the class, or explains why there is none.
pub(super) fn class<'a>(
    walk: &mut Walk<'a>,
    at: &Ref,
    depth: usize,
    claim: &Claim,
) -> Step<Option<&'a Class>> {
    let name = match claim.class() {
        None => return unnamed(walk, at).map(|()| None),
        Some("") => return volume::none_fits(walk, at, depth, claim).map(|()| None),
        Some(name) => name,
    };
    let object = Ref::new(Kind::Class, "", name);
    match walk.get::<Class>("", name)? {
        Lookup::Found(class) if class.provisioner == BY_HAND => {
            walk.at(depth, &object, "has no provisioner");
            volume::none_fits(walk, at, depth, claim)?;
        }
        Lookup::Found(class) => return Ok(Some(class)),
        Lookup::Unseen => {
            walk.at(depth, &object, "may not be read");
            words(walk, at)?;
        }
        Lookup::Missing => {
            // Manually created volumes may name a class that does not exist as an object.
            volume::none_fits_unless(walk, at, depth, claim)?;
            walk.at(depth, &object, "does not exist");
            missing(walk, at, name)?;
        }
    }
    Ok(None)
}

/// C6: the claim names no class.
fn unnamed(walk: &mut Walk<'_>, at: &Ref) -> Step {
    let classes = walk.all::<Class>()?;
    let text = match classes.items.iter().find(|class| class.is_default()) {
        Some(class) => format!(
            "The claim names no StorageClass, and there was no default class when it was created. {} is the default now; clusters since 1.28 give it to the claim by themselves.",
            class.metadata.name
        ),
        None => "The claim names no StorageClass, and the cluster has no default class, so nobody creates a volume for it.".to_owned(),
    };
    let names = classes.names();
    let known = match names.is_empty() {
        true => String::new(),
        false => format!(": there is {}", listed(&names)),
    };
    let finding = Finding::proved_if(classes.whole, "C6", at, text)
        .you(format!("create the claim again with storageClassName set{known}"))
        .admin("mark one class as the default: annotation storageclass.kubernetes.io/is-default-class: \"true\"");
    walk.tell(finding)
}

/// C5: the class does not exist.
fn missing(walk: &mut Walk<'_>, at: &Ref, name: &str) -> Step {
    let names = walk.all::<Class>()?.names();
    let near = match (nearest(name, names.iter().copied()), names.is_empty()) {
        (Some(near), _) => format!(" Did you mean {near}?"),
        (None, false) => format!(" There is {}.", listed(&names)),
        (None, true) => " The cluster has no StorageClass at all.".to_owned(),
    };
    let text = format!("The claim names StorageClass {name}, which does not exist.{near}");
    let finding = Finding::proved("C5", at, text)
        .you("delete the claim and create it with a class that exists; the class of a claim cannot be changed")
        .admin(format!("or create StorageClass {name}: the claim then gets its volume"));
    walk.tell(finding)
}

/// C25: the VolumeAttributesClass of a new volume.
pub(super) fn attributes(walk: &mut Walk<'_>, at: &Ref, claim: &Claim, class: &Class) -> Step {
    let name = &*claim.spec.volume_attributes_class_name;
    if name.is_empty() {
        return Ok(());
    }
    let object = Ref::new(Kind::AttributesClass, "", name);
    let text = match walk.get::<AttributesClass>("", name)? {
        Lookup::Missing => format!("The claim names {object}, which does not exist."),
        Lookup::Found(found) if found.driver_name != *class.provisioner => format!(
            "The claim names {object}, which is for driver {}, but its volume comes from {}.",
            found.driver_name, class.provisioner
        ),
        Lookup::Found(_) | Lookup::Unseen => return Ok(()),
    };
    walk.tell(
        Finding::proved("C25", at, text)
            .admin(format!("create {object} for driver {}", class.provisioner))
            .you("or name another one in the claim"),
    )
}

/// C18: the class's topology excludes the selected node.
pub(super) fn topology(walk: &mut Walk<'_>, at: &Ref, class: &Class, name: &str) -> Step {
    let node = walk.get::<Node>("", name)?.found();
    let Some(node) = node.filter(|_| !class.allowed_topologies.is_empty()) else {
        return Ok(());
    };
    let fits = class.allowed_topologies.iter().any(|term| {
        let mut labels = term.match_label_expressions.iter();
        labels.all(|label| {
            { node.metadata.labels.get(&label.key) }
                .is_some_and(|value| label.values.iter().any(|one| *one == value))
        })
    });
    if fits {
        return Ok(());
    }
    let label = class
        .allowed_topologies
        .iter()
        .flat_map(|term| &term.match_label_expressions)
        .next();
    let allowed = label.map(|label| {
        let values: Vec<_> = label.values.iter().map(|value| &**value).collect();
        format!("{} {}", label.key, listed(&values))
    });
    let text = format!(
        "StorageClass {} allows volumes only in {}, and the pod was scheduled to {name}, which is elsewhere.",
        class.metadata.name,
        allowed.unwrap_or_default()
    );
    walk.tell(
        Finding::proved("C18", at, text)
            .you("schedule the pod where the class allows volumes, or use another class"),
    )
}
