//! Which existing nodes the simulated kubelets adopt.

use berth_api::object::StringMap;
use berth_rules::{Selector, SelectorError};

use crate::options::Adopt;

/// A parsed [`Adopt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeSelection {
    None,
    Some {
        labels: Selector,
        /// The names to choose from; empty for every name.
        names: Vec<String>,
    },
}

impl NodeSelection {
    pub(crate) fn parse(adopt: &Adopt) -> Result<NodeSelection, SelectorError> {
        Ok(match adopt {
            Adopt::None => NodeSelection::None,
            Adopt::All => NodeSelection::Some { labels: Selector::EVERYTHING, names: Vec::new() },
            Adopt::Selected { labels, names } => {
                NodeSelection::Some { labels: labels.parse()?, names: names.clone() }
            }
        })
    }

    pub(crate) fn matches(&self, node: &str, node_labels: &StringMap) -> bool {
        match self {
            NodeSelection::None => false,
            NodeSelection::Some { labels, names } => {
                (names.is_empty() || names.iter().any(|name| name == node))
                    && labels.matches(|key| node_labels.get(key).map(String::as_str))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_names_select_nodes() {
        let labels = StringMap::from([("zone".to_owned(), "a".to_owned())]);
        for (selector, names, selected) in [
            ("", &[][..], true),
            ("", &["x", "node"], true),
            ("", &["x"], false),
            ("zone in (a,b)", &["node"], true),
            ("zone!=a", &["node"], false),
        ] {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let selection =
                NodeSelection::parse(&Adopt::Selected { labels: selector.to_owned(), names }).unwrap();
            assert_eq!(selection.matches("node", &labels), selected, "{selector:?}");
        }
    }

    #[test]
    fn no_node_is_adopted_by_default() {
        assert!(!NodeSelection::parse(&Adopt::None).unwrap().matches("a", &StringMap::new()));
    }
}
