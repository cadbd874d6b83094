//! Informers: caches of typed objects that list and watch keep up to date, as client-go's.
//!
//! An [`Informer`] watches one collection. It applies the events to its [`Cache`] and then calls its handlers, in its
//! own task. After a relist, handlers get the differences as changes.

mod cache;
mod changed_keys;
mod observed;
mod run;

pub use cache::{Cache, Change, Indexer};
pub use changed_keys::ChangedKeys;
pub use observed::{ObservedObject, ObservedSpec, ObservedStatus};
pub use run::Informer;
