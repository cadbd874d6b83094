//! Starting and stopping a server.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_serve::{ListenError, Listener, Metered};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Config;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::credentials::{Credentials, CredentialsError, url};
use super::metrics::REQUESTS;
use super::offload::Offload;
use super::service::serve;
use super::state::State;
use crate::authn::Tokens;
use crate::bootstrap::bootstrap;
use crate::import::{self, ImportError, Imported};
use crate::options::ServerOptions;
use crate::store::{DiskError, Store, WriteError};
use crate::temporary::TemporaryDir;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory for keys and data cannot be made.
    #[error("directory {path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("threads for requests could not be started: {0}")]
    Threads(io::Error),
    #[error("the first objects could not be written: {0}")]
    Bootstrap(#[from] WriteError),
}

pub struct ApiServer {
    state: Arc<State>,
    url: String,
    kubeconfig: PathBuf,
    ca_der: Vec<u8>,
    listening: JoinHandle<()>,
    /// Removed at the end, if the server made it for itself.
    temporary: Option<TemporaryDir>,
}

impl ApiServer {
    /// Starts a server and returns once it accepts requests.
    ///
    /// # Errors
    /// The data directory, the keys or the address cannot be used.
    pub fn start(options: ServerOptions) -> BoxFuture<'static, Result<ApiServer, StartError>> {
        // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
        async move {
            let (dir, temporary) = match &options.data_dir {
                Some(dir) => {
                    make_private_dir(dir)?;
                    (dir.clone(), None)
                }
                None => {
                    let dir = TemporaryDir::new()
                        .map_err(|source| StartError::Directory { path: std::env::temp_dir(), source })?;
                    (dir.path().to_owned(), Some(dir))
                }
            };
            // Open the store before any other file in the directory: its lock excludes a second process.
            let store = match &options.data_dir {
                Some(dir) => Store::open(dir, initial_revision(), options.storage.clone())?,
                None => Store::in_memory(initial_revision(), &options.storage),
            };
            let credentials = Credentials::load(&dir)?;
            let listener = listen(options.listen, credentials.last_port()).await?;
            let address = listener.address();
            credentials.remember_port(address.port())?;
            let tls = credentials.tls(address)?;
            let url = url(address);
            let tokens = Tokens::new(&credentials.secret);
            let kubeconfig = options.kubeconfig.clone().unwrap_or_else(|| dir.join("kubeconfig"));
            credentials.write_kubeconfig(&kubeconfig, &url, tokens.admin())?;
            bootstrap(&store).await?;
            let offload = Offload::start().map_err(StartError::Threads)?;
            let state = Arc::new(State::new(store, tokens, url.clone(), Some(offload), &options));
            let (limits, stop) = (state.limits.connections, state.api.stop.clone());
            let serve = {
                let state = state.clone();
                move |request| Metered::new(Box::pin(serve(state.clone(), request)), &REQUESTS)
            };
            let listening = tokio::spawn(listener.run(Some(tls), limits, stop, serve));
            state.spawn_tasks(options.event_ttl);
            let of_task = state.clone();
            tokio::spawn(async move {
                of_task.sending.run(of_task.limits.send, of_task.api.stop.clone()).await;
            });
            tracing::info!(%url, "API server is listening");
            Ok(ApiServer { state, url, kubeconfig, ca_der: credentials.ca_der, listening, temporary })
        }
        .boxed()
    }

    /// The server's URL: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn admin_config(&self) -> Config {
        self.config(self.state.api.authenticator.tokens().admin().to_owned())
    }

    /// A client configuration for a component of the cluster: user `system:NAME`, group `system:masters`.
    pub fn component_config(&self, name: &str) -> Config {
        self.config(self.state.api.authenticator.tokens().component(name))
    }

    /// A client configuration for a node: user `system:node:NAME`, group `system:nodes`.
    pub fn node_config(&self, name: &str) -> Config {
        self.config(self.node_token(name))
    }

    pub fn node_token(&self, name: &str) -> String {
        self.state.api.authenticator.tokens().node(name)
    }

    /// The tokens of all nodes by their names, for a kubelet that runs many.
    pub fn node_tokens(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + use<> {
        let api = self.state.api.clone();
        move |name| Some(api.authenticator.tokens().node(name))
    }

    fn config(&self, token: String) -> Config {
        // An address that was listened on is a URI.
        let uri = self.url.parse().unwrap_or_default();
        let mut config = Config::new(uri);
        config.root_cert = Some(vec![self.ca_der.clone()]);
        config.auth_info.token = Some(token.into());
        config
    }

    /// Stores the objects of a dump verbatim: uid, status and timestamps stay; owner references to objects that are not
    /// in the dump are dropped. Creates missing namespaces and leaves existing objects unchanged.
    ///
    /// # Errors
    /// An object has no name, or cannot be stored; those before it are.
    pub async fn import(&self, objects: Vec<Value>) -> Result<Imported, ImportError> {
        import::import(&self.state.api, objects).await
    }

    /// Ends watches, waits for open requests, closes the store, and removes temporary files.
    pub async fn shutdown(mut self) {
        self.state.api.stop.cancel();
        if let Err(error) = (&mut self.listening).await {
            tracing::error!(%error, "the listener failed");
        }
        let store = self.state.api.store.clone();
        // Waits for pending writes.
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the store was not closed");
        }
        drop(self.temporary.take());
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.state.api.stop.cancel();
    }
}

/// Versions start at the current time, so that versions of an earlier server are not mistaken for this server's.
fn initial_revision() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

fn make_private_dir(dir: &Path) -> Result<(), StartError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|source| StartError::Directory { path: dir.to_owned(), source })
}

/// Listens. For port 0 it uses the port of the last run, if that is free.
async fn listen(address: SocketAddr, last_port: Option<u16>) -> Result<Listener, ListenError> {
    if address.port() == 0
        && let Some(port) = last_port
    {
        match Listener::bind(SocketAddr::new(address.ip(), port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => {
                tracing::warn!(port, %error, "the port of the last run is in use; using another one")
            }
        }
    }
    Listener::bind(address).await
}
