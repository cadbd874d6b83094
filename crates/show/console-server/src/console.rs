//! The state that is shown, and the pages that have been rendered from it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_console::{Request, Response, State, reads_objects, respond, shows_broken_rules};
use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// Limits of what is kept of rendered pages.
const MAX_CACHED_PAGES: usize = 256;
const MAX_CACHED_BYTES: usize = 32 << 20;
/// Pages that are rendered at the same time; each has a snapshot.
const MAX_RENDERERS: usize = 4;
/// A page takes long if rendering it takes more than this.
const COSTLY: Duration = Duration::from_millis(250);
/// A page that takes long is rendered again, and another snapshot made, only after a pause, this many times as long as that takes.
const PAUSE: u32 = 4;
/// How long a page waits for other pages and a snapshot.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long a viewer waits for a page.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);

/// A rendered page; clones share its bytes.
#[derive(Clone)]
pub struct Rendered {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Bytes,
    /// The same for equal bodies.
    pub tag: u64,
}

impl From<Response> for Rendered {
    fn from(Response { status, content_type, body }: Response) -> Rendered {
        // Texts with the same tag cannot be constructed without the key.
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Rendered { status, content_type, tag: KEY.hash_one(&body), body: body.into() }
    }
}

/// The request of a page, owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub path: String,
    pub query: String,
}

impl Question {
    pub(crate) fn request<'a>(&'a self, form: Option<&'a str>) -> Request<'a> {
        Request { path: &self.path, query: &self.query, form }
    }
}

/// Rendered pages, each with the version of the state that it shows.
#[derive(Default)]
struct Cache {
    pages: HashMap<Question, (u64, Rendered)>,
    n_bytes: usize,
}

impl Cache {
    /// The page of this version, or of a later one.
    fn get(&self, version: u64, question: &Question) -> Option<Rendered> {
        let (_, page) = self.pages.get(question).filter(|(of, _)| *of >= version)?;
        Some(page.clone())
    }

    fn insert(&mut self, version: u64, question: Question, page: Rendered) {
        let n_bytes = |page: &Rendered| question.query.len() + page.body.len();
        if let Some((_, outdated)) = self.pages.remove(&question) {
            self.n_bytes -= n_bytes(&outdated);
        }
        if self.pages.len() >= MAX_CACHED_PAGES || self.n_bytes + n_bytes(&page) > MAX_CACHED_BYTES {
            *self = Cache::default();
        }
        self.n_bytes += n_bytes(&page);
        self.pages.insert(question, (version, page));
    }
}

/// A state with its pages, shared by all who look at it.
///
/// Pages are rendered from snapshots: changes of the state wait for no page, and no page for another one.
pub struct Console {
    state: Arc<tokio::sync::Mutex<State>>,
    version: watch::Sender<u64>,
    cache: Mutex<Cache>,
    /// Locked while a page is rendered; when it may be rendered again.
    turns: Mutex<HashMap<Question, Arc<tokio::sync::Mutex<Instant>>>>,
    renderers: Semaphore,
    /// Of the pages that read all objects, one is rendered at a time: they need much memory.
    readers: Semaphore,
    /// A snapshot of the current version that no page uses.
    idle: Mutex<Option<Snapshot>>,
    returned: Notify,
    /// Locked while a snapshot is made; when the next one may be made.
    next_snapshot: tokio::sync::Mutex<Instant>,
}

struct Snapshot {
    version: u64,
    state: State,
}

impl Console {
    pub fn new(state: State) -> Arc<Console> {
        Arc::new(Console {
            state: Arc::new(tokio::sync::Mutex::new(state)),
            version: watch::Sender::new(1),
            cache: Mutex::default(),
            turns: Mutex::default(),
            renderers: Semaphore::new(MAX_RENDERERS),
            readers: Semaphore::new(1),
            idle: Mutex::default(),
            returned: Notify::new(),
            next_snapshot: tokio::sync::Mutex::new(Instant::now()),
        })
    }

