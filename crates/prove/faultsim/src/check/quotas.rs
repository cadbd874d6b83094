//! What a quota says is used is what is stored.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_testkit::check::history::{Changes, name, text};

use crate::workload::{COUNTED, GROWING};

/// A charge precedes its object, and both wait for the disk; the API server may stand still meanwhile. A charge without an object
/// would stay until all quotas are counted again.
const LONGEST: Duration = Duration::from_secs(60);

/// The times at which the used amount differs from the number of objects, with both: from when and until when; the last one may go
/// on.
fn differences(changes: &Changes) -> Vec<(Duration, Option<Duration>, String)> {
    let (mut stored, mut used) = (BTreeSet::new(), None);
    let mut found: Vec<(Duration, Option<Duration>, String)> = Vec::new();
    for change in changes.values().filter(|change| change.object["metadata"]["namespace"] == GROWING) {
        match change.kind.as_str() {
            "ConfigMap" if change.deleted => _ = stored.remove(&name(&change.object)),
            "ConfigMap" => _ = stored.insert(name(&change.object)),
            "ResourceQuota" => used = text(&change.object["status"]["used"][COUNTED]).parse::<usize>().ok(),
            _ => continue,
        }
        let goes_on = found.last().is_some_and(|(_, until, _)| until.is_none());
        match used.filter(|used| *used != stored.len()) {
            Some(used) if !goes_on => {
                let both = format!("the quota of {GROWING} counts {used} objects of {}", stored.len());
                found.push((change.at, None, both));
            }
            None if goes_on => found.iter_mut().for_each(|(_, until, _)| _ = until.get_or_insert(change.at)),
            _ => {}
        }
    }
    found
}

/// A difference at the end.
pub fn wrong(changes: &Changes) -> Option<String> {
    differences(changes).pop().filter(|(_, until, _)| until.is_none()).map(|(.., both)| both)
}

/// Differences that lasted, of a run that ended at a time.
pub fn check(changes: &Changes, end: Duration) -> Vec<String> {
    let lasted = |(since, until, both): (Duration, Option<Duration>, String)| {
        let length = until.unwrap_or(end).saturating_sub(since);
        (length > LONGEST)
            .then(|| format!("for {} s from {} s on: {both}", length.as_secs(), since.as_secs()))
    };
    differences(changes).into_iter().filter_map(lasted).collect()
}
