//! Finds VolumeAttachments that the driver's `ListVolumes` contradicts.
//!
//! Nothing in here patches or calls: a contradicted attachment is only requeued, and its attempt
//! ignores the status.

use std::collections::HashMap;

use csi_proto::csi::ListVolumesResponse;
use migration::TRANSLATOR;

use super::outcome::Failure;
use super::view::View;
use crate::model::{Source, Text};

/// The expected state of one attachment, to compare with the driver's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Name of the VolumeAttachment.
    pub name: Text,
    /// Volume handle.
    pub handle: Text,
    /// The driver's id of the node.
    pub node_id: Text,
    /// `status.attached`.
    pub attached: bool,
    /// Whether the driver may list the volume under a different id.
    pub listed_otherwise: bool,
}

/// The entry to look for in the driver's list.
///
/// # Errors
/// Says why the attachment cannot be compared: its volume or node is unknown.
pub fn expected(view: &View<'_>) -> Result<Expected, Failure> {
    let spec = view.spec()?;
    let source = view.csi(spec)?;
    // Here the saved id is good enough for attach and detach alike.
    let node_id = view.known_node_id()?;
    let replacing = match &spec.source {
        Source::InTree(source) => Some(source.driver),
        // Only in-tree volumes occur as inline specifications.
        Source::Csi(_) if view.attachment.inline.is_some() => Some(&*view.driver.name),
        Source::Csi(_) | Source::Other => None,
    };
    let replacing = replacing.and_then(|name| TRANSLATOR.driver(name));
    Ok(Expected {
        name: view.attachment.name.clone(),
        handle: match replacing {
            None => source.handle.clone(),
            Some(driver) => { TRANSLATOR.repaired_handle(driver.name, &source.handle, node_id) }
                .map_err(|error| Failure::Unrepaired(error.to_string()))?
                .into(),
        },
        node_id: node_id.into(),
        attached: view.attachment.attached,
        listed_otherwise: replacing.is_some_and(|driver| LISTING_OTHERWISE.contains(&driver.name)),
    })
}

/// Drivers that list volumes under other ids than the translation of in-tree sources yields: a disk
/// by UUID instead of path, a share without the parts of the handle that other uses need.
const LISTING_OTHERWISE: [&str; 2] = ["csi.vsphere.vmware.com", "file.csi.azure.com"];

/// The driver's list, reduced to volumes of known attachments.
#[derive(Debug, Default)]
pub struct Listing {
    /// Published nodes by volume handle; `None` until an entry names the volume.
    nodes: HashMap<Text, Option<Vec<String>>>,
}

impl Listing {
    /// An empty list that keeps only the volumes of `expected`.
    #[must_use]
    pub fn for_volumes_of(expected: &[Expected]) -> Self {
        let handles = expected.iter().map(|entry| entry.handle.clone());
        Self {
            nodes: handles.map(|handle| (handle, None)).collect(),
        }
    }

    /// Adds one page. Entries without volume or status say nothing about nodes; as in upstream, the
    /// last entry for a volume wins.
    pub fn add(&mut self, page: ListVolumesResponse) {
        for entry in page.entries {
            let Some(volume) = entry.volume else {
                continue;
            };
            if let Some(nodes) = self.nodes.get_mut(&*volume.volume_id) {
                let held = nodes.get_or_insert_default();
                if let Some(status) = entry.status {
                    *held = status.published_node_ids;
                }
            }
        }
    }

    /// Whether the list contradicts the VolumeAttachment.
    #[must_use]
    pub fn contradicts(&self, expected: &Expected) -> bool {
        let nodes = self.nodes.get(&expected.handle).and_then(Option::as_ref);
        if nodes.is_none() && expected.listed_otherwise {
            return false;
        }
        let listed = nodes.is_some_and(|nodes| nodes.iter().any(|id| **id == *expected.node_id));
        listed != expected.attached
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::Volume;
    use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};

