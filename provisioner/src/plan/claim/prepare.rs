//! The CreateVolume request for a claim: checks every condition in upstream's order, which users know from the events.
//!
//! Nothing has happened yet: the request is computed anew after each object that was read, until all are there.

use csi_proto::csi::volume_capability::access_mode::Mode;

use super::accessibility::add_requirement;
use super::{Announcement, Attempt, End, Failure, Step, Stop, announcement};
use crate::model::{Claim, Class, SecretRef, Text, VolumeMode};
use crate::plan::edit;
use crate::plan::migrated;
use crate::plan::parameters;
use crate::plan::pv::{ForClaim, PvTemplate, SecretName, SecretRefs};
use crate::plan::request::{self, ContentSource, Object, PinnedRequest, Request};
use crate::plan::secret::{self, Purpose, Tokens};
use crate::plan::select::{Selection, select};
use crate::plan::source::{self, Origin, OriginKind};
use crate::plan::view::View;

impl Attempt {
    /// Computes the request, or the step that has to come first.
    pub(super) fn prepare(&self, view: &View<'_>) -> Result<PinnedRequest, Stop> {
        let original = self.class(view)?;
        self.announce(view)?;
        let origin = source::origin(view.claim, view.grants, view.settings);
        let origin = origin.map_err(Failure::Source)?;
        if origin
            .as_ref()
            .is_some_and(|origin| origin.kind == OriginKind::Foreign)
        {
            return Err(Stop::first(if self.concluded.announced {
                Step::Done(End::Stopped)
            } else {
                announcement(view, Announcement::Populator)
            }));
        }
        let class = migrated::class(original, view.driver);
        let class = class.map_err(|error| Failure::Class(error.to_string()))?;
        let class = &*class;
        let attributes_class = attributes_class(view);
        if let Some(name) = attributes_class
            && *original.provisioner != *view.driver.name
        {
            return Err(Failure::AttributesClassInTree(name.clone()).into());
        }
        capable(view, origin.as_ref(), attributes_class.is_some())?;
        let mut prepared = basics(view, class)?;
        prepared.pv_template.provisioned_by = original.provisioner.to_string();
        prepared.source = match &origin {
            Some(origin) => Some(self.source(view, class, origin)?),
            None => None,
        };
        add_requirement(&mut prepared, view, class)?;
        self.finish(&mut prepared, view, class, attributes_class)?;
        Ok(prepared)
    }

