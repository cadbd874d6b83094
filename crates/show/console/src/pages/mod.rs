//! The pages, a file each.

mod answer;
mod applied;
mod apply;
mod claims;
mod design;
mod devices;
mod enforcer;
mod events;
mod lint;
mod nodes;
mod overview;
mod parts;
mod pending;
mod pod_groups;
mod pods;
mod question;
mod rebalance;
mod rules;
mod search;
mod sets;
mod timeline;
mod topology;
mod what_if;
mod workloads;
mod yaml;

use maud::html;

pub use applied::{APPLIED, STOP};
pub use apply::{APPLY, CONFIRM};

use self::answer::{Answer, Page, PageError};
use crate::components::{Tone, verdict};
use crate::layout;
use crate::request::{Request, Response};
use crate::state::{PAGE_STEPS, State};

/// The style sheet of pages, without that of pictures.
pub(crate) const STYLE: &str = include_str!("../../assets/console.css");
const PAGE_SCRIPT: &str = include_str!("../../assets/page.js");
const SCRIPT: &str = include_str!("../../assets/console.js");

/// Answers a request. All paths but those of pages and assets are answered with 404.
pub fn respond(state: &mut State, request: &Request<'_>) -> Response {
    state.begin_page(PAGE_STEPS);
    answered(state, request)
}

fn answered(state: &mut State, request: &Request<'_>) -> Response {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let answer = match segments[..] {
        [] => overview::page(state),
        ["topology"] => topology::page(state, request),
        ["pods"] => pods::list(state, request),
        ["yaml", kind, name] => yaml::page(state, kind, "", name),
        ["yaml", kind, namespace, name] => yaml::page(state, kind, namespace, name),
        // The parts that pages are made of, for those who change them.
        ["design"] if cfg!(debug_assertions) => design::page(),
        ["pending"] => pending::page(state, request),
        ["pods", namespace, name] => pods::page(state, namespace, name),
        ["workloads"] => workloads::list(state, request),
        ["workloads", kind, namespace, name] => workloads::page(state, request, kind, namespace, name),
        ["groups"] => pod_groups::list(state, request),
        ["groups", source, namespace, name] => pod_groups::page(state, source, namespace, name),
        ["nodes"] => nodes::list(state, request),
        ["claims"] => claims::list(state, request),
        ["claims", namespace, name] => claims::page(state, namespace, name),
        ["rules"] => rules::page(state, request),
        ["what-if"] => what_if::page(state, request),
        ["enforcer"] => enforcer::page(state, request),
        ["rebalance"] => rebalance::page(state, request),
        ["events"] => events::page(state, request),
        ["timeline"] => timeline::page(state),
        ["search"] => search::page(state, request),
        ["sets"] => sets::page(state),
        ["lint"] => lint::page(state, request),
        ["nodes", name] => nodes::page(state, request, name),
        ["assets", "console.css"] => {
            return asset("text/css; charset=utf-8", [STYLE, berth_picture::STYLE].concat());
        }
        ["assets", "page.js"] => return asset("text/javascript; charset=utf-8", PAGE_SCRIPT.to_owned()),
        ["assets", "console.js"] => return asset("text/javascript; charset=utf-8", SCRIPT.to_owned()),
        _ => Err(PageError::NotFound { what: format!("The page {}", request.path), similar: Vec::new() }),
    };
    rendered(state, request, answer)
}

fn rendered(state: &State, request: &Request<'_>, answer: Answer) -> Response {
    let (status, Page { title, subtitle, actions, content }) = match answer {
        Ok(page) => (200, page),
        Err(PageError::Parameter(message)) => {
            let content = verdict(Tone::Bad, &html! { (message) }, &html! {});
            (400, Page::new("Bad parameter", content))
        }
        Err(PageError::NotFound { what, similar }) => (404, missing(&what, &similar)),
    };
    let content = html! {
        div.title {
            div { h1 { (title) } @if let Some(subtitle) = subtitle { p.subtitle { (subtitle) } } }
            @if let Some(actions) = actions { div.actions { (actions) } }
        }
        @if let Some(left_out) = state.left_out() { p.notice { (left_out) } }
        (content)
    };
    Response::html(status, layout::page(&state.name, state.notice(), request, &title, &content))
}

