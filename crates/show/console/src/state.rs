//! What the pages show.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::device::ResourceClaim;
use berth_api::object::{DeviceKind, DeviceObject, NamespacedName, SharedParts};
use berth_api::read::{Kind, SourceLocation};
use berth_api::syntax::format::grouped;
use berth_engine::{DeviceWork, Violation};
use berth_input::inventory::{Entry, InputError, Inventory};
use berth_simulate::replay::Timeline;
use berth_simulate::{PendingDecision, PendingFor, Simulation, SimulationError, SimulationOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::broken_since::BrokenSince;
use crate::cluster_event::LatestEvents;
use crate::components::time::Clock;
use crate::live_timeline::LiveTimeline;
use crate::overview::{BrokenRules, Overview, Pods};
use crate::pod_table::PodTable;
use crate::{ClusterEvent, EnforcerRules, Update};

/// Steps of the searches for devices of one page: about half a second.
pub(crate) const PAGE_STEPS: u64 = 40_000_000;

/// The cluster that the pages show.
pub struct State {
    /// Its name in headings, such as a file or a server.
    pub name: String,
    /// Its objects without nodes and pods; those of `simulation` are the current ones.
    inventory: Arc<Inventory>,
    /// All objects as they were given; none once something has changed.
    given: Option<Arc<Inventory>>,
    options: SimulationOptions,
    simulation: Simulation,
    /// What the pods of `simulation` have in common.
    parts: SharedParts,
    /// The pods of `simulation`.
    table: PodTable,
    /// The broken rules of running pods; none until a page needs them after a change that concerns them.
    broken: Option<Arc<BrokenRules<'static>>>,
    /// The time of the last changes of a cluster that changes.
    now: Option<Timestamp>,
    /// The creation of the newest pod or node of a cluster that does not.
    newest: Timestamp,
    broken_since: BrokenSince,
    timeline: LiveTimeline,
    /// What the enforcer has stored about its limits, as text; none if it is not known.
    ledger: Option<String>,
    /// What the enforcer has stored about its plan of moves, as text; none if it is not known.
    rebalance_status: Option<String>,
    /// Whether controllers create the pods of workloads, not the simulation.
    is_live: bool,
    events: LatestEvents,
    notice: Option<String>,
    /// What the enforcer adds, if it is known.
    pub enforcer: Option<EnforcerRules>,
    /// Whether viewers may apply the changes of a what-if to the cluster.
    pub allows_changes: bool,
}

impl State {
    /// The cluster of an inventory, as [`Simulation::as_is`] shows it.
    pub fn new(
        name: impl Into<String>,
        inventory: Inventory,
        options: SimulationOptions,
    ) -> Result<State, SimulationError> {
        let (mut inventory, mut parts) = (inventory, SharedParts::default());
        inventory.pods.iter_mut().for_each(|entry| parts.share(&mut entry.object));
        inventory.nodes.iter_mut().for_each(|entry| parts.share_node(&mut entry.object));
        let simulation = Simulation::as_is(Cow::Borrowed(&inventory), options.clone())?;
        let pods = inventory.pods.iter().filter_map(|entry| entry.object.metadata.creation_timestamp);
        let nodes = inventory.nodes.iter().filter_map(|entry| entry.object.metadata.creation_timestamp);
        let newest = pods.chain(nodes).max().unwrap_or_default();
        let given = Some(Arc::new(inventory.clone()));
        (inventory.nodes, inventory.pods) = (Vec::new(), Vec::new());
        Ok(State {
            name: name.into(),
            inventory: Arc::new(inventory),
            given,
            options,
            table: PodTable::new(&simulation),
            simulation,
            parts,
            broken: None,
            now: None,
            newest,
            broken_since: BrokenSince::default(),
            timeline: LiveTimeline::default(),
            ledger: None,
            rebalance_status: None,
            is_live: false,
            events: LatestEvents::default(),
            notice: None,
            enforcer: None,
            allows_changes: false,
        })
    }

    /// A cluster that changes, without objects yet: [`State::apply`] adds them.
    pub fn live(name: impl Into<String>, options: SimulationOptions) -> Result<State, SimulationError> {
        let options = SimulationOptions { simulated_nodes: None, ..options };
        // The linter reads the texts of objects; those of pods would be too many.
        let empty = Inventory::keeping_raw_but_pods();
        Ok(State { is_live: true, given: None, ..State::new(name, empty, options)? })
    }

    /// Sets the time of the changes that follow. Pods have been pending until then, unless the options say for how long.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = Some(now);
        let mut live = std::mem::take(&mut self.timeline);
        live.timeline.advance(now, || self.counts());
        self.timeline = live;
        if let PendingFor::Until(until) = &mut self.options.pending_for {
            *until = now;
            self.simulation.set_pending_for(self.options.pending_for);
        }
    }

    /// Applies changes. Returns whether pages may differ. An object that cannot be read is left as it was, and its error goes to
    /// `failed`.
    pub fn apply(
        &mut self,
        updates: impl IntoIterator<Item = Update>,
        mut failed: impl FnMut(InputError),
    ) -> bool {
        self.given = None;
        let (mut changed, mut is_changed, mut is_noticed) = (Vec::new(), false, false);
        for update in updates {
            is_changed |= match update {
                Update::Node(mut node) => {
                    self.parts.share_node(&mut node);
                    let is_new = self.simulation.set_node(*node);
                    if is_new {
                        self.broken = None;
                    }
                    is_new
                }
                Update::Pod(mut pod) => {
                    self.parts.share(&mut pod);
                    let name = pod.metadata.namespaced_name();
                    self.change_pod(&name, |simulation| simulation.set_pod(*pod))
                }
                Update::Object(manifest) => {
                    let kind = Kind::of(&manifest.api_version, &manifest.kind);
                    let text =
                        |path| manifest.value.pointer(path).and_then(|v| v.as_str()).unwrap_or_default();
                    let name = NamespacedName::new(text("/metadata/namespace"), text("/metadata/name"));
                    changed.extend(kind.map(|kind| (kind, name)));
                    Arc::make_mut(&mut self.inventory).set(*manifest).map_err(&mut failed).is_ok()
                }
                Update::Removed(kind, name) => self.remove(kind, name, &mut changed),
                Update::Listed(kind, listed) => {
                    let mut gone = self.names(kind);
                    gone.retain(|name| !listed.contains(name));
                    let n_gone = gone.len();
                    gone.into_iter().for_each(|name| _ = self.remove(kind, name, &mut changed));
                    n_gone > 0
                }
                Update::Event(event) => {
                    self.events.add(*event);
                    is_noticed = true;
                    false
                }
                Update::Notice(notice) => {
                    is_noticed |= self.notice != notice;
                    self.notice = notice;
                    false
                }
            };
        }
        if !changed.is_empty() {
            self.broken = None;
            if self.simulation.refresh(&self.inventory, &changed) {
                self.table = PodTable::new(&self.simulation);
            }
        }
        if is_changed && let Some(now) = self.now {
            self.broken_since.follow(self.simulation.cluster(), now);
        }
        if let Some(now) = self.now.filter(|_| self.notice.is_none()) {
            self.timeline.begin(now);
        }
        is_changed || is_noticed
    }

    /// Changes a pod of the simulation, or removes it. Returns what `change` returns: whether there is a difference.
    fn change_pod(&mut self, name: &NamespacedName, change: impl FnOnce(&mut Simulation) -> bool) -> bool {
        let position = |simulation: &Simulation| simulation.position(name.namespace(), name.name());
        let before = position(&self.simulation);
        let had_node = before.is_some_and(|at| self.table.has_node(at));
        let is_changed = change(&mut self.simulation);
        if is_changed {
            let after = position(&self.simulation);
            match (before, after) {
                (_, Some(at)) => {
                    let pod = &self.simulation.pods()[at];
                    self.table.set(at, pod);
                    self.timeline.pod_changed(name, &pod.pod, before.is_some() && !had_node);
                }
                (Some(at), None) => {
                    self.table.remove(at);
                    self.timeline.pod_removed(name);
                }
                (None, None) => {}
            }
            // Pods without a node break no rule.
            if had_node || after.is_some_and(|at| self.table.has_node(at)) {
                self.broken = None;
            }
        }
        is_changed
    }

    fn remove(
        &mut self,
        kind: Kind,
        name: NamespacedName,
        changed: &mut Vec<(Kind, NamespacedName)>,
    ) -> bool {
        match kind {
            Kind::Node => {
                self.broken = None;
                self.simulation.remove_node(name.name())
            }
            Kind::Pod => {
                self.change_pod(&name, |simulation| simulation.remove_pod(name.namespace(), name.name()))
            }
            _ if Arc::make_mut(&mut self.inventory).remove(kind, &name) => {
                changed.push((kind, name));
                true
            }
            _ => false,
        }
    }

    fn names(&self, kind: Kind) -> Vec<NamespacedName> {
        match kind {
            Kind::Node => self.simulation.nodes().map(|node| node.metadata.namespaced_name()).collect(),
            Kind::Pod => {
                self.simulation.pods().iter().map(|pod| pod.pod.metadata.namespaced_name()).collect()
            }
            _ => self.inventory.names().filter(|(other, _)| *other == kind).map(|(_, name)| name).collect(),
        }
    }

    /// A copy from which pages are rendered while this state changes. It is not to be changed itself.
    pub fn snapshot(&self) -> State {
        State {
            name: self.name.clone(),
            inventory: self.inventory.clone(),
            given: self.given.clone(),
            options: self.options.clone(),
            simulation: self.simulation.clone(),
            parts: SharedParts::default(),
            table: self.table.clone(),
            broken: self.broken.clone(),
            now: self.now,
            newest: self.newest,
            broken_since: self.broken_since.clone(),
            timeline: self.timeline.clone(),
            ledger: self.ledger.clone(),
            rebalance_status: self.rebalance_status.clone(),
            is_live: self.is_live,
            events: self.events.clone(),
            notice: self.notice.clone(),
            enforcer: self.enforcer,
            allows_changes: self.allows_changes,
        }
    }

    /// Builds the state again from its objects.
    pub fn rebuild(&mut self) -> Result<(), SimulationError> {
        let (mut inventory, options) = self.objects();
        let mut rebuilt = if self.is_live {
            let mut state = State::live(&self.name, options)?;
            let (nodes, pods) = (std::mem::take(&mut inventory.nodes), std::mem::take(&mut inventory.pods));
            inventory.index();
            state.simulation.refresh(&inventory, &inventory.names().collect::<Vec<_>>());
            nodes.into_iter().for_each(|entry| _ = state.simulation.set_node(entry.object));
            pods.into_iter().for_each(|entry| _ = state.simulation.set_pod(entry.object));
            State { inventory: Arc::new(inventory), table: PodTable::new(&state.simulation), ..state }
        } else {
            State::new(&self.name, inventory, options)?
        };
        rebuilt.broken_since = std::mem::take(&mut self.broken_since);
        rebuilt.broken_since.retain_broken(rebuilt.simulation.cluster());
        *self = State {
            events: std::mem::take(&mut self.events),
            now: self.now,
            timeline: std::mem::take(&mut self.timeline),
            ledger: self.ledger.take(),
            rebalance_status: self.rebalance_status.take(),
            notice: self.notice.take(),
            enforcer: self.enforcer,
            allows_changes: self.allows_changes,
            ..rebuilt
        };
        Ok(())
    }

    /// The objects as they were given, as long as nothing changed; otherwise those of now.
    pub(crate) fn given(&self) -> (Inventory, SimulationOptions) {
        match &self.given {
            Some(given) => (Inventory::clone(given), self.options.clone()),
            None => self.objects(),
        }
    }

    pub fn objects(&self) -> (Inventory, SimulationOptions) {
        let mut inventory = Inventory::clone(&self.inventory);
        let source = SourceLocation::file(&self.name);
        let pods = self.simulation.pods().iter().filter(|pod| pod.was_running || pod.node().is_none());
        let mut pods: Vec<_> = pods.map(|pod| pod.pod.clone()).collect();
        // Claims that this simulation has made for pending pods are made again by the other.
        for pod in pods.iter_mut().filter(|pod| !pod.status.resource_claim_statuses.is_empty()) {
            let namespace = pod.metadata.namespace.clone();
            let is_read = |claim: &String| {
                self.has_read(DeviceKind::ResourceClaim, &NamespacedName::new(&namespace, claim))
            };
            if pod.spec.node_name.is_empty() {
                let statuses = &mut pod.status.resource_claim_statuses;
                statuses.retain(|status| status.resource_claim_name.as_ref().is_none_or(is_read));
            }
        }
        if self.is_live {
            // As the API server lists them.
            let name =
                |pod: &berth_api::object::Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            pods.sort_by_cached_key(name);
        }
        inventory.nodes = entries(self.simulation.nodes().cloned(), &source);
        inventory.pods = entries(pods, &source);
        inventory.index();
        (inventory, self.options.clone())
    }

    /// Whether an object of dynamic resource allocation is one of the input: claims may be made by the simulation.
    pub(crate) fn has_read(&self, kind: DeviceKind, name: &NamespacedName) -> bool {
        let is_it =
            |object: &DeviceObject| object.kind() == kind && object.metadata().namespaced_name() == *name;
        self.inventory.device_objects.iter().any(|entry| is_it(&entry.object))
    }

    /// An object as JSON, and whether that is the whole object. None if it does not exist, or if only what placement reads of its
    /// kind is kept.
    pub(crate) fn object(&self, kind: Kind, name: &NamespacedName) -> Option<(Value, bool)> {
        let typed = |value: Option<Value>, api_version: &str| {
            let mut object = json!({"apiVersion": api_version, "kind": kind.name()});
            let Value::Object(members) = value? else { return None };
            object.as_object_mut()?.extend(members);
            Some((object, false))
        };
        match kind {
            Kind::Pod => {
                let pod = self.simulation.pod(name.namespace(), name.name())?;
                match &pod.raw {
                    Some(raw) => Some((Value::clone(raw), true)),
                    None => typed(serde_json::to_value(&pod.pod).ok(), "v1"),
                }
            }
            Kind::Node => typed(serde_json::to_value(self.simulation.node(name.name())?).ok(), "v1"),
            Kind::Device(_) => {
                let found = self.inventory.device_objects.iter().find(|entry| {
                    Kind::Device(entry.object.kind()) == kind
                        && entry.object.metadata().namespaced_name() == *name
                });
                // Claims may have changed since they were read, or be made by the simulation.
                let is_claim = kind == Kind::Device(DeviceKind::ResourceClaim);
                let is_as_read = |claim: &&ResourceClaim| {
                    let read = found.map(|entry| &entry.object);
                    matches!(read, Some(DeviceObject::ResourceClaim(read)) if **read == **claim)
                };
                match self.simulation.claim(name).filter(|claim| is_claim && !is_as_read(claim)) {
                    Some(claim) => typed(serde_json::to_value(claim).ok(), "resource.k8s.io/v1"),
                    None => Some((found?.raw.clone()?, true)),
                }
            }
            _ => {
                let entries = &self.inventory.workloads;
                let found = entries.iter().find(|entry| {
                    entry.object.kind() == kind && entry.object.metadata().namespaced_name() == *name
                });
                Some((found?.raw.clone()?, true))
            }
        }
    }

    /// Classes, slices and other objects of devices, as they were read.
    pub(crate) fn device_objects(&self) -> impl Iterator<Item = &DeviceObject> {
        self.inventory.device_objects.iter().map(|entry| &entry.object)
    }

    pub fn simulation(&mut self) -> &mut Simulation {
        &mut self.simulation
    }

    /// A page begins, with a budget of its own for searches for devices.
    pub(crate) fn begin_page(&mut self, steps: u64) {
        let work = DeviceWork::new(steps, steps);
        self.options.settings.device_work = work.clone();
        self.simulation.cluster().set_device_work(work);
    }

    /// What the page leaves out because its budget is spent.
    pub(crate) fn left_out(&self) -> Option<String> {
        self.options.settings.device_work.was_cut().then(|| {
            format!(
                "Searches for devices ended at the limit of {} steps of work for a page: the nodes that are left out count as infeasible \
                 for the pods with claims.",
                grouped(PAGE_STEPS as usize)
            )
        })
    }

    /// The nodes and pods, and the broken rules of running pods.
    pub fn audited(&mut self) -> (&Simulation, &[Violation]) {
        let Overview { pods, broken } = self.overview();
        (pods.simulation, &broken.violations)
    }

    /// The same, and since when this state has seen the rules broken; empty for a cluster that does not change.
    pub(crate) fn audited_since(&mut self) -> (&Simulation, &[Violation], &BrokenSince) {
        self.overview();
        let broken = self.broken.as_ref().map_or(&[][..], |broken| &broken.violations);
        (&self.simulation, broken, &self.broken_since)
    }

    /// The nodes and pods, for pages that do not show broken rules.
    pub(crate) fn pods(&self) -> Pods<'_> {
        Pods { simulation: &self.simulation, table: &self.table }
    }

    /// What has happened since the state follows a cluster; without intervals for one that does not change.
    pub(crate) fn timeline(&mut self) -> Timeline {
        let counts = self.counts();
        let mut timeline = self.timeline.timeline.clone();
        timeline.set_end(counts);
        timeline
    }

    /// The numbers of pending pods and of broken rules.
    fn counts(&mut self) -> (usize, usize) {
        (self.table.pending().count(), self.overview().broken.violations.len())
    }

    /// The nodes and pods with the broken rules, which take time to find after a change.
    pub(crate) fn overview(&mut self) -> Overview<'_> {
        if self.broken.is_none() {
            let violations = self.simulation.cluster().audit();
            self.broken = Some(Arc::new(BrokenRules::new(self.pods(), violations.into())));
        }
        let broken = self.broken.as_ref().expect("found above");
        Overview { pods: self.pods(), broken }
    }

    /// What is decided about the pending pods, by their positions; see [`Simulation::decide_pending`].
    pub(crate) fn decide_pending(&mut self) -> BTreeMap<usize, PendingDecision> {
        self.simulation.decide_pending(self.table.pending()).into_iter().collect()
    }

    /// The latest events, the newest last; none of a cluster that does not change.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &ClusterEvent> {
        self.events.0.iter()
    }

    /// The time of the last changes; none for a cluster that does not change.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.now
    }

    /// What ages and other relative times are relative to: the time of the last changes, or, of a cluster that does not change, that
    /// of its newest pod or node.
    pub(crate) fn clock(&self) -> Clock {
        Clock { now: self.now.unwrap_or(self.newest), is_ticking: self.is_live }
    }

    /// Sets what the enforcer has stored about its limits; none if it is not known.
    pub fn set_ledger(&mut self, ledger: Option<String>) {
        self.ledger = ledger;
    }

    /// Sets what the enforcer has stored about its plan of moves; none if it is not known.
    pub fn set_rebalance_status(&mut self, status: Option<String>) {
        self.rebalance_status = status;
    }

    pub(crate) fn rebalance_status(&self) -> Option<&str> {
        self.rebalance_status.as_deref()
    }

    pub(crate) fn ledger(&self) -> Option<&str> {
        self.ledger.as_deref()
    }

    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Why the state may be incomplete or out of date.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }
}

