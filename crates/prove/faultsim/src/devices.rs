//! Devices of a run: what drivers publish and how they fail, and what users do with devices. All of it is drawn from a random
//! stream of its own: it disturbs nothing else that a seed has chosen.

use std::time::Duration;

use berth_api::read::{ReadError, read_manifests};
use berth_client::connect::Connection;
use berth_kubelet::{DeviceTemplate, run_device_driver};
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::platform;
use crate::workload::{Action, Workload};

/// `bindingTimeout` of the schedulers.
pub const BINDING_TIMEOUT: Duration = Duration::from_secs(30);
/// The extended resource that the class `gpu` provides.
pub const EXTENDED_RESOURCE: &str = "example.com/gpu";
/// Tells the random stream of devices from the others of a seed.
const STREAM: u64 = 0x00de_71ce;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// What the drivers do for some time.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Devices get their binding conditions after this many seconds.
    Works(u64),
    /// Devices get their failure conditions.
    Fails,
    /// Nothing: no slice is published, and no condition set.
    Stands,
}

#[derive(Clone, Debug)]
pub struct Drivers {
    /// Devices of a node that each driver publishes.
    n_devices: u64,
    /// What they do from each time on.
    phases: Vec<(Duration, Phase)>,
}

/// The random numbers of a seed's devices.
pub fn stream(seed: u64) -> Rng {
    Rng::with_seed(seed ^ STREAM)
}

impl Drivers {
    /// Drivers that may fail until `end`.
    pub fn new(rng: &mut Rng, end: Duration) -> Drivers {
        let mut phases = vec![(Duration::ZERO, Phase::Works(rng.u64(..3)))];
        let mut at = Duration::ZERO;
        while rng.u32(..3) > 0 {
            at += Duration::from_millis(rng.u64(3_000..40_000));
            let phase = match rng.u32(..4) {
                0 => Phase::Fails,
                1 => Phase::Stands,
                _ => Phase::Works(rng.u64(..40)),
            };
            phases.push((at.min(end), phase));
        }
        // In the end they work, so that what should be done can be done.
        phases.push((end, Phase::Works(1)));
        Drivers { n_devices: rng.u64(1..4), phases }
    }

    /// Drivers without faults, with one device of each on a node.
    pub fn sound() -> Drivers {
        Drivers { n_devices: 1, phases: vec![(Duration::ZERO, Phase::Works(1))] }
    }

    pub async fn run(self, connection: Connection) {
        loop {
            let now = platform::now();
            let is_over = |at: &Duration| *at > now;
            let next = self.phases.iter().map(|(at, _)| *at).find(is_over).unwrap_or(Duration::MAX);
            let current = self.phases.iter().rev().find(|(at, _)| *at <= now).map(|(_, phase)| *phase);
            let driving = async {
                match current.and_then(|phase| self.templates(phase)) {
                    Some(templates) => {
                        let stop = CancellationToken::new();
                        drop(run_device_driver(connection.clone(), templates, stop).await);
                    }
                    None => std::future::pending().await,
                }
            };
            let pause = next.saturating_sub(now).min(Duration::from_secs(100_000));
            let _ = tokio::time::timeout(pause, driving).await;
        }
    }

    fn templates(&self, phase: Phase) -> Option<Vec<DeviceTemplate>> {
        let (delay, fails) = match phase {
            Phase::Works(seconds) => (seconds, false),
            Phase::Fails => (0, true),
            Phase::Stands => return None,
        };
        let n = self.n_devices;
        let text = format!(
            "{{kind: SimulatedDevices, apiVersion: v1, driver: gpu.example.com, devices: [
  {{name: even, count: {n}, attributes: {{model: m0}}}}, {{name: odd, count: {n}, attributes: {{model: m1}}}}]}}
---
{{kind: SimulatedDevices, apiVersion: v1, driver: card.example.com,
  sharedCounters: [{{name: card, count: {n}, counters: {{memory: {{value: 40Gi}}}}}}], devices: [
  {{name: 'whole-{{n}}', count: {n}, attributes: {{size: 40}},
    consumesCounters: [{{counterSet: 'card-{{n}}', counters: {{memory: {{value: 40Gi}}}}}}]}},
  {{name: 'half-{{n}}-a', count: {n}, attributes: {{size: 20}},
    consumesCounters: [{{counterSet: 'card-{{n}}', counters: {{memory: {{value: 20Gi}}}}}}]}},
  {{name: 'half-{{n}}-b', count: {n}, attributes: {{size: 20}},
    consumesCounters: [{{counterSet: 'card-{{n}}', counters: {{memory: {{value: 20Gi}}}}}}]}}]}}
