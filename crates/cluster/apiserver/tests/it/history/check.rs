//! Checks of recorded histories. They share no code with the server, and know of it only what the API promises:
//!
//! - Requests for one object are linearizable: each takes effect at one moment between its start and its end. The search is
//!   that of Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) with the cache of states of Lowe ("Testing for
//!   linearizability", 2017).
//! - Every change has its own resource version, in the order of the requests that made them.
//! - A list has exactly the objects of its version, and is not older than what was acknowledged before.
//! - A watch delivers every later change that it selects once, in order; a bookmark comes after all changes up to its version.

use std::collections::{BTreeMap, HashMap, HashSet};

/// A resource version.
pub type Version = u64;
/// A value that is written once at most.
pub type Id = u64;
/// A property of an object that watches select.
pub type Group = u64;

/// A request for one object.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object.
    pub object: usize,
    /// When it was sent, on a clock that counts requests and responses.
    pub start: u64,
    /// When the response came; `u64::MAX` if none did.
    pub end: u64,
    /// What it asked for.
    pub action: Action,
    /// The response.
    pub outcome: Outcome,
}

/// What a request asks for. Without an expected value, it applies to any.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Read,
    Create(Id),
    Replace { expected: Option<Id>, id: Id },
    Delete { expected: Option<Id> },
}

/// The response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value that was read.
    Found(Id),
    /// The version that was written, if the response has it.
    Written(Option<Version>),
    NotFound,
    AlreadyExists,
    Conflict,
    /// It may have taken effect, or may still do so.
    Unknown,
}

/// A change as a watch delivers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub version: Version,
    pub object: usize,
    pub kind: Kind,
    pub id: Id,
}

/// What happened to an object, or to its part in a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Added,
    Modified,
    Deleted,
}

/// The objects of a list by their indices, with version and value.
pub type Items = BTreeMap<usize, (Version, Id)>;

/// A complete list.
#[derive(Clone, Debug)]
pub struct List {
    /// When it was requested.
    pub start: u64,
    pub version: Version,
    pub items: Items,
}

/// A part of a watch's stream.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    Change(Change),
    Bookmark(Version),
}

/// A watch.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The version it began at.
    pub from: Version,
    /// The initial objects, if it began with a list.
    pub initial: Option<Items>,
    /// The group that it selects; all if `None`.
    pub group: Option<Group>,
    pub entries: Vec<Entry>,
}

/// Everything that clients saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The version before the first change; there is no object.
    pub start: Version,
    /// All changes, from a watch of all objects that was resumed after every restart.
    pub log: Vec<Change>,
    /// The groups of objects while they had a value of the log.
    pub groups: HashMap<Id, Group>,
    pub requests: Vec<Request>,
    pub lists: Vec<List>,
    pub watches: Vec<Watch>,
}

impl History {
    /// Whether all promises were kept; otherwise, which one was not.
    pub fn check(&self) -> Result<(), String> {
        self.check_log()?;
        self.check_versions()?;
        self.check_lists()?;
        self.watches.iter().try_for_each(|watch| self.check_watch(watch))?;
        let objects: HashSet<usize> = self.requests.iter().map(|request| request.object).collect();
        objects.into_iter().try_for_each(|object| self.check_linearizable(object))
    }

    /// The log is possible: versions grow, objects are added before they change, and every value was written once.
    fn check_log(&self) -> Result<(), String> {
        let (mut last, mut present, mut written) = (self.start, HashMap::new(), HashSet::new());
        let ids = self.requests.iter().filter_map(|request| match (request.action, request.outcome) {
            (Action::Create(id) | Action::Replace { id, .. }, Outcome::Written(_) | Outcome::Unknown) => {
                Some((id, request.object))
            }
            _ => None,
        });
        let possible: HashSet<(Id, usize)> = ids.collect();
        for change in &self.log {
            if change.version <= last {
                return Err(format!("log: version {last} is followed by {change:?}"));
            }
            last = change.version;
            let before = match change.kind {
                Kind::Deleted => present.remove(&change.object),
                Kind::Added | Kind::Modified => present.insert(change.object, change.id),
            };
            let is_possible = match change.kind {
                Kind::Added => before.is_none(),
                Kind::Modified => before.is_some(),
                Kind::Deleted => before == Some(change.id),
            };
            if !is_possible {
                return Err(format!("log: {change:?} of an object with value {before:?}"));
            }
            let is_write = change.kind != Kind::Deleted;
            if is_write && (!possible.contains(&(change.id, change.object)) || !written.insert(change.id)) {
                return Err(format!("log: {change:?} was not requested, or was refused, or is there twice"));
            }
        }
        Ok(())
    }

