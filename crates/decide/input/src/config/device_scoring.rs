//! `scoringStrategy` of `DynamicResourcesArgs`, an extension: kube-scheduler does not score devices.

use berth_api::read::fields::Fields;

/// The strategy `LeastWaste`: partitions of devices in use before those of free devices, small devices before large ones, and
/// groups of linked devices are kept free as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeastWaste {
    /// Attributes by `DOMAIN/NAME`: devices of a node with equal values of one are linked, as by NVLink.
    pub link_attributes: Vec<String>,
}

impl LeastWaste {
    pub(super) fn read(strategy: &mut Fields<'_>) -> LeastWaste {
        if let Some(kind) = strategy.required_string("type")
            && kind.string() != Some("LeastWaste")
        {
            kind.invalid("must be \"LeastWaste\"");
        }
        let is_qualified = |name: &str| {
            name.split_once('/').is_some_and(|(domain, id)| !domain.is_empty() && !id.is_empty())
        };
        let mut link_attributes = Vec::new();
        for item in strategy.items("linkAttributes") {
            match item.string() {
                Some(name) if is_qualified(name) => link_attributes.push(name.to_owned()),
                Some(_) => {
                    item.invalid("must be the name of an attribute with its domain, as example.com/link");
                }
                None => {}
            }
        }
        LeastWaste { link_attributes }
    }
}
