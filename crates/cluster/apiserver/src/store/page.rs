//! Pages of a list, in the order of namespace and name, as the objects were at one version.
//!
//! A page of an earlier version is the present one with the later events undone. No state is kept between the pages that
//! a client reads: a version can be read as long as the history reaches back to it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::collection::{Collection, TooOld};
use super::object::Object;
use super::selector::Filter;

/// Namespace and name.
pub type Position = (Box<str>, Box<str>);

#[derive(Debug)]
pub struct Page {
    pub revision: u64,
    pub objects: Vec<Arc<Object>>,
    /// The last object of the page, if others follow.
    pub next: Option<Position>,
    /// How many objects the namespaces of the list had when its first page was read.
    pub total: usize,
}

fn position(object: &Object) -> (&str, &str) {
    (object.facts.namespace(), object.facts.name())
}

impl Collection {
    /// Appends the selected objects after a position, as they were at a version, until there are more than `limit`.
    /// Looks at up to `max_scanned` objects, and returns the last of these if there are more.
    ///
    /// # Errors
    /// The history does not reach back to the version.
    pub fn append_page(
        &self,
        filter: &Filter,
        revision: u64,
        after: Option<&Position>,
        (limit, max_scanned): (usize, usize),
        page: &mut Vec<Arc<Object>>,
    ) -> Result<Option<Position>, TooOld> {
        let after = after.map(|(namespace, name)| (&**namespace, &**name));
        let undone = self.undone(filter, revision, after)?;
        let mut n_scanned = 0;
        for object in merged(self.after(filter, after), undone) {
            if filter.matches(&object.facts) {
                page.push(object.clone());
            }
            n_scanned += 1;
            if page.len() > limit || n_scanned >= max_scanned {
                let (namespace, name) = position(object);
                return Ok(Some((namespace.into(), name.into())).filter(|_| page.len() <= limit));
            }
        }
        Ok(None)
    }

    /// The present objects after a position; those outside of the filter's namespace, or of another name than it
    /// requires, are left out.
    fn after<'c>(
        &'c self,
        filter: &'c Filter,
        after: Option<(&'c str, &'c str)>,
    ) -> impl Iterator<Item = &'c Arc<Object>> {
        let namespaces = match (&filter.namespace, after) {
            (Some(namespace), _) => {
                (Bound::Included(namespace.as_str()), Bound::Included(namespace.as_str()))
            }
            (None, Some((namespace, _))) => (Bound::Included(namespace), Bound::Unbounded),
            (None, None) => (Bound::Unbounded, Bound::Unbounded),
        };
        self.objects().range(namespaces, move |namespace| {
            let after = after.filter(|(passed, _)| *passed == namespace).map(|(_, name)| name);
            let one = filter.name().filter(|name| after.is_none_or(|after| after < *name));
            match (one, after) {
                (Some(name), _) => (Bound::Included(name), Bound::Included(name)),
                (None, Some(name)) => (Bound::Excluded(name), Bound::Unbounded),
                (None, None) => (Bound::Unbounded, Bound::Unbounded),
            }
        })
    }

    /// The objects after a position in the filter's namespace that changed after a version, as they were at that
    /// version; `None` for those that did not exist.
    fn undone(
        &self,
        filter: &Filter,
        revision: u64,
        after: Option<(&str, &str)>,
    ) -> Result<Undone<'_>, TooOld> {
        let mut undone = Undone::new();
        for event in self.undoable_events(revision)? {
            let position = position(&event.object);
            let is_in_namespace = filter.namespace.as_deref().is_none_or(|namespace| namespace == position.0);
            if is_in_namespace && after.is_none_or(|after| position > after) {
                undone.entry(position).or_insert(event.previous.as_ref());
            }
        }
        Ok(undone)
    }
}

/// Former states of objects by their position.
type Undone<'c> = BTreeMap<(&'c str, &'c str), Option<&'c Arc<Object>>>;

/// Present objects in order, with former states in the place of present ones.
fn merged<'c>(
    present: impl Iterator<Item = &'c Arc<Object>>,
    undone: Undone<'c>,
) -> impl Iterator<Item = &'c Arc<Object>> {
    let (mut present, mut undone) = (present.peekable(), undone.into_iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (present.peek(), undone.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(object), Some((former, _))) => position(object).cmp(former),
            };
            match order {
                Ordering::Less => return present.next(),
                // The former state, which is now alone, is next.
                Ordering::Equal => drop(present.next()),
                Ordering::Greater => {
                    if let Some((_, Some(former))) = undone.next() {
                        return Some(former);
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use berth_schema::resource::PODS;
    use serde_json::json;

    use super::super::collection::HistoryBounds;
    use super::super::object::EventType;
    use super::*;

    fn apply(collection: &mut Collection, place: &str, revision: u64, event_type: EventType) {
        let (namespace, name) = place.split_once('/').unwrap();
        let value = json!({"metadata": {"namespace": namespace, "name": name}});
        collection.apply(Arc::new(Object::encode(&PODS, &value, revision)), event_type);
    }

    /// The list at a version, read in pages of two whose scans look at `max_scanned` objects.
    fn read(collection: &Collection, filter: &Filter, revision: u64, max_scanned: usize) -> Vec<String> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let mut page = Vec::new();
            let limits = (1, max_scanned);
            let stopped =
                collection.append_page(filter, revision, after.as_ref(), limits, &mut page).unwrap();
            found.extend(
                page.iter().map(|o| format!("{}/{}@{}", o.facts.namespace(), o.facts.name(), o.revision)),
            );
            let last = page.last().map(|o| (o.facts.namespace().into(), o.facts.name().into()));
            match stopped.or(last.filter(|_| page.len() > 1)) {
                Some(position) => after = Some(position),
                None => return found,
            }
        }
    }

    #[test]
    fn every_version_in_the_history_can_be_read_in_pages() {
        let bounds = HistoryBounds { events: 60, bytes: usize::MAX };
        let mut collection = Collection::new(&PODS, 0, bounds, &Arc::default());
        // The expected list at each version.
        let mut lists: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new()];
        let mut random = fastrand::Rng::with_seed(5);
        for revision in 1..=100 {
            let place = format!("{}/{}", random.u8(0..3), random.u8(0..6));
            let mut list = lists.last().cloned().unwrap();
            let event_type = match list.contains_key(&place) {
                false => EventType::Added,
                true if random.bool() => EventType::Modified,
                true => EventType::Deleted,
            };
            apply(&mut collection, &place, revision, event_type);
            list.insert(place.clone(), revision);
            if event_type == EventType::Deleted {
                list.remove(&place);
            }
            lists.push(list);
        }
        let named = Filter::parse(&PODS, None, "", "metadata.name=3").unwrap();
        for (revision, list) in lists.iter().enumerate().skip(40) {
            let wanted = |selects: &dyn Fn(&str) -> bool| -> Vec<String> {
                let list = list.iter().filter(|(place, _)| selects(place));
                list.map(|(place, at)| format!("{place}@{at}")).collect()
            };
            for max_scanned in [1, 3, usize::MAX] {
                let read = |filter: &Filter| read(&collection, filter, revision as u64, max_scanned);
                assert_eq!(read(&Filter::default()), wanted(&|_| true));
                assert_eq!(read(&Filter::in_namespace("1")), wanted(&|place| place.starts_with("1/")));
                assert_eq!(read(&named), wanted(&|place| place.ends_with("/3")));
            }
        }
        assert!(collection.append_page(&named, 39, None, (1, 1), &mut Vec::new()).is_err());
    }
}