    /// Acknowledged writes are in the log, with versions in the order of the requests.
    fn check_versions(&self) -> Result<(), String> {
        let logged: HashMap<Id, Version> =
            self.log.iter().filter(|c| c.kind != Kind::Deleted).map(|c| (c.id, c.version)).collect();
        let mut writes = Vec::new();
        for request in &self.requests {
            let (Action::Create(id) | Action::Replace { id, .. }) = request.action else { continue };
            let Outcome::Written(version) = request.outcome else { continue };
            match logged.get(&id) {
                Some(found) if version.is_none_or(|version| version == *found) => {
                    writes.push((request.start, request.end, *found));
                }
                other => return Err(format!("{request:?} is acknowledged, and in the log at {other:?}")),
            }
        }
        let lists = self.lists.iter().map(|list| (list.start, u64::MAX, list.version));
        // The newest version that was acknowledged before each start.
        let mut starts: Vec<_> = writes.iter().copied().chain(lists).collect();
        starts.sort_unstable();
        writes.sort_unstable_by_key(|(_, end, _)| *end);
        let mut ended = writes.iter().peekable();
        let mut newest = self.start;
        for (start, end, version) in starts {
            while let Some((_, _, before)) = ended.next_if(|(_, ended, _)| *ended < start) {
                newest = newest.max(*before);
            }
            // A list may have the version of the last write.
            if version < newest || (end != u64::MAX && version == newest) {
                return Err(format!(
                    "version {version} was given after version {newest} had been acknowledged"
                ));
            }
        }
        Ok(())
    }

    fn is_in(&self, id: Id, group: Option<Group>) -> bool {
        group.is_none_or(|group| self.groups.get(&id) == Some(&group))
    }

    /// The objects of a selection after the change with a version.
    fn state_at(&self, version: Version, group: Option<Group>) -> Items {
        let mut items = Items::new();
        for change in self.log.iter().take_while(|change| change.version <= version) {
            match change.kind {
                Kind::Deleted => items.remove(&change.object),
                _ => items.insert(change.object, (change.version, change.id)),
            };
        }
        items.retain(|_, (_, id)| self.is_in(*id, group));
        items
    }

    fn check_lists(&self) -> Result<(), String> {
        for list in &self.lists {
            let expected = self.state_at(list.version, None);
            if list.items != expected {
                return Err(format!("{list:?} should have {expected:?}"));
            }
        }
        Ok(())
    }

    /// The log as a watch of a selection from a version sees it.
    fn seen(&self, from: Version, group: Option<Group>) -> Vec<Change> {
        let selected = |id: Option<Id>| id.is_some_and(|id| self.is_in(id, group));
        let mut present: HashMap<usize, Id> = HashMap::new();
        let mut seen = Vec::new();
        for change in &self.log {
            let (before, after) = match change.kind {
                Kind::Deleted => (present.remove(&change.object), None),
                _ => (present.insert(change.object, change.id), Some(change.id)),
            };
            let (kind, id) = match (selected(before), selected(after)) {
                (false, false) => continue,
                (false, true) => (Kind::Added, change.id),
                (true, true) => (Kind::Modified, change.id),
                // As it was while it was selected.
                (true, false) => (Kind::Deleted, before.unwrap_or(change.id)),
            };
            if change.version > from {
                seen.push(Change { kind, id, ..*change });
            }
        }
        seen
    }

