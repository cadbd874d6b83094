//! The frame of all pages.

use maud::{DOCTYPE, Markup, html};

use crate::Request;
use crate::components::icons::{self, icon};

/// A page of the navigation: path, name and icon.
type Entry = (&'static str, &'static str, &'static str);

/// The pages of the navigation in groups.
const PAGES: [(&str, &[Entry]); 3] = [
    (
        "Cluster",
        &[
            ("/", "Overview", icons::OVERVIEW),
            ("/topology", "Topology", icons::TOPOLOGY),
            ("/pending", "Pending", icons::PENDING),
            ("/workloads", "Workloads", icons::WORKLOADS),
            ("/pods", "Pods", icons::PODS),
            ("/groups", "Groups", icons::GROUPS),
            ("/nodes", "Nodes", icons::NODES),
            ("/claims", "Claims", icons::CLAIMS),
        ],
    ),
    (
        "Placement",
        &[
            ("/what-if", "What if", icons::WHAT_IF),
            ("/rules", "Rules", icons::RULES),
            ("/sets", "Sets", icons::SETS),
            ("/lint", "Lint", icons::LINT),
        ],
    ),
    (
        "Activity",
        &[
            ("/enforcer", "Enforcer", icons::ENFORCER),
            ("/rebalance", "Rebalance", icons::REBALANCE),
            ("/timeline", "Timeline", icons::TIMELINE),
            ("/events", "Events", icons::EVENTS),
        ],
    ),
];

/// A page. `cluster` is the name of the cluster, `notice` why what is shown may be out of date. The answer to a form does not follow
/// the cluster.
pub fn page(
    cluster: &str,
    notice: Option<&str>,
    request: &Request<'_>,
    title: &str,
    content: &Markup,
) -> String {
    let path = request.path;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - " (cluster) " - Berth" }
                // Browsers ask for an icon that no page names.
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/assets/console.css";
                script src="/assets/page.js" defer {}
                script src="/assets/console.js" defer {}
            }
            body {
                header {
                    a.skip href="#content" { "Skip to content" }
                    button.menu-button type="button" popovertarget="menu" { (icon(icons::MENU)) "Menu" }
                    a.brand href="/" { (icon(icons::BERTH)) "Berth" }
                    p.cluster title=(cluster) { (cluster) }
                    search {
                        form action="/search" {
                            label { span.unseen { "Search" } input type="search" name="q" placeholder="Search pods, workloads, nodes"; }
                        }
                    }
                }
                // A popover on narrow screens only.
                nav id="menu" popover aria-label="Pages" {
                    @for (group, pages) in PAGES {
                        p id={ "menu-" (group) } { (group) }
                        ul aria-labelledby={ "menu-" (group) } {
                            @for (to, name, path_of_icon) in pages {
                                li { a href=(to) aria-current=[current(to, path)] { (icon(path_of_icon)) (name) } }
                            }
                        }
                    }
                }
                main id="content" tabindex="-1" data-still=[request.form.map(|_| "")] {
                    @if let Some(notice) = notice { p.notice role="status" { (notice) } }
                    (content)
                }
            }
        }
    }
    .into_string()
}

/// `page` for the page itself, `true` for one below it.
fn current(to: &str, path: &str) -> Option<&'static str> {
    let below = || to != "/" && path.strip_prefix(to).is_some_and(|rest| rest.starts_with('/'));
    if to == path { Some("page") } else { below().then_some("true") }
}
