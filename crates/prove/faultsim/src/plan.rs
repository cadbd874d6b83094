//! What goes wrong in a run, and when. A seed enables some kinds of faults and chooses how often each occurs: runs with few
//! kinds reach states that runs with all kinds hide.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http::{Method, Request};

use crate::host::HostId;
use crate::platform;
use crate::workload::GROWING;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Refuse,
    /// The request never arrives, and the client is not told.
    LoseRequest,
    /// This status is the answer, and the request is not forwarded.
    Answer(u16),
    /// The request is carried out, and this status is the answer.
    AnswerAfter(u16),
    /// The request is carried out, and the connection breaks.
    LoseAnswer,
    /// The request is carried out, and there is no answer.
    HangAnswer,
    /// The client hangs up after this time, and asks again.
    HangUp(Duration),
    /// The connection breaks in the middle of this frame of the response.
    Truncate(u32),
    /// After this many frames nothing more comes.
    Stall(u32),
    /// After this many frames the version of the watch has expired.
    Expire(u32),
    /// The last event of each n-th frame of a watch comes twice.
    Repeat(u32),
    /// The list has a further page, whose token is the same each time, or another one.
    Continue(Token),
}

/// The tokens of a list that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// It never changes.
    Same,
    /// Each page has another one.
    Next,
}

/// What the server does to all requests of a host for some time.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// The permission for a resource is taken away.
    Forbid(&'static str),
    /// Every version to watch from has expired, even that of the last list.
    Expire,
    /// No list ends.
    Endless(Token),
}

/// A time in which the server lies to a host.
#[derive(Clone, Debug)]
pub struct Spell {
    client: HostId,
    lie: Lie,
    time: Range<Duration>,
}

impl Spell {
    /// What happens to a request in this time.
    fn kind(&self, request: &Request<Bytes>) -> Option<(Kind, &'static str)> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let is_watch = query.contains("watch=1");
        match self.lie {
            Lie::Forbid(resource) if path.split('/').any(|part| part == resource) => {
                Some((Kind::Answer(403), "permission taken away for a time"))
            }
            Lie::Expire if is_watch => Some((Kind::Answer(410), "410 for all watches for a time")),
            Lie::Endless(token) if request.method() == Method::GET && !is_watch => {
                Some((Kind::Continue(token), "endless lists for a time"))
            }
            _ => None,
        }
    }

    /// Some spells until `end`, with permissions for these resources.
    pub fn some(rng: &mut Rng, hosts: &[HostId], end: Duration, resources: &[&'static str]) -> Vec<Spell> {
        let spell = |rng: &mut Rng| {
            let from = Duration::from_millis(rng.u64(..end.as_millis() as u64));
            let lie = match rng.u32(..6) {
                0 => Lie::Expire,
                1 => Lie::Endless(Token::Same),
                2 => Lie::Endless(Token::Next),
                _ => Lie::Forbid(resources[rng.usize(..resources.len())]),
            };
            let until = from + Duration::from_millis(rng.u64(..40_000));
            Spell { client: hosts[rng.usize(..hosts.len())], lie, time: from..until }
        };
        (0..rng.usize(..8)).map(|_| spell(rng)).collect()
    }
}

/// The resources whose permissions are taken away.
pub const RESOURCES: [&str; 14] = [
    "pods",
    "nodes",
    "namespaces",
    "services",
    "replicasets",
    "podgroups",
    "poddisruptionbudgets",
    "persistentvolumes",
    "persistentvolumeclaims",
    "storageclasses",
    "csinodes",
    "leases",
    "binding",
    "status",
];
/// The same for devices.
pub const DEVICE_RESOURCES: [&str; 4] =
    ["resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates"];

/// Hosts that are killed when they send certain writes: those of a cluster's work, not events and leases.
#[derive(Clone, Debug)]
pub struct Kills {
    pub client: HostId,
    pub writes: BTreeSet<u64>,
    /// Whether the server makes the last write; none for either.
    pub is_made: Option<bool>,
}

impl Kills {
    pub fn some(rng: &mut Rng, hosts: &[HostId]) -> Kills {
        let writes = (0..rng.usize(..8)).map(|_| 1 + rng.u64(..120)).collect();
        Kills { client: hosts[rng.usize(..hosts.len())], writes, is_made: None }
    }
}

/// What happens to a request, and what it costs.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    pub kind: Option<Kind>,
    /// How much later than others it arrives.
    pub delay: Duration,
    /// How long a write waits for the disk before and after it is made.
    pub disk: (Duration, Duration),
}

