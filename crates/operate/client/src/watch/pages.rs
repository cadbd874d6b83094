//! Lists in pages.

use std::collections::HashSet;

use berth_api::read::json_text::{Index, JsonText, Malformed};
use berth_api::resource::percent_encoded;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error};

use super::failure::{OBJECT_COST, WatchFailure};
use super::group::Kept;
use super::options::WatchOptions;
use crate::call::{CallError, get, send_while};

/// A list that expires this often while it is read is requested in one piece.
const MAX_EXPIRED: u32 = 2;
/// The objects of a page are held at once.
const MAX_PAGE_OBJECTS: usize = 500_000;

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The server rejected the request, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{path}: the list cannot be read: {source}")]
    Invalid {
        path: String,
        /// What is wrong with the response.
        source: serde_json::Error,
    },
    /// The same `continue` came again: the list would never end.
    #[error("{path}: the server sends the same continue token again")]
    Repeated { path: String },
    /// The list is larger than the limit.
    #[error(transparent)]
    TooLarge(WatchFailure),
}

impl ListError {
    /// HTTP status code of the server's error.
    pub fn code(&self) -> Option<u16> {
        match self {
            ListError::Call(error) => error.code(),
            _ => None,
        }
    }
}

/// The metadata of a page, and the JSON of its items: not more of them than a server has reason to send.
///
/// # Errors
/// It is not a list, or has too many.
pub(super) fn split(page: &[u8]) -> Result<(PageMeta, Vec<&[u8]>), serde_json::Error> {
    let mut index = Index::default();
    let mut text = JsonText::new(page, &mut index);
    let (mut metadata, mut texts) = (PageMeta::default(), Vec::new());
    let mut members = text.object()?;
    while let Some(key) = text.next_key(&mut members)? {
        match key {
            b"metadata" => metadata = serde_json::from_slice(text.value()?)?,
            // Servers written in Go encode some empty lists as null.
            b"items" => {
                let mut items = text.array()?;
                while text.has_next(&mut items)? {
                    if texts.len() == MAX_PAGE_OBJECTS {
                        return Err(Error::custom(format!("more than {MAX_PAGE_OBJECTS} objects in a page")));
                    }
                    texts.push(text.value()?);
                }
            }
            _ => _ = text.value()?,
        }
    }
    if !text.is_at_end() {
        return Err(Malformed.into());
    }
    metadata.n_items = texts.len();
    Ok((metadata, texts))
}

/// `metadata` of a page.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
    remaining_item_count: Option<u64>,
    #[serde(skip)]
    n_items: usize,
}

/// A list that is read page by page. When the list expires while it is read, it begins again.
pub struct Pages<'a> {
    client: &'a kube::Client,
    options: &'a WatchOptions,
    page_size: u32,
    /// `continue` of the next page; none when the list is complete.
    token: Option<String>,
    /// Those of earlier pages.
    tokens: HashSet<String>,
    /// What the pages so far cost.
    size: usize,
    /// The text of the page that is being read, which counts twice: its buffer has room to grow.
    reading: Kept,
    n_expired: u32,
    is_first: bool,
    /// How many objects follow the last page.
    n_remaining: usize,
    /// Resource version of the first page: changes made while later pages are read are part of the watch from here.
    version: Option<String>,
}

