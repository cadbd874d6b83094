//! Snapshots of paginated lists: the remaining objects stay as they were at the first page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::object::Object;
use super::selector::Filter;

/// Maximum number of snapshots; the oldest is removed first.
const MAX_SNAPSHOTS: usize = 64;
/// How many objects all of them may hold together.
const MAX_OBJECTS: usize = 4_000_000;
/// Maximum time between two pages of a client.
const LIFETIME: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct Snapshot {
    resource: usize,
    revision: u64,
    filter: Filter,
    objects: Arc<Vec<Arc<Object>>>,
    used: Instant,
}

/// The lists being read page by page.
#[derive(Debug, Default)]
pub struct Snapshots {
    kept: Mutex<VecDeque<Snapshot>>,
}

impl Snapshots {
    /// Stores a list after its first page was returned.
    pub fn keep(
        &self,
        resource: usize,
        revision: u64,
        filter: &Filter,
        objects: Arc<Vec<Arc<Object>>>,
        now: Instant,
    ) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |s: &Snapshot| s.resource == resource && s.revision == revision && s.filter == *filter;
        kept.retain(|s| !same(s) && now.saturating_duration_since(s.used) < LIFETIME);
        kept.push_back(Snapshot { resource, revision, filter: filter.clone(), objects, used: now });
        while kept.len() > MAX_SNAPSHOTS
            || (kept.len() > 1 && kept.iter().map(|s| s.objects.len()).sum::<usize>() > MAX_OBJECTS)
        {
            kept.pop_front();
        }
    }

    /// The list at a version, if its snapshot still exists.
    pub fn get(
        &self,
        resource: usize,
        revision: u64,
        filter: &Filter,
        now: Instant,
    ) -> Option<Arc<Vec<Arc<Object>>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = kept
            .iter_mut()
            .find(|s| s.resource == resource && s.revision == revision && s.filter == *filter)?;
        if now.saturating_duration_since(snapshot.used) >= LIFETIME {
            return None;
        }
        snapshot.used = now;
        Some(snapshot.objects.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_expire_by_age_and_by_number() {
        let snapshots = Snapshots::default();
        let (filter, now) = (Filter::default(), Instant::now());
        let empty = || Arc::new(Vec::new());
        snapshots.keep(0, 1, &filter, empty(), now);
        assert!(snapshots.get(0, 1, &filter, now).is_some());
        assert!(snapshots.get(0, 2, &filter, now).is_none());
        assert!(snapshots.get(1, 1, &filter, now).is_none());
        assert!(snapshots.get(0, 1, &filter, now + LIFETIME).is_none());
        for revision in 2..=MAX_SNAPSHOTS as u64 + 1 {
            snapshots.keep(0, revision, &filter, empty(), now);
        }
        assert!(snapshots.get(0, 1, &filter, now).is_none());
        assert!(snapshots.get(0, 2, &filter, now).is_some());
    }
}
