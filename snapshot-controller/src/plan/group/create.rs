//! The content of a VolumeGroupSnapshot that selects claims.

use serde_json::json;

use super::claims;
use crate::model::{Group, Head};
use crate::plan::ask::Ask;
use crate::plan::attempt::Flow;
use crate::plan::class::Chosen;
use crate::plan::complaint::{Complaint, unwritten};
use crate::plan::origin::Origin;
use crate::plan::pair::{self, Parts};
use crate::plan::request::Object;

/// Makes the content.
pub(super) fn create(ask: Ask<'_>, group: &Group, class: &Chosen) -> Flow {
    let head = group.head();
    let volumes = claims::volumes(ask, group)?;
    let volumes = volumes.map_err(|problem| problem.unfit(&head))?;
    let secret = class.secret(&head, &head.kind.content_name(head.uid))?;
    let handles = volumes.iter().map(|origin| handle(&head, class, origin));
    let handles: Vec<&str> = handles.collect::<Result<_, Complaint>>()?;
    let parts = Parts {
        source: json!({"volumeHandles": handles}),
        secret,
        ..Parts::default()
    };
    pair::make(&head, class, parts)
}

/// The volume handle, if the volume belongs to the class's driver.
fn handle<'a>(head: &Head<'_>, class: &Chosen, origin: &'a Origin) -> Result<&'a str, Complaint> {
    let (volume, key) = (&origin.name, head.key());
    let (user_text, error) = match &origin.volume.csi {
        Some(csi) if csi.driver == class.class.driver => return Ok(&csi.handle),
        None => (
            format!("Cannot snapshot a non-CSI volume: {volume}"),
            format!("cannot snapshot a non-CSI volume for group snapshot {key}: {volume}"),
        ),
        Some(csi) => {
            let (of_volume, of_class) = (&csi.driver, &class.class.driver);
            let user_text = format!(
                "Volume CSI driver ({of_volume}) mismatch with VolumeGroupSnapshotClass \
                 ({of_class}) {key}: {volume}"
            );
            let error = unwritten(&key, &user_text);
            (user_text, error)
        }
    };
    let complaint = Complaint {
        also: Some(("CreateGroupSnapshotContentFailed", user_text)),
        ..Complaint::uncreated(head.kind, &error)
    };
    let complaint = complaint.until_changed(Object::Volume(volume.clone()));
    Err(complaint.until(class.changes()))
}
