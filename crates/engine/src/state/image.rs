//! Images: on how many nodes each is present.

use std::collections::HashMap;

use berth_api::object::ContainerImage;
use rustc_hash::FxHashMap;

use super::intern::{Symbol, Symbols};

/// An image name's size and spread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImageState {
    /// Bytes, as the first node that reported the name did.
    pub(crate) size: i64,
    pub(crate) n_nodes: i64,
}

/// All image names on nodes.
#[derive(Default)]
pub(crate) struct Images {
    by_name: FxHashMap<Symbol, ImageState>,
}

impl Images {
    /// Takes note of a node's images and returns their names, sorted.
    pub(crate) fn add(&mut self, symbols: &mut Symbols, images: &[ContainerImage]) -> Box<[Symbol]> {
        // A name listed twice on one node counts once, with its first size.
        let mut sizes = HashMap::new();
        for image in images {
            for name in &image.names {
                sizes.entry(symbols.intern(name)).or_insert(image.size_bytes);
            }
        }
        for (name, size) in &sizes {
            let state = self.by_name.entry(*name).or_insert(ImageState { size: *size, n_nodes: 0 });
            state.n_nodes += 1;
        }
        let mut names: Box<[Symbol]> = sizes.into_keys().collect();
        names.sort_unstable();
        names
    }

    /// A node's images have gone.
    pub(crate) fn remove(&mut self, names: &[Symbol]) {
        for name in names {
            if let Some(state) = self.by_name.get_mut(name) {
                state.n_nodes -= 1;
                if state.n_nodes == 0 {
                    self.by_name.remove(name);
                }
            }
        }
    }

    pub(crate) fn get(&self, name: Symbol) -> Option<ImageState> {
        self.by_name.get(&name).copied()
    }
}
