//! What the hosts of a cluster run.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_admission::{AdmissionController, AdmissionRequest, Endpoint, Policy, policy};
use berth_api::simulated_nodes::CSI_DRIVER;
use berth_api::syntax::quantity::Quantity;
use berth_apiserver::admission::{Operation, Phase};
use berth_apiserver::{InProcessServer, Latency, ServerOptions};
use berth_client::WatchGroup;
use berth_client::connect::{self, Connection};
use berth_client::lease::LeaseOptions;
use berth_controllers::{ControllerOptions, ProvisionerOptions};
use berth_enforcer::{EnforcerOptions, Graces};
use berth_kubelet::{
    Adopt, CsiDriverTemplate, Kubelet, KubeletOptions, NodeCredentials, NodeTemplate, PodTimings,
};
use berth_scheduler::SchedulerOptions;
use bytes::Bytes;
use fastrand::Rng;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::console::Viewers;
use crate::devices::{BINDING_TIMEOUT, Drivers};
use crate::history::{self, History};
use crate::host::{HostId, Program};
use crate::moves;
use crate::network::{Network, Serve, ServerResponse};
use crate::platform;
use crate::workload::{Action, Switches, Workload};

pub const SERVER: HostId = 0;
pub const WEBHOOK: HostId = 3;
/// The version before the first write.
pub const FIRST_VERSION: u64 = 1000;
const SECRET: [u8; 32] = [7; 32];

/// Where the API server is, once it has started.
pub type Server = Arc<Mutex<Option<Arc<InProcessServer>>>>;

/// What a seed has chosen besides faults and workload.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Two schedulers and two enforcers with leader election, or one of each without.
    pub is_replicated: bool,
    /// Whether bindings are guarded by the webhook.
    pub has_webhook: bool,
    /// Whether a binding is refused when the webhook does not answer.
    pub fails_closed: bool,
    pub has_devices: bool,
    /// Whether the enforcers rebalance.
    pub moves: bool,
    /// Whether the schedulers preempt pods across nodes.
    pub across_nodes: bool,
    /// The seed of how long writes within the API server take, and until when they take time.
    pub slow_disk: Option<(u64, Duration)>,
}

/// The API server, if it has started.
pub fn lock(server: &Server) -> std::sync::MutexGuard<'_, Option<Arc<InProcessServer>>> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

fn client(connection: &impl Fn() -> Connection) -> kube::Client {
    connect::client(connection()).expect("a transport always makes a client")
}

pub fn api_server(network: &Network, place: &Server, setup: &Setup) -> Program {
    let (network, place, setup) = (network.clone(), place.clone(), setup.clone());
    Box::new(move || {
        let (network, place, setup) = (network.clone(), place.clone(), setup.clone());
        async move {
            let mut options = ServerOptions::default();
            if setup.has_webhook {
                let (network, fails_closed) = (network.clone(), setup.fails_closed);
                options.admission = Some(Arc::new(RemoteAdmission { network, fails_closed }));
            }
            options.storage.latency = setup.slow_disk.map(|(seed, until)| slow_disk(seed, until));
            let previous = lock(&place).clone();
            let server = InProcessServer::start(&options, &SECRET, FIRST_VERSION, previous.as_deref()).await;
            let server = Arc::new(server.expect("memory accepts the first objects"));
            *lock(&place) = Some(server.clone());
            let serve: Serve = Arc::new(move |request| {
                let server = server.clone();
                async move { server.respond(request).await }.boxed()
            });
            network.serve(SERVER, serve).await;
        }
        .boxed()
    })
}

/// Some writes wait for the disk, but not the first ones: clients take their tokens from a server that has started.
fn slow_disk(seed: u64, until: Duration) -> Latency {
    let rng = Mutex::new(Rng::with_seed(seed));
    Latency(Arc::new(move || {
        let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
        let is_slow = rng.u32(..10) == 0 && (Duration::from_secs(1)..until).contains(&platform::now());
        let millis = if is_slow { rng.u64(..1500) } else { 0 };
        async move {
            if millis > 0 {
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
        }
        .boxed()
    }))
}

/// The webhook, as the API server calls it over the network.
struct RemoteAdmission {
    network: Network,
    fails_closed: bool,
}

impl berth_apiserver::Admission for RemoteAdmission {
    fn concerns(&self, phase: Phase, operation: Operation, resource: &str, subresource: &str) -> bool {
        phase == Phase::Validating
            && operation != Operation::Delete
            && matches!((resource, subresource), ("pods", "" | "binding"))
    }

    fn review(&self, _: Phase, request: Value) -> BoxFuture<'_, Value> {
        async move {
            let uid = request["uid"].clone();
            let client =
                connect::client(Connection::Transport(self.network.transport(SERVER, WEBHOOK, None)));
            let client = client.expect("a transport always makes a client");
            let body = request.to_string().into_bytes();
            let call = berth_client::call::with_body(http::Method::POST, "/", "application/json", body);
            match berth_client::call::json(&client, call, Duration::from_secs(5)).await {
                Ok(response) => response,
                Err(error) if self.fails_closed => json!({"uid": uid, "allowed": false,
                    "status": {"code": 500, "reason": "InternalError", "message": error.to_string()}}),
                Err(_) => json!({"uid": uid, "allowed": true}),
            }
        }
        .boxed()
    }
}

