//! Applying the changes of a what-if to the cluster: what would be written, and the confirmation.
//!
//! The pages only show: a server carries out the writes, and only those of a list that a viewer has confirmed.

use berth_api::syntax::format::counted;
use maud::{Markup, html};

use super::answer::Page;
use super::question::Question;
use super::rendered;
use crate::writes::{Write, WritePlan};
use crate::{Request, Response, State};

/// The path that asks for confirmation; nothing is written.
pub const CONFIRM: &str = "/what-if/confirm";
pub const APPLY: &str = "/what-if/apply";

impl WritePlan {
    /// The writes of the changes of a what-if page.
    ///
    /// # Errors
    /// The page that says what is wrong with the changes.
    pub fn of_request(state: &State, request: &Request<'_>) -> Result<WritePlan, Response> {
        let plan = Question::of(request).and_then(|question| question.writes(&state.objects().0));
        plan.map_err(|error| rendered(state, request, Err(error)))
    }

    /// The page that asks whether to write. `digest` stands for this list; the answer has it. `is_outdated`: another list was
    /// confirmed.
    pub fn confirmation(
        &self,
        state: &State,
        request: &Request<'_>,
        digest: &str,
        is_outdated: bool,
    ) -> Response {
        let content = html! {
            @if is_outdated {
                p.bad role="alert" { "Nothing was written: the list below is not the one that was confirmed. Read it again." }
            }
            section.card {
                (list(self))
                @if !self.writes.is_empty() {
                    p.detail {
                        "They are written in this order. The first failure ends it: what is written before stays, what follows is not tried."
                        @if self.writes.iter().any(|write| matches!(write, Write::Evict { .. })) {
                            " Evictions that a disruption budget refuses are tried again every 5 s, until none has succeeded for 5 minutes."
                        }
                    }
                    form.actions method="post" action=(with_query(APPLY, request)) {
                        (fields(request))
                        input type="hidden" name="digest" value=(digest);
                        button.primary { "Write " (counted(self.writes.len(), "change")) " to the cluster" }
                    }
                }
            }
            (back(request))
        };
        let mut response = rendered(state, request, Ok(Page::new("Apply to the cluster?", content)));
        if is_outdated {
            response.status = 409;
        }
        response
    }
}

/// The part of a what-if page that leads to the confirmation.
pub(super) fn offer(plan: &WritePlan, n_blocked: usize, request: &Request<'_>) -> Markup {
    let has_manifest = plan.writes.iter().any(|write| matches!(write, Write::Apply { .. }));
    html! {
        @if !plan.writes.is_empty() || !plan.not_applicable.is_empty() {
            section.card aria-labelledby="apply" {
                h2 id="apply" { "Apply to the cluster" }
                @if n_blocked > 0 {
                    p.bad { (counted(n_blocked, "eviction")) " of this list would be refused. They are tried again every 5 s: the list ends when none has succeeded for 5 minutes." }
                }
                (list(plan))
                @if !plan.writes.is_empty() {
                    form.actions method="post" action=(with_query(CONFIRM, request)) {
                        (manifests(request))
                        @if has_manifest {
                            p { label {
                                input type="checkbox" name="force" value="1";
                                " Also change fields that other managers own, such as kubectl"
                            } }
                        }
                        button.primary { "Apply to the cluster" }
                        span.hint { "You are asked to confirm." }
                    }
                }
            }
        }
    }
}

/// The whole list: what is confirmed must have been shown.
fn list(plan: &WritePlan) -> Markup {
    html! {
        @if plan.writes.is_empty() {
            p {
                @if plan.not_applicable.is_empty() { "Nothing is left to write: the cluster has these changes." }
                @else { "None of the changes can be written to a cluster." }
            }
        }
        @else {
            p { (counted(plan.writes.len(), "change")) " will be written:" }
            ol.writes {
                @for write in &plan.writes {
                    li {
                        (write.to_string())
                        @if let Write::Apply { manifest, .. } = write {
                            details {
                                summary { "The manifest; fields that the API server sets are left out" }
                                pre { (format!("{:#}", manifest.value)) }
                            }
                        }
                    }
                }
            }
        }
        (not_applicable(plan))
    }
}

pub(super) fn not_applicable(plan: &WritePlan) -> Markup {
    html! {
        @if !plan.not_applicable.is_empty() {
            p { "Not written, but part of the effect that the what-if shows:" }
            ul { @for (what, why) in &plan.not_applicable { li { (what) ": " (why) } } }
        }
    }
}

