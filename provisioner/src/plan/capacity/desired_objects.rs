//! The desired objects, and the existing ones.
//!
//! Maps pairs of class and segment to objects. Level-triggered: every answer follows from the present state, and a task
//! that is carried out late asks again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::model::{BindingMode, Class, NodeTopology, StorageCapacity, Text};
use crate::plan::topology::Term;

/// A class in a topology segment: the subject of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// Name of the StorageClass.
    pub class: Text,
    /// Labels of the nodes.
    pub segment: Term,
}

/// A task for the capacity worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Call GetCapacity, and write the answer.
    Refresh(Item),
    /// Remove the object of this name.
    Remove(Text),
}

/// Counts of objects, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of desired objects.
    pub goal: usize,
    /// Number of desired objects that exist.
    pub current: usize,
    /// Number of objects of this process that are not desired.
    pub obsolete: usize,
}

/// Classes, segments, and the objects of this process.
///
/// Classes and objects may be added before the segments; tasks are known from the first
/// [`set_segments`](Self::set_segments) on.
#[derive(Debug)]
pub struct DesiredObjects {
    driver: Text,
    /// `--capacity-for-immediate-binding`
    immediate: bool,
    prepared: bool,
    classes: BTreeSet<Text>,
    segments: BTreeSet<Term>,
    /// The items that need an object, each with the name of its object if it has one.
    items: BTreeMap<Item, Option<Text>>,
    /// Objects by name.
    objects: HashMap<Text, Known>,
    /// Number of items with an object.
    current: usize,
    /// Items for which this process is creating an object.
    creating: HashSet<Item>,
}

#[derive(Debug)]
struct Known {
    object: Arc<StorageCapacity>,
    /// The item of the object's class and topology.
    item: Option<Item>,
}

impl DesiredObjects {
    /// The state before any list, of a provisioner for this driver.
    #[must_use]
    pub fn new(driver: Text, immediate: bool) -> Self {
        Self {
            driver,
            immediate,
            prepared: false,
            classes: BTreeSet::new(),
            segments: BTreeSet::new(),
            items: BTreeMap::new(),
            objects: HashMap::new(),
            current: 0,
            creating: HashSet::new(),
        }
    }

    /// Whether segments were set: before that there are no tasks and no obsolete objects.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Sets the segments of the driver's nodes.
    pub fn set_segments(&mut self, segments: impl IntoIterator<Item = Term>) -> Vec<Task> {
        let before = std::mem::replace(&mut self.segments, segments.into_iter().collect());
        let first = !std::mem::replace(&mut self.prepared, true);
        let gone: Vec<Item> = self
            .items
            .keys()
            .filter(|item| !self.segments.contains(&item.segment))
            .cloned()
            .collect();
        let new: Vec<Term> = self.segments.difference(&before).cloned().collect();
        let mut tasks = Vec::new();
        for item in gone {
            tasks.extend(self.drop_item(&item));
        }
        let classes: Vec<Text> = self.classes.iter().cloned().collect();
        for class in &classes {
            for segment in &new {
                self.add_item(class, segment);
            }
        }
        self.assign();
        for class in classes {
            tasks.extend(new.iter().map(|segment| {
                let (class, segment) = (class.clone(), segment.clone());
                Task::Refresh(Item { class, segment })
            }));
        }
        if first {
            tasks.extend(self.all_obsolete());
        }
        tasks
    }

    /// Records a class that is new, changed, or due for a resync. GetCapacity is called again, since the parameters
    /// may have changed.
    pub fn class_changed(&mut self, class: &Class) -> Vec<Task> {
        let wanted = match class.binding_mode {
            BindingMode::Immediate => self.immediate,
            BindingMode::Unset | BindingMode::WaitForFirstConsumer | BindingMode::Other => true,
        };
        if *class.provisioner != *self.driver || !wanted {
            return self.class_gone(&class.name);
        }
        if self.classes.insert(class.name.clone()) {
            let segments: Vec<Term> = self.segments.iter().cloned().collect();
            for segment in &segments {
                self.add_item(&class.name, segment);
            }
            self.assign();
        }
        self.of_class(&class.name)
    }

    /// Records that a class is gone.
    pub fn class_gone(&mut self, name: &str) -> Vec<Task> {
        if !self.classes.remove(name) {
            return Vec::new();
        }
        let items: Vec<Item> = self.items_of(name).cloned().collect();
        let removals = items.iter().filter_map(|item| self.drop_item(item));
        removals.collect()
    }

    /// Records an object of this process, from the watch or from the reply to a write. A state older than the known
    /// one is ignored.
    pub fn object_changed(&mut self, object: Arc<StorageCapacity>) -> Vec<Task> {
        let name = object.name.clone();
        if let Some(known) = self.objects.get_mut(&name)
            && known.object.uid == object.uid
        {
            // Class and topology never change.
            if object.version == 0 || object.version >= known.object.version {
                known.object = object;
            }
            return Vec::new();
        }
        // A new object of the same name: the former one is gone.
        let lost = self.forget(&name);
        let item = item_of(&object);
        let known = Known {
            object,
            item: item.clone(),
        };
        self.objects.insert(name.clone(), known);
        if !self.prepared {
            return Vec::new();
        }
        let taken = item.clone().filter(|item| self.take(item, &name));
        let task = match taken {
            // Most likely it is our own: the watch may be faster than the reply.
            Some(item) if self.creating.contains(&item) => None,
            Some(item) => Some(Task::Refresh(item)),
            None => Some(Task::Remove(name)),
        };
        let lost = lost.filter(|lost| Some(lost) != item.as_ref());
        lost.map(Task::Refresh).into_iter().chain(task).collect()
    }