    /// The claim's class, if the claim has to be worked on.
    fn class<'a>(&self, view: &View<'a>) -> Result<&'a Class, Stop> {
        let over = |end| Err(Stop::first(Step::Done(end)));
        if view.gone {
            return over(End::NotOurs);
        }
        match select(view.claim, view.class, view.driver, view.settings) {
            Selection::No => return over(End::NotOurs),
            Selection::Contend => return over(End::Contend),
            Selection::NoClass(name) => return Err(Failure::NoClass(name).into()),
            Selection::OtherProvisioner | Selection::Provision if view.volume_exists => {
                self.check_existing_pv(view)?;
                return over(End::Exists);
            }
            Selection::OtherProvisioner => return over(End::Stopped),
            Selection::Provision => {}
        }
        view.class
            .ok_or_else(|| Failure::NoClass(view.claim.class_name().into()).into())
    }

    /// The data source, protected from deletion.
    fn source(
        &self,
        view: &View<'_>,
        class: &Class,
        origin: &Origin,
    ) -> Result<ContentSource, Stop> {
        let (source, protect) = match origin.kind {
            OriginKind::Snapshot => self.snapshot(view, class, origin)?,
            OriginKind::Claim | OriginKind::Foreign => self.clone_of(view, class, origin)?,
        };
        match protect {
            Some(request) if !self.source_protected => Err(Stop::first(Step::Ask(request))),
            Some(_) | None => Ok(source),
        }
    }

    fn snapshot(
        &self,
        view: &View<'_>,
        class: &Class,
        origin: &Origin,
    ) -> Result<(ContentSource, Option<Request>), Stop> {
        let Some(snapshot) = &self.loaded.snapshot else {
            let snapshot = Object::snapshot(&origin.namespace, &origin.name);
            return Err(Stop::read(snapshot));
        };
        let content = source::content_of(snapshot).map_err(Failure::Source)?;
        let Some(content) = &self.loaded.content else {
            return Err(Stop::read(Object::Content(content.clone())));
        };
        let handle = source::restore(view.claim, class, snapshot, content, view.settings);
        let handle = handle.map_err(Failure::Source)?;
        let protect = (!snapshot.is_protected()).then(|| edit::protect_snapshot(snapshot));
        Ok((ContentSource::Snapshot(handle), protect))
    }

    fn clone_of(
        &self,
        view: &View<'_>,
        class: &Class,
        origin: &Origin,
    ) -> Result<(ContentSource, Option<Request>), Stop> {
        let Some(claim) = &self.loaded.claim else {
            let key = format!("{}/{}", origin.namespace, origin.name);
            return Err(Stop::read(Object::SourceClaim(key.into())));
        };
        let volume = source::volume_of(view.claim, claim).map_err(Failure::Source)?;
        let Some(volume) = &self.loaded.volume else {
            return Err(Stop::read(Object::SourceVolume(volume.clone())));
        };
        let handle = source::clone_of(view.claim, class, claim, volume);
        let handle = handle.map_err(Failure::Source)?;
        let protected = claim.has_finalizer(crate::keys::CLONE_FINALIZER) || claim.deleting;
        let protect = (!protected).then(|| edit::protect_claim(claim));
        Ok((ContentSource::Volume(handle), protect))
    }

    /// Adds Secrets, parameters and the VolumeAttributesClass.
    fn finish(
        &self,
        prepared: &mut PinnedRequest,
        view: &View<'_>,
        class: &Class,
        attributes_class: Option<&Text>,
    ) -> Result<(), Stop> {
        let claim = view.claim;
        let name = prepared.name.clone();
        let tokens = Tokens {
            volume: &name,
            namespace: &claim.namespace,
            name: &claim.name,
            annotations: Some(&claim.annotations),
        };
        let find = |purpose| {
            let found = secret::reference(&class.parameters, purpose, &tokens);
            found
                .map_err(Failure::SecretName)
                .map(|found| found.map(secret_name))
        };
        prepared.pv_template.secrets.provisioner = find(Purpose::Provisioner)?;
        self.secrets(prepared.secret().as_ref())?;
        prepared.pv_template.secrets = SecretRefs {
            provisioner: prepared.pv_template.secrets.provisioner.take(),
            controller_publish: find(Purpose::ControllerPublish)?,
            node_stage: find(Purpose::NodeStage)?,
            node_publish: find(Purpose::NodePublish)?,
            controller_expand: find(Purpose::ControllerExpand)?,
            node_expand: find(Purpose::NodeExpand)?,
            controller_modify: find(Purpose::ControllerModify)?,
        };
        let parameters = parameters::for_driver(&class.parameters);
        prepared.parameters = parameters.map_err(Failure::Parameters)?;
        if view.settings.extra_create_metadata {
            parameters::add_metadata(&mut prepared.parameters, claim, &name);
        }
        let Some(wanted) = attributes_class else {
            return Ok(());
        };
        let attributes = match &self.loaded.attributes {
            Some((name, attributes)) if name == wanted => attributes,
            Some(_) | None => return Err(Stop::read(Object::AttributesClass(wanted.clone()))),
        };
        if *attributes.driver != *view.driver.name {
            let driver = attributes.driver.clone();
            return Err(Failure::AttributesClassDriver(wanted.clone(), driver).into());
        }
        let parameters = attributes.parameters.iter();
        prepared.mutable_parameters = parameters
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        prepared.pv_template.attributes_class = Some(wanted.to_string());
        Ok(())
    }
}

