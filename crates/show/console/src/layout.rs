//! The frame of all pages.

use maud::{DOCTYPE, Markup, html};

use crate::Request;

/// The pages of the navigation: path and name.
const PAGES: [(&str, &str); 11] = [
    ("/", "Topology"),
    ("/pending", "Pending"),
    ("/workloads", "Workloads"),
    ("/nodes", "Nodes"),
    ("/rules", "Rules"),
    ("/what-if", "What if"),
    ("/sets", "Sets"),
    ("/lint", "Lint"),
    ("/enforcer", "Enforcer"),
    ("/timeline", "Timeline"),
    ("/events", "Events"),
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
                script src="/assets/console.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header {
                    p.cluster { (cluster) }
                    nav aria-label="Pages" {
                        ul {
                            @for (to, name) in PAGES {
                                li { a href=(to) aria-current=[current(to, path)] { (name) } }
                            }
                        }
                    }
                    search {
                        form action="/search" {
                            label { "Search " input type="search" name="q" placeholder="pod, workload or node" size="20"; }
                        }
                    }
                }
                main id="content" tabindex="-1" data-still=[request.form.map(|_| "")] {
                    @if let Some(notice) = notice { p.notice role="status" { (notice) } }
                    h1 { (title) }
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