---
{{kind: SimulatedDevices, apiVersion: v1, driver: link.example.com, bindingDelay: {delay}s, bindingFails: {fails},
  devices: [{{name: link, count: {n}, bindingConditions: [attached], bindingFailureConditions: [broken]}}]}}"
        );
        let mut templates = Vec::new();
        let read = read_manifests::<ReadError>(text.as_bytes(), "devices", &mut |manifest| {
            templates.push(DeviceTemplate::read(&manifest).expect("the template is valid"));
            Ok(())
        });
        read.expect("the template is valid YAML");
        Some(templates)
    }
}

fn claim_spec(rng: &mut Rng) -> Value {
    let request =
        |class: &str, count: u32| json!({"name": "r", "exactly": {"deviceClassName": class, "count": count}});
    let of_size = |size: u32| json!([{"cel": {"expression": format!("device.attributes['card.example.com'].size == {size}")}}]);
    let devices = match rng.u32(..6) {
        0 => json!({"requests": [request("gpu", 1)]}),
        1 => {
            json!({"requests": [request("gpu", 2)], "constraints": [{"matchAttribute": "gpu.example.com/model"}]})
        }
        2 => {
            let alternative = |name: &str, size| json!({"name": name, "deviceClassName": "card", "selectors": of_size(size)});
            json!({"requests": [{"name": "r", "firstAvailable": [alternative("whole", 40), alternative("half", 20)]}]})
        }
        3 => {
            let mut half = request("card", 1);
            half["exactly"]["selectors"] = of_size(20);
            json!({"requests": [half]})
        }
        _ => json!({"requests": [request("link", 1)]}),
    };
    json!({"devices": devices})
}

fn pod_spec(grace_period: u32) -> Value {
    json!({"schedulerName": "berth", "terminationGracePeriodSeconds": grace_period,
        "containers": [{"name": "c", "image": "registry.example/i:1",
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}]})
}

/// A pod with one claim. `source`: the field that names the claim or its template.
fn claiming(mut spec: Value, source: (&str, &str)) -> Value {
    spec["resourceClaims"] = json!([{"name": "devices", source.0: source.1}]);
    spec["containers"][0]["resources"]["claims"] = json!([{"name": "devices"}]);
    spec
}

fn with_gpus(mut spec: Value, n: u32) -> Value {
    for amounts in ["requests", "limits"] {
        spec["containers"][0]["resources"][amounts][EXTENDED_RESOURCE] = json!(n.to_string());
    }
    spec
}

fn bare(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
}

impl Workload {
    /// What users do with devices until `end`.
    pub fn add_devices(&mut self, rng: &mut Rng, end: Duration) {
        let end = end.as_millis() as u64;
        self.device_classes();
        for i in 0..rng.usize(1..5) {
            self.device_app(rng, &format!("dev-{i}"), end);
        }
        for i in 0..rng.usize(..3) {
            self.shared_claim(rng, &format!("shared-{i}"), end);
        }
        for i in 0..rng.usize(..4) {
            let at = rng.u64(5_000..end);
            let spec = with_gpus(pod_spec(rng.u32(..5)), rng.u32(1..3));
            let name = format!("gpus-{i}");
            self.post(at, PODS, bare(&name, &spec));
            if rng.u32(..3) == 0 {
                self.delete(at + rng.u64(..20_000), &format!("{PODS}/{name}"));
            }
        }
        let nodes = self.nodes();
        for _ in 0..rng.usize(..8) {
            let node = &nodes[rng.usize(..nodes.len())];
            self.slice(rng, node, end);
        }
        self.actions.sort_by_key(|(at, _)| *at);
    }

