//! The entries of a recording that are in force: those that later ones have not replaced or taken back.
//!
//! Applied to an empty cluster in the order of their arrival, they give the state after all entries. Each file of a recording
//! starts with them, so that older files can be deleted.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::device::{ClaimDecision, DeviceDecision, DeviceKind, DeviceObject};
use berth_api::object::{GroupKey, NamespacedName, VolumeDecision, VolumeKind};
use berth_input::journal::{AssumedDevices, AssumedVolumes, Entry};

/// The number of a line, in the order of arrival.
type Line = u64;

#[derive(Default)]
pub(super) struct Checkpoint {
    lines: BTreeMap<Line, Box<[u8]>>,
    last: Line,
    objects: HashMap<Object, Line>,
    pods: HashMap<NamespacedName, PodLines>,
    /// By the assumed volume, with the claim that it is assumed for.
    assumed_volumes: HashMap<String, (NamespacedName, Line)>,
    /// By the claim that a node is assumed for.
    assumed_nodes: HashMap<NamespacedName, Line>,
    pub(super) is_complete: bool,
}

#[derive(PartialEq, Eq, Hash)]
enum Object {
    Node(String),
    Namespace(String),
    Service(NamespacedName),
    Owner(String, NamespacedName),
    Volume(VolumeKind, NamespacedName),
    Device(DeviceKind, NamespacedName),
    /// What is assumed of a claim of devices.
    AssumedClaim(NamespacedName),
    /// What is assumed of the extended resources of a pod.
    AssumedResources(NamespacedName),
    Group(GroupKey),
    GroupClaims(NamespacedName),
    Budget(NamespacedName),
}

#[derive(Default)]
struct PodLines {
    queued: Option<Line>,
    relaxed: Option<Line>,
    dequeued: Option<Line>,
    /// The pod with its node, or its assumption; and labels that were added since.
    placed: Vec<Line>,
    /// The placement is an assumption: it needs the pod as it was queued.
    is_assumed: bool,
    nominated: Option<Line>,
    victims: Option<Line>,
}