pub fn webhook(network: &Network, connection: impl Fn() -> Connection + 'static) -> Program {
    let network = network.clone();
    Box::new(move || {
        let (network, client) = (network.clone(), client(&connection));
        let guard = Some(policy::BindingGuard::default());
        let admission = AdmissionController::mirrored(Policy { binding_guard: guard, ..Policy::default() });
        let mirroring = admission.clone();
        let serve: Serve = Arc::new(move |request| review(admission.clone(), request).boxed());
        async move {
            // Without a permission that it needs, the mirror ends, and the command with it.
            tokio::select! {
                biased;
                _ = mirroring.follow(client, WatchGroup::default()) => {}
                () = network.serve(WEBHOOK, serve) => {}
            }
        }
        .boxed()
    })
}

async fn review(admission: Arc<AdmissionController>, request: Request<Full<Bytes>>) -> ServerResponse {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let uid = request["uid"].as_str().unwrap_or_default().to_owned();
    let answer = match AdmissionRequest::from_value(request) {
        Ok(request) => {
            let endpoint = match request.sub_resource.as_str() {
                "binding" => Endpoint::ValidateBindings,
                _ => Endpoint::ValidatePods,
            };
            admission
                .review(endpoint, &request)
                .await
                .map(|answer| answer.plugin_response(&uid))
                .map_err(|e| e.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let answer = answer.unwrap_or_else(|error| {
        json!({"uid": uid, "allowed": false,
            "status": {"code": 503, "reason": "ServiceUnavailable", "message": error}})
    });
    let body = Full::new(Bytes::from(answer.to_string())).map_err(|never: Infallible| match never {});
    Response::new(body.boxed_unsync())
}

pub fn users(
    connection: impl Fn() -> Connection + 'static,
    switches: Switches,
    actions: Vec<(Duration, Action)>,
) -> Program {
    Box::new(move || {
        let (client, switches, actions) = (client(&connection), switches.clone(), actions.clone());
        async move {
            while berth_controllers::install_storage_class(client.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            crate::users::act(client, switches, actions).await;
        }
        .boxed()
    })
}

pub fn observer(connection: impl Fn() -> Connection + 'static, history: History, setup: &Setup) -> Program {
    let (has_devices, has_quotas) = (setup.has_devices, setup.slow_disk.is_some());
    let kinds = history::kinds(has_devices, has_quotas);
    Box::new(move || history.clone().record(client(&connection), FIRST_VERSION, kinds.clone()).boxed())
}

pub fn console(connection: impl Fn() -> Connection + 'static, viewers: Viewers) -> Program {
    Box::new(move || viewers.clone().view(client(&connection)).boxed())
}

pub fn drivers(connection: impl Fn() -> Connection + 'static, drivers: Drivers) -> Program {
    Box::new(move || drivers.clone().run(connection()).boxed())
}

pub fn controllers(connection: impl Fn() -> Connection + 'static, mut rng: Rng) -> Program {
    Box::new(move || {
        let mut options = ControllerOptions::default();
        options.provisioner = Some(ProvisionerOptions {
            delay: Duration::from_millis(rng.u64(..3000)),
            failures: rng.f64() / 4.0,
        });
        berth_controllers::run(client(&connection), options, CancellationToken::new()).boxed()
    })
}

/// Controllers whose provisioner does not fail.
pub fn calm_controllers(connection: impl Fn() -> Connection + 'static) -> Program {
    Box::new(move || {
        let mut options = ControllerOptions::default();
        options.provisioner = Some(ProvisionerOptions::default());
        berth_controllers::run(client(&connection), options, CancellationToken::new()).boxed()
    })
}

pub fn kubelet(
    connection: impl Fn() -> Connection + 'static,
    workload: &Workload,
    i: usize,
    switches: Switches,
) -> Program {
    let mut template = NodeTemplate::new(workload.n_nodes[i], workload.n_zones);
    template.name_prefix = ["a-", "b-"][i].to_owned();
    template.nodes.cpu = Quantity::from_units(workload.cpus);
    let options = KubeletOptions {
        templates: vec![template],
        csi_drivers: vec![CsiDriverTemplate { name: CSI_DRIVER.to_owned(), limit: Some(4) }],
        credentials: NodeCredentials::Impersonate,
        pods: PodTimings { ready_after: Duration::from_secs(1), jitter: 0.5, ..PodTimings::default() },
        ..KubeletOptions::default()
    };
    Box::new(move || {
        let kubelet = Kubelet::new(connection(), options.clone()).expect("the template is valid");
        switches.lock().unwrap_or_else(PoisonError::into_inner).push(kubelet.control());
        kubelet.run(CancellationToken::new()).boxed()
    })
}

/// The kubelet of all Node objects. Its pods do not end, and their order does not depend on chance.
pub fn kubelet_of_objects(connection: impl Fn() -> Connection + 'static, switches: Switches) -> Program {
    let options = KubeletOptions {
        adopt: Adopt::All,
        csi_drivers: vec![CsiDriverTemplate { name: CSI_DRIVER.to_owned(), limit: None }],
        credentials: NodeCredentials::Impersonate,
        pods: PodTimings { run_for: Duration::from_secs(10_000_000), ..PodTimings::default() },
        ..KubeletOptions::default()
    };
    Box::new(move || {
        let kubelet = Kubelet::new(connection(), options.clone()).expect("there are no templates");
        switches.lock().unwrap_or_else(PoisonError::into_inner).push(kubelet.control());
        kubelet.run(CancellationToken::new()).boxed()
    })
}

fn lease(name: &str, identity: &str, setup: &Setup) -> Option<LeaseOptions> {
    setup.is_replicated.then(|| LeaseOptions::new("kube-system", name, identity))
}

pub fn scheduler(
    connection: impl Fn() -> Connection + 'static,
    name: &'static str,
    setup: &Setup,
) -> Program {
    let setup = setup.clone();
    scheduler_with(connection, name, move || {
        let mut options = SchedulerOptions {
            leader_election: lease("berth", name, &setup),
            identity: name.to_owned(),
            // Turns begin and end within a run.
            group_reserve_after: Duration::from_secs(5),
            group_reservation: Duration::from_secs(20),
            ..SchedulerOptions::default()
        };
        for profile in &mut options.settings.config.profiles {
            profile.preempt_across_nodes = setup.across_nodes;
            if setup.has_devices {
                profile.dynamic_resources.binding_timeout = BINDING_TIMEOUT;
            }
        }
        options
    })
}

/// The scheduler of pods that name none, with the rules of Kubernetes.
pub fn default_scheduler(connection: impl Fn() -> Connection + 'static) -> Program {
    const NAME: &str = "default-scheduler";
    scheduler_with(connection, NAME, || SchedulerOptions {
        scheduler_name: None,
        identity: NAME.to_owned(),
        // Conditions of pending pods have the reasons of now, also where a change cannot help them.
        flush_after: Duration::from_secs(20),
        ..SchedulerOptions::default()
    })
}

fn scheduler_with(
    connection: impl Fn() -> Connection + 'static,
    name: &'static str,
    options: impl Fn() -> SchedulerOptions + 'static,
) -> Program {
    Box::new(move || {
        let (connection, options) = (connection(), options());
        async move {
            match berth_scheduler::start(connection, options, CancellationToken::new()).await {
                Ok(handle) => drop(handle.stopped().await),
                Err(error) => tracing::info!("{name} ended: {error}"),
            }
        }
        .boxed()
    })
}

pub fn enforcer(connection: impl Fn() -> Connection + 'static, name: &'static str, setup: &Setup) -> Program {
    let setup = setup.clone();
    Box::new(move || {
        let options = EnforcerOptions {
            leader_election: lease("berth-enforcer", name, &setup),
            graces: Graces { pod_affinity: Duration::from_secs(20), ..Graces::default() },
            identity: name.to_owned(),
            rebalance: setup.moves.then(moves::options),
            ..EnforcerOptions::default()
        };
        let connection = connection();
        async move {
            match berth_enforcer::start(connection, options, CancellationToken::new()).await {
                Ok(handle) => drop(handle.stopped().await),
                Err(error) => tracing::info!("{name} ended: {error}"),
            }
        }
        .boxed()
    })
}
