//! Regions of zones.

use std::collections::BTreeSet;

use crate::model::driver::ZoneForm;
use crate::model::error::RegionFault;

/// The common region of all `zones`.
pub(super) fn region<'a>(
    form: ZoneForm,
    zones: impl IntoIterator<Item = &'a str>,
) -> Result<String, RegionFault> {
    let regions = zones.into_iter().map(|zone| region_of(form, zone));
    let mut regions: BTreeSet<String> = regions.collect::<Result<_, _>>()?;
    if regions.len() > 1 {
        return Err(RegionFault::Several(regions));
    }
    regions.pop_first().ok_or(RegionFault::NoZones)
}

fn region_of(form: ZoneForm, zone: &str) -> Result<String, RegionFault> {
    let parts: Vec<&str> = zone.split('-').collect();
    let region = match (form, parts.as_slice()) {
        (ZoneForm::Aws, [_, _, last] | [_, _, _, last]) if last.len() == 2 => {
            // `1a`. A last character of two bytes cannot be cut, and no zone has one.
            zone.get(..zone.len() - 1).map(str::to_owned)
        }
        (ZoneForm::Aws, [a, b, c, _, _] | [a, b, c, _, _, _, _]) => Some([*a, b, c].join("-")),
        (ZoneForm::Gce, [locale, region, _]) => Some([*locale, region].join("-")),
        (ZoneForm::Aws | ZoneForm::Gce, _) => None,
    };
    region.ok_or_else(|| match form {
        ZoneForm::Aws => RegionFault::NotAws(zone.to_owned()),
        ZoneForm::Gce => RegionFault::NotGce(zone.to_owned()),
    })
}
