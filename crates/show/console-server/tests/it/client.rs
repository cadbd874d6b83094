//! A console on a free port, and a client that sends any request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_console::State;
use berth_console_server::{
    AccessToken, Authenticator, Console, EvictionRetries, ServerOptions, WriteFn, start,
};
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A console of these objects; it stops when dropped.
pub struct Served {
    pub console: Arc<Console>,
    pub address: SocketAddr,
    pub token: AccessToken,
    _stop: DropGuard,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

pub fn state(objects: &str) -> State {
    State::new("test", Inventory::from_text(objects).unwrap(), SimulationOptions::default()).unwrap()
}

pub async fn serve(objects: &str, is_live: bool) -> Served {
    serve_console(Console::new(state(objects)), is_live).await
}

pub async fn serve_console(console: Arc<Console>, is_live: bool) -> Served {
    let token = AccessToken::random().unwrap();
    serve_to(console, is_live, Authenticator::Token(token)).await
}

pub async fn serve_to(console: Arc<Console>, is_live: bool, authenticator: Authenticator) -> Served {
    serve_with(console, is_live, authenticator, None).await
}

/// `write` carries out what viewers confirm.
pub async fn serve_with(
    console: Arc<Console>,
    is_live: bool,
    authenticator: Authenticator,
    write: Option<WriteFn>,
) -> Served {
    let token = match &authenticator {
        Authenticator::Token(token) => token.clone(),
        Authenticator::Delegated(_) => AccessToken::random().unwrap(),
    };
    let stop = CancellationToken::new();
    let options = ServerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        certificate: None,
        hosts: Vec::new(),
        authenticator,
        is_live,
        write,
        retries: EvictionRetries { pause: Duration::from_millis(20), limit: Duration::from_secs(3600) },
    };
    let address = start(console.clone(), options, stop.clone()).await.unwrap();
    Served { console, address, token, _stop: stop.drop_guard() }
}

impl Served {
    /// Sends a request with these header lines as it is, and reads the answer until its end.
    pub async fn send(&self, request_line: &str, headers: &[String], body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head =
            format!("{request_line} HTTP/1.1\r\nConnection: close\r\n{}\r\n\r\n", headers.join("\r\n"));
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn host(&self) -> String {
        format!("Host: {}", self.address)
    }

    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token.secret())
    }

    pub fn origin(&self) -> String {
        format!("Origin: http://{}", self.address)
    }

    /// Posts a form with these headers.
    pub async fn post(&self, path: &str, headers: &[String], form: &str) -> Answer {
        let content_type = "Content-Type: application/x-www-form-urlencoded".to_owned();
        let more = [self.host(), content_type, format!("Content-Length: {}", form.len())];
        self.send(&format!("POST {path}"), &[&more, headers].concat(), form.as_bytes()).await
    }

    /// Gets a path as a viewer with the token.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[self.host(), self.bearer()], b"").await
    }

    /// Opens a page's events; returns the connection and what came first.
    pub async fn follow(&self) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "GET /events HTTP/1.1\r\nAccept: text/event-stream\r\n{}\r\n{}\r\n\r\n",
            self.host(),
            self.bearer()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let first = read_until(&mut stream, "\r\n\r\n").await;
        (stream, first)
    }
}

/// Reads until a text has come, or the end.
pub async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains(end) {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
        }
    }
    text
}