/// The claim's VolumeAttributesClass, if it names one and the gate is on.
fn attributes_class<'a>(view: &View<'a>) -> Option<&'a Text> {
    let named = view.claim.attributes_class.as_ref();
    named.filter(|name| view.settings.gates.attributes_class && !name.is_empty())
}

/// Whether the driver has the capabilities that the claim needs.
fn capable(view: &View<'_>, origin: Option<&Origin>, attributes: bool) -> Result<(), Failure> {
    let abilities = view.driver.abilities;
    let from = |kind| origin.is_some_and(|origin| origin.kind == kind);
    let needs = [
        (
            true,
            abilities.controller,
            "dynamic provisioning",
            "CONTROLLER_SERVICE",
        ),
        (
            true,
            abilities.create_delete,
            "dynamic provisioning",
            "CREATE_DELETE_VOLUME",
        ),
        (
            from(OriginKind::Snapshot),
            abilities.snapshot,
            "snapshots",
            "CREATE_DELETE_SNAPSHOT",
        ),
        (
            from(OriginKind::Claim),
            abilities.clone,
            "cloning",
            "CLONE_VOLUME",
        ),
        (
            attributes,
            abilities.modify,
            "VolumeAttributesClass",
            "MODIFY_VOLUME",
        ),
    ];
    match needs
        .into_iter()
        .find(|(needed, able, ..)| *needed && !able)
    {
        Some((_, _, what, capability)) => Err(Failure::Incapable(what, capability)),
        None => Ok(()),
    }
}

/// The part of the request that follows from claim, class and flags alone.
fn basics(view: &View<'_>, class: &Class) -> Result<PinnedRequest, Failure> {
    let (claim, settings) = (view.claim, view.settings);
    if claim.selector {
        return Err(Failure::Selector);
    }
    let name = request::volume_name(settings, &claim.uid).map_err(Failure::Name)?;
    let fs_type = parameters::fs_type(&class.parameters, &settings.default_fs_type);
    let fs_type = fs_type.map_err(Failure::Parameters)?;
    let modern = view.driver.abilities.single_node_multi_writer;
    let modes = request::modes(&claim.access_modes, modern).map_err(Failure::AccessMode)?;
    let block = claim.mode == Some(VolumeMode::Block);
    let text = |text: &Text| text.to_string();
    let restored = claim
        .data_source
        .as_ref()
        .filter(|source| &*source.kind == "VolumeSnapshot")
        .map(|source| text(&source.name));
    Ok(PinnedRequest {
        name,
        modes: modes
            .iter()
            .map(|mode| mode.as_str_name().to_owned())
            .collect(),
        class_uid: text(&class.uid),
        release: restored,
        pv_template: PvTemplate {
            claim: for_claim(claim),
            class: claim.class_name().to_owned(),
            reclaim_policy: class.reclaim_policy.as_ref().map(text),
            mount_options: class.mount_options.iter().map(text).collect(),
            access_modes: claim.access_modes.iter().map(text).collect(),
            volume_mode: claim.mode.map(|mode| mode.name().to_owned()),
            fs_type: if block {
                String::new()
            } else {
                fs_type.to_owned()
            },
            read_only: settings.publish_readonly && *modes == [Mode::MultiNodeReaderOnly],
            requested: claim
                .request
                .map(|request| request.value())
                .unwrap_or_default(),
            sourced: source::is_confirmed(claim, settings),
            topology: view.topology_active(),
            ..PvTemplate::default()
        },
        ..PinnedRequest::default()
    })
}

fn for_claim(claim: &Claim) -> ForClaim {
    ForClaim {
        namespace: claim.namespace.to_string(),
        name: claim.name.to_string(),
        uid: claim.uid.to_string(),
        resource_version: claim.version.to_string(),
    }
}

fn secret_name(reference: SecretRef) -> SecretName {
    SecretName {
        name: reference.name.to_string(),
        namespace: reference.namespace.to_string(),
    }
}
