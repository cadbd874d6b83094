//! Lists in pages.

use berth_api::resource::percent_encoded;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Deliver, Ended, KubeObject, StreamEvent, WatchOptions, Watcher};
use crate::call::{CallError, get, send};

/// A list that expires this often while it is read is requested in one piece.
const MAX_EXPIRED: u32 = 2;

/// Why a list failed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The server rejected the request, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The response is not a list of such objects.
    #[error("{path}: the list cannot be read: {source}")]
    Invalid {
        /// Path of the collection.
        path: String,
        /// What is wrong with the response.
        source: serde_json::Error,
    },
}

impl ListError {
    fn is_expired(&self) -> bool {
        matches!(self, ListError::Call(error) if error.code() == Some(410))
    }
}

impl From<ListError> for Ended {
    fn from(error: ListError) -> Ended {
        match error {
            _ if error.is_expired() => Ended::Expired,
            ListError::Call(error) => Ended::Call(error),
            error @ ListError::Invalid { .. } => Ended::Broken(error.to_string()),
        }
    }
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    // Servers written in Go encode some empty lists as null.
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// A list that is read page by page.
pub struct Pages<'a> {
    client: &'a kube::Client,
    options: &'a WatchOptions,
    page_size: u32,
    /// `continue` of the next page; none when the list is complete.
    token: Option<String>,
    /// Resource version of the first page: changes made while later pages are read are part of the watch from here.
    version: Option<String>,
}

impl<'a> Pages<'a> {
    /// The pages of [`WatchOptions::page_size`] objects of a list.
    pub fn new(client: &'a kube::Client, options: &'a WatchOptions) -> Pages<'a> {
        Pages { client, options, page_size: options.page_size, token: Some(String::new()), version: None }
    }

    /// The objects of the next page; none after the last one.
    ///
    /// # Errors
    /// The server rejects the request, does not answer in time, or sends something else.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, ListError> {
        let Some(token) = &self.token else { return Ok(None) };
        let mut parameters =
            if self.page_size == 0 { String::new() } else { format!("limit={}", self.page_size) };
        if !token.is_empty() {
            parameters.push_str(&format!("&continue={}", percent_encoded(token)));
        }
        let WatchOptions { list_timeout, max_page_bytes, path, .. } = self.options;
        let request = get(&self.options.uri(&parameters));
        let bytes = send(self.client, request, *list_timeout, *max_page_bytes).await?;
        let page: Page<T> = serde_json::from_slice(&bytes)
            .map_err(|source| ListError::Invalid { path: path.clone(), source })?;
        self.version.get_or_insert(page.metadata.resource_version);
        self.token = page.metadata.token.filter(|token| !token.is_empty());
        Ok(Some(page.items.unwrap_or_default()))
    }
}

/// Lists a resource once.
///
/// # Errors
/// As [`Pages::next`].
pub async fn list<T: DeserializeOwned>(
    client: &kube::Client,
    options: &WatchOptions,
) -> Result<Vec<T>, ListError> {
    let mut objects = Vec::new();
    let mut pages = Pages::new(client, options);
    while let Some(page) = pages.next().await? {
        objects.extend(page);
    }
    Ok(objects)
}

impl Watcher {
    /// Delivers all objects. Returns the resource version to watch from.
    pub(super) async fn list<T, M>(&self, deliver: &Deliver<'_, T, M>) -> Result<String, Ended>
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        for attempt in 0.. {
            let mut pages = Pages::new(&self.client, &self.options);
            if attempt == MAX_EXPIRED {
                pages.page_size = 0;
            }
            match self.deliver_pages(pages, deliver).await {
                Err(Ended::Expired) if attempt < MAX_EXPIRED => {}
                listed => return listed,
            }
        }
        Err(Ended::Expired)
    }

    async fn deliver_pages<T, M>(
        &self,
        mut pages: Pages<'_>,
        deliver: &Deliver<'_, T, M>,
    ) -> Result<String, Ended>
    where
        T: KubeObject + DeserializeOwned + Send,
        M: Send,
    {
        let mut page = pages.next().await?;
        deliver.send(StreamEvent::Init).await?;
        while let Some(objects) = page {
            for object in objects {
                deliver.send(StreamEvent::InitApply(object)).await?;
            }
            page = pages.next().await?;
        }
        deliver.send(StreamEvent::InitDone).await?;
        Ok(pages.version.unwrap_or_default())
    }
}
