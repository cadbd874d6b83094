//! Clients of an API server: from a kubeconfig file, from inside a cluster, or from a ready configuration.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use secrecy::ExposeSecret;
use tower::BoxError;
use tower::layer::layer_fn;

use crate::rate_limit::{RateLimit, RateLimited};
use crate::transport::http_service;

/// What Berth calls itself to servers.
pub const AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Which cluster to talk to, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The kubeconfig file. None: the files `KUBECONFIG` names, else `~/.kube/config`, else, in a pod, the pod's
    /// service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the file; its current one if none.
    pub context: Option<String>,
    /// Another address of the server than the file gives, such as `https://127.0.0.1:6443`.
    pub server: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig that cannot be used.
    #[error("{file}: {}{remedy}", reason(source, file))]
    Kubeconfig {
        /// The file, or its substitute in messages.
        file: String,
        source: Box<KubeconfigError>,
        /// What to do about it.
        remedy: String,
    },
    /// Neither a kubeconfig nor a pod's service account.
    #[error(
        "no cluster to talk to: {}, and this is not a pod of a cluster ({in_cluster}); name a kubeconfig \
         with --kubeconfig or the environment variable KUBECONFIG",
        reason(kubeconfig, "")
    )]
    NoCluster {
        /// Why no kubeconfig was used.
        kubeconfig: Box<KubeconfigError>,
        /// Why this is not a pod.
        in_cluster: Box<kube::config::InClusterError>,
    },
    #[error("server address {address:?}: {reason}; write it like https://127.0.0.1:6443")]
    Server { address: String, reason: String },
    #[error("cannot make a client for {server}: {source}")]
    Client { server: String, source: Box<kube::Error> },
    #[error(
        "{file}: the {field} of the user has characters that no header can have, such as a line end: correct it"
    )]
    Credential {
        /// The file, or its substitute in messages.
        file: String,
        /// The field, such as `token`.
        field: &'static str,
    },
    #[error("{file}: {field} {path:?} is not a regular file of at most 16 MiB: name another file")]
    CredentialFile {
        /// The file that names it, or its substitute in messages.
        file: String,
        /// The field, such as `tokenFile`.
        field: &'static str,
        path: String,
    },
    #[error("the token has characters that tokens do not have")]
    Token,
}

/// What is wrong with a kubeconfig, in one line: the reader quotes paths twice, and shows the text of the file.
fn reason(error: &KubeconfigError, file: &str) -> String {
    if let KubeconfigError::ReadConfig(error, path) = error {
        let path = path.display().to_string();
        return if path == file { error.to_string() } else { format!("{path}: {error}") };
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.replace("'\"", "").replace("\"'", "").replace("YAML: error: ", "YAML: ")
}

const MAX_KUBECONFIG: u64 = 16 << 20;

fn too_large(path: &Path) -> KubeconfigError {
    KubeconfigError::ReadConfig(io::Error::other("more than 16 MiB: not a kubeconfig"), path.to_owned())
}

/// Checks a file that is read whole. Missing files are reported by the reader.
fn check_size(path: &Path) -> Result<(), KubeconfigError> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() || metadata.len() > MAX_KUBECONFIG => Err(too_large(path)),
        _ => Ok(()),
    }
}

/// Reads a kubeconfig: a file, or a pipe or device with at most this many bytes.
fn read_kubeconfig(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    if check_size(path).is_ok() {
        return Kubeconfig::read_from(path);
    }
    let fail = |error| KubeconfigError::ReadConfig(error, path.to_owned());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(fail)?;
    match file.take(MAX_KUBECONFIG + 1).read_to_string(&mut text).map_err(fail)? as u64 {
        0..=MAX_KUBECONFIG => Kubeconfig::from_yaml(&text),
        _ => Err(too_large(path)),
    }
}