/// Whether a page reads the objects again, such as for a separate simulation. It takes memory and seconds: a server renders one
/// of them at a time.
pub fn reads_objects(request: &Request<'_>) -> bool {
    match request.path.trim_matches('/') {
        "lint" | "sets" | "rebalance" => true,
        "what-if" => request.parameters().next().is_some(),
        path => path.starts_with("workloads/") && request.parameter("capacity").is_some(),
    }
}

/// Whether a page shows broken rules, which take time to find after a change, once for all pages ([`State::audited`]).
pub fn shows_broken_rules(request: &Request<'_>) -> bool {
    let path = request.path.trim_matches('/');
    matches!(path, "" | "topology" | "workloads" | "nodes" | "rules" | "enforcer" | "rebalance")
        || path.starts_with("nodes/")
}

fn missing(what: &str, similar: &[(String, String)]) -> Page {
    let content = html! {
        (verdict(Tone::Bad, &html! { (what) " does not exist, or does not exist any more." }, &html! {
            @if !similar.is_empty() {
                p { "Did you mean:" }
                ul { @for (to, text) in similar { li { (parts::link(to, text)) } } }
            }
        }))
    };
    Page::new("Not found", content)
}

fn asset(content_type: &'static str, content: String) -> Response {
    Response { status: 200, content_type, body: content }
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_simulate::SimulationOptions;

    use super::*;

    /// Two zones with a node each, and a Deployment whose third pod is unschedulable.
    pub(super) fn cluster() -> String {
        let spec = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
              {labelSelector: {matchLabels: {app: web}}, topologyKey: topology.kubernetes.io/zone}]}},
            topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone,
              whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}],
            containers: [{name: web, image: web, resources: {requests: {cpu: 500m}}}]";
        let node = |name: &str, taints: &str| {
            let zone = &name[..1];
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}},
                 spec: {{taints: [{taints}]}}, status: {{allocatable: {{cpu: 2, memory: 4Gi, pods: 10}}}}}}"
            )
        };
        let pod = |name: &str, on: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, labels: {{app: web}},
                   ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-1a, uid: u, controller: true}}]}},
                 spec: {{{on}{spec}}}}}"
            )
        };
        let deployment = format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: shop}}, spec: {{replicas: 3,
               selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{spec}}}}}}}}}"
        );
        let replica_set = format!(
            "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: web-1a, namespace: shop, uid: u,
               ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}}]}},
             spec: {{replicas: 3, selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}},
               spec: {{{spec}}}}}}}}}"
        );
        [
            node("a-1", "{key: dedicated, value: db, effect: PreferNoSchedule}"),
            node("b-1", ""),
            deployment,
            replica_set,
            pod("web-1", "nodeName: a-1, "),
            pod("web-2", "nodeName: b-1, "),
            pod("web-3", ""),
        ]
        .join("\n---\n")
    }

    /// A pod that requires those of [`cluster`].
    pub(super) const CACHE: &str = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: cache, namespace: shop}, spec: {affinity: {podAffinity: \
        {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: web}}, topologyKey: zone}]}}, containers: [{name: \
        c, image: c}]}}";

    pub(super) fn state(text: &str) -> State {
        State::new("test", Inventory::from_text(text).unwrap(), SimulationOptions::default()).unwrap()
    }

    /// The status and the body.
    pub(super) fn get(state: &mut State, path_and_query: &str) -> (u16, String) {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let response = respond(state, &Request { path, query, form: None });
        (response.status, response.body)
    }

    /// The page has all these texts.
    #[track_caller]
    pub(super) fn check(path_and_query: &str, texts: &[&str]) {
        let (status, body) = get(&mut state(&cluster()), path_and_query);
        assert_eq!(status, 200, "{body}");
        for text in texts {
            assert!(body.contains(text), "{text}: {body}");
        }
    }

    #[test]
    fn names_cannot_leave_their_elements() {
        let node = "{apiVersion: v1, kind: Node, metadata: {name: '<b>\"', labels: {a: '<i>'}}}";
        let inventory = Inventory::from_text(node).unwrap();
        let mut state = State::new("<script>", inventory, SimulationOptions::default()).unwrap();
        for path in ["/topology", "/nodes", "/nodes/%3Cb%3E%22"] {
            let (status, body) = get(&mut state, path);
            assert_eq!(status, 200);
            assert!(!body.contains("<b>") && !body.contains("<i>"), "{body}");
            assert!(
                body.contains("<p class=\"cluster\" title=\"&lt;script&gt;\">&lt;script&gt;</p>")
                    && body.contains("&lt;b&gt;"),
                "{body}"
            );
        }
        assert!(get(&mut state, "/nodes").1.contains("href=\"/nodes/%3Cb%3E%22\""));
    }

    #[test]
    fn pods_that_do_not_run_on_the_node_that_they_name_are_shown_as_such() {
        let pod = |name: &str, spec: &str| {
            format!(
                "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop}}, spec: {{{spec}, \
                 containers: [{{name: c, image: i}}]}}}}"
            )
        };
        let text = cluster()
            + &pod("ssd", "nodeName: a-1, nodeSelector: {disk: ssd}")
            + &pod("lost", "nodeName: c-1");
        let mut state = state(&text);
        for (page, expected) in [
            ("/", "1 pending, 2 not running on the named node"),
            ("/pending", "waiting for node c-1, which does not exist"),
            ("/pending", "rejected by a-1: NodeAffinity"),
            ("/pods/shop/ssd", "Does not run, rejected by a-1: NodeAffinity: "),
            ("/pods/shop/lost", "Does not run, waiting for node c-1, which does not exist: "),
            ("/what-if?place=pending", "2 pods not running as before"),
            (
                "/what-if?place=pending",
                "<strong class=\"bad\">waiting for node c-1, which does not exist</strong>",
            ),
        ] {
            let (_, body) = get(&mut state, page);
            assert!(body.contains(expected), "{page}: {expected}: {body}");
        }
    }

    #[test]
    fn what_does_not_exist_has_similar_names() {
        let mut state = state(&cluster());
        let of = |state: &mut State, path: &str| {
            let (status, body) = get(state, path);
            assert_eq!(status, 404, "{body}");
            body
        };
        assert!(of(&mut state, "/../etc").contains("The page /../etc does not exist"));
        assert!(of(&mut state, "/pods/shop/web-4").contains("<a href=\"/pods/shop/web-1\">shop/web-1</a>"));
        assert!(of(&mut state, "/nodes/a-2").contains("<a href=\"/nodes/a-1\">a-1</a>"));
        let body = of(&mut state, "/workloads/Deployment/shop/wep");
        assert!(
            body.contains("<a href=\"/workloads/Deployment/shop/web\">shop/Deployment web</a>"),
            "{body}"
        );
    }

    #[test]
    fn bad_parameters_are_named() {
        let mut state = state(&cluster());
        for (path, message) in [
            ("/topology?color=red", "color=red: give one of utilization, workload, namespace"),
            ("/topology?level=pod", "level=pod: give zone, rack or node"),
            ("/topology?label=web", "label=web: give KEY=VALUE"),
            ("/pods?state=idle", "state=idle: give pending or running"),
            ("/pods?page=2", "page=2: give a number from 1 to 1"),
            ("/nodes?page=x", "page=x: give a number"),
        ] {
            let (status, body) = get(&mut state, path);
            assert_eq!(status, 400, "{body}");
            assert!(body.contains(message), "{body}");
        }
    }

    #[test]
    fn the_style_of_pictures_is_that_of_pages() {
        let (_, page) = get(&mut state(&(cluster() + CACHE)), "/rules");
        assert!(page.contains("class=\"berth-picture\"") && !page.contains("<style"), "{page}");
        let (_, page) = get(&mut state(&cluster()), "/topology");
        assert!(page.contains("<a href=\"/topology?node=a-1\" title=\"a-1: cpu 500m of 2"), "{page}");
        let (_, style) = get(&mut state(&cluster()), "/assets/console.css");
        assert!(style.contains(".berth-picture .kind0{"));
    }

    #[test]
    fn a_page_says_that_searches_for_devices_were_cut() {
        let text = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 10}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a}, spec: {driver: d, nodeName: a,
  pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: g}]}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: 'false'}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, namespace: ml},
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ml},
  spec: {resourceClaims: [{name: gpu, resourceClaimName: c}], containers: [{name: c, image: c}]}}";
        let mut state = state(text);
        let mut says_so = |steps| {
            state.begin_page(steps);
            let page = answered(&mut state, &Request { path: "/pods/ml/p", query: "", form: None });
            page.body.contains("Searches for devices ended at the limit")
        };
        assert_eq!([says_so(1), says_so(PAGE_STEPS)], [true, false]);
    }
}
