//! The simulated cluster: its hosts with their components, and the loop that moves time.

use std::time::Duration;

use berth_client::connect::Connection;
use fastrand::Rng;
use futures::FutureExt;

use crate::console::Viewers;
use crate::devices::{self, Drivers};
use crate::history::History;
use crate::host::{Host, HostId, Program};
use crate::moves;
use crate::network::Network;
use crate::plan::{DEVICE_RESOURCES, Faults, Kills, RESOURCES, Spell, Trouble, troubles};
use crate::platform;
use crate::programs::{
    SERVER, Server, Setup, WEBHOOK, api_server, calm_controllers, console, controllers, default_scheduler,
    drivers, enforcer, kubelet, kubelet_of_objects, lock, observer, scheduler, users, webhook,
};
use crate::workload::{Switches, Workload};

const USERS: HostId = 1;
const OBSERVER: HostId = 2;
const CONTROLLERS: HostId = 4;
const KUBELETS: [HostId; 2] = [5, 6];
pub const SCHEDULERS: [HostId; 2] = [7, 8];
pub const ENFORCERS: [HostId; 2] = [9, 10];
/// The console, with its viewers.
pub const CONSOLE: HostId = 11;
const DRIVERS: HostId = 12;
/// Hosts without faults.
const PERFECT: [HostId; 2] = [USERS, OBSERVER];
/// Timers are looked at this often while no message arrives.
const LONGEST_STEP: Duration = Duration::from_millis(40);
/// The same where nothing depends on the order of timers.
const LONGEST_CALM_STEP: Duration = Duration::from_millis(250);

/// A component that was killed, or ended, starts again after this time.
const RESTART: Duration = Duration::from_secs(1);

/// What later seeds have in addition.
#[derive(Clone, Copy, Debug)]
pub struct Additions {
    /// Users create pod groups.
    pub groups: bool,
    /// The server lies to hosts, and hosts are killed when they write.
    pub lies: bool,
    /// Viewers of the console change the cluster.
    pub console: bool,
    /// Nodes have devices: the seed of what is drawn for them.
    pub devices: Option<u64>,
    /// The enforcers rebalance.
    pub moves: bool,
    /// Writes take time, and clients hang up: the seed of what is drawn for them.
    pub quotas: Option<u64>,
}

pub struct Cluster {
    rng: Rng,
    hosts: Vec<Host>,
    troubles: Vec<(Duration, HostId, Trouble)>,
    now: Duration,
    longest_step: Duration,
    server: Server,
    pub network: Network,
    pub history: History,
    pub viewers: Viewers,
}