impl Options {
    /// Reads the configuration.
    ///
    /// # Errors
    /// The file or the context is not there or cannot be used; the error names it and the remedy.
    pub async fn config(&self) -> Result<kube::Config, ConnectError> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = path.display().to_string();
                let read =
                    read_kubeconfig(path).map_err(|source| self.kubeconfig_error(file.clone(), source))?;
                self.config_of_kubeconfig(file, read, &options).await?
            }
            None => self.config_of_environment(&options).await?,
        };
        let auth = &config.auth_info;
        let token = auth.token.as_ref().map(ExposeSecret::expose_secret);
        let password = auth.password.as_ref().map(ExposeSecret::expose_secret);
        for (field, value) in
            [("token", token), ("password", password), ("username", auth.username.as_deref())]
        {
            if value.is_some_and(|value| HeaderValue::from_str(value).is_err()) {
                return Err(ConnectError::Credential { file: self.file(), field });
            }
        }
        // The client reads them.
        self.check_file("client-certificate", auth.client_certificate.as_deref())?;
        self.check_file("client-key", auth.client_key.as_deref())?;
        self.check_file("tokenFile", auth.token_file.as_deref())?;
        if let Some(address) = &self.server {
            let bad = |reason: String| ConnectError::Server { address: address.clone(), reason };
            let uri: http::Uri = address.parse().map_err(|e: http::uri::InvalidUri| bad(e.to_string()))?;
            if !matches!(uri.scheme_str(), Some("http" | "https")) {
                return Err(bad("it does not start with https:// or http://".to_owned()));
            }
            config.cluster_url = uri;
        }
        Ok(config)
    }

    /// The kubeconfig in messages.
    fn file(&self) -> String {
        let file = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        file.unwrap_or_else(|| "the configuration".to_owned())
    }

    /// Checks a file that a configuration names, before it is read whole: reading a pipe or a device might never end.
    fn check_file(&self, field: &'static str, path: Option<&str>) -> Result<(), ConnectError> {
        match path {
            Some(path) if check_size(Path::new(path)).is_err() => {
                Err(ConnectError::CredentialFile { file: self.file(), field, path: path.to_owned() })
            }
            _ => Ok(()),
        }
    }

    async fn config_of_kubeconfig(
        &self,
        file: String,
        read: Kubeconfig,
        options: &KubeConfigOptions,
    ) -> Result<kube::Config, ConnectError> {
        for cluster in read.clusters.iter().filter_map(|named| named.cluster.as_ref()) {
            self.check_file("certificate-authority", cluster.certificate_authority.as_deref())?;
        }
        let config = kube::Config::from_custom_kubeconfig(read, options).await;
        config.map_err(|source| self.kubeconfig_error(file, source))
    }

    async fn config_of_environment(&self, options: &KubeConfigOptions) -> Result<kube::Config, ConnectError> {
        let file = std::env::var("KUBECONFIG").ok().filter(|f| !f.is_empty());
        for path in file.iter().flat_map(std::env::split_paths) {
            check_size(&path).map_err(|source| self.kubeconfig_error(path.display().to_string(), source))?;
        }
        let shown = file.clone().unwrap_or_else(|| "~/.kube/config".to_owned());
        let read = match Kubeconfig::read() {
            Ok(read) => return self.config_of_kubeconfig(shown, read, options).await,
            Err(error) => error,
        };
        let is_missing = match &read {
            KubeconfigError::FindPath => true,
            KubeconfigError::ReadConfig(error, _) => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        // An invalid file, or a missing file that the user named, is an error.
        if !is_missing || file.is_some() || self.context.is_some() {
            return Err(self.kubeconfig_error(shown, read));
        }
        kube::Config::incluster().map_err(|in_cluster| ConnectError::NoCluster {
            kubeconfig: Box::new(read),
            in_cluster: Box::new(in_cluster),
        })
    }

    fn kubeconfig_error(&self, file: String, source: KubeconfigError) -> ConnectError {
        let remedy = match (&source, &self.context) {
            (KubeconfigError::LoadContext(_) | KubeconfigError::CurrentContextNotSet, context) => {
                let given = context.as_ref().map(|c| format!(" other than {c:?}")).unwrap_or_default();
                format!("; name a context{given} that is in the file with --context")
            }
            (KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath, _) => {
                "; name another file with --kubeconfig".to_owned()
            }
            _ => String::new(),
        };
        ConnectError::Kubeconfig { file, source: Box::new(source), remedy }
    }

    /// Reads the configuration and makes a client of it; see [`client`].
    ///
    /// # Errors
    /// As [`Options::config`] and [`client`].
    pub async fn client(&self) -> Result<kube::Client, ConnectError> {
        client(self.config().await?)
    }
}

/// Sends one request and returns the response.
pub type Transport =
    Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> + Send + Sync>;
pub type ResponseBody = UnsyncBoxBody<bytes::Bytes, BoxError>;

/// How requests reach an API server, and as whom.
#[derive(Clone)]
pub enum Connection {
    /// Over HTTP, as the configuration says.
    Config(Box<kube::Config>),
    /// Through a function of the caller, which adds the credential to requests that have none.
    Transport(Transport),
}

impl From<kube::Config> for Connection {
    fn from(config: kube::Config) -> Connection {
        Connection::Config(Box::new(config))
    }
}

impl Connection {
    /// The same without a credential, for requests that bring their own.
    pub fn anonymous(mut self) -> Connection {
        if let Connection::Config(config) = &mut self {
            config.auth_info = kube::config::AuthInfo::default();
        }
        self
    }
}

/// A client that names itself `berth/VERSION`, never waits for a connection longer than 10 s, and never retries
/// requests: the caller knows whether a request may be repeated.
///
/// # Errors
/// Certificates or credentials of the configuration cannot be used.
pub fn client(connection: impl Into<Connection>) -> Result<kube::Client, ConnectError> {
    limited_client(connection, None)
}