fn entries<T>(objects: impl IntoIterator<Item = T>, source: &SourceLocation) -> Vec<Entry<T>> {
    let entry = |(order, object)| Entry { object, raw: None, source: source.clone(), order };
    objects.into_iter().enumerate().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use berth_api::object::{Node, Pod};
    use berth_api::read::{Manifest, read_manifests};
    use serde_json::{Value, from_value};

    use super::*;

    fn update(manifest: Manifest) -> Update {
        let value: Value = manifest.value.clone();
        match manifest.kind.as_str() {
            "Node" => Update::node(from_value::<Node>(value).unwrap()),
            "Pod" => Update::pod(from_value::<Pod>(value).unwrap()),
            _ => Update::Object(Box::new(manifest)),
        }
    }

    fn apply(state: &mut State, text: &str) -> bool {
        let mut updates = Vec::new();
        read_manifests::<InputError>(text.as_bytes(), "server", &mut |manifest| {
            updates.push(update(manifest));
            Ok(())
        })
        .unwrap();
        state.apply(updates, |error| panic!("{error}"))
    }

    fn node(name: &str, zone: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, resourceVersion: '7', labels: {{zone: {zone}}}}}, status: \
             {{allocatable: {{cpu: 2, pods: 10}}}}}}"
        )
    }

    fn pod(name: &str, node: &str, spec: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, labels: {{app: web}}, creationTimestamp: \
             '2026-01-01T00:00:00Z', ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, uid: u, controller: \
             true}}]}}, spec: {{nodeName: '{node}', containers: [{{name: c, image: i}}], {spec}}}}}"
        )
    }

    const APART: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, \
                         labelSelector: {matchLabels: {app: web}}}]}}";

    fn live() -> State {
        State::live("test", SimulationOptions::default()).unwrap()
    }

    /// What pages read of a state.
    fn seen(state: &mut State) -> Vec<String> {
        let mut seen: Vec<String> =
            state.audited().1.iter().map(|broken| format!("{:?}", broken.key())).collect();
        let names: Vec<_> =
            state.simulation().pods().iter().map(|pod| pod.pod.metadata.namespaced_name()).collect();
        for name in names {
            let explained = state.simulation().explain(name.namespace(), name.name(), None).unwrap();
            let workload = &state.simulation().pod(name.namespace(), name.name()).unwrap().workload;
            seen.push(format!("{name} {workload:?} {}", explained.explanation.outcome.message()));
        }
        seen.sort();
        seen
    }

    #[test]
    fn a_state_that_followed_changes_equals_one_built_from_the_objects() {
        let mut state = live();
        let replica_set = "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-abc, namespace: default, ownerReferences: \
                           [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}, spec: {selector: \
                           {matchLabels: {app: web}}}}";
        // Pods before their nodes and workloads: watches are not in step with each other.
        assert!(apply(&mut state, &pod("web-1", "a", APART)));
        for text in [
            &pod("web-2", "a", APART),
            &pod("web-3", "", APART),
            &pod("gone", "b", ""),
            &node("a", "east"),
            &node("b", "west"),
            &node("c", "east"),
            replica_set,
        ] {
            assert!(apply(&mut state, text), "{text}");
        }
        assert!(!apply(&mut state, &node("a", "east").replace("'7'", "'8'")), "only the version differs");
        assert!(!apply(&mut state, &pod("web-3", "", APART)));
        let removed = |kind, name: &str| {
            Update::Removed(kind, NamespacedName::new(if kind == Kind::Pod { "default" } else { "" }, name))
        };
        let failed = |error: InputError| panic!("{error}");
        assert!(state.apply([removed(Kind::Pod, "gone"), removed(Kind::Node, "c")], failed));
        assert!(!state.apply([removed(Kind::Pod, "gone")], failed));
        assert!(apply(&mut state, &pod("web-3", "b", APART)) && apply(&mut state, &pod("web-4", "", APART)));

        let changed = seen(&mut state);
        assert_eq!(changed.len(), 6, "two broken rules and four pods: {changed:#?}");
        assert!(
            changed.iter().any(|text| text.starts_with("default/web-4 Some(\"Deployment web\") 0/2 nodes")),
            "{changed:#?}"
        );
        let mut built = live();
        let all = [node("a", "east"), node("b", "west"), replica_set.to_owned()];
        apply(&mut built, &all.join("\n---\n"));
        let pods = [("web-1", "a"), ("web-2", "a"), ("web-3", "b"), ("web-4", "")];
        apply(&mut built, &pods.map(|(name, node)| pod(name, node, APART)).join("\n---\n"));
        assert_eq!(seen(&mut built), changed);
        state.rebuild().unwrap();
        assert_eq!(seen(&mut state), changed);
    }

    #[test]
    fn the_time_of_a_broken_rule_is_that_of_its_first_change_until_it_holds_again() {
        let mut state = live();
        let executing = APART.replace("IgnoredDuringExecution", "RequiredDuringExecution");
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let since = |state: &mut State| {
            let (_, broken, since) = state.audited_since();
            broken.iter().map(|v| (v.name.clone(), since.get(&v.key()))).collect::<Vec<_>>()
        };
        state.set_time(at(1));
        let web = |i: usize, on: &str| pod(&format!("web-{i}"), on, &executing);
        apply(&mut state, &[node("a", "east"), node("b", "west"), web(1, "a")].join("\n---\n"));
        assert_eq!(since(&mut state), []);
        state.set_time(at(2));
        apply(&mut state, &web(2, "a"));
        let broken = vec![("web-1".to_owned(), Some(at(2))), ("web-2".to_owned(), Some(at(2)))];
        assert_eq!(since(&mut state), broken);
        // Other changes, and a state that is built again, keep it.
        state.set_time(at(3));
        apply(&mut state, &pod("other", "b", ""));
        state.rebuild().unwrap();
        apply(&mut state, &node("c", "north"));
        assert_eq!(since(&mut state), broken);
        state.set_time(at(4));
        state.apply([Update::Removed(Kind::Pod, NamespacedName::new("default", "web-2"))], |e| panic!("{e}"));
        assert_eq!(since(&mut state), []);
        assert!(state.broken_since.is_empty());
        state.set_time(at(5));
        apply(&mut state, &web(3, "a"));
        let broken = [("web-1".to_owned(), Some(at(5))), ("web-3".to_owned(), Some(at(5)))];
        assert_eq!(since(&mut state), broken);
    }

    #[test]
    fn a_new_list_removes_what_it_does_not_have() {
        let mut state = live();
        apply(
            &mut state,
            &[node("a", "east"), node("b", "east"), pod("web-1", "a", ""), pod("web-2", "b", "")]
                .join("\n---\n"),
        );
        let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}}";
        apply(&mut state, service);
        let listed = |names: &[NamespacedName]| names.iter().cloned().collect();
        let changed = state.apply(
            [
                Update::Listed(Kind::Pod, listed(&[NamespacedName::new("default", "web-2")])),
                Update::Listed(Kind::Node, listed(&[NamespacedName::new("", "b")])),
                Update::Listed(Kind::Service, listed(&[])),
            ],
            |error| panic!("{error}"),
        );
        assert!(changed);
        let (objects, _) = state.objects();
        assert_eq!((objects.nodes.len(), objects.pods.len(), objects.services.len()), (1, 1, 0));
        assert_eq!(state.simulation().pods()[0].pod.metadata.name, "web-2");
    }
}
