//! The frame of all pages.

use maud::{DOCTYPE, Markup, html};

/// The pages of the navigation: path and name.
const PAGES: [(&str, &str); 2] = [("/", "Topology"), ("/pending", "Pending pods")];

/// A page. `cluster` is the name of the cluster, `path` that of the page.
pub fn page(cluster: &str, path: &str, title: &str, content: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - " (cluster) " - Berth" }
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
                                li { a href=(to) aria-current=[(to == path).then_some("page")] { (name) } }
                            }
                        }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (title) }
                    (content)
                }
            }
        }
    }
    .into_string()
}
