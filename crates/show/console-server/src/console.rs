//! The state that is shown, and the pages that have been rendered from it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_console::{Request, Response, State, respond, shows_broken_rules, works_on_copy};
use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};

/// Limits of what is kept of rendered pages.
const MAX_CACHED_PAGES: usize = 256;
const MAX_CACHED_BYTES: usize = 32 << 20;
/// A page takes long if rendering it takes more than this. It is rendered again only after a pause, this many times as long.
const COSTLY: Duration = Duration::from_millis(250);
const PAUSE: u32 = 4;
/// How long a page waits for the state.
const DEADLINE: Duration = Duration::from_secs(10);

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

/// The pages rendered from one version of the state.
#[derive(Default)]
struct Cache {
    version: u64,
    pages: HashMap<Question, Rendered>,
    n_bytes: usize,
}

impl Cache {
    fn get(&self, version: u64, question: &Question) -> Option<Rendered> {
        (self.version == version).then(|| self.pages.get(question).cloned()).flatten()
    }

    fn insert(&mut self, version: u64, question: Question, page: Rendered) {
        if self.version != version {
            *self = Cache { version, ..Cache::default() };
        }
        let n_bytes = self.n_bytes + question.query.len() + page.body.len();
        if self.pages.len() < MAX_CACHED_PAGES && n_bytes <= MAX_CACHED_BYTES {
            self.n_bytes = n_bytes;
            self.pages.insert(question, page);
        }
    }
}

/// A state with its pages, shared by all who look at it.
pub struct Console {
    state: Arc<tokio::sync::Mutex<State>>,
    version: watch::Sender<u64>,
    cache: Mutex<Cache>,
    /// When pages that take long may be rendered again: one that is open must not keep all others waiting.
    costly: Mutex<HashMap<Question, Instant>>,
    simulations: Semaphore,
}

impl Console {
    /// Shows a state.
    pub fn new(state: State) -> Arc<Console> {
        let state = Arc::new(tokio::sync::Mutex::new(state));
        Arc::new(Console {
            state,
            version: watch::Sender::new(1),
            cache: Mutex::default(),
            costly: Mutex::default(),
            simulations: Semaphore::new(1),
        })
    }

    /// Changes the state. Open pages are rendered again afterwards, if `change` says that they may differ.
    pub async fn update(&self, change: impl FnOnce(&mut State) -> bool + Send + 'static) {
        let mut state = self.state.clone().lock_owned().await;
        let changed = tokio::task::spawn_blocking(move || guarded(&mut state, change)).await;
        if !matches!(changed, Ok(Some(false))) {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Reads the state; none if `read` panics.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Option<T> {
        let mut state = self.state.clone().lock_owned().await;
        tokio::task::spawn_blocking(move || guarded(&mut state, read)).await.ok().flatten()
    }

    /// The version of the state, and when it changes.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The page; rendered once for each version of the state.
    pub(crate) async fn page(&self, question: Question) -> Rendered {
        if let Some(page) = self.cached(&question) {
            return page;
        }
        let next = lock(&self.costly).get(&question).copied();
        if let Some(next) = next {
            tokio::time::sleep_until(next).await;
        }
        let _simulation = self.simulation(&question, None).await;
        let Ok(state) = timeout(DEADLINE, self.state.clone().lock_owned()).await else { return busy() };
        // Another request may have rendered it while this one waited. The version cannot change now.
        let version = *self.version.borrow();
        if let Some(page) = self.cached(&question) {
            return page;
        }
        let (page, took) = render(state, question.clone(), None).await;
        if took > COSTLY {
            let mut costly = lock(&self.costly);
            if costly.len() >= MAX_CACHED_PAGES {
                costly.clear();
            }
            costly.insert(question.clone(), Instant::now() + took * PAUSE);
        }
        if page.status == 200 {
            lock(&self.cache).insert(version, question, page.clone());
        }
        page
    }

    /// The answer to a form.
    pub(crate) async fn submit(&self, question: Question, form: String) -> Rendered {
        let _simulation = self.simulation(&question, Some(&form)).await;
        match timeout(DEADLINE, self.state.clone().lock_owned()).await {
            Ok(state) => render(state, question, Some(form)).await.0,
            Err(_) => busy(),
        }
    }

    /// Of the pages that work on copies, one is rendered at a time: copies are large.
    async fn simulation(&self, question: &Question, form: Option<&str>) -> Option<SemaphorePermit<'_>> {
        match works_on_copy(&question.request(form)) {
            true => self.simulations.acquire().await.ok(),
            false => None,
        }
    }

    fn cached(&self, question: &Question) -> Option<Rendered> {
        let version = *self.version.borrow();
        lock(&self.cache).get(version, question)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy() -> Rendered {
    let body = "The console is busy with other pages and with changes of the cluster: try again.".to_owned();
    Response { status: 503, content_type: "text/plain; charset=utf-8", body }.into()
}

/// The page, and how long it took; what it finds for all pages of this version does not count.
async fn render(
    mut state: tokio::sync::OwnedMutexGuard<State>,
    question: Question,
    form: Option<String>,
) -> (Rendered, Duration) {
    let rendered = tokio::task::spawn_blocking(move || {
        let request = question.request(form.as_deref());
        let mut begin = Instant::now();
        let page = if works_on_copy(&request) {
            let copy = state.copy();
            drop(state);
            let answer = || copy().map(|mut copy| respond(&mut copy, &request));
            catch_unwind(AssertUnwindSafe(answer)).ok()?.ok()
        } else {
            guarded(&mut state, |state| {
                if shows_broken_rules(&request) {
                    state.audited();
                    begin = Instant::now();
                }
                respond(state, &request)
            })
        };
        Some((page?.into(), begin.elapsed()))
    });
    let broken = || {
        let body = "This page cannot be shown: a bug in Berth, please report it with the log.".to_owned();
        let page = Response { status: 500, content_type: "text/plain; charset=utf-8", body };
        (page.into(), Duration::ZERO)
    };
    rendered.await.ok().flatten().unwrap_or_else(broken)
}

/// Runs `use_state`. If it panics, the state is built again from its objects, because it may be half changed.
fn guarded<T>(state: &mut State, use_state: impl FnOnce(&mut State) -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(|| use_state(state)));
    if result.is_err() {
        tracing::error!("a page panicked; this is a bug in Berth, please report it");
        let rebuilt = catch_unwind(AssertUnwindSafe(|| state.rebuild()));
        if !matches!(rebuilt, Ok(Ok(()))) {
            tracing::error!("the state cannot be built again; restart the console");
        }
    }
    result.ok()
}
