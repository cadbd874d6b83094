//! Interning: a text becomes a small number once, and is compared as a number from then on.

use std::sync::Arc;

use berth_api::by_hash::ByHash;

/// An interned text. Equal texts have equal symbols within one cluster, for as long as the symbol has users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(pub(crate) u32);

#[derive(Clone)]
struct Entry {
    text: Arc<str>,
    n_users: u32,
}

/// The texts in use, each with the number of its users: every [`Symbols::intern`] is to be followed by one
/// [`Symbols::release`].
#[derive(Clone, Default)]
pub(crate) struct Symbols {
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_text: ByHash,
}

impl Symbols {
    pub(crate) fn len(&self) -> usize {
        self.by_text.len()
    }

    /// The symbol of a text, with one more user.
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        if let Some(found) = self.get(text) {
            self.retain(found);
            return found;
        }
        let entry = Entry { text: text.into(), n_users: 1 };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 distinct texts fit in memory")
            }
        };
        self.by_text.insert(text, index);
        Symbol(index)
    }

    /// Counts one more user.
    pub(crate) fn retain(&mut self, symbol: Symbol) {
        self.entries[symbol.0 as usize].n_users += 1;
    }

    /// Counts one user fewer; the last one takes the text with it.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let entry = &mut self.entries[symbol.0 as usize];
        debug_assert!(entry.n_users > 0, "a symbol is released once for each time it was interned");
        entry.n_users -= 1;
        if entry.n_users == 0 {
            let text = std::mem::take(&mut entry.text);
            self.by_text.remove(&*text, symbol.0);
            self.free.push(symbol.0);
        }
    }

    pub(crate) fn release_all(&mut self, symbols: impl IntoIterator<Item = Symbol>) {
        symbols.into_iter().for_each(|symbol| self.release(symbol));
    }

    pub(crate) fn n_users(&self, symbol: Symbol) -> u32 {
        self.entries[symbol.0 as usize].n_users
    }

    /// The symbol of a text, if it has users.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        self.by_text.find(text, |i| *self.entries[i as usize].text == *text).map(Symbol)
    }

    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        &self.entries[symbol.0 as usize].text
    }

    /// The text of a symbol, for those who keep it beyond the symbol.
    pub(crate) fn shared_text(&self, symbol: Symbol) -> Arc<str> {
        self.entries[symbol.0 as usize].text.clone()
    }
}

/// Labels by symbol, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    pub(crate) fn intern<T: AsRef<str>>(
        symbols: &mut Symbols,
        labels: impl IntoIterator<Item = (T, T)>,
    ) -> Labels {
        let pair = |(key, value): (T, T)| (symbols.intern(key.as_ref()), symbols.intern(value.as_ref()));
        let mut pairs: Vec<_> = labels.into_iter().map(pair).collect();
        pairs.sort_unstable();
        Labels(pairs.into())
    }

    /// These labels and others, which replace those with the same keys; each symbol with one more user.
    pub(crate) fn with(&self, symbols: &mut Symbols, others: &[(String, String)]) -> Labels {
        let intern = |(key, value): &(String, String)| (symbols.intern(key), symbols.intern(value));
        let mut pairs: Vec<_> = others.iter().map(intern).collect();
        for (key, value) in self.iter() {
            if pairs.iter().all(|(other, _)| *other != key) {
                symbols.retain(key);
                symbols.retain(value);
                pairs.push((key, value));
            }
        }
        pairs.sort_unstable();
        Labels(pairs.into())
    }

    pub(crate) fn get(&self, key: Symbol) -> Option<Symbol> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|i| self.0[i].1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.0.iter().flat_map(|(key, value)| [*key, *value])
    }

    /// Only the labels whose key passes.
    pub(crate) fn restricted(&self, mut keep: impl FnMut(Symbol) -> bool) -> Labels {
        Labels(self.0.iter().copied().filter(|(k, _)| keep(*k)).collect())
    }
}