impl<'a> Pages<'a> {
    /// The pages of [`WatchOptions::page_size`] objects of a list.
    pub fn new(client: &'a kube::Client, options: &'a WatchOptions) -> Pages<'a> {
        let page_size = options.page_size;
        let token = Some(String::new());
        Pages {
            client,
            options,
            page_size,
            token,
            tokens: HashSet::new(),
            size: 0,
            reading: Kept::new(options.group.clone()),
            n_expired: 0,
            is_first: true,
            n_remaining: 0,
            version: None,
        }
    }

    /// The objects of the next page; none after the last one. If it [is the first](Pages::is_first), the objects of
    /// earlier pages no longer count.
    ///
    /// # Errors
    /// The server rejects the request, does not answer in time, or sends something else.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, ListError> {
        let Some(bytes) = self.next_bytes().await? else { return Ok(None) };
        let (metadata, texts) = split(&bytes).map_err(|source| self.invalid(source))?;
        let items = texts.into_iter().map(serde_json::from_slice).collect::<Result<_, _>>();
        let items = items.map_err(|source| self.invalid(source))?;
        self.advance(metadata, bytes.len())?;
        Ok(Some(items))
    }

    /// As [`Pages::next`], without reading the objects: their JSON, in parts of the page's text.
    pub async fn next_texts(&mut self) -> Result<Option<Vec<Bytes>>, ListError> {
        let Some(bytes) = self.next_bytes().await? else { return Ok(None) };
        let (metadata, texts) = split(&bytes).map_err(|source| self.invalid(source))?;
        let texts = texts.into_iter().map(|text| bytes.slice_ref(text)).collect();
        self.advance(metadata, bytes.len())?;
        Ok(Some(texts))
    }

    /// The text of the next page. The caller reads it and calls [`Self::advance`].
    pub(super) async fn next_bytes(&mut self) -> Result<Option<Bytes>, ListError> {
        loop {
            let Some(token) = &self.token else { return Ok(None) };
            self.is_first = token.is_empty();
            if self.is_first {
                self.tokens.clear();
                self.size = 0;
            }
            let uri = self.uri(token);
            self.reading.clear();
            let takes = |n_bytes| self.reading.add(2 * n_bytes);
            match send_while(self.client, get(&uri), self.options.list_timeout, takes).await {
                Err(error) if error.code() == Some(410) && !self.is_first => {
                    self.n_expired += 1;
                    if self.n_expired == MAX_EXPIRED {
                        self.page_size = 0;
                    }
                    (self.token, self.version) = (Some(String::new()), None);
                }
                page => return page?.map(Some).ok_or_else(|| self.too_large()),
            }
        }
    }

    fn uri(&self, token: &str) -> String {
        let mut parameters =
            if self.page_size == 0 { String::new() } else { format!("limit={}", self.page_size) };
        if !token.is_empty() {
            parameters.push_str(&format!("&continue={}", percent_encoded(token)));
        }
        self.options.uri(&parameters)
    }

    fn too_large(&self) -> ListError {
        ListError::TooLarge(self.options.group.exceed(&self.options.path))
    }

    /// The page of `n_bytes` has been read: continues after it.
    pub(super) fn advance(&mut self, page: PageMeta, n_bytes: usize) -> Result<(), ListError> {
        self.size += n_bytes + page.n_items * OBJECT_COST;
        if self.size > self.options.group.limit() {
            return Err(self.too_large());
        }
        self.n_remaining = page.remaining_item_count.unwrap_or_default() as usize;
        self.version.get_or_insert(page.resource_version);
        self.token = page.token.filter(|token| !token.is_empty());
        match &self.token {
            Some(token) if !self.tokens.insert(token.clone()) => {
                Err(ListError::Repeated { path: self.options.path.clone() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn invalid(&self, source: serde_json::Error) -> ListError {
        ListError::Invalid { path: self.options.path.clone(), source }
    }

    /// Whether the last page began the list, or began it again.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// How many objects follow the last page, as the server says.
    pub fn n_remaining(&self) -> usize {
        self.n_remaining
    }

    /// The resource version to watch from after the list.
    pub(super) fn into_version(self) -> String {
        self.version.unwrap_or_default()
    }
}

/// Lists a resource once.
pub async fn list<T: DeserializeOwned>(
    client: &kube::Client,
    options: &WatchOptions,
) -> Result<Vec<T>, ListError> {
    let mut objects = Vec::new();
    let mut pages = Pages::new(client, options);
    while let Some(page) = pages.next().await? {
        if pages.is_first() {
            objects.clear();
        }
        objects.extend(page);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// The client of a server whose lists expire after the first page, and the queries that it gets.
    fn expiring() -> (kube::Client, Arc<Mutex<Vec<String>>>) {
        let queries: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = queries.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let (code, answer) = if query.contains("continue=") {
                (410, json!({"code": 410, "reason": "Expired"}))
            } else if query.contains("limit=") {
                (200, json!({"metadata": {"resourceVersion": "1", "continue": "t"}, "items": [1]}))
            } else {
                (200, json!({"metadata": {"resourceVersion": "2"}, "items": [1, 2]}))
            };
            seen.lock().unwrap().push(query);
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async { Ok::<_, Infallible>(response.unwrap()) }
        });
        (kube::Client::new(service, "default"), queries)
    }

    #[tokio::test]
    async fn the_texts_of_a_list_are_those_of_its_objects() {
        let (client, _) = expiring();
        let options = WatchOptions::new("/api/v1/pods");
        let mut pages = Pages::new(&client, &options);
        let mut read = Vec::new();
        while let Some(page) = pages.next_texts().await.unwrap() {
            read.push((pages.is_first(), page));
        }
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(
            read,
            [(true, vec![text("1")]), (true, vec![text("1")]), (true, vec![text("1"), text("2")])]
        );
        assert_eq!(pages.into_version(), "2");
        for (page, n_items) in [
            (r#"{"items": null, "x": {}}"#, Some(0)),
            (r#"{"items": [1, 2}"#, None),
            ("{} 1", None),
            ("5", None),
        ] {
            assert_eq!(split(page.as_bytes()).ok().map(|(_, texts)| texts.len()), n_items, "{page}");
        }
    }

    #[tokio::test]
    async fn a_list_that_expires_repeatedly_is_read_in_one_piece() {
        let (client, queries) = expiring();
        let objects: Vec<Value> = list(&client, &WatchOptions::new("/api/v1/pods")).await.unwrap();
        assert_eq!(objects, [1, 2], "the objects of the pages before count no more");
        let queries = queries.lock().unwrap().clone();
        let (first, next) = ("limit=500", "limit=500&continue=t");
        assert_eq!(queries, [first, next, first, next, ""]);
    }
}