impl Checkpoint {
    /// The lines in force.
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.values().map(|line| &**line)
    }

    /// Takes note of an entry and its line.
    pub(super) fn apply(&mut self, entry: &Entry, line: &[u8]) {
        match entry {
            Entry::Complete {} => self.is_complete = true,
            Entry::Node(node) => self.set(Object::Node(node.metadata.name.clone()), line),
            Entry::RemoveNode(name) => self.unset(&Object::Node(name.clone())),
            Entry::Namespace(n) => self.set(Object::Namespace(n.metadata.name.clone()), line),
            Entry::RemoveNamespace(name) => self.unset(&Object::Namespace(name.clone())),
            Entry::Service(service) => self.set(Object::Service(service.metadata.namespaced_name()), line),
            Entry::RemoveService(name) => self.unset(&Object::Service(name.clone())),
            Entry::Owner(owner) => {
                let name = NamespacedName::new(&owner.namespace, &owner.name);
                let object = Object::Owner(owner.kind.clone(), name);
                if owner.removed { self.unset(&object) } else { self.set(object, line) }
            }
            Entry::VolumeObject(object) => {
                let (kind, name) = (object.kind(), object.metadata().namespaced_name());
                self.set(Object::Volume(kind, name.clone()), line);
                self.volume_object_changed(kind, &name);
            }
            Entry::RemoveVolumeObject(kind, name) => {
                self.unset(&Object::Volume(*kind, name.clone()));
                self.volume_object_changed(*kind, name);
            }
            Entry::DeviceObject(object) => {
                let (kind, name) = (object.kind(), object.metadata().namespaced_name());
                self.set(Object::Device(kind, name.clone()), line);
                match &**object {
                    DeviceObject::ResourceClaim(claim) if claim.status.allocation.is_some() => {
                        let is_extended = |_: &_| claim.is_for_extended_resources();
                        if let Some(pod) = claim.metadata.controller().filter(is_extended) {
                            let pod = NamespacedName::new(name.namespace(), &pod.name);
                            self.unset(&Object::AssumedResources(pod));
                        }
                        self.unset(&Object::AssumedClaim(name));
                    }
                    _ => self.renew(&Object::AssumedClaim(name)),
                }
            }
            Entry::RemoveDeviceObject(kind, name) => {
                self.unset(&Object::Device(*kind, name.clone()));
                self.unset(&Object::AssumedClaim(name.clone()));
            }
            Entry::Group(group) => {
                let object = Object::Group(group.key.clone());
                let says_nothing = !group.as_a_whole && group.priority.is_none();
                if says_nothing { self.unset(&object) } else { self.set(object, line) }
            }
            Entry::GroupClaims(group, claims) => {
                let object = Object::GroupClaims(group.clone());
                if claims.is_some() { self.set(object, line) } else { self.unset(&object) }
            }
            Entry::Budget(budget) => self.set(Object::Budget(budget.metadata.namespaced_name()), line),
            Entry::RemoveBudget(name) => self.unset(&Object::Budget(name.clone())),
            Entry::Pod(pod) => self.place(&pod.metadata.namespaced_name(), line, false),
            Entry::Assume(pod, _) => self.place(pod, line, true),
            Entry::AddLabels(pod, _) => {
                let added = self.add(line);
                self.change(pod, |lines, _| lines.placed.push(added));
            }
            Entry::RemovePod(pod) => self.change(pod, |lines, replaced| {
                replaced.append(&mut lines.placed);
                lines.is_assumed = false;
            }),
            Entry::Queue(pod) => {
                let added = self.add(line);
                self.change(&pod.metadata.namespaced_name(), |lines, replaced| {
                    replaced.extend(lines.queued.replace(added));
                    replaced.extend([lines.relaxed.take(), lines.dequeued.take()].into_iter().flatten());
                });
            }
            Entry::Relax(pod, _) => {
                let added = self.add(line);
                self.change(pod, |lines, replaced| replaced.extend(lines.relaxed.replace(added)));
            }
            Entry::Dequeue(pod) => {
                let added = self.add(line);
                self.change(pod, |lines, replaced| replaced.extend(lines.dequeued.replace(added)));
            }
            Entry::Nominate(pod, _) => {
                let added = self.add(line);
                self.change(pod, |lines, replaced| {
                    replaced.extend(lines.nominated.replace(added));
                    replaced.extend(lines.victims.take());
                });
            }
            Entry::Victims(pod, _) => {
                let added = self.add(line);
                self.change(pod, |lines, replaced| replaced.extend(lines.victims.replace(added)));
            }
            Entry::ClearNomination(pod) => {
                self.change(pod, |lines, replaced| {
                    replaced.extend([lines.nominated.take(), lines.victims.take()].into_iter().flatten());
                });
            }
            Entry::AssumeVolumes(assumed) => self.assume_volumes(assumed),
            Entry::RestoreVolumes(assumed) => self.restore_volumes(assumed),
            Entry::AssumeDevices(assumed) => self.assume_devices(assumed),
            Entry::RestoreDevices(assumed) => {
                for claim in &assumed.devices.claims {
                    self.unset(&assumed_claim(assumed, claim));
                }
            }
            Entry::Journal(_)
            | Entry::Time(_)
            | Entry::Decision(_)
            | Entry::Preemption(_)
            | Entry::GroupDecision(..)
            | Entry::GroupPreemption(..) => {}
        }
    }

    fn add(&mut self, line: &[u8]) -> Line {
        self.last += 1;
        self.lines.insert(self.last, line.into());
        self.last
    }

    fn set(&mut self, object: Object, line: &[u8]) {
        let added = self.add(line);
        if let Some(replaced) = self.objects.insert(object, added) {
            self.lines.remove(&replaced);
        }
    }

    fn unset(&mut self, object: &Object) {
        if let Some(removed) = self.objects.remove(object) {
            self.lines.remove(&removed);
        }
    }

    /// Moves the line of an object to the end.
    fn renew(&mut self, object: &Object) {
        if let Some(line) = self.objects.get_mut(object)
            && let Some(text) = self.lines.remove(line)
        {
            self.last += 1;
            *line = self.last;
            self.lines.insert(self.last, text);
        }
    }

    fn place(&mut self, pod: &NamespacedName, line: &[u8], is_assumed: bool) {
        let added = self.add(line);
        self.change(pod, |lines, replaced| {
            replaced.extend(std::mem::replace(&mut lines.placed, vec![added]));
            lines.is_assumed = is_assumed;
        });
    }

    /// Changes the lines of a pod. `change` is to collect those that are replaced.
    fn change(&mut self, pod: &NamespacedName, change: impl FnOnce(&mut PodLines, &mut Vec<Line>)) {
        let mut replaced = Vec::new();
        let lines = self.pods.entry(pod.clone()).or_default();
        change(lines, &mut replaced);
        if lines.dequeued.is_some() && !lines.is_assumed {
            let lines = [lines.queued.take(), lines.relaxed.take(), lines.dequeued.take()];
            replaced.extend(lines.into_iter().flatten());
        }
        let PodLines { queued, dequeued, placed, nominated, .. } = lines;
        if placed.is_empty() && [queued, dequeued, nominated].iter().all(|line| line.is_none()) {
            self.pods.remove(pod);
        }
        for line in replaced {
            self.lines.remove(&line);
        }
    }

    /// Each object has its own line: an assumption about it ends with its next version.
    fn assume_volumes(&mut self, assumed: &AssumedVolumes) {
        let claim = |name: &String| NamespacedName::new(assumed.pod.namespace(), name);
        for (name, volume) in &assumed.volumes.bind {
            let bind = vec![(name.clone(), volume.clone())];
            let line = self.add_assumed(assumed, VolumeDecision { bind, provision: Vec::new() });
            let before = self.assumed_volumes.insert(volume.clone(), (claim(name), line));
            before.map(|(_, line)| self.lines.remove(&line));
        }
        for name in &assumed.volumes.provision {
            let provision = vec![name.clone()];
            let line = self.add_assumed(assumed, VolumeDecision { bind: Vec::new(), provision });
            let before = self.assumed_nodes.insert(claim(name), line);
            before.map(|line| self.lines.remove(&line));
        }
    }

    /// Each claim that is allocated has its own line. What the devices take of the node stays as long as the pod is assumed there.
    fn assume_devices(&mut self, assumed: &AssumedDevices) {
        for claim in assumed.devices.claims.iter().filter(|claim| claim.allocation.is_some()) {
            let object = assumed_claim(assumed, claim);
            self.set(object, &assumed_devices(assumed, vec![claim.clone()]));
        }
        if !assumed.devices.node_allocatable.is_empty() {
            let added = self.add(&assumed_devices(assumed, Vec::new()));
            self.change(&assumed.pod, |lines, _| lines.placed.push(added));
        }
    }

    fn add_assumed(&mut self, assumed: &AssumedVolumes, volumes: VolumeDecision) -> Line {
        let assumed = AssumedVolumes { volumes, ..assumed.clone() };
        // It is made of texts only, and so can be written.
        let mut line = serde_json::to_vec(&Entry::AssumeVolumes(Box::new(assumed))).unwrap_or_default();
        line.push(b'\n');
        self.add(&line)
    }

    fn restore_volumes(&mut self, assumed: &AssumedVolumes) {
        for (claim, volume) in &assumed.volumes.bind {
            let claim = NamespacedName::new(assumed.pod.namespace(), claim);
            if self.assumed_volumes.get(volume).is_some_and(|(of, _)| *of == claim) {
                self.volume_object_changed(VolumeKind::PersistentVolume, &NamespacedName::new("", volume));
            }
        }
        for claim in &assumed.volumes.provision {
            let claim = NamespacedName::new(assumed.pod.namespace(), claim);
            self.assumed_nodes.remove(&claim).map(|line| self.lines.remove(&line));
        }
    }

    fn volume_object_changed(&mut self, kind: VolumeKind, name: &NamespacedName) {
        match kind {
            VolumeKind::PersistentVolume => {
                let ended = self.assumed_volumes.remove(name.name());
                ended.map(|(_, line)| self.lines.remove(&line));
            }
            VolumeKind::PersistentVolumeClaim => {
                self.assumed_nodes.remove(name).map(|line| self.lines.remove(&line));
                // A volume is assumed for a claim that exists: after the line of the claim.
                for (_, line) in self.assumed_volumes.values_mut().filter(|(claim, _)| claim == name) {
                    if let Some(text) = self.lines.remove(line) {
                        self.last += 1;
                        *line = self.last;
                        self.lines.insert(self.last, text);
                    }
                }
            }
            _ => {}
        }
    }
}

