//! Watches over WebSocket, which some client libraries ask for before they try a long response. Each event is a message, as
//! by kube-apiserver.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::sending::ResponseBody;

/// Clients send only pings and the end of the connection.
const MAX_RECEIVED: usize = 4 << 10;

/// The WebSocket that a request asks for.
pub struct WebSocket {
    upgrade: OnUpgrade,
    accept: String,
}

impl WebSocket {
    pub fn requested<B>(request: &mut Request<B>) -> Option<WebSocket> {
        let headers = request.headers();
        let is_requested = has(headers, header::CONNECTION, "upgrade")
            && has(headers, header::UPGRADE, "websocket")
            && has(headers, header::SEC_WEBSOCKET_VERSION, "13");
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_requested)?;
        let accept = derive_accept_key(key.as_bytes());
        Some(WebSocket { upgrade: hyper::upgrade::on(request), accept })
    }

    /// Sends the events of a watch once the connection has been handed over, until either side ends it. Returns the headers of the
    /// answer, whose code is 101.
    pub fn send(
        self,
        events: ResponseBody,
        is_protobuf: bool,
        ended: CancellationToken,
    ) -> (StatusCode, HeaderMap) {
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            let sent = async {
                match upgrade.await {
                    Ok(connection) => send(connection, events, is_protobuf).await,
                    Err(error) => tracing::debug!(%error, "a client did not switch to WebSocket"),
                }
            };
            ended.run_until_cancelled(sent).await;
        });
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        (StatusCode::SWITCHING_PROTOCOLS, headers)
    }
}

fn has(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(token))
}

async fn send(connection: Upgraded, mut events: ResponseBody, is_protobuf: bool) {
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_RECEIVED)).max_frame_size(Some(MAX_RECEIVED));
    let mut socket =
        WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, Some(config)).await;
    loop {
        tokio::select! {
            chunk = events.frame() => {
                let Some(Ok(chunk)) = chunk else {
                    drop(socket.close(None).await);
                    return;
                };
                let Ok(mut chunk) = chunk.into_data() else { continue };
                while let Some(message) = next_message(&mut chunk, is_protobuf) {
                    if socket.send(message).await.is_err() {
                        return;
                    }
                }
            }
            // Pings are answered by the library.
            received = socket.next() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            }
        }
    }
}

/// Splits the next event off a chunk: a line of JSON, or a frame of protobuf without its length.
fn next_message(chunk: &mut Bytes, is_protobuf: bool) -> Option<Message> {
    if is_protobuf {
        let length = u32::from_be_bytes(*chunk.first_chunk()?) as usize;
        let frame = chunk.split_to(chunk.len().min(4 + length));
        return Some(Message::Binary(frame.slice(4..)));
    }
    let end = chunk.iter().position(|byte| *byte == b'\n')? + 1;
    Utf8Bytes::try_from(chunk.split_to(end)).ok().map(Message::Text)
}
