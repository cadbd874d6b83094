//! The pod groups as a list, and one as a unit: its members, the domains that they share, and what is missing.

use std::collections::BTreeMap;

use berth_api::object::GroupKey;
use berth_api::object::group::rank;
use berth_api::syntax::format::{counted, grouped};
use berth_simulate::{Pods, SimulatedPod};
use maud::html;

use super::answer::{Answer, Page, PageError};
use super::parts;
use super::pods::state_of;
use crate::components::listing::{Column, Filter, listing};
use crate::components::{Tone, badge, card, empty, facts, verdict};
use crate::{Request, State, links};

fn groups(pods: &Pods) -> BTreeMap<&GroupKey, Vec<&SimulatedPod>> {
    let mut groups: BTreeMap<&GroupKey, Vec<&SimulatedPod>> = BTreeMap::new();
    for pod in pods {
        if let Some(key) = &pod.group {
            groups.entry(key).or_default().push(pod);
        }
    }
    groups
}

fn n_pending(members: &[&SimulatedPod]) -> usize {
    members.iter().filter(|pod| pod.is_unplaced()).count()
}

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let all = groups(state.simulation().pods());
    if all.is_empty() {
        let hint = html! { "Pods that are placed as one unit name their group by a PodGroup, a label or an annotation." };
        return Ok(Page::new("Pod groups", empty("No pod groups", &hint)));
    }
    type Row<'a> = (&'a GroupKey, Vec<&'a SimulatedPod>);
    let filter = Filter::of(request);
    let mut namespaces: Vec<&str> = all.keys().map(|key| key.name.namespace()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let rows = all.iter().filter(|(key, _)| filter.matches(key.name.namespace(), &[key.name.name()]));
    let mut rows: Vec<Row<'_>> = rows.map(|(key, members)| (*key, members.clone())).collect();
    let columns = [
        Column::new("name", "Pod group", |(key, _): &Row<'_>| {
            parts::link(&links::group(key), key.name.name())
        })
        .by(|(a, _), (b, _)| a.name.name().cmp(b.name.name())),
        Column::new("namespace", "Namespace", |(key, _): &Row<'_>| html! { (key.name.namespace()) })
            .by(|(a, _), (b, _)| a.name.cmp(&b.name)),
        Column::new("source", "Named by", |(key, _): &Row<'_>| html! { (key.kind.source()) })
            .by(|(a, _), (b, _)| a.kind.cmp(&b.kind)),
        Column::number("pods", "Pods", |(_, members): &Row<'_>| members.len()),
        Column::new("pending", "Pending", |(_, members): &Row<'_>| {
            let n = n_pending(members);
            html! { @if n > 0 { (badge(Tone::Warn, &grouped(n))) } @else { "0" } }
        })
        .by(|(_, a), (_, b)| n_pending(a).cmp(&n_pending(b))),
    ];
    let table = listing(request, &counted(rows.len(), "pod group"), &mut rows, &columns)
        .map_err(PageError::Parameter)?;
    Ok(Page::new("Pod groups", html! { (filter.form(request, "Pod group", &namespaces)) (table) }))
}

pub(super) fn page(state: &mut State, source: &str, namespace: &str, name: &str) -> Answer {
    let title = format!("Pod group {namespace}/{name}");
    let all = groups(state.simulation().pods());
    let is_it = |key: &&&GroupKey| {
        (key.kind.source(), key.name.namespace(), key.name.name()) == (source, namespace, name)
    };
    let Some(key) = all.keys().find(is_it).map(|key| GroupKey::clone(key)) else {
        return Err(parts::not_found(
            title,
            name,
            all.into_keys(),
            |key| key.name.name(),
            |key| (links::group(key), key.name.to_string()),
        ));
    };
    // A pending member has a turn.
    let first = all[&key].iter().min_by_key(|pod| !pod.is_unplaced()).map(|pod| &pod.pod.metadata);
    let first = first.map(|metadata| metadata.name.clone()).unwrap_or_default();
    let group = state.explain_group(namespace, &first);
    let simulation = state.simulation();
    let mut members: Vec<_> =
        simulation.pods().iter().filter(|pod| pod.group.as_ref() == Some(&key)).collect();
    members.sort_by_key(|pod| rank(&pod.pod));
    let keys: Vec<&str> =
        group.iter().flat_map(|group| &group.levels).map(|level| level.key.as_str()).collect();
    let headers: Vec<&str> = ["Member", "State", "Node"].into_iter().chain(keys.iter().copied()).collect();
    let decided: BTreeMap<&str, &str> = group
        .iter()
        .flat_map(|group| &group.members)
        .filter_map(|member| Some((member.name.as_str(), member.node.as_deref()?)))
        .collect();
    let row = |pod: &&SimulatedPod| {
        let metadata = &pod.pod.metadata;
        let node = decided.get(metadata.name.as_str()).copied();
        let domain = |key: &&str| {
            let value = node.and_then(|node| simulation.node_label(node, key));
            html! { @if let Some(value) = value { (value) } }
        };
        let mut cells = vec![
            parts::link(&links::pod(&metadata.namespace, &metadata.name), &metadata.name),
            state_of(pod),
            html! { @if let Some(node) = node { @if pod.is_unplaced() { "would get " } (parts::node(node)) } },
        ];
        cells.extend(keys.iter().map(domain));
        cells
    };
    let content = html! {
        @if let Some(group) = &group {
            @let tone = if group.message.is_some() { Tone::Bad } else { Tone::Good };
            @let is_pending = members.iter().any(|pod| pod.is_unplaced());
            (verdict(tone, &html! {
                "The group " (group.verdict())
                @if is_pending && group.message.is_none() { " in its turn" }
            }, &html! {
                @if let Some(failing) = &group.failing { p { "Rules and repairs: pod " (parts::pod(namespace, &failing.name)) } }
            }))
            @let levels = group.facts();
            @let levels: Vec<_> = levels.iter().map(|(name, text)| (name.as_str(), html! { (text) })).collect();
            (card("Members by topology", &facts(&levels)))
        }
        (parts::table_of(&counted(members.len(), "member"), &headers, members.iter().map(row).collect()))
    };
    Ok(Page::new(title, content))
}

#[cfg(test)]
mod tests {
    use crate::pages::tests::{get, state};

    /// Two racks with four and six CPUs; a running group of two, and a pending one of eight that does not fit.
    fn cluster() -> String {
        let node = |name: &str, rack: &str, cpu: u32| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{example.com/rack: {rack}}}}},
                 status: {{allocatable: {{cpu: {cpu}, pods: 20}}}}}}"
            )
        };
        let pod = |name: &str, group: &str, min: u32, spec: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: lab, annotations: {{
                   scheduling.berth.dev/group: {group}, scheduling.berth.dev/group-min: '{min}',
                   scheduling.berth.dev/group-required-topology: example.com/rack}}}},
                 spec: {{{spec} containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}"
            )
        };
        let mut objects = vec![node("n1", "r1", 5), node("n2", "r2", 7)];
        objects.extend([pod("a-0", "small", 2, "nodeName: n1,"), pod("b-0", "split", 1, "nodeName: n2,")]);
        objects.extend((0..8).map(|i| pod(&format!("c-{i}"), "large", 8, "")));
        objects.push(pod("d-0", "next", 1, ""));
        objects.join("\n---\n")
    }

    #[test]
    fn a_group_is_a_unit_with_members_domains_and_what_is_missing() {
        let mut state = state(&cluster());
        let mut check = |path: &str, texts: &[&str]| {
            let (status, body) = get(&mut state, path);
            assert_eq!(status, 200, "{body}");
            texts.iter().for_each(|text| assert!(body.contains(text), "{path}: {text}: {body}"));
        };
        let link = "<a href=\"/groups/annotation/lab/large\">";
        check("/groups", &["<caption>4 pod groups</caption>", link]);
        check(
            "/groups/annotation/lab/large",
            &[
                "The group is not placed: 6 of 8 pods fit in r2, 8 have to; pod c-6 does not",
                "0 of 8 placed, 8 required",
                "<dt>rack (required)</dt><dd>r2 takes 6 of 8</dd>",
                "<caption>8 members</caption>",
                "<a href=\"/pods/lab/c-7\">c-7</a>",
                "Rules and repairs: pod <a href=\"/pods/lab/c-6\">lab/c-6</a>",
            ],
        );
        check(
            "/groups/annotation/lab/small",
            &["is placed in part: 1 of at least 2 pods exist", "<dd>r1: 1</dd>", ">r1</td>"],
        );
        check("/groups/annotation/lab/split", &["The group is placed in r2"]);
        check("/groups/annotation/lab/next", &[" in its turn", "would get <a href=\"/nodes/n"]);
        check("/pods/lab/c-0", &["lab/large</strong> is not placed: 6 of 8 pods fit in r2", link]);
        check("/pods/lab/b-0", &["lab/split</strong> is placed in r2"]);
    }

    #[test]
    fn groups_that_do_not_exist_have_similar_names() {
        let mut state = state(&cluster());
        let (status, body) = get(&mut state, "/groups/annotation/lab/larg");
        assert!(status == 404 && body.contains("<a href=\"/groups/annotation/lab/large\">"), "{body}");
        assert!(get(&mut state, "/groups/owner/lab/large").0 == 404, "another group");
        assert!(get(&mut crate::pages::tests::state(""), "/groups").1.contains("No pod groups"));
    }
}
