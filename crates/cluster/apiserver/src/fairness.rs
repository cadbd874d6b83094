//! Priority and fairness: requests of one priority level never wait for those of another, and within a level users get
//! their turns one after the other.
//!
//! The levels, their shares and the requests that belong to them are kube-apiserver's defaults. Unlike there, they are
//! fixed, no level lends seats to another, and the level `exempt` also has seats: as many as all other levels together.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::request::{AUTHENTICATED, MASTERS, RequestInfo, User, Verb};

/// Requests of one user that wait at one level; further ones are refused at once.
const MAX_WAITING: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Administrators.
    Exempt,
    /// Leases of the control plane.
    LeaderElection,
    /// Heartbeats of nodes.
    NodeHigh,
    /// Other requests of nodes.
    System,
    /// The control plane.
    WorkloadHigh,
    /// Service accounts.
    WorkloadLow,
    /// Other authenticated users.
    GlobalDefault,
    /// All others.
    CatchAll,
}

/// The levels in their order, with name and share of the seats.
const LEVELS: [(&str, usize); 8] = [
    ("exempt", 245),
    ("leader-election", 10),
    ("node-high", 40),
    ("system", 30),
    ("workload-high", 40),
    ("workload-low", 100),
    ("global-default", 20),
    ("catch-all", 5),
];
/// The sum of the shares without `exempt`.
const ALL_SHARES: usize = 245;

impl Level {
    /// The level of a user's request; `None` as information stands for a path that is not a resource.
    pub fn of(user: &User, info: Option<&RequestInfo>) -> Level {
        let is_lease = info.is_some_and(|info| {
            info.resource.plural == "leases" && matches!(info.verb, Verb::Get | Verb::Create | Verb::Update)
        });
        let is_master = user.is_in(MASTERS);
        let is_control_plane = match user.name.as_str() {
            "system:kube-scheduler" | "system:kube-controller-manager" => true,
            name if is_master => name.starts_with("system:"),
            _ => user.is_in("system:serviceaccounts:kube-system"),
        };
        if user.node_name().is_some() {
            let is_node = info.is_some_and(|info| info.resource.plural == "nodes");
            return if is_lease || is_node { Level::NodeHigh } else { Level::System };
        }
        match () {
            () if is_lease && (is_control_plane || is_master) => Level::LeaderElection,
            () if is_control_plane => Level::WorkloadHigh,
            () if is_master => Level::Exempt,
            () if user.is_in("system:serviceaccounts") => Level::WorkloadLow,
            () if user.is_in(AUTHENTICATED) => Level::GlobalDefault,
            () => Level::CatchAll,
        }
    }
}

/// The seats of all levels.
pub struct Fairness([Arc<Queue>; LEVELS.len()]);

impl Fairness {
    pub fn new(seats: usize) -> Fairness {
        Fairness(LEVELS.map(|(_, share)| {
            let seats = (seats * share / ALL_SHARES).max(1);
            Queue::with(seats, Some(Queue::new(seats)))
        }))
    }

    /// A seat, as soon as it is the user's turn; `None` if that is not within a time, or too many requests of the user
    /// wait.
    pub async fn seat(&self, level: Level, user: &Arc<User>, timeout: Duration) -> Option<Seat> {
        let seat = self.0[level as usize].ask(user)?;
        tokio::time::timeout(timeout, seat).await.ok()?.ok()
    }

    /// Names of the levels, with the seats in use.
    pub fn executing(&self) -> impl Iterator<Item = (&'static str, usize)> {
        LEVELS.iter().zip(&self.0).map(|((name, _), queue)| (*name, queue.lock().used))
    }
}

/// Seats, and the users who wait for one.
pub struct Queue {
    seats: usize,
    /// One user's seats at most: half of them.
    per_user: usize,
    state: Mutex<State>,
    /// As many seats for requests that wait [`without_seats`].
    waiting: Option<Arc<Queue>>,
}

#[derive(Default)]
struct State {
    used: usize,
    flows: HashMap<String, Flow>,
    /// The users that wait and may get a seat, in the order of their turns.
    turns: VecDeque<Arc<User>>,
}

#[derive(Default)]
struct Flow {
    seats: usize,
    waiting: VecDeque<oneshot::Sender<Seat>>,
    has_turn: bool,
}

