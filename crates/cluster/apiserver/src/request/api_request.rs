//! A request for objects that has been authorized.

use std::sync::Arc;

use berth_schema::resource::Defined;
use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

use super::query::Query;
use super::route::RequestInfo;
use super::user::User;

/// The largest request body, as for kube-apiserver.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

pub struct ApiRequest {
    pub user: Arc<User>,
    pub info: RequestInfo,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// When it has to be answered. What it writes may take longer.
    pub deadline: Instant,
    /// The definitions of custom resources that were valid when it came, if it is for one.
    pub _definitions: Option<Arc<[Defined]>>,
}
