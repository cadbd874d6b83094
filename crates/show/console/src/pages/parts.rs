//! Parts that several pages have.

use berth_api::syntax::format::{MAX_SUGGESTIONS, counted, grouped};
use berth_engine::{Verdict, Witness};
use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

use super::answer::PageError;
use crate::Request;
use crate::links;

/// Rows of a page of a list.
const PAGE_SIZE: usize = 100;

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

/// `workload` is such as `Deployment web`; none for a pod without one.
pub(super) fn workload(namespace: &str, workload: Option<&str>) -> Markup {
    match workload {
        Some(workload) => link(&links::workload(namespace, workload), workload),
        None => html! { "none" },
    }
}

/// An object of any kind; those with a page as a link.
pub(super) fn object(kind: &str, namespace: &str, name: &str) -> Markup {
    match kind {
        "Pod" => html! { "Pod " (pod(namespace, name)) },
        "Node" => html! { "Node " (node(name)) },
        // ReplicaSets belong to Deployments, whose pages show their pods.
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "Job" | "CronJob" => {
            html! { (namespace) "/" (workload(namespace, Some(&format!("{kind} {name}")))) }
        }
        _ if namespace.is_empty() => html! { (kind) " " (name) },
        _ => html! { (namespace) "/" (kind) " " (name) },
    }
}

/// A table whose first column names the rows. Narrow windows scroll it.
pub(super) fn table(caption: &str, headers: &[&str], rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for header in headers { th scope="col" { (header) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (i, cell) in row.into_iter().enumerate() {
                                @if i == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// As [`table`]; nothing without rows.
pub(super) fn table_of(caption: &str, headers: &[&str], rows: Vec<Vec<Markup>>) -> Markup {
    if rows.is_empty() {
        html! {}
    } else {
        table(caption, headers, rows)
    }
}

/// A time, to the second.
pub(super) fn time(time: Timestamp) -> Markup {
    let text = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html! { time datetime=(text) { (text) } }
}

/// A cell with a number.
pub(super) fn number(n: usize) -> Markup {
    html! { (grouped(n)) }
}

/// A heading with a list; nothing for an empty one.
pub(super) fn list(heading: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h2 { (heading) }
            ul { @for item in items { li { (item) } } }
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
            h2 { (heading) }
            ul { @for shown in items.iter().take(MAX_SHOWN) { li { (item(shown)) } } }
            (more(items.len(), what))
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
    html! { figure tabindex="0" { (PreEscaped(before)) (PreEscaped(after)) } }
}

/// A part of 0 to 100 percent, or more of what is overcommitted.
pub(super) fn percent(percent: usize) -> Markup {
    html! { meter min="0" max="100" value=(percent) {} " " (percent) " %" }
}

/// The pods that cause something, as links.
pub(super) fn witnesses(witnesses: &[Witness], more: usize) -> Markup {
    html! {
        @for (i, Witness { namespace, name, node: on }) in witnesses.iter().enumerate() {
            @if i == 0 { "; caused by " } @else { ", " }
            (pod(namespace, name)) " on " (node(on))
        }
        @if more > 0 { " and " (grouped(more)) " more" }
    }
}

/// Why a rule does not hold, with the numbers and pods behind it.
pub(super) fn verdict(verdict: &Verdict) -> Markup {
    let Verdict { plugin, reason, term, detail, topology, counts, .. } = verdict;
    html! {
        strong { (plugin.name()) } " "
        @if let Some(term) = term { code { (term) } }
        ": " (reason)
        div.detail {
            (detail)
            @if let Some(topology) = topology { "; " (topology.to_string()) }
            @if let Some(counts) = counts { "; " (counts.text(topology.as_ref())) }
            (witnesses(&verdict.witnesses, verdict.more_witnesses))
        }
    }
}

/// The items of the page that the parameter `page` selects, and the links to the others.
///
/// # Errors
/// There is no such page.
pub(super) fn paged<'a, T>(request: &Request<'_>, items: &'a [T]) -> Result<(&'a [T], Markup), PageError> {
    let n_pages = items.len().div_ceil(PAGE_SIZE).max(1);
    let page =
        match request.parameter("page") {
            None => 1,
            Some(text) => text.parse().ok().filter(|page| (1..=n_pages).contains(page)).ok_or_else(|| {
                PageError::Parameter(format!("page={text}: give a number from 1 to {n_pages}"))
            })?,
        };
    let shown = &items[(page - 1) * PAGE_SIZE..items.len().min(page * PAGE_SIZE)];
    let to = |page: usize| {
        let others = request.parameters().filter(|(key, _)| key != "page");
        let path =
            others.fold(request.path.to_owned(), |path, (key, value)| links::with(&path, &key, &value));
        links::with(&path, "page", &page.to_string())
    };
    let markup = html! {
        @if n_pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a href=(to(page - 1)) rel="prev" { "Previous" } " " }
                "Page " (page) " of " (grouped(n_pages)) ", " (grouped(items.len())) " in all"
                @if page < n_pages { " " a href=(to(page + 1)) rel="next" { "Next" } }
            }
        }
    };
    Ok((shown, markup))
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
