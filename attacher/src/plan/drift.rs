//! Which VolumeAttachments differ from what the driver lists as published.
//!
//! Separate, because nothing is patched or called in here: a difference only sends the attachment
//! through the ordinary path again, whatever its status says.

use std::collections::HashMap;

use csi_proto::csi::ListVolumesResponse;

use super::outcome::Failure;
use super::view::View;
use crate::model::Text;

/// What the API says about one attachment, to be compared with the driver's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Name of the VolumeAttachment.
    pub name: Text,
    /// Volume handle.
    pub handle: Text,
    /// The node as the driver knows it.
    pub node_id: Text,
    /// `status.attached`.
    pub attached: bool,
}

/// What to look for in the driver's list.
///
/// # Errors
/// Says why the attachment cannot be compared: its volume or node is not known.
pub fn expected(view: &View<'_>) -> Result<Expected, Failure> {
    let source = view.csi(view.spec()?)?;
    Ok(Expected {
        name: view.attachment.name.clone(),
        handle: source.handle.clone(),
        // The saved id serves here in either direction.
        node_id: view.known_node_id()?.into(),
        attached: view.attachment.attached,
    })
}

/// The driver's list, of which only the volumes are kept that some attachment names.
#[derive(Debug, Default)]
pub struct Listing {
    nodes: HashMap<Text, Vec<String>>,
}

impl Listing {
    /// An empty list that will keep the volumes of `expected`.
    #[must_use]
    pub fn for_volumes_of(expected: &[Expected]) -> Self {
        let handles = expected.iter().map(|entry| entry.handle.clone());
        Self {
            nodes: handles.map(|handle| (handle, Vec::new())).collect(),
        }
    }

    /// Takes in one page. Entries without volume or status say nothing; of two entries for one
    /// volume the later one counts, as it always did.
    pub fn add(&mut self, page: ListVolumesResponse) {
        for entry in page.entries {
            let (Some(volume), Some(status)) = (entry.volume, entry.status) else {
                continue;
            };
            if let Some(nodes) = self.nodes.get_mut(&*volume.volume_id) {
                *nodes = status.published_node_ids;
            }
        }
    }

    /// Whether the list contradicts what the API says.
    #[must_use]
    pub fn contradicts(&self, expected: &Expected) -> bool {
        let nodes = self.nodes.get(&expected.handle);
        let listed = nodes.is_some_and(|nodes| nodes.iter().any(|id| **id == *expected.node_id));
        listed != expected.attached
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::Volume;
    use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};

    use super::*;
    use crate::model::{Attachment, CsiNode, InTree, Source};
    use crate::testing::{attached, csi, csinode, deleted, driver, pv, spec};

    fn entry(handle: &str, nodes: Option<&[&str]>) -> Entry {
        Entry {
            volume: Some(Volume {
                volume_id: handle.into(),
                ..Volume::default()
            }),
            status: nodes.map(|nodes| VolumeStatus {
                published_node_ids: nodes.iter().map(|node| (*node).into()).collect(),
            }),
        }
    }

    fn expect(attachment: &Attachment, node: Option<&CsiNode>) -> Result<Expected, Failure> {
        expected(&View {
            driver: &driver(),
            attachment,
            volume: Some(&pv()),
            node,
        })
    }

    fn contradicts(attachment: &Attachment, pages: Vec<Vec<Entry>>) -> bool {
        let node = csinode("NID1");
        let expected = expect(attachment, Some(&node)).unwrap();
        let mut listing = Listing::for_volumes_of(std::slice::from_ref(&expected));
        for entries in pages {
            listing.add(ListVolumesResponse {
                entries,
                ..ListVolumesResponse::default()
            });
        }
        listing.contradicts(&expected)
    }

    #[test]
    fn the_list_is_compared_with_the_status() {
        let on_node = || entry("h-pv1", Some(&["NID0", "NID1"]));
        let gone = Attachment {
            attached: false,
            ..deleted()
        };
        let rows = [
            ("114", attached(), vec![vec![on_node()]], false),
            (
                "115",
                attached(),
                vec![vec![entry("other", Some(&["NID1"]))]],
                true,
            ),
            ("116", attached(), vec![vec![entry("h-pv1", None)]], true),
            ("117", gone.clone(), vec![vec![on_node()]], true),
            ("117 not listed", gone, vec![vec![]], false),
            (
                "121",
                attached(),
                vec![vec![on_node()], vec![entry("h-pv1", Some(&["NID2"]))]],
                true,
            ),
            (
                "7.2 an entry without status does not take the earlier one back",
                attached(),
                vec![
                    vec![on_node()],
                    vec![entry("h-pv1", None), Entry::default()],
                ],
                false,
            ),
        ];
        for (row, attachment, pages, expected) in rows {
            assert_eq!(contradicts(&attachment, pages), expected, "row {row}");
        }
    }

    #[test]
    fn the_node_is_found_by_the_saved_id_too() {
        let node = |node: Option<&CsiNode>| expect(&attached(), node).unwrap().node_id;
        assert_eq!(&*node(Some(&csinode("NID7"))), "NID7");
        assert_eq!(&*node(None), "NID1");
        let lost = Attachment {
            node_id: None,
            ..attached()
        };
        let failure = expect(&lost, None).unwrap_err();
        assert_eq!(failure, Failure::NoCsiNode("node1".into()));
    }

    #[test]
    fn row_120_inline_volumes_are_compared_by_their_own_handle() {
        let inline = |source| Attachment {
            volume: None,
            inline: Some(std::sync::Arc::new(spec(source))),
            ..attached()
        };
        let found = expect(&inline(Source::Csi(csi())), Some(&csinode("NID1")));
        assert_eq!(&*found.unwrap().handle, "h-pv1");
        let bad = inline(Source::InTree(InTree::Cinder));
        assert_eq!(
            expect(&bad, Some(&csinode("NID1"))),
            Err(Failure::InlineNotCsi)
        );
    }
}