/// As [`client`], with a limit on the rate of its requests.
pub fn limited_client(
    connection: impl Into<Connection>,
    limit: Option<RateLimit>,
) -> Result<kube::Client, ConnectError> {
    match connection.into() {
        Connection::Config(config) => {
            let server = config.cluster_url.to_string();
            let service = http_service(&with_defaults(*config))
                .map_err(|source| ConnectError::Client { server, source: Box::new(source) })?;
            Ok(build(kube::client::ClientBuilder::new(service, "default"), limit))
        }
        Connection::Transport(transport) => {
            let service = tower::service_fn(move |request| transport(request));
            Ok(build(kube::client::ClientBuilder::new(service, "default"), limit))
        }
    }
}

/// The same client with the token of another user; `client` has no own credential.
///
/// # Errors
/// The token has characters that no header has.
pub fn with_token(client: &kube::Client, token: &str) -> Result<kube::Client, ConnectError> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| ConnectError::Token)?;
    bearer.set_sensitive(true);
    let client = client.clone();
    let transport: Transport = Arc::new(move |mut request| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        let client = client.clone();
        Box::pin(async move {
            Ok(client.send(request).await?.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    });
    self::client(Connection::Transport(transport))
}

fn with_defaults(mut config: kube::Config) -> kube::Config {
    if !config.headers.iter().any(|(name, _)| name == USER_AGENT) {
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Answers have separate deadlines: a watch may be silent for a minute, a binding may not.
    config.read_timeout = None;
    config.write_timeout = Some(WRITE_TIMEOUT);
    config
}

fn build<S, B>(builder: kube::client::ClientBuilder<S>, limit: Option<RateLimit>) -> kube::Client
where
    S: tower::Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Send + 'static,
    B: http_body::Body<Data = bytes::Bytes, Error: Into<BoxError>> + Send + 'static,
{
    match limit {
        Some(limit) => builder.with_layer(&layer_fn(|service| RateLimited::new(service, limit))).build(),
        None => builder.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
        clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n\
        contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {token: t}}]\n";

    async fn config(text: &str, context: Option<&str>, server: Option<&str>) -> Result<kube::Config, String> {
        let path = std::env::temp_dir().join(format!("berth-connect-{}", fastrand::u64(..)));
        std::fs::write(&path, text).unwrap();
        let options = Options {
            kubeconfig: Some(path.clone()),
            context: context.map(str::to_owned),
            server: server.map(str::to_owned),
        };
        let config = options.config().await;
        std::fs::remove_file(&path).unwrap();
        config.map_err(|e| e.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[tokio::test]
    async fn a_kubeconfig_gives_the_server_and_a_client() {
        let config = config(KUBECONFIG, None, None).await.unwrap();
        assert_eq!(config.cluster_url, "https://127.0.0.1:1/");
        client(config).unwrap();
    }

    #[tokio::test]
    async fn the_server_address_can_be_replaced() {
        let replaced = config(KUBECONFIG, None, Some("http://127.0.0.1:2")).await.unwrap();
        assert_eq!(replaced.cluster_url, "http://127.0.0.1:2/");
        let error = config(KUBECONFIG, None, Some("127.0.0.1:2")).await.unwrap_err();
        assert!(error.contains("write it like https://"), "{error}");
    }

    #[tokio::test]
    async fn a_token_that_no_header_can_have_is_an_error() {
        let text = KUBECONFIG.replace("token: t", "token: \"t\\n\"");
        let error = config(&text, None, None).await.unwrap_err();
        assert!(error.starts_with("FILE: the token of the user"), "{error}");
    }

    #[tokio::test]
    async fn devices_in_place_of_credential_files_are_errors() {
        for (field, text) in [
            ("tokenFile", KUBECONFIG.replace("token: t", "tokenFile: /dev/zero")),
            ("client-key", KUBECONFIG.replace("token: t", "client-key: /dev/zero")),
            ("client-certificate", KUBECONFIG.replace("token: t", "client-certificate: /dev/zero")),
            ("certificate-authority", KUBECONFIG.replace(":1'", ":1', certificate-authority: /dev/zero")),
        ] {
            let error = config(&text, None, None).await.unwrap_err();
            assert!(error.starts_with(&format!("FILE: {field} \"/dev/zero\" is not")), "{error}");
        }
    }

    #[tokio::test]
    async fn errors_name_the_file_and_the_remedy() {
        let error = config(KUBECONFIG, Some("other"), None).await.unwrap_err();
        assert!(error.starts_with("FILE: ") && error.contains("--context"), "{error}");
        let missing = Options { kubeconfig: Some("/nonexistent/kubeconfig".into()), ..Options::default() };
        let error = missing.config().await.unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/kubeconfig: ") && error.contains("--kubeconfig"), "{error}");
        let error = config("clusters: 5", None, None).await.unwrap_err();
        assert!(error.starts_with("FILE: "), "{error}");
    }
}
