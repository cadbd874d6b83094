//! Lists in pages, for servers whose lists do not stream.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Ended, KubeObject, Watcher};
use crate::call::{encoded, get, send};

/// A list that expires this often while being read is asked for in one piece.
const MAX_EXPIRED: u32 = 2;

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    // Go writes an empty list as null here and there.
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

impl Watcher {
    /// All objects, and the version to watch from.
    pub(super) async fn list<T: KubeObject + DeserializeOwned>(&self) -> Result<(Vec<T>, String), Ended> {
        for _ in 0..MAX_EXPIRED {
            match self.list_pages(self.options.page_size).await {
                Err(Ended::Expired) => {}
                listed => return listed,
            }
        }
        self.list_pages(0).await
    }

    async fn list_pages<T: KubeObject + DeserializeOwned>(
        &self,
        page_size: u32,
    ) -> Result<(Vec<T>, String), Ended> {
        let mut objects = Vec::new();
        let mut version = None;
        let mut parameters = if page_size == 0 { String::new() } else { format!("limit={page_size}") };
        loop {
            let page: Page<T> = self.page(&parameters).await?;
            objects.extend(page.items.into_iter().flatten());
            // Changes made while later pages are read are told again by the watch from here: none is missed.
            version.get_or_insert(page.metadata.resource_version);
            match page.metadata.token.filter(|token| !token.is_empty()) {
                Some(token) => parameters = format!("limit={page_size}&continue={}", encoded(&token)),
                None => return Ok((objects, version.unwrap_or_default())),
            }
        }
    }

    async fn page<T: DeserializeOwned>(&self, parameters: &str) -> Result<Page<T>, Ended> {
        let request = get(&self.options.uri(parameters));
        let answer =
            send(&self.client, request, self.options.list_timeout, self.options.max_page_bytes).await;
        match answer {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|e| Ended::Broken(format!("{}: the list cannot be read: {e}", self.options.path))),
            Err(error) if error.code() == Some(410) => Err(Ended::Expired),
            Err(error) => Err(error.into()),
        }
    }
}