/// The right to be worked on, until it is dropped.
pub struct Seat {
    queue: Arc<Queue>,
    user: Arc<User>,
    /// Not while the request waits [`without_seats`].
    is_held: AtomicBool,
}

tokio::task_local! {
    /// The seats of the request that is worked on.
    static SEATS: Vec<Arc<Seat>>;
}

/// Works on a request that has another seat beside those of the caller.
pub fn with_seat<F: Future>(seat: Option<Arc<Seat>>, work: F) -> impl Future<Output = F::Output> + use<F> {
    let held = SEATS.try_with(Clone::clone).unwrap_or_default();
    SEATS.scope(held.into_iter().chain(seat).collect(), work)
}

/// Waits for others than this server. Other requests have the seats meanwhile; of each level, as many as have seats wait like this.
/// `None` if too many requests of the user wait.
pub async fn without_seats<T>(wait: impl Future<Output = T>) -> Option<T> {
    let seats = SEATS.try_with(Clone::clone).unwrap_or_default();
    seats.iter().for_each(|seat| seat.leave());
    let mut waiting = Vec::new();
    for Seat { queue, user, .. } in seats.iter().map(Arc::as_ref) {
        if let Some(queue) = &queue.waiting {
            waiting.push(queue.ask(user)?.await.ok()?);
        }
    }
    let waited = wait.await;
    drop(waiting);
    for seat in &seats {
        let taken = seat.queue.ask(&seat.user)?.await.ok()?;
        seat.is_held.store(taken.is_held.swap(false, Ordering::Relaxed), Ordering::Relaxed);
    }
    Some(waited)
}

impl Queue {
    /// A number of seats, of which one user has half at most.
    pub fn new(seats: usize) -> Arc<Queue> {
        Queue::with(seats, None)
    }

    fn with(seats: usize, waiting: Option<Arc<Queue>>) -> Arc<Queue> {
        Arc::new(Queue { seats, per_user: seats.div_ceil(2), state: Mutex::default(), waiting })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request; `None` if too many of the user wait.
    pub fn ask(self: &Arc<Self>, user: &Arc<User>) -> Option<oneshot::Receiver<Seat>> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let State { flows, turns, .. } = &mut *state;
            if !flows.contains_key(&user.name) {
                flows.insert(user.name.clone(), Flow::default());
            }
            let flow = flows.get_mut(&user.name)?;
            if flow.waiting.len() >= MAX_WAITING {
                flow.waiting.retain(|waiting| !waiting.is_closed());
                if flow.waiting.len() >= MAX_WAITING {
                    return None;
                }
            }
            flow.waiting.push_back(sender);
            flow.take_turn(turns, user);
        }
        self.seat_next();
        Some(receiver)
    }

    /// Gives free seats to the users whose turn it is.
    fn seat_next(self: &Arc<Self>) {
        loop {
            let Some((waiting, user)) = self.lock().next(self.seats, self.per_user) else { return };
            // If the request does not wait any more, its seat is dropped here, and free again.
            drop(waiting.send(Seat { queue: self.clone(), user, is_held: AtomicBool::new(true) }));
        }
    }
}

impl Flow {
    fn take_turn(&mut self, turns: &mut VecDeque<Arc<User>>, user: &Arc<User>) {
        if !self.waiting.is_empty() && !self.has_turn {
            self.has_turn = true;
            turns.push_back(user.clone());
        }
    }
}

impl State {
    /// The request that gets the next free seat.
    fn next(&mut self, seats: usize, per_user: usize) -> Option<(oneshot::Sender<Seat>, Arc<User>)> {
        while self.used < seats {
            let user = self.turns.pop_front()?;
            let Some(flow) = self.flows.get_mut(&user.name) else { continue };
            flow.has_turn = false;
            if flow.seats >= per_user {
                // Its turn comes again when it has given a seat back.
                continue;
            }
            while flow.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                flow.waiting.pop_front();
            }
            let Some(waiting) = flow.waiting.pop_front() else {
                if flow.seats == 0 {
                    self.flows.remove(&user.name);
                }
                continue;
            };
            flow.seats += 1;
            self.used += 1;
            flow.take_turn(&mut self.turns, &user);
            return Some((waiting, user));
        }
        None
    }
}