    fn check_watch(&self, watch: &Watch) -> Result<(), String> {
        let Watch { from, group, .. } = *watch;
        let name = format!("watch from {from} of group {group:?}");
        if let Some(initial) = &watch.initial {
            let expected = self.state_at(from, group);
            if *initial != expected {
                return Err(format!("{name}: initial {initial:?} should be {expected:?}"));
            }
        }
        let mut expected = self.seen(from, group).into_iter().peekable();
        for entry in &watch.entries {
            match *entry {
                Entry::Change(change) => {
                    let next = expected.next();
                    if next != Some(change) {
                        return Err(format!("{name}: {change:?} instead of {next:?}"));
                    }
                }
                Entry::Bookmark(version) => {
                    if let Some(missing) = expected.next_if(|change| change.version <= version) {
                        return Err(format!("{name}: a bookmark at {version} before {missing:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there is an order of an object's requests that explains their responses.
    fn check_linearizable(&self, object: usize) -> Result<(), String> {
        let logged: HashSet<Id> = self.log.iter().map(|change| change.id).collect();
        let requests: Vec<&Request> = self
            .requests
            .iter()
            .filter(|request| request.object == object)
            // A write that was not acknowledged and is not in the log did not take effect.
            .filter(|request| match (request.action, request.outcome) {
                (Action::Read, Outcome::Unknown) => false,
                (Action::Create(id) | Action::Replace { id, .. }, Outcome::Unknown) => logged.contains(&id),
                _ => true,
            })
            .collect();
        let mut search = Search { requests: &requests, failed: HashSet::new() };
        if search.run(&mut vec![false; requests.len()], None) {
            return Ok(());
        }
        Err(format!("object {object}: no order explains these requests: {requests:#?}"))
    }
}

struct Search<'h> {
    requests: &'h [&'h Request],
    /// The sets of ordered requests, with the state after them, that have been tried.
    failed: HashSet<(Vec<bool>, Option<Id>)>,
}

impl Search<'_> {
    fn run(&mut self, done: &mut Vec<bool>, state: Option<Id>) -> bool {
        let remaining: Vec<usize> = (0..done.len()).filter(|i| !done[*i]).collect();
        if remaining.iter().all(|i| self.requests[*i].outcome == Outcome::Unknown) {
            return true;
        }
        if !self.failed.insert((done.clone(), state)) {
            return false;
        }
        // The next request started before any other of them ended.
        let first_end = remaining.iter().map(|i| self.requests[*i].end).min().unwrap_or(u64::MAX);
        for i in remaining {
            let request = self.requests[i];
            if request.start > first_end {
                continue;
            }
            if let Some(after) = step(request, state) {
                done[i] = true;
                if self.run(done, after) {
                    return true;
                }
                done[i] = false;
            }
        }
        false
    }
}

/// The value after a request, if its response is right for the value before it.
fn step(request: &Request, state: Option<Id>) -> Option<Option<Id>> {
    let is_expected = |expected: Option<Id>| expected.is_none_or(|expected| state == Some(expected));
    match (request.action, request.outcome) {
        (Action::Read, Outcome::Found(id)) => (state == Some(id)).then_some(state),
        (Action::Create(id), Outcome::Written(_) | Outcome::Unknown) => state.is_none().then_some(Some(id)),
        (Action::Create(_), Outcome::AlreadyExists) => state.is_some().then_some(state),
        (Action::Replace { expected, id }, Outcome::Written(_) | Outcome::Unknown) => {
            (state.is_some() && is_expected(expected)).then_some(Some(id))
        }
        (Action::Delete { expected }, Outcome::Written(_) | Outcome::Unknown) => {
            (state.is_some() && is_expected(expected)).then_some(None)
        }
        // Without an expected value, it is the server's own attempts that met other writes.
        (Action::Replace { expected, .. } | Action::Delete { expected }, Outcome::Conflict) => {
            (expected.is_none() || (state.is_some() && !is_expected(expected))).then_some(state)
        }
        (Action::Read | Action::Replace { .. } | Action::Delete { .. }, Outcome::NotFound) => {
            state.is_none().then_some(state)
        }
        _ => None,
    }
}