/// What is assumed of a claim. That for extended resources does not exist yet.
/// A line that assumes some of the claims of a pod, and what its devices take of the node.
fn assumed_devices(assumed: &AssumedDevices, claims: Vec<ClaimDecision>) -> Vec<u8> {
    let node_allocatable = assumed.devices.node_allocatable.clone();
    let assumed = AssumedDevices { devices: DeviceDecision { claims, node_allocatable }, ..assumed.clone() };
    // It is made of texts and numbers only, and so can be written.
    let mut line = serde_json::to_vec(&Entry::AssumeDevices(Box::new(assumed))).unwrap_or_default();
    line.push(b'\n');
    line
}

fn assumed_claim(assumed: &AssumedDevices, claim: &ClaimDecision) -> Object {
    match claim.extended {
        Some(_) => Object::AssumedResources(assumed.pod.clone()),
        None => Object::AssumedClaim(claim.claim.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines in force after these.
    fn in_force(lines: &str) -> String {
        let mut checkpoint = Checkpoint::default();
        for line in lines.lines().map(str::trim) {
            checkpoint.apply(&serde_json::from_str(line).unwrap(), format!("{line}\n").as_bytes());
        }
        let lines = checkpoint.lines().map(|line| String::from_utf8(line.into()).unwrap());
        lines.collect::<String>()
    }

    const POD: &str = r#"{"queue":{"metadata":{"namespace":"n","name":"p"}}}"#;
    const BOUND: &str = r#"{"pod":{"metadata":{"namespace":"n","name":"p"},"spec":{"nodeName":"a"}}}"#;

    #[test]
    fn later_lines_replace_earlier_ones_and_deleted_objects_leave_nothing() {
        let node = r#"{"node":{"metadata":{"name":"a","labels":{"v":"2"}}}}"#;
        let lines =
            format!("{}\n{node}\n{{\"removeNode\":\"b\"}}", node.replace('2', "1").replace("\"a\"", "\"b\""));
        assert_eq!(in_force(&lines), format!("{node}\n"));
        assert_eq!(in_force(&format!("{node}\n{node}\n{{\"removeNode\":\"a\"}}")), "");
        let owner = r#"{"owner":{"kind":"ReplicaSet","namespace":"n","name":"r"}}"#;
        assert_eq!(in_force(&format!("{owner}\n{}", owner.replace("}}", ",\"removed\":true}}"))), "");
        let group = r#"{"group":{"key":{"kind":"scheduling","name":"n/g"},"asAWhole":true,"priority":5}}"#;
        assert_eq!(in_force(&format!("{group}\n{group}")), format!("{group}\n"));
        assert_eq!(
            in_force(&format!("{group}\n{}", group.replace(",\"asAWhole\":true,\"priority\":5", ""))),
            ""
        );
    }

    #[test]
    fn a_pod_is_kept_as_queued_until_its_binding_is_confirmed() {
        let (assume, dequeue) = (r#"{"assume":["n/p","a"]}"#, r#"{"dequeue":"n/p"}"#);
        let assumed = format!("{POD}\n{assume}\n{dequeue}\n");
        assert_eq!(in_force(&assumed), assumed);
        assert_eq!(in_force(&format!("{assumed}{BOUND}")), format!("{BOUND}\n"));
        let remove = r#"{"removePod":"n/p"}"#;
        assert_eq!(
            in_force(&format!("{POD}\n{assume}\n{remove}")),
            format!("{POD}\n"),
            "it could not be bound"
        );
        assert_eq!(in_force(&format!("{assumed}{remove}")), "");
        let labels = r#"{"addLabels":["n/p",{"zone":"z"}]}"#;
        assert_eq!(in_force(&format!("{BOUND}\n{labels}")), format!("{BOUND}\n{labels}\n"));
        let nominate = r#"{"nominate":["n/p","a"]}"#;
        let clear = r#"{"clearNomination":"n/p"}"#;
        assert_eq!(in_force(&format!("{POD}\n{nominate}\n{clear}\n{nominate}\n{dequeue}\n{clear}")), "");
    }

    #[test]
    fn assumed_volumes_end_with_the_next_version_of_their_object() {
        let object = |kind: &str, name: &str| {
            format!(r#"{{"volumeObject":{{"{kind}":{{"metadata":{{"namespace":"n","name":"{name}"}}}}}}}}"#)
                + "\n"
        };
        let (claim, other) = (object("persistentVolumeClaim", "c"), object("persistentVolumeClaim", "d"));
        let volume = object("persistentVolume", "v").replace(r#""namespace":"n","#, "");
        let assumed = |bind: &str, provision: &str| {
            let volumes = format!(r#"{{"bind":[{bind}],"provision":[{provision}]}}"#);
            format!(r#"{{"assumeVolumes":{{"pod":"n/p","node":"a","volumes":{volumes}}}}}"#) + "\n"
        };
        let (bind, provision) = (assumed(r#"["c","v"]"#, ""), assumed("", r#""d""#));
        let all = format!("{claim}{other}{volume}{}", assumed(r#"["c","v"]"#, r#""d""#));
        assert_eq!(in_force(&all), format!("{claim}{other}{volume}{bind}{provision}"));
        assert_eq!(in_force(&format!("{all}{other}")), format!("{claim}{volume}{bind}{other}"));
        assert_eq!(in_force(&format!("{all}{volume}")), format!("{claim}{other}{provision}{volume}"));
        // The volume is assumed for a claim that must exist then.
        assert_eq!(in_force(&format!("{all}{claim}")), format!("{other}{volume}{provision}{claim}{bind}"));
        let restored = all.lines().last().unwrap().replace("assumeVolumes", "restoreVolumes");
        assert_eq!(in_force(&format!("{all}{restored}")), format!("{claim}{other}{volume}"));
    }
}
