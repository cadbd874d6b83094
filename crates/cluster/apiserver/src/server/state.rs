//! The parts of a server.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::expiry;
use super::metrics::Metrics;
use super::offload::Offload;
use super::sending::Sending;
use super::throttle::Throttle;
use crate::authn::{Authenticator, Tokens};
use crate::authz::Authorizer;
use crate::custom::{self, CustomResources};
use crate::handlers::{self, AdmissionChain, Api};
use crate::options::{Limits, ServerOptions};
use crate::quota::Quotas;
use crate::store::Store;

pub struct State {
    pub api: Arc<Api>,
    pub custom: CustomResources,
    pub metrics: Metrics,
    pub throttle: Throttle,
    pub sending: Sending,
    /// Threads for heavy requests; without them, all requests run where they arrive.
    pub offload: Option<Offload>,
    /// The server's address for clients.
    pub url: String,
    pub limits: Limits,
}

impl State {
    /// The parts of a server that serves a store.
    pub fn new(
        store: Store,
        tokens: Tokens,
        url: String,
        offload: Option<Offload>,
        options: &ServerOptions,
    ) -> State {
        handlers::compile_budgets(&store);
        let api = Api {
            authenticator: Authenticator::new(&store, tokens),
            authorizer: Authorizer::new(&store),
            admission: AdmissionChain::new(&store, options.admission.clone()),
            quotas: Quotas::new(&store),
            extensions: options.extensions,
            feature_gates: options.feature_gates,
            taints_new_nodes: options.taints_new_nodes,
            stop: CancellationToken::new(),
            store,
        };
        State {
            custom: CustomResources::new(&api.store),
            api: Arc::new(api),
            metrics: Metrics::new(options.admission.as_deref()),
            throttle: Throttle::new(&options.limits),
            sending: Sending::default(),
            offload,
            url,
            limits: options.limits.clone(),
        }
    }

    /// Starts the tasks that keep the store in order, until the server stops.
    pub fn spawn_tasks(&self, event_ttl: Duration) {
        let api = self.api.clone();
        tokio::spawn(async move { expiry::run(&api.store, event_ttl, &api.stop).await });
        let api = self.api.clone();
        let count = async move { api.quotas.follow(&api.stop).await };
        match &self.offload {
            Some(offload) => offload.spawn(count),
            None => drop(tokio::spawn(count)),
        }
        let api = self.api.clone();
        tokio::spawn(async move { custom::clean_up(&api.store, &api.stop).await });
    }
}
