//! Images: on how many nodes each is present.

use std::collections::BTreeMap;

use berth_api::object::ContainerImage;
use rustc_hash::FxHashMap;

use crate::state::interned::intern::{Symbol, Symbols};

/// The number of nodes that have each image, by name.
#[derive(Clone, Default)]
pub(crate) struct Images {
    n_nodes: FxHashMap<Symbol, i64>,
}

/// A node's images: names and bytes, sorted by name.
pub(crate) type NodeImages = Box<[(Symbol, i64)]>;

impl Images {
    /// Counts a node's images in; their symbols are the node's.
    pub(crate) fn add(&mut self, symbols: &mut Symbols, images: &[ContainerImage]) -> NodeImages {
        // A name listed twice on one node counts once, with its last size.
        let names =
            images.iter().flat_map(|image| image.names.iter().map(move |name| (name, image.size_bytes)));
        let sizes: BTreeMap<&str, i64> = names.map(|(name, size)| (name.as_str(), size)).collect();
        let sizes: BTreeMap<Symbol, i64> =
            sizes.into_iter().map(|(name, size)| (symbols.intern(name), size)).collect();
        for name in sizes.keys() {
            *self.n_nodes.entry(*name).or_default() += 1;
        }
        sizes.into_iter().collect()
    }

    /// Counts a node's images out.
    pub(crate) fn remove(&mut self, images: &NodeImages) {
        for (name, _) in images {
            if let Some(n) = self.n_nodes.get_mut(name) {
                *n -= 1;
                if *n == 0 {
                    self.n_nodes.remove(name);
                }
            }
        }
    }

    pub(crate) fn n_nodes(&self, name: Symbol) -> i64 {
        self.n_nodes.get(&name).copied().unwrap_or(0)
    }
}