/// The fields of the form that are no parameters of the URL.
pub(super) fn fields(request: &Request<'_>) -> Markup {
    html! {
        (manifests(request))
        @if request.parameter("force").is_some() { input type="hidden" name="force" value="1"; }
    }
}

fn manifests(request: &Request<'_>) -> Markup {
    let form = Request { query: "", ..*request };
    html! {
        @for (_, manifest) in form.parameters().filter(|(name, _)| name == "manifest") {
            input type="hidden" name="manifest" value=(manifest);
        }
    }
}

pub(super) fn back(request: &Request<'_>) -> Markup {
    html! { p { a href=(with_query("/what-if", request)) { "Back to the what-if" } } }
}

pub(super) fn with_query(path: &str, request: &Request<'_>) -> String {
    if request.query.is_empty() { path.to_owned() } else { format!("{path}?{}", request.query) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cluster, get, state};
    use super::*;

    fn request<'a>(query: &'a str, form: Option<&'a str>) -> Request<'a> {
        Request { path: CONFIRM, query, form }
    }

    /// The list of writes, and of what is not applicable.
    #[track_caller]
    fn listed(query: &str, form: Option<&str>) -> (Vec<String>, Vec<String>) {
        let plan = WritePlan::of_request(&state(&cluster()), &request(query, form)).unwrap();
        let refused = plan.not_applicable.into_iter().map(|(what, why)| format!("{what}: {why}"));
        (plan.writes.iter().map(ToString::to_string).collect(), refused.collect())
    }

    fn manifest(text: &str) -> String {
        form_urlencoded::Serializer::new(String::new()).append_pair("manifest", text).finish()
    }

    #[test]
    fn the_list_names_every_write_in_order_and_what_cannot_be_written() {
        let query = "remove-node=b-1&drain=a-1&evict=shop/web-1&evict=shop/web-2&add-nodes=1&like=a-1&set-label=a-1-new-1+x%3Dy\
                     &remove-domain=zone%3Db&scale=deploy/web%3D5&set-label=a-1+topology.kubernetes.io/zone%3Dc&set-label=b-1+disk-\
                     &taint=a-1+dedicated-&taint=b-1+gpu%3Dyes:NoSchedule&cordon=b-1&uncordon=a-1&each=zone&repairs=1&place=pending";
        let pod = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: c-1}\n---\n\
                   apiVersion: v1\nkind: Node\nmetadata: {name: a-1}\n---\n\
                   apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration";
        let form = manifest(pod) + "&force=1";
        let (writes, refused) = listed(query, Some(&form));
        assert_eq!(
            writes,
            [
                "Cordon node a-1: no more pods are placed on it",
                "Evict pod shop/web-1",
                "Evict pod shop/web-2",
                "Scale Deployment shop/web to 5 replicas (now 3)",
                "Set the label topology.kubernetes.io/zone=c of node a-1 (now topology.kubernetes.io/zone=a)",
                "Remove the label disk of node b-1 (now not set)",
                "Remove the taints dedicated of node a-1",
                "Set the taint gpu=yes:NoSchedule of node b-1",
                "Cordon node b-1: no more pods are placed on it",
                "Uncordon node a-1: pods are placed on it again",
                "Apply ConfigMap m by server-side apply, also fields that other managers own",
                "Apply Node a-1 by server-side apply, also fields that other managers own",
            ]
        );
        assert_eq!(
            refused,
            [
                "Remove node b-1: nodes leave a cluster with their machines; drain them here first",
                "Add 1 node like a-1: nodes join a cluster when their machines start",
                "Set the label x=y of node a-1-new-1 (now not set): the cluster has no such node",
                "Remove the nodes with topology.kubernetes.io/zone=b: nodes leave a cluster with their machines; drain them here first",
                "Apply Node c-1: nodes join a cluster when their machines start",
                "Apply KubeSchedulerConfiguration: it is a file of the scheduler, not an object of the cluster",
            ]
        );
    }

    #[test]
    fn a_drain_evicts_what_a_what_if_moves() {
        let pod = |name: &str, metadata: &str| {
            format!(
                "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {metadata}}}, spec: {{nodeName: a-1, containers: [{{name: \
                 c, image: i}}]}}}}"
            )
        };
        let owner = |kind: &str| {
            format!(
                "ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: o, uid: u, controller: true}}]"
            )
        };
        let mirror = "annotations: {kubernetes.io/config.mirror: x}";
        let deleting = "deletionTimestamp: '2026-01-01T00:00:00Z'";
        let text = cluster()
            + &pod("daemon", &owner("DaemonSet"))
            + &pod("static", mirror)
            + &pod("leaving", deleting)
            + &pod("alone", "uid: u-1");
        let plan = WritePlan::of_request(&state(&text), &request("drain=a-1", None)).unwrap();
        let writes: Vec<_> = plan.writes.iter().map(ToString::to_string).collect();
        let alone = "Evict pod default/alone: nothing creates it again";
        assert_eq!(writes.len(), 3, "{writes:?}");
        assert!(
            writes.contains(&alone.to_owned()) && writes.contains(&"Evict pod shop/web-1".to_owned()),
            "{writes:?}"
        );
        assert!(
            matches!(&plan.writes[2], Write::Evict { .. }) && format!("{plan:?}").contains("uid: \"u-1\"")
        );
    }

    #[test]
    fn only_a_console_that_allows_changes_offers_them() {
        let mut state = state(&cluster());
        let path = "/what-if?scale=deploy/web%3D5&remove-node=a-1";
        assert!(!get(&mut state, path).1.contains("Apply to the cluster"));
        state.allows_changes = true;
        let (_, page) = get(&mut state, path);
        for text in [
            "<h2 id=\"apply\">Apply to the cluster</h2>",
            "<li>Scale Deployment shop/web to 5 replicas (now 3)</li>",
            "<li>Remove node a-1: nodes leave a cluster",
            "<form class=\"actions\" method=\"post\" action=\"/what-if/confirm?scale=deploy/web%3D5&amp;remove-node=a-1\">",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!get(&mut state, "/what-if?remove-node=a-1").1.contains(">Apply to the cluster</button>"));
        assert!(!get(&mut state, "/what-if?place=pending").1.contains("id=\"apply\""));
        // The server has these paths.
        for path in [CONFIRM, APPLY] {
            assert_eq!(get(&mut state, &format!("{path}?scale=deploy/web%3D5")).0, 404);
        }
    }

    #[test]
    fn the_confirmation_has_the_list_the_manifest_and_the_digest() {
        let state = state(&cluster());
        let form = manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: \"<b>\"}")
            + "&force=1&digest=old";
        let request = request("scale=deploy/web%3D5", Some(&form));
        let plan = WritePlan::of_request(&state, &request).unwrap();
        let page = plan.confirmation(&state, &request, "abc", false);
        assert_eq!(page.status, 200);
        for text in [
            "<li>Scale Deployment shop/web to 5 replicas (now 3)</li>",
            "&quot;a&quot;: &quot;&lt;b&gt;&quot;",
            "action=\"/what-if/apply?scale=deploy/web%3D5\"",
            "name=\"manifest\" value=\"apiVersion: v1\nkind: ConfigMap",
            "name=\"force\" value=\"1\"",
            "name=\"digest\" value=\"abc\"",
            "<button class=\"primary\">Write 2 changes to the cluster</button>",
        ] {
            assert!(page.body.contains(text), "{text}: {}", page.body);
        }
        let page = plan.confirmation(&state, &request, "abc", true);
        assert!(page.status == 409 && page.body.contains("Nothing was written"), "{}", page.body);
    }

    #[test]
    fn what_is_done_is_not_written_again() {
        let text = cluster().replacen("spec: {taints", "spec: {unschedulable: true, taints", 1);
        let plan = |query| WritePlan::of_request(&state(&text), &request(query, None)).unwrap().writes;
        let drained: Vec<_> = plan("drain=a-1").iter().map(ToString::to_string).collect();
        assert_eq!(drained, ["Evict pod shop/web-1"]);
        assert!(plan("scale=deploy/web%3D3").is_empty());
        assert!(plan("set-label=a-1+topology.kubernetes.io/zone%3Da").is_empty());
    }

    #[test]
    fn bad_changes_have_no_list() {
        let state = state(&cluster());
        let page = WritePlan::of_request(&state, &request("scale=web%3D2", None)).unwrap_err();
        assert!(page.status == 400 && page.body.contains("name a workload"), "{}", page.body);
    }
}