/// The faults of the network, with their probabilities.
#[derive(Default)]
pub struct Faults {
    rng: Rng,
    /// The hosts whose messages suffer no faults.
    perfect: Vec<HostId>,
    /// Probability of each fault, per mille, for requests and for watches.
    requests: Vec<(u32, &'static str)>,
    watches: Vec<(u32, &'static str)>,
    delays: u32,
    slow_disk: u32,
    spells: Vec<Spell>,
    kills: Option<Kills>,
    /// Of clients that hang up while a quota is charged, even those without other faults.
    pub hang_ups: Option<Rng>,
    /// Writes of the host that may be killed.
    pub n_writes: u64,
    killed: Option<HostId>,
    is_over: bool,
    /// How often each fault occurred.
    pub counts: BTreeMap<&'static str, u64>,
}

const REQUEST_FAULTS: [&str; 10] = [
    "connection refused",
    "request lost",
    "409",
    "429",
    "500",
    "503",
    "500 after the write",
    "504 after the write",
    "answer lost",
    "answer never comes",
];
const WATCH_FAULTS: [&str; 7] = [
    "410 at the start of a watch",
    "410 in a watch",
    "watch cut in the middle of an event",
    "watch stalls",
    "watch event repeated",
    "connection refused",
    "429",
];

impl Faults {
    /// The faults of a seed. The messages of `perfect` hosts suffer none.
    pub fn new(rng: &mut Rng, perfect: Vec<HostId>) -> Faults {
        let mut rng = rng.fork();
        let mut choose = |names: &[&'static str], most: u32| -> Vec<(u32, &'static str)> {
            let chance = rng.u32(1..4);
            let enabled = names.iter().filter(|_| rng.u32(..4) < chance);
            let enabled: Vec<_> = enabled.copied().collect();
            enabled.into_iter().map(|name| (1 + rng.u32(..most), name)).collect()
        };
        let requests = choose(&REQUEST_FAULTS, 30);
        let watches = choose(&WATCH_FAULTS, 200);
        let (delays, slow_disk) = (rng.u32(..50), if rng.bool() { rng.u32(..100) } else { 0 });
        Faults { perfect, requests, watches, delays, slow_disk, rng, ..Faults::default() }
    }

    /// No faults but kills.
    pub fn only(kills: Kills, perfect: Vec<HostId>) -> Faults {
        Faults { perfect, kills: Some(kills), ..Faults::default() }
    }

    /// Lets the server lie, and hosts be killed.
    pub fn add(&mut self, spells: Vec<Spell>, kills: Kills) {
        self.spells = spells;
        self.kills = Some(kills);
    }

    /// Lets the server lie more often.
    pub fn add_spells(&mut self, spells: Vec<Spell>) {
        self.spells.extend(spells);
    }

    /// The host that is killed by what it sent last.
    pub fn take_killed(&mut self) -> Option<HostId> {
        self.killed.take()
    }

    /// What a lie or a kill does to a request.
    fn planned(&mut self, client: HostId, request: &Request<Bytes>) -> Option<(Kind, &'static str)> {
        let now = platform::now();
        let mut spells = self.spells.iter().filter(|s| s.client == client && s.time.contains(&now));
        if let Some(planned) = spells.find_map(|spell| spell.kind(request)) {
            return Some(planned);
        }
        let kills = self.kills.as_ref().filter(|kills| kills.client == client)?;
        let path = request.uri().path();
        if request.method() == Method::GET || ["/events", "/leases"].iter().any(|other| path.contains(other))
        {
            return None;
        }
        self.n_writes += 1;
        if !kills.writes.contains(&self.n_writes) {
            return None;
        }
        self.killed = Some(client);
        let is_made = kills.is_made.unwrap_or_else(|| !self.rng.bool());
        let kind = if is_made { Kind::HangAnswer } else { Kind::LoseRequest };
        Some((kind, "killed at a write"))
    }

    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// How long a message takes.
    pub fn latency(&mut self, client: HostId) -> Duration {
        let millis = if self.perfect.contains(&client) { 1 } else { 1 + self.rng.u64(..8) };
        Duration::from_millis(millis)
    }

    pub fn fate(&mut self, client: HostId, request: &Request<Bytes>) -> Fate {
        let mut fate = Fate::default();
        let charges = request.method() == Method::POST && request.uri().path().contains(GROWING);
        if let Some(rng) = self.hang_ups.as_mut().filter(|_| charges && !self.is_over)
            && rng.u32(..3) == 0
        {
            *self.counts.entry("client hangs up").or_default() += 1;
            return Fate { kind: Some(Kind::HangUp(Duration::from_millis(rng.u64(..2000)))), ..fate };
        }
        if self.is_over || self.perfect.contains(&client) {
            return fate;
        }
        if let Some((kind, name)) = self.planned(client, request) {
            *self.counts.entry(name).or_default() += 1;
            return Fate { kind: Some(kind), ..fate };
        }
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
        let faults = if is_watch { &self.watches } else { &self.requests };
        let mut dice = self.rng.u32(..1000);
        let mut chosen = None;
        for (per_mille, name) in faults {
            if dice < *per_mille {
                chosen = Some(*name);
                break;
            }
            dice -= per_mille;
        }
        let is_write = request.method() != Method::GET;
        let resumes = request.uri().query().is_some_and(|query| query.contains("resourceVersion="));
        let n = 1 + self.rng.u32(..20);
        fate.kind = chosen.and_then(|name| match name {
            "connection refused" => Some(Kind::Refuse),
            "request lost" => Some(Kind::LoseRequest),
            "409" => matches!(*request.method(), Method::PUT | Method::PATCH).then_some(Kind::Answer(409)),
            "429" => Some(Kind::Answer(429)),
            "500" => Some(Kind::Answer(500)),
            "503" => Some(Kind::Answer(503)),
            "500 after the write" => is_write.then_some(Kind::AnswerAfter(500)),
            "504 after the write" => is_write.then_some(Kind::AnswerAfter(504)),
            "answer lost" => Some(Kind::LoseAnswer),
            "answer never comes" => Some(Kind::HangAnswer),
            "410 at the start of a watch" => resumes.then_some(Kind::Answer(410)),
            "410 in a watch" => resumes.then_some(Kind::Expire(n)),
            "watch cut in the middle of an event" => Some(Kind::Truncate(n)),
            "watch stalls" => Some(Kind::Stall(n)),
            _ => resumes.then_some(Kind::Repeat(1 + n / 4)),
        });
        if let (Some(_), Some(name)) = (fate.kind, chosen) {
            *self.counts.entry(name).or_default() += 1;
        }
        if self.rng.u32(..1000) < self.delays {
            fate.delay = Duration::from_millis(self.rng.u64(20..4000));
            *self.counts.entry("delay").or_default() += 1;
        }
        if is_write && self.rng.u32(..1000) < self.slow_disk {
            let mut millis = || Duration::from_millis(self.rng.u64(..1500));
            fate.disk = (millis(), millis());
            *self.counts.entry("slow disk").or_default() += 1;
        }
        fate
    }
}

/// What happens to a host.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// It loses its tasks and starts again after this time.
    Crash(Duration),
    /// It stands still for this time.
    Pause(Duration),
    /// No message passes between it and its servers for this time.
    Cut(Duration),
    /// Its wall clock is set forward or back by this many seconds.
    ClockJump(i64),
}

impl Trouble {
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Crash(_) => "crash",
            Trouble::Pause(_) => "pause",
            Trouble::Cut(_) => "partition",
            Trouble::ClockJump(_) => "clock jump",
        }
    }
}

/// Troubles of hosts in the order of time, until `end`.
pub fn troubles(rng: &mut Rng, hosts: &[HostId], end: Duration) -> Vec<(Duration, HostId, Trouble)> {
    let enabled: Vec<u32> = (0..4).filter(|_| rng.bool()).collect();
    if enabled.is_empty() {
        return Vec::new();
    }
    let n = rng.usize(..16);
    let mut troubles: Vec<_> = (0..n)
        .map(|_| {
            let at = Duration::from_millis(rng.u64(2_000..end.as_millis() as u64));
            let host = hosts[rng.usize(..hosts.len())];
            let left = (end - at).as_millis() as u64;
            let length = Duration::from_millis(rng.u64(..40_000).min(left));
            let trouble = match enabled[rng.usize(..enabled.len())] {
                0 => Trouble::Crash(length / 4),
                1 => Trouble::Pause(length),
                2 => Trouble::Cut(length),
                _ => Trouble::ClockJump(rng.i64(-3600..3600)),
            };
            (at, host, trouble)
        })
        .collect();
    troubles.sort_by_key(|(at, host, _)| (*at, *host));
    troubles
}