    /// Changes the state. Open pages are rendered again afterwards, if `change` says that they may differ.
    pub async fn update(self: &Arc<Self>, change: impl FnOnce(&mut State) -> bool + Send + 'static) {
        let (console, mut state) = (self.clone(), self.state.clone().lock_owned().await);
        let update = move || {
            if guarded(&mut state, change) != Some(false) {
                console.version.send_modify(|version| *version += 1);
                drop(state);
                let outdated = lock(&console.idle).take();
                drop(outdated);
            }
        };
        tokio::task::spawn_blocking(update).await.ok();
    }

    /// Reads a snapshot of the state; none if `read` panics.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Option<T> {
        let snapshot = self.snapshot().await?;
        self.read_snapshot(snapshot, read).await
    }

    /// Reads a snapshot, and keeps it for the next page.
    async fn read_snapshot<T: Send + 'static>(
        self: &Arc<Self>,
        mut snapshot: Snapshot,
        read: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Option<T> {
        let console = self.clone();
        let read = move || {
            let result = catch_unwind(AssertUnwindSafe(|| read(&mut snapshot.state)));
            if result.is_err() {
                tracing::error!("a page panicked; this is a bug in Berth, please report it");
            } else if snapshot.version == *console.version.borrow() {
                let other = lock(&console.idle).replace(snapshot);
                console.returned.notify_one();
                drop(other);
            }
            result.ok()
        };
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    /// A snapshot of the current version.
    async fn snapshot(&self) -> Option<Snapshot> {
        let mut next = self.next_snapshot.lock().await;
        loop {
            let idle = lock(&self.idle).take();
            if let Some(snapshot) = idle.filter(|snapshot| snapshot.version == *self.version.borrow()) {
                return Some(snapshot);
            }
            if timeout_at(*next, self.returned.notified()).await.is_err() {
                break;
            }
        }
        let state = self.state.clone().lock_owned().await;
        let version = *self.version.borrow();
        let begin = Instant::now();
        let state = tokio::task::spawn_blocking(move || state.snapshot()).await.ok()?;
        *next = Instant::now() + begin.elapsed() * PAUSE;
        Some(Snapshot { version, state })
    }

    /// The version of the state, and when it changes.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The page; rendered once for each version of the state.
    pub(crate) async fn page(self: &Arc<Self>, question: Question) -> Rendered {
        timeout(PAGE_DEADLINE, self.rendered(question)).await.unwrap_or_else(|_| slow())
    }

    async fn rendered(self: &Arc<Self>, question: Question) -> Rendered {
        let version = *self.version.borrow();
        let cached = || lock(&self.cache).get(version, &question);
        if let Some(page) = cached() {
            return page;
        }
        let mut next = self.turn(&question).lock_owned().await;
        // Another request may have rendered it while this one waited.
        if let Some(page) = cached() {
            return page;
        }
        tokio::time::sleep_until(*next).await;
        let console = self.clone();
        // A task: it goes on without the viewer, so that the pause follows.
        let render = async move {
            let (version, page, took) = console.render(question.clone(), None).await;
            if took > COSTLY {
                *next = Instant::now() + took * PAUSE;
            }
            if page.status == 200 {
                lock(&console.cache).insert(version, question, page.clone());
            }
            page
        };
        tokio::spawn(render).await.unwrap_or_else(|_| broken())
    }

    /// The answer to a form.
    pub(crate) async fn submit(self: &Arc<Self>, question: Question, form: String) -> Rendered {
        let console = self.clone();
        let render = tokio::spawn(async move { console.render(question, Some(form)).await.1 });
        timeout(PAGE_DEADLINE, render).await.map_or_else(|_| slow(), |page| page.unwrap_or_else(|_| broken()))
    }

    fn turn(&self, question: &Question) -> Arc<tokio::sync::Mutex<Instant>> {
        let mut turns = lock(&self.turns);
        if turns.len() >= MAX_CACHED_PAGES && !turns.contains_key(question) {
            turns.clear();
        }
        let new = || Arc::new(tokio::sync::Mutex::new(Instant::now()));
        turns.entry(question.clone()).or_insert_with(new).clone()
    }

    /// The version of the state, its page, and how long that took; what it finds for all pages of this version does not count.
    async fn render(self: &Arc<Self>, question: Question, form: Option<String>) -> (u64, Rendered, Duration) {
        let _reader = match reads_objects(&question.request(form.as_deref())) {
            true => self.readers.acquire().await.ok(),
            false => None,
        };
        let free = async { (self.renderers.acquire().await, self.snapshot().await) };
        let Ok((_renderer, snapshot)) = timeout(DEADLINE, free).await else {
            return (0, busy(), Duration::ZERO);
        };
        let Some(snapshot) = snapshot else { return (0, broken(), Duration::ZERO) };
        let version = snapshot.version;
        let show = move |state: &mut State| {
            let request = question.request(form.as_deref());
            if shows_broken_rules(&request) {
                state.audited();
            }
            let begin = Instant::now();
            (Rendered::from(respond(state, &request)), begin.elapsed())
        };
        let shown = self.read_snapshot(snapshot, show).await;
        let (page, took) = shown.unwrap_or_else(|| (broken(), Duration::ZERO));
        (version, page, took)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy() -> Rendered {
    failed(503, "The console is busy with other pages and with changes of the cluster: try again.".to_owned())
}

fn slow() -> Rendered {
    let seconds = PAGE_DEADLINE.as_secs();
    failed(
        503,
        format!("This page takes longer than {seconds} s: try again later, or a page that shows less."),
    )
}

fn broken() -> Rendered {
    failed(500, "This page cannot be shown: a bug in Berth, please report it with the log.".to_owned())
}

fn failed(status: u16, body: String) -> Rendered {
    Response { status, content_type: "text/plain; charset=utf-8", body }.into()
}

/// Runs `change`. If it panics, the state is built again from its objects, because it may be half changed.
fn guarded<T>(state: &mut State, change: impl FnOnce(&mut State) -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(|| change(state)));
    if result.is_err() {
        tracing::error!("a change of the state panicked; this is a bug in Berth, please report it");
        let rebuilt = catch_unwind(AssertUnwindSafe(|| state.rebuild()));
        if !matches!(rebuilt, Ok(Ok(()))) {
            tracing::error!("the state cannot be rebuilt; restart the console");
        }
    }
    result.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use berth_console::Update;
    use berth_simulate::SimulationOptions;

    use super::*;

    #[tokio::test]
    async fn neither_changes_nor_other_pages_wait_for_a_page_that_does_not_end() {
        let console = Console::new(State::live("test", SimulationOptions::default()).unwrap());
        let nodes = Question { path: "/nodes".to_owned(), query: String::new() };
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (end, ends) = mpsc::channel::<()>();
        let endless = tokio::spawn({
            let console = console.clone();
            async move {
                let wait = move |_: &mut State| (begun.send(()).ok(), ends.recv().is_err());
                console.read(wait).await
            }
        });
        has_begun.await.unwrap();
        assert!(console.page(nodes.clone()).await.body.starts_with(b"<!DOCTYPE"));
        let node = serde_json::json!({"metadata": {"name": "new-node"}});
        let node = Update::node(serde_json::from_value(node).unwrap());
        console.update(|state| state.apply([node], |error| panic!("{error}"))).await;
        let page = console.page(nodes).await;
        assert!(String::from_utf8_lossy(&page.body).contains("new-node"));
        drop(end);
        assert!(endless.await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_waits_for_a_page_no_longer_than_its_deadline() {
        let console = Console::new(State::live("test", SimulationOptions::default()).unwrap());
        let nodes = Question { path: "/nodes".to_owned(), query: String::new() };
        // Another request for the page renders it.
        let turn = console.turn(&nodes);
        let rendering = turn.lock().await;
        let begin = Instant::now();
        let page = console.page(nodes.clone()).await;
        assert_eq!((page.status, begin.elapsed()), (503, PAGE_DEADLINE));
        assert!(page.body.starts_with(b"This page takes longer than 60 s"));
        drop(rendering);
        assert_eq!(console.page(nodes).await.status, 200);
    }
}
