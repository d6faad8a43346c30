//! Rebuilds the state after a start from the directories that an earlier process or a kubelet left.
//!
//! Every volume that is found counts as uncertain: it is mounted again if a pod wants it, and
//! unmounted if none does. Unlike kubelet this also finds volumes that are staged but not published;
//! after a crash between the two they would stay staged for ever.

use std::path::PathBuf;

use super::files::unfinished;
use super::layout::{Layout, VolumeName, ephemeral_key, parent, published_leftovers, unique_name};
use super::metadata::Metadata;
use super::script::Mount;
use super::state::Published;
use super::world::World;
use crate::model::pod::is_label;

/// A directory, or a link to a block device, in a pod's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFound {
    /// Name of the pod's directory.
    pub pod: String,
    /// Name of the directory.
    pub name: String,
    /// A block device.
    pub block: bool,
    /// Its metadata file; `None` if it is missing or unusable.
    pub metadata: Option<Metadata>,
}

/// The directory of a staged volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFound {
    /// Path of the metadata file, which need not exist.
    pub file: PathBuf,
    /// A block device.
    pub block: bool,
    /// The metadata file; `None` if it is missing or unusable.
    pub metadata: Option<Metadata>,
}

/// Adds the findings to `world`. Returns the paths of unknown use: directories, to be removed if
/// they are empty, and unfinished files.
pub fn enter(
    world: &mut World,
    layout: &Layout,
    pods: Vec<PodFound>,
    stages: Vec<StageFound>,
) -> Vec<PathBuf> {
    let mut strange = Vec::new();
    for found in pods {
        if enter_pod(world, layout, &found).is_none() && !found.block {
            let volumes = layout.pods().join(&found.pod).join("volumes");
            let folder = volumes
                .join(super::layout::ESCAPED_PLUGIN)
                .join(&found.name);
            strange.extend(published_leftovers(&folder));
        }
    }
    for found in stages {
        if enter_stage(world, layout, &found).is_none() {
            let folder = parent(&found.file).to_path_buf();
            let above = parent(&folder).to_path_buf();
            if !found.block {
                strange.push(folder.join("globalmount"));
            }
            strange.extend([unfinished(&found.file), folder, above]);
        }
    }
    strange
}

fn enter_pod(world: &mut World, layout: &Layout, found: &PodFound) -> Option<()> {
    let metadata = found.metadata.as_ref()?;
    let name = VolumeName {
        driver: &metadata.driver,
        handle: &metadata.handle,
        // The directory's own name: the one in the file might lead elsewhere.
        spec_name: &found.name,
        block: found.block,
    };
    let paths = layout.paths(&name, &found.pod).ok()?;
    let ephemeral = metadata.lifecycle.as_deref() == Some("Ephemeral");
    let key = if ephemeral {
        ephemeral_key(&found.pod, &found.name)
    } else {
        unique_name(&metadata.driver, &metadata.handle)
    };
    let state = world.enter(key);
    state.name.clone_from(&found.name);
    state.driver.clone_from(&metadata.driver);
    state.block = found.block;
    state.from_disk = true;
    state.attach = ephemeral.then_some(false);
    state.staged.get_or_insert(paths.clone());
    state.se_linux = label(metadata);
    if !ephemeral {
        // Without metadata, unstaging has nothing to do.
        state.device = Mount::Uncertain;
    }
    state.have.insert(
        found.pod.clone(),
        Published {
            mount: Mount::Uncertain,
            from_disk: true,
            held: true,
            again: false,
            paths,
        },
    );
    Some(())
}

fn enter_stage(world: &mut World, layout: &Layout, found: &StageFound) -> Option<()> {
    let metadata = found.metadata.as_ref()?;
    let spec = metadata.spec_name.as_deref();
    let name = VolumeName {
        driver: &metadata.driver,
        handle: &metadata.handle,
        spec_name: spec.unwrap_or("unknown"),
        block: found.block,
    };
    // A staging path does not depend on the pod, so any UID will do.
    let paths = layout.paths(&name, "unknown").ok()?;
    if paths.stage_metadata != found.file {
        // The file was copied here, or crafted to unmount another volume.
        return None;
    }
    let state = world.enter(unique_name(&metadata.driver, &metadata.handle));
    if state.name.is_empty() {
        state.name = spec.unwrap_or(&metadata.handle).to_owned();
        state.driver.clone_from(&metadata.driver);
        state.block = found.block;
    }
    if state.have.is_empty() {
        state.se_linux = label(metadata);
    }
    state.from_disk = true;
    state.device = Mount::Uncertain;
    state.staged.get_or_insert(paths);
    Some(())
}

fn label(metadata: &Metadata) -> Option<String> {
    metadata.se_linux.clone().filter(|text| is_label(text))
}
