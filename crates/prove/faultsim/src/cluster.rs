//! The simulated cluster: its hosts with their components, and the loop that moves time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_admission::{AdmissionController, AdmissionRequest, Endpoint, Policy, policy};
use berth_api::simulated_nodes::CSI_DRIVER;
use berth_api::syntax::quantity::Quantity;
use berth_apiserver::admission::{Operation, Phase};
use berth_apiserver::{InProcessServer, ServerOptions};
use berth_client::WatchGroup;
use berth_client::connect::{self, Connection};
use berth_client::lease::LeaseOptions;
use berth_controllers::{ControllerOptions, ProvisionerOptions};
use berth_enforcer::{EnforcerOptions, Graces};
use berth_kubelet::{CsiDriverTemplate, Kubelet, KubeletOptions, NodeCredentials, NodeTemplate, PodTimings};
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
use crate::history::History;
use crate::host::{Host, HostId, Program};
use crate::network::{Network, Serve, ServerResponse};
use crate::plan::{Faults, Kills, Spell, Trouble, troubles};
use crate::platform;
use crate::workload::{self, Switches, Workload};

const SERVER: HostId = 0;
const USERS: HostId = 1;
const OBSERVER: HostId = 2;
const WEBHOOK: HostId = 3;
const CONTROLLERS: HostId = 4;
const KUBELETS: [HostId; 2] = [5, 6];
/// The schedulers.
pub const SCHEDULERS: [HostId; 2] = [7, 8];
/// The enforcers.
pub const ENFORCERS: [HostId; 2] = [9, 10];
/// The console, with its viewers.
pub const CONSOLE: HostId = 11;
/// Hosts without faults.
const PERFECT: [HostId; 2] = [USERS, OBSERVER];
/// The version before the first write.
const FIRST_VERSION: u64 = 1000;
const SECRET: [u8; 32] = [7; 32];
/// Timers are looked at this often while no message arrives.
const LONGEST_STEP: Duration = Duration::from_millis(40);

/// A component that was killed, or ended, starts again after this time.
const RESTART: Duration = Duration::from_secs(1);

type Server = Arc<Mutex<Option<Arc<InProcessServer>>>>;

/// What a seed has chosen besides faults and workload.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Two schedulers and two enforcers with leader election, or one of each without.
    pub is_replicated: bool,
    /// Whether bindings are guarded by the webhook.
    pub has_webhook: bool,
    /// Whether a binding is refused when the webhook does not answer.
    pub fails_closed: bool,
}

/// What later seeds have in addition.
#[derive(Clone, Copy, Debug)]
pub struct Additions {
    /// Users create pod groups.
    pub groups: bool,
    /// The server lies to hosts, and hosts are killed when they write.
    pub lies: bool,
    /// Viewers of the console change the cluster.
    pub console: bool,
}

/// A running simulation.
pub struct Cluster {
    rng: Rng,
    hosts: Vec<Host>,
    troubles: Vec<(Duration, HostId, Trouble)>,
    now: Duration,
    server: Server,
    /// The network.
    pub network: Network,
    /// What the API server stored.
    pub history: History,
    /// The viewers of the console.
    pub viewers: Viewers,
}

impl Cluster {
    /// The cluster of a seed; faults occur and users act until `end`.
    pub fn new(mut rng: Rng, end: Duration, additions: Additions) -> Cluster {
        let setup = Setup { is_replicated: rng.bool(), has_webhook: rng.bool(), fails_closed: rng.bool() };
        let workload = Workload::new(&mut rng, end, additions.groups);
        let viewers = match additions.console {
            true => Viewers::some(&mut rng, &workload.nodes(), end),
            false => Viewers::default(),
        };
        let mut faults = Faults::new(&mut rng, PERFECT.to_vec());
        if additions.lies {
            let mut clients = [&[WEBHOOK, CONTROLLERS][..], &KUBELETS, &SCHEDULERS, &ENFORCERS].concat();
            let mut killed = [&SCHEDULERS[..], &ENFORCERS].concat();
            if additions.console {
                clients.push(CONSOLE);
                killed.extend([CONSOLE; 4]);
            }
            let (spells, mut kills) = (Spell::some(&mut rng, &clients, end), Kills::some(&mut rng, &killed));
            if kills.client == CONSOLE {
                // It writes less than others.
                kills.writes = kills.writes.iter().map(|write| 1 + write / 10).collect();
            }
            faults.add(spells, kills);
        }
        let mut cluster = Cluster::start(rng, &setup, &workload, faults);
        if additions.console {
            let client = admin(&cluster.network, CONSOLE, &cluster.server);
            let program = console(client, viewers.clone());
            cluster.hosts.push(Host::new("console", Duration::from_millis(110), program));
            cluster.viewers = viewers;
        }
        let mut shaken: Vec<HostId> =
            (0..cluster.hosts.len()).filter(|host| !PERFECT.contains(host)).collect();
        if !setup.is_replicated {
            shaken.retain(|host| ![SCHEDULERS[1], ENFORCERS[1]].contains(host));
        }
        cluster.troubles = troubles(&mut cluster.rng, &shaken, end);
        cluster
    }

