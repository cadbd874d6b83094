//! Interning: a text becomes a small number once, and is compared as a number ever after.

use std::collections::HashMap;
use std::sync::Arc;

/// An interned text. Equal texts have equal symbols within one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(pub(crate) u32);

/// The texts seen so far. They are never forgotten: the vocabulary of label keys and values is small
/// beside the objects that use it.
///
/// The map is keyed by what users send, so it keeps the standard library's keyed hasher.
#[derive(Default)]
pub(crate) struct Symbols {
    by_text: HashMap<Arc<str>, Symbol>,
    texts: Vec<Arc<str>>,
}

impl Symbols {
    /// The symbol of a text, made if need be.
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.by_text.get(text) {
            return *symbol;
        }
        let symbol =
            Symbol(u32::try_from(self.texts.len()).expect("fewer than 2^32 distinct texts fit in memory"));
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.by_text.insert(text, symbol);
        symbol
    }

    /// The symbol of a text, if it has been seen.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        self.by_text.get(text).copied()
    }

    /// The text of a symbol.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        &self.texts[symbol.0 as usize]
    }
}

/// Labels by symbol, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    pub(crate) fn intern<'a>(
        symbols: &mut Symbols,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Labels {
        let mut pairs: Vec<_> =
            labels.into_iter().map(|(k, v)| (symbols.intern(k), symbols.intern(v))).collect();
        pairs.sort_unstable();
        Labels(pairs.into())
    }

    pub(crate) fn get(&self, key: Symbol) -> Option<Symbol> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|i| self.0[i].1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.0.iter().copied()
    }

    /// Only the labels whose key passes.
    pub(crate) fn restricted(&self, mut keep: impl FnMut(Symbol) -> bool) -> Labels {
        Labels(self.0.iter().copied().filter(|(k, _)| keep(*k)).collect())
    }
}