    use super::*;
    use crate::model::{Attachment, CsiNode, CsiSource, Source};
    use crate::testing::{attached, csi, csinode, deleted, driver, in_tree, pv, spec};

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
        let bad = inline(Source::Other);
        assert_eq!(
            expect(&bad, Some(&csinode("NID1"))),
            Err(Failure::InlineNotCsi)
        );
    }

    const GCE: &str = "pd.csi.storage.gke.io";
    const NODE: &str = "projects/p1/zones/us-east1-b/instances/n";
    const ON_NODE: Option<&[&str]> = Some(&[NODE]);

    fn of_handle(handle: &str) -> CsiSource {
        CsiSource {
            handle: handle.into(),
            ..csi()
        }
    }

    /// The expected state of `va1`, whose volume has this source.
    fn of_source(source: Source, node_id: &str) -> Result<Expected, Failure> {
        expected(&View {
            driver: &driver(),
            attachment: &attached(),
            volume: Some(&crate::model::Volume {
                spec: spec(source),
                ..pv()
            }),
            node: Some(&csinode(node_id)),
        })
    }

    fn is_contradicted(expected: &Expected, entries: Vec<Entry>) -> bool {
        let mut listing = Listing::for_volumes_of(std::slice::from_ref(expected));
        listing.add(ListVolumesResponse {
            entries,
            ..ListVolumesResponse::default()
        });
        listing.contradicts(expected)
    }

    #[test]
    fn m_126_to_128_and_130_handles_are_compared_as_the_driver_lists_them() {
        let gce = |handle| in_tree(GCE, Ok(of_handle(handle)));
        let rows = [
            (
                "M-126",
                gce("projects/UNSPECIFIED/zones/us-east1-b/disks/d"),
                Ok("projects/p1/zones/us-east1-b/disks/d"),
            ),
            (
                "M-126 without label",
                gce("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
                Ok("projects/p1/zones/us-east1-b/disks/d"),
            ),
            (
                "M-127",
                gce("projects/UNSPECIFIED/regions/us-east1/disks/d"),
                Ok("projects/p1/regions/us-east1/disks/d"),
            ),
            (
                "M-130",
                in_tree("ebs.csi.aws.com", Ok(of_handle("vol-1"))),
                Ok("vol-1"),
            ),
            (
                "of the driver itself, never repaired",
                Source::Csi(of_handle("projects/UNSPECIFIED/zones/z/disks/d")),
                Ok("projects/UNSPECIFIED/zones/z/disks/d"),
            ),
            (
                "M-132",
                in_tree(GCE, Err("no".into())),
                Err("failed to translate in tree pv to CSI: no".to_owned()),
            ),
        ];
        for (row, source, expected) in rows {
            let found = of_source(source, NODE).map(|found| found.handle);
            let found = found.map_err(|failure| failure.to_string());
            assert_eq!(found, expected.map(Into::into), "{row}");
        }
        let m_128 = of_source(gce("projects/UNSPECIFIED/zones/z/disks/d"), "n1");
        let text = m_128.unwrap_err().to_string();
        assert!(
            text.starts_with(
                "failed to repair volume handle: node handle has wrong number of elements; \
                 got 1, wanted 6 or more"
            ),
            "{text}"
        );
    }

    #[test]
    fn m_129_a_volume_written_inline_is_compared_repaired() {
        let source = Source::Csi(of_handle("projects/UNSPECIFIED/zones/us-east1-b/disks/d"));
        let inline = Attachment {
            volume: None,
            inline: Some(std::sync::Arc::new(spec(source))),
            ..attached()
        };
        let handle = |name: &str| {
            let view = View {
                driver: &crate::plan::Driver {
                    name: name.into(),
                    ..driver()
                },
                attachment: &inline,
                volume: None,
                node: Some(&CsiNode {
                    drivers: crate::model::Pairs::new(crate::testing::list(&[name, NODE])),
                }),
            };
            expected(&view).unwrap().handle
        };
        assert_eq!(&*handle(GCE), "projects/p1/zones/us-east1-b/disks/d");
        assert_eq!(
            &*handle("test.csi.driver"),
            "projects/UNSPECIFIED/zones/us-east1-b/disks/d"
        );
    }

    #[test]
    fn m_131_a_path_that_is_in_no_entry_says_nothing() {
        const PATH: &str = "[ds] kubevols/d.vmdk";
        let disk = |driver| of_source(in_tree(driver, Ok(of_handle(PATH))), NODE).unwrap();
        let listings = [
            ("by UUID alone", vec![entry("6000C29a", ON_NODE)], false),
            ("elsewhere", vec![entry(PATH, Some(&["other"]))], true),
            ("nowhere", vec![entry(PATH, None)], true),
            ("here", vec![entry(PATH, ON_NODE)], false),
        ];
        for (what, entries, contradicted) in listings {
            let found = |driver| is_contradicted(&disk(driver), entries.clone());
            assert_eq!(found("csi.vsphere.vmware.com"), contradicted, "{what}");
            assert_eq!(found("file.csi.azure.com"), contradicted, "{what}");
            let other = contradicted || what == "by UUID alone";
            assert_eq!(found("disk.csi.azure.com"), other, "{what}");
        }
        let gone = Expected {
            attached: false,
            ..disk("csi.vsphere.vmware.com")
        };
        assert!(is_contradicted(&gone, vec![entry(PATH, ON_NODE)]));
    }
}