    /// A cluster with one scheduler and one enforcer, of which one may be killed.
    pub fn with_kills(rng: Rng, workload: &Workload, kills: Kills) -> Cluster {
        let setup = Setup { is_replicated: false, has_webhook: false, fails_closed: false };
        Cluster::start(rng, &setup, workload, Faults::only(kills, PERFECT.to_vec()))
    }

    fn start(mut rng: Rng, setup: &Setup, workload: &Workload, faults: Faults) -> Cluster {
        let network = Network::new(faults);
        let server = Server::default();
        let history = History::default();
        let switches = Switches::default();
        let connection = |client: HostId| admin(&network, client, &server);
        let at = Duration::from_millis;
        let mut hosts = vec![
            Host::new("apiserver", at(0), api_server(&network, &server, setup)),
            Host::new("users", at(50), users(connection(USERS), switches.clone(), workload.actions.clone())),
            Host::new("observer", at(20), observer(connection(OBSERVER), history.clone())),
            Host::new("webhook", at(60), webhook(&network, connection(WEBHOOK))).restarting(RESTART),
            Host::new("controllers", at(70), controllers(connection(CONTROLLERS), rng.fork())),
        ];
        for (i, name) in ["kubelet-a", "kubelet-b"].into_iter().enumerate() {
            let program = kubelet(connection(KUBELETS[i]), workload, i, switches.clone());
            hosts.push(Host::new(name, at(80), program));
        }
        for (i, name) in ["scheduler-a", "scheduler-b"].into_iter().enumerate() {
            let program = scheduler(connection(SCHEDULERS[i]), name, setup);
            hosts.push(Host::new(name, at(90), program).restarting(RESTART));
        }
        for (i, name) in ["enforcer-a", "enforcer-b"].into_iter().enumerate() {
            let program = enforcer(connection(ENFORCERS[i]), name, setup);
            hosts.push(Host::new(name, at(100), program).restarting(RESTART));
        }
        if !setup.is_replicated {
            let never = Duration::MAX;
            hosts[SCHEDULERS[1]] = Host::new("none", never, Box::new(|| std::future::pending().boxed()));
            hosts[ENFORCERS[1]] = Host::new("none", never, Box::new(|| std::future::pending().boxed()));
        }
        let viewers = Viewers::default();
        Cluster { rng, hosts, troubles: Vec::new(), now: Duration::ZERO, network, server, history, viewers }
    }

    /// Whether the wall clock of an enforcer's host was set during the run.
    pub fn enforcer_clock_jumped(&self) -> bool {
        ENFORCERS.iter().any(|host| self.hosts[*host].skew != 0)
    }

    /// Runs until a time.
    pub fn run_until(&mut self, end: Duration) {
        while self.now < end {
            self.network.deliver();
            self.trouble();
            let mut order: Vec<HostId> = (0..self.hosts.len()).collect();
            self.rng.shuffle(&mut order);
            order.into_iter().for_each(|host| self.hosts[host].turn());
            let next = self.network.next_arrival().unwrap_or(end).saturating_sub(self.now);
            self.now += next.clamp(Duration::from_millis(1), LONGEST_STEP);
            platform::set_now(self.now);
        }
    }