    /// This process is about to create an object for the item.
    pub fn begin_create(&mut self, item: &Item) {
        self.creating.insert(item.clone());
    }

    /// This process has created this object for the item, or failed to. If another one was there first, that one stays,
    /// and has to be refreshed.
    pub fn end_create(&mut self, item: &Item, created: Option<Arc<StorageCapacity>>) -> Vec<Task> {
        let name = created.as_ref().map(|object| object.name.clone());
        let tasks = created.map(|object| self.object_changed(object));
        self.creating.remove(item);
        let mut tasks = tasks.unwrap_or_default();
        let refresh = Task::Refresh(item.clone());
        let holder = self.items.get(item).and_then(Option::as_ref);
        if holder.is_some() && holder != name.as_ref() && !tasks.contains(&refresh) {
            tasks.push(refresh);
        }
        tasks
    }

    /// Records that an object is gone, or no longer has this process's labels.
    pub fn object_gone(&mut self, name: &str) -> Vec<Task> {
        let lost = self.forget(name);
        if lost.is_some() {
            // Of two objects for one item, the other one may still exist.
            self.assign();
        }
        lost.map(Task::Refresh).into_iter().collect()
    }

    /// A refresh of every item.
    #[must_use]
    pub fn all(&self) -> Vec<Task> {
        self.items.keys().cloned().map(Task::Refresh).collect()
    }

    /// A refresh of each item of a class.
    #[must_use]
    pub fn of_class(&self, class: &str) -> Vec<Task> {
        let items = self.items_of(class);
        items.cloned().map(Task::Refresh).collect()
    }

    /// A range instead of a search through all items: called for each volume that cannot be made.
    fn items_of(&self, class: &str) -> impl Iterator<Item = &Item> {
        let first = Item {
            class: class.into(),
            segment: Term::new([]),
        };
        let items = self.items.range(first..).map(|(item, _)| item);
        items.take_while(move |item| *item.class == *class)
    }

    /// A refresh of each item of exactly these segments, in any class.
    #[must_use]
    pub fn of_segments(&self, segments: &BTreeSet<Term>) -> Vec<Task> {
        let items = self.classes.iter().flat_map(|class| {
            segments.iter().map(|segment| Item {
                class: class.clone(),
                segment: segment.clone(),
            })
        });
        let items = items.filter(|item| self.items.contains_key(item));
        items.map(Task::Refresh).collect()
    }

    /// Whether an object is desired for this item, and the existing one.
    #[must_use]
    pub fn wanted(&self, item: &Item) -> Option<Option<Arc<StorageCapacity>>> {
        let holder = self.items.get(item)?.as_ref();
        let known = holder.and_then(|name| self.objects.get(name));
        Some(known.map(|known| known.object.clone()))
    }

    /// The object of this name if it is not desired.
    #[must_use]
    pub fn obsolete(&self, name: &str) -> Option<Arc<StorageCapacity>> {
        let known = self.objects.get(name)?;
        let item = known.item.as_ref().and_then(|item| self.items.get(item));
        let held = item.is_some_and(|holder| holder.as_deref() == Some(name));
        (self.prepared && !held).then(|| known.object.clone())
    }

    /// Counts of objects.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let obsolete = self.objects.len() - self.current;
        Figures {
            goal: self.items.len(),
            current: self.current,
            obsolete: if self.prepared { obsolete } else { 0 },
        }
    }

    fn add_item(&mut self, class: &Text, segment: &Term) {
        let (class, segment) = (class.clone(), segment.clone());
        self.items.entry(Item { class, segment }).or_default();
    }

    /// Removes an item; its object, if it has one, has to be removed.
    fn drop_item(&mut self, item: &Item) -> Option<Task> {
        let name = self.items.remove(item)??;
        self.current -= 1;
        Some(Task::Remove(name))
    }

    /// Assigns the object to the item, unless the item has one. Returns whether it was assigned.
    fn take(&mut self, item: &Item, name: &Text) -> bool {
        let Some(holder @ None) = self.items.get_mut(item) else {
            return false;
        };
        *holder = Some(name.clone());
        self.current += 1;
        true
    }

    /// Assigns objects without an item to items without an object.
    fn assign(&mut self) {
        if !self.prepared || self.objects.len() == self.current {
            return;
        }
        let mut free: Vec<(Text, Item)> = Vec::new();
        for (name, known) in &self.objects {
            if let Some(item) = &known.item
                && self.items.get(item).is_some_and(Option::is_none)
            {
                free.push((name.clone(), item.clone()));
            }
        }
        // Of several objects for one item, the same one always wins.
        free.sort_unstable();
        for (name, item) in free {
            self.take(&item, &name);
        }
    }

    /// Drops an object; returns the item that had it, if any.
    fn forget(&mut self, name: &str) -> Option<Item> {
        let item = self.objects.remove(name)?.item?;
        let holder = self.items.get_mut(&item)?;
        if holder.as_deref() != Some(name) {
            return None;
        }
        *holder = None;
        self.current -= 1;
        Some(item)
    }

    fn all_obsolete(&self) -> Vec<Task> {
        let names = self.objects.keys();
        let obsolete = names.filter(|name| self.obsolete(name).is_some());
        let mut names: Vec<Text> = obsolete.cloned().collect();
        names.sort_unstable();
        names.into_iter().map(Task::Remove).collect()
    }
}

/// The item of an object; `None` if its selector is one that no provisioner writes.
fn item_of(object: &StorageCapacity) -> Option<Item> {
    let NodeTopology::Labels(labels) = &object.topology else {
        return None;
    };
    let labels = labels.iter();
    Some(Item {
        class: object.class.clone(),
        segment: Term::new(labels.map(|(key, value)| (key.into(), value.into()))),
    })
}

#[cfg(test)]
mod tests;