impl Seat {
    fn leave(&self) {
        if !self.is_held.swap(false, Ordering::Relaxed) {
            return;
        }
        {
            let mut state = self.queue.lock();
            let State { used, flows, turns } = &mut *state;
            *used -= 1;
            if let Some(flow) = flows.get_mut(&self.user.name) {
                flow.seats -= 1;
                flow.take_turn(turns, &self.user);
                if flow.seats == 0 && flow.waiting.is_empty() {
                    flows.remove(&self.user.name);
                }
            }
        }
        self.queue.seat_next();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use berth_schema::resource::{LEASES, NODES, PODS, Resource};
    use futures::FutureExt as _;

    use super::*;

    fn named(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }.with_implied_groups()
    }

    fn user(name: &str) -> Arc<User> {
        Arc::new(named(name))
    }

    #[test]
    fn requests_have_the_levels_of_kube_apiserver() {
        let info = |verb, resource: &'static Resource| RequestInfo {
            verb,
            resource,
            subresource: None,
            namespace: String::new(),
            name: String::new(),
        };
        let (pods, lease) = (info(Verb::List, &PODS), info(Verb::Update, &LEASES));
        let node = info(Verb::Patch, &NODES);
        let account = |namespace| named(&format!("system:serviceaccount:{namespace}:a"));
        let scheduler = named("system:kube-scheduler");
        for (user, info, level) in [
            (&User::admin(), Some(&pods), Level::Exempt),
            (&User::admin(), Some(&lease), Level::LeaderElection),
            (&User::component("berth-enforcer"), Some(&pods), Level::WorkloadHigh),
            (&User::component("berth-enforcer"), Some(&lease), Level::LeaderElection),
            (&scheduler, Some(&lease), Level::LeaderElection),
            (&scheduler, Some(&pods), Level::WorkloadHigh),
            (&User::node("n"), Some(&lease), Level::NodeHigh),
            (&User::node("n"), Some(&node), Level::NodeHigh),
            (&User::node("n"), Some(&pods), Level::System),
            (&account("kube-system"), Some(&pods), Level::WorkloadHigh),
            (&account("default"), Some(&pods), Level::WorkloadLow),
            (&account("default"), Some(&lease), Level::WorkloadLow),
            (&user("alice"), None, Level::GlobalDefault),
            (&User::anonymous(), None, Level::CatchAll),
        ] {
            assert_eq!(Level::of(user, info), level, "{} {info:?}", user.name);
        }
    }

    #[test]
    fn users_take_turns_however_many_requests_one_has() {
        let queue = Queue::new(4);
        let (flood, other) = (user("flood"), user("other"));
        let mut of_flood: Vec<_> = (0..10).filter_map(|_| queue.ask(&flood)).collect();
        let seated = |waiting: &mut Vec<oneshot::Receiver<Seat>>| -> Vec<Seat> {
            let seats: Vec<Seat> = waiting.iter_mut().filter_map(|a| a.now_or_never()?.ok()).collect();
            waiting.drain(..seats.len());
            seats
        };
        let mut held = seated(&mut of_flood);
        assert_eq!(held.len(), 2, "half of the seats");
        let mut of_other: Vec<_> = (0..3).filter_map(|_| queue.ask(&other)).collect();
        let others = seated(&mut of_other);
        assert_eq!(others.len(), 2, "the other half");
        held.pop();
        assert_eq!(seated(&mut of_other).len(), 0, "it has its half");
        held.extend(seated(&mut of_flood));
        assert_eq!(held.len(), 2);
        drop(others);
        assert_eq!(seated(&mut of_other).len(), 1);
        // Requests that gave up waiting take no seat.
        of_flood.clear();
        drop(held);
        assert_eq!(queue.lock().used, 0);
        assert!(queue.lock().flows.is_empty());
        assert!(queue.lock().turns.is_empty());
    }

    #[test]
    fn a_seat_that_nobody_waits_for_any_more_is_free_again() {
        let queue = Queue::new(1);
        let user = user("u");
        let seat = queue.ask(&user).unwrap().now_or_never().unwrap().unwrap();
        let waiting = queue.ask(&user).unwrap();
        drop(seat);
        // The seat was given to the request; it is dropped unused.
        drop(waiting);
        assert!(queue.ask(&user).unwrap().now_or_never().unwrap().is_ok());
        let all: Vec<_> = (0..MAX_WAITING + 2).map(|_| queue.ask(&user)).collect();
        assert!(all.last().unwrap().is_none());
        drop(all);
        assert!(queue.ask(&user).is_some());
    }
}