    /// Lets happen what is due to happen to hosts.
    fn trouble(&mut self) {
        if let Some(host) = self.network.take_killed() {
            self.hosts[host].crash(self.now + RESTART);
        }
        while let Some((at, host, trouble)) =
            self.troubles.first().copied().filter(|(at, ..)| *at <= self.now)
        {
            self.troubles.remove(0);
            tracing::info!(host = self.hosts[host].name, ?trouble, ?at, "trouble");
            self.network.count(trouble.name());
            match trouble {
                Trouble::Crash(length) => self.hosts[host].crash(self.now + length),
                Trouble::Pause(length) => self.hosts[host].pause(self.now + length),
                Trouble::Cut(length) => self.network.cut(host, self.now + length),
                Trouble::ClockJump(seconds) => self.hosts[host].skew = seconds,
            }
        }
    }
}

fn admin(network: &Network, client: HostId, server: &Server) -> impl Fn() -> Connection + use<> {
    let (network, server) = (network.clone(), server.clone());
    move || {
        // The token depends on the secret alone; before the first start there is nothing to connect to.
        let token = lock(&server).as_ref().map(|server| server.admin_token().to_owned());
        Connection::Transport(network.transport(client, SERVER, token))
    }
}

fn lock(server: &Server) -> std::sync::MutexGuard<'_, Option<Arc<InProcessServer>>> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

fn client(connection: &impl Fn() -> Connection) -> kube::Client {
    connect::client(connection()).expect("a transport always makes a client")
}

fn api_server(network: &Network, place: &Server, setup: &Setup) -> Program {
    let (network, place, setup) = (network.clone(), place.clone(), setup.clone());
    Box::new(move || {
        let (network, place, setup) = (network.clone(), place.clone(), setup.clone());
        async move {
            let mut options = ServerOptions::default();
            if setup.has_webhook {
                let (network, fails_closed) = (network.clone(), setup.fails_closed);
                options.admission = Some(Arc::new(RemoteAdmission { network, fails_closed }));
            }
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

fn webhook(network: &Network, connection: impl Fn() -> Connection + 'static) -> Program {
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

fn users(
    connection: impl Fn() -> Connection + 'static,
    switches: Switches,
    actions: Vec<(Duration, workload::Action)>,
) -> Program {
    Box::new(move || {
        let (client, switches, actions) = (client(&connection), switches.clone(), actions.clone());
        async move {
            while berth_controllers::install_storage_class(client.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            workload::act(client, switches, actions).await;
        }
        .boxed()
    })
}

fn observer(connection: impl Fn() -> Connection + 'static, history: History) -> Program {
    Box::new(move || history.clone().record(client(&connection), FIRST_VERSION).boxed())
}

fn console(connection: impl Fn() -> Connection + 'static, viewers: Viewers) -> Program {
    Box::new(move || viewers.clone().view(client(&connection)).boxed())
}

fn controllers(connection: impl Fn() -> Connection + 'static, mut rng: Rng) -> Program {
    Box::new(move || {
        let mut options = ControllerOptions::default();
        options.provisioner = Some(ProvisionerOptions {
            delay: Duration::from_millis(rng.u64(..3000)),
            failures: rng.f64() / 4.0,
        });
        berth_controllers::run(client(&connection), options, CancellationToken::new()).boxed()
    })
}

fn kubelet(
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

fn lease(name: &str, identity: &str, setup: &Setup) -> Option<LeaseOptions> {
    setup.is_replicated.then(|| LeaseOptions::new("kube-system", name, identity))
}

fn scheduler(connection: impl Fn() -> Connection + 'static, name: &'static str, setup: &Setup) -> Program {
    let setup = setup.clone();
    Box::new(move || {
        let options = SchedulerOptions {
            leader_election: lease("berth", name, &setup),
            identity: name.to_owned(),
            // Turns begin and end within a run.
            group_reserve_after: Duration::from_secs(5),
            group_reservation: Duration::from_secs(20),
            ..SchedulerOptions::default()
        };
        let connection = connection();
        async move {
            match berth_scheduler::start(connection, options, CancellationToken::new()).await {
                Ok(handle) => drop(handle.stopped().await),
                Err(error) => tracing::info!("{name} ended: {error}"),
            }
        }
        .boxed()
    })
}

fn enforcer(connection: impl Fn() -> Connection + 'static, name: &'static str, setup: &Setup) -> Program {
    let setup = setup.clone();
    Box::new(move || {
        let options = EnforcerOptions {
            leader_election: lease("berth-enforcer", name, &setup),
            graces: Graces { pod_affinity: Duration::from_secs(20), ..Graces::default() },
            identity: name.to_owned(),
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