impl Cluster {
    /// The cluster of a seed; faults occur and users act until `end`.
    pub fn new(mut rng: Rng, end: Duration, additions: Additions) -> Cluster {
        let setup = Setup {
            is_replicated: rng.bool(),
            has_webhook: rng.bool(),
            fails_closed: rng.bool(),
            has_devices: additions.devices.is_some(),
            moves: additions.moves,
            across_nodes: false,
            slow_disk: additions.quotas.map(|seed| (seed, end)),
        };
        let mut workload = match additions.moves {
            true => moves::workload(&mut rng),
            false => Workload::new(&mut rng, end, additions.groups),
        };
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
            let (spells, mut kills) =
                (Spell::some(&mut rng, &clients, end, &RESOURCES), Kills::some(&mut rng, &killed));
            if kills.client == CONSOLE {
                // It writes less than others.
                kills.writes = kills.writes.iter().map(|write| 1 + write / 10).collect();
            }
            faults.add(spells, kills);
        }
        let drivers_of_nodes = additions.devices.map(|seed| {
            let mut rng = devices::stream(seed);
            workload.add_devices(&mut rng, end);
            let clients = [&[CONTROLLERS, DRIVERS][..], &KUBELETS, &SCHEDULERS, &SCHEDULERS].concat();
            faults.add_spells(Spell::some(&mut rng, &clients, end, &DEVICE_RESOURCES));
            Drivers::new(&mut rng, end)
        });
        if let Some(seed) = additions.quotas {
            let mut rng = Rng::with_seed(seed);
            workload.add_quota(&mut rng, end);
            faults.hang_ups = Some(rng);
        }
        let mut cluster = Cluster::start(rng, &setup, &workload, faults);
        if additions.console {
            let client = admin(&cluster.network, CONSOLE, &cluster.server);
            let program = console(client, viewers.clone());
            cluster.hosts.push(Host::new("console", Duration::from_millis(110), program));
            cluster.viewers = viewers;
        }
        if let Some(of_nodes) = drivers_of_nodes {
            cluster.add_drivers(of_nodes);
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
    pub fn with_kills(
        rng: Rng,
        workload: &Workload,
        has_devices: bool,
        across_nodes: bool,
        kills: Kills,
    ) -> Cluster {
        let setup = Setup { has_devices, across_nodes, ..Setup::default() };
        let mut cluster = Cluster::start(rng, &setup, workload, Faults::only(kills, PERFECT.to_vec()));
        if has_devices {
            cluster.add_drivers(Drivers::sound());
        }
        cluster
    }

    /// A cluster without faults, whose nodes are the Node objects that a user creates.
    pub fn without_faults(
        rng: Rng,
        user: impl FnOnce(Box<dyn Fn() -> Connection + Send>, Switches) -> Program,
    ) -> Cluster {
        let setup = Setup::default();
        let (network, server) = (Network::new(Faults::default()), Server::default());
        let switches = Switches::default();
        let connection = |client: HostId| admin(&network, client, &server);
        let at = Duration::from_millis;
        let hosts = vec![
            Host::new("apiserver", at(0), api_server(&network, &server, &setup)),
            Host::new("user", at(50), user(Box::new(connection(USERS)), switches.clone())),
            Host::new("controllers", at(70), calm_controllers(connection(CONTROLLERS))),
            Host::new("kubelet", at(80), kubelet_of_objects(connection(KUBELETS[0]), switches)),
            Host::new("scheduler", at(90), default_scheduler(connection(SCHEDULERS[0]))).restarting(RESTART),
        ];
        Cluster {
            rng,
            hosts,
            troubles: Vec::new(),
            now: Duration::ZERO,
            longest_step: LONGEST_CALM_STEP,
            server,
            network,
            history: History::default(),
            viewers: Viewers::default(),
        }
    }

    fn add_drivers(&mut self, of_nodes: Drivers) {
        let program = drivers(admin(&self.network, DRIVERS, &self.server), of_nodes);
        // Scenarios have no console.
        let never = Duration::MAX;
        while self.hosts.len() < DRIVERS {
            self.hosts.push(Host::new("none", never, Box::new(|| std::future::pending().boxed())));
        }
        self.hosts.push(Host::new("drivers", Duration::from_millis(120), program));
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
            Host::new("observer", at(20), observer(connection(OBSERVER), history.clone(), setup)),
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
        Cluster {
            rng,
            hosts,
            troubles: Vec::new(),
            now: Duration::ZERO,
            longest_step: LONGEST_STEP,
            network,
            server,
            history,
            viewers,
        }
    }

    /// Whether the wall clock of an enforcer's host was set during the run.
    pub fn enforcer_clock_jumped(&self) -> bool {
        ENFORCERS.iter().any(|host| self.hosts[*host].skew != 0)
    }

    /// The same of any host: kubelets write when pods started.
    pub fn a_clock_jumped(&self) -> bool {
        self.hosts.iter().any(|host| host.skew != 0)
    }

    pub fn run_until(&mut self, end: Duration) {
        while self.now < end {
            self.network.deliver();
            self.trouble();
            let mut order: Vec<HostId> = (0..self.hosts.len()).collect();
            self.rng.shuffle(&mut order);
            order.into_iter().for_each(|host| self.hosts[host].turn());
            let next = self.network.next_arrival().unwrap_or(end).saturating_sub(self.now);
            self.now += next.clamp(Duration::from_millis(1), self.longest_step);
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