    /// A pod with a claim of a template, one with a claim of its own whose device has binding conditions, and one with an
    /// extended resource.
    pub fn few_device_pods(&mut self) {
        self.device_classes();
        let request = |class: &str| json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}});
        self.claim_template("t", request("card"));
        self.post(2_000, CLAIMS, claim("own", request("link")));
        for (name, spec) in [
            ("made", claiming(pod_spec(2), ("resourceClaimTemplateName", "t"))),
            ("own", claiming(pod_spec(2), ("resourceClaimName", "own"))),
            ("extended", with_gpus(pod_spec(2), 1)),
        ] {
            self.post(5_000, PODS, bare(name, &spec));
        }
    }

    fn delete(&mut self, millis: u64, path: &str) {
        self.add(millis, Action::Request(Method::DELETE, path.to_owned(), Value::Null));
    }

    fn device_classes(&mut self) {
        for (name, resource) in [("gpu", Some(EXTENDED_RESOURCE)), ("card", None), ("link", None)] {
            let expression = format!("device.driver == '{name}.example.com'");
            let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": resource}});
            self.post(0, "/apis/resource.k8s.io/v1/deviceclasses", class);
        }
    }

    fn claim_template(&mut self, name: &str, spec: Value) {
        let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": name}, "spec": {"spec": spec}});
        self.post(1_000, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", template);
    }

    /// A Deployment whose pods have claims, or an extended resource, with what happens to it.
    fn device_app(&mut self, rng: &mut Rng, name: &str, end: u64) {
        let spec = match rng.u32(..4) {
            0 => with_gpus(pod_spec(rng.u32(..5)), rng.u32(1..3)),
            _ => {
                self.claim_template(name, claim_spec(rng));
                claiming(pod_spec(rng.u32(..5)), ("resourceClaimTemplateName", name))
            }
        };
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": spec});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": rng.u32(1..4), "selector": {"matchLabels": {"app": name}}, "template": template}});
        let created = rng.u64(4_000..20_000);
        self.post(created, DEPLOYMENTS, object);
        let path = format!("{DEPLOYMENTS}/{name}");
        for _ in 0..rng.usize(..5) {
            let at = rng.u64(created..end.max(created + 1));
            match rng.u32(..6) {
                0 => self.delete(at, &path),
                1..4 => self.patch(at, &path, json!({"spec": {"replicas": rng.u32(..5)}})),
                _ => {
                    let version = rng.u32(..100).to_string();
                    let labels = json!({"metadata": {"labels": {"version": version}}});
                    self.patch(at, &path, json!({"spec": {"template": labels}}));
                }
            }
        }
    }

    /// A claim with pods that share it. Both may be deleted, the claim also while they use it.
    fn shared_claim(&mut self, rng: &mut Rng, name: &str, end: u64) {
        let created = rng.u64(3_000..end);
        self.post(created, CLAIMS, claim(name, claim_spec(rng)));
        for j in 0..rng.u32(1..4) {
            let (pod, at) = (format!("{name}-{j}"), created + rng.u64(..5_000));
            let spec = claiming(pod_spec(rng.u32(..5)), ("resourceClaimName", name));
            self.post(at, PODS, bare(&pod, &spec));
            if rng.bool() {
                self.delete(at + rng.u64(..30_000), &format!("{PODS}/{pod}"));
            }
        }
        if rng.u32(..4) == 0 {
            self.delete(created + rng.u64(1_000..40_000), &format!("{CLAIMS}/{name}"));
        }
    }

    /// Something that happens to a slice: it is deleted, or a device disappears or is tainted.
    fn slice(&mut self, rng: &mut Rng, node: &str, end: u64) {
        let at = rng.u64(4_000..end);
        let slice = |driver: &str, i: u32| {
            format!("/apis/resource.k8s.io/v1/resourceslices/{node}-{driver}.example.com-{i}")
        };
        let device =
            |name: &str, model: &str| json!({"name": name, "attributes": {"model": {"string": model}}});
        match rng.u32(..5) {
            0 => self.delete(at, &slice("gpu", 0)),
            1 => self.delete(at, &slice("card", rng.u32(..2))),
            2 => self.delete(at, &slice("link", 0)),
            3 => {
                // The driver comes back with fewer devices.
                let devices = json!([device("even-0", "m0")]);
                self.patch(
                    at,
                    &slice("gpu", 0),
                    json!({"spec": {"pool": {"generation": 2}, "devices": devices}}),
                );
            }
            _ => {
                let mut tainted = device("even-0", "m0");
                let effect = if rng.bool() { "NoSchedule" } else { "NoExecute" };
                tainted["taints"] = json!([{"key": "broken", "effect": effect}]);
                let devices = json!([tainted, device("odd-0", "m1")]);
                self.patch(
                    at,
                    &slice("gpu", 0),
                    json!({"spec": {"pool": {"generation": 3}, "devices": devices}}),
                );
            }
        }
    }
}

fn claim(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec})
}
