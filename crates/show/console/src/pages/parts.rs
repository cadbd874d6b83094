//! Parts that several pages have.

use std::collections::BTreeSet;

use berth_api::object::NamespacedName;
use berth_api::syntax::format::{MAX_SUGGESTIONS, counted, grouped};
use maud::{Markup, PreEscaped, html};

use super::answer::PageError;
use crate::components::listing;
pub(super) use crate::components::table;
use crate::overview::Pods;
use crate::{Request, links};

/// Items of a list that has no pages.
pub(super) const MAX_SHOWN: usize = 50;

pub(super) fn link(to: &str, text: &str) -> Markup {
    html! { a href=(to) { (text) } }
}

pub(super) fn node(name: &str) -> Markup {
    link(&links::node(name), name)
}

pub(super) fn pod(namespace: &str, name: &str) -> Markup {
    link(&links::pod(namespace, name), &format!("{namespace}/{name}"))
}

pub(super) fn claim(name: &NamespacedName) -> Markup {
    link(&links::claim(name.namespace(), name.name()), &name.to_string())
}

/// `workload` is such as `Deployment web`; none for a pod without one.
pub(super) fn workload(namespace: &str, workload: Option<&str>) -> Markup {
    match workload {
        Some(workload) => link(&links::workload(namespace, workload), workload),
        None => html! { "none" },
    }
}

/// What can be asked about a node.
pub(super) fn node_actions(name: &str, is_cordoned: bool) -> Markup {
    let ask = |change: &str, text: &str| html! { a.button.small href=(links::with("/what-if", change, name)) { (text) } };
    html! {
        div.actions {
            (ask("drain", "Drain"))
            @if is_cordoned { (ask("uncordon", "Uncordon")) } @else { (ask("cordon", "Cordon")) }
            (ask("remove-node", "Remove"))
        }
        p.detail { "Each is a what-if first: nothing is written." }
    }
}

/// An object of any kind; those with a page as a link.
pub(super) fn object(kind: &str, namespace: &str, name: &str) -> Markup {
    match kind {
        "Pod" => html! { "Pod " (pod(namespace, name)) },
        "Node" => html! { "Node " (node(name)) },
        "ResourceClaim" => html! { "Claim " (claim(&NamespacedName::new(namespace, name))) },
        // ReplicaSets belong to Deployments, whose pages show their pods.
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "Job" | "CronJob" => {
            html! { (namespace) "/" (workload(namespace, Some(&format!("{kind} {name}")))) }
        }
        _ if namespace.is_empty() => html! { (kind) " " (name) },
        _ => html! { (namespace) "/" (kind) " " (name) },
    }
}

pub(super) fn namespaces(pods: Pods<'_>) -> BTreeSet<String> {
    let of_workloads = pods.table.workloads().map(|(_, (namespace, _))| namespace.clone());
    of_workloads.chain(pods.table.single().map(|at| pods.at(at).pod.metadata.namespace.clone())).collect()
}

/// As [`table`]; nothing without rows.
pub(super) fn table_of(caption: &str, headers: &[&str], rows: Vec<Vec<Markup>>) -> Markup {
    if rows.is_empty() {
        html! {}
    } else {
        table(caption, headers, rows)
    }
}

pub(super) fn number(n: usize) -> Markup {
    html! { (grouped(n)) }
}

/// A heading with a list; nothing for an empty one.
pub(super) fn list(heading: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            section.card { h2 { (heading) } ul { @for item in items { li { (item) } } } }
        }
    }
}

/// A table of at most [`MAX_SHOWN`] items, and how many more there are; nothing without items.
pub(super) fn short_table<T>(
    caption: &str,
    headers: &[&str],
    (items, what): (&[T], &str),
    row: impl FnMut(&T) -> Vec<Markup>,
) -> Markup {
    html! {
        (table_of(caption, headers, items.iter().take(MAX_SHOWN).map(row).collect()))
        (more(items.len(), what))
    }
}

/// A list of at most [`MAX_SHOWN`] items under a heading, and how many more there are; nothing without items.
pub(super) fn short_list<T>(
    heading: &str,
    (items, what): (&[T], &str),
    item: impl Fn(&T) -> Markup,
) -> Markup {
    html! {
        @if !items.is_empty() {
            section.card {
                h2 { (heading) }
                ul { @for shown in items.iter().take(MAX_SHOWN) { li { (item(shown)) } } }
                (more(items.len(), what))
            }
        }
    }
}

/// The number of items beyond [`MAX_SHOWN`].
pub(super) fn more(n: usize, what: &str) -> Markup {
    html! { @if n > MAX_SHOWN { p { "and " (counted(n - MAX_SHOWN, &format!("more {what}"))) } } }
}

/// A picture; the style sheet of the page has its rules.
pub(super) fn figure(svg: &str) -> Markup {
    let (before, after) = berth_picture::without_style(svg);
    html! { figure.plot tabindex="0" { (PreEscaped(before)) (PreEscaped(after)) } }
}

/// The items of the page that the parameter `page` selects, and the links to the others.
pub(super) fn paged<'a, T>(request: &Request<'_>, items: &'a [T]) -> Result<(&'a [T], Markup), PageError> {
    listing::paged(request, items).map_err(PageError::Parameter)
}

/// An object that does not exist, with objects of similar names. `all` are the names of its kind; `link` gives the address and
/// the text of one of them.
pub(super) fn not_found<'a, T: Copy>(
    what: String,
    name: &str,
    all: impl Iterator<Item = T>,
    name_of: impl Fn(T) -> &'a str,
    link: impl Fn(T) -> (String, String),
) -> PageError {
    let all: Vec<T> = all.collect();
    let names = all.iter().map(|object| name_of(*object));
    let similar = berth_api::syntax::similar::positions(name, names).into_iter().take(MAX_SUGGESTIONS);
    PageError::NotFound { what, similar: similar.map(|i| link(all[i])).collect() }
}
