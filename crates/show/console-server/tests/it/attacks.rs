//! Attacks: nothing executes, nothing leaks, nothing grows without bound.

use crate::client::{Served, serve};

/// What only a viewer with the token may see.
const SECRET: &str = "secret-workload";

/// A page element that a name must not become.
const SCRIPT: &str = "<script>alert(1)</script>";

fn objects() -> String {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 10}}}";
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {SECRET}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
    );
    format!("{node}\n---\n{pod}")
}

async fn served() -> Served {
    serve(&objects(), true).await
}

#[tokio::test]
async fn without_the_token_nothing_is_shown() {
    let served = served().await;
    let wrong = "A".repeat(served.token.secret().len());
    let port = served.address.port();
    for path in
        ["/", "/pending", "/events", "/assets/console.js", "/none", "/?token=", &format!("/?token={wrong}")]
    {
        for header in [
            "X: none".to_owned(),
            format!("Authorization: Bearer {wrong}"),
            format!("Authorization: Basic {}", served.token.secret()),
            format!("Cookie: berth-console-{port}={wrong}"),
            // The cookie of another console.
            format!("Cookie: berth-console-1={}", served.token.secret()),
        ] {
            let answer = served.send(&format!("GET {path}"), &[served.host(), header.clone()], b"").await;
            assert_eq!(answer.status, 401, "{path} {header}");
            assert!(answer.body.contains("open the whole URL"), "{}", answer.body);
            assert!(!answer.body.contains(SECRET) && answer.header("set-cookie").is_none());
        }
    }
}

#[tokio::test]
async fn foreign_hosts_and_sites_are_refused_before_the_token_is_read() {
    let served = served().await;
    let (bearer, port) = (served.bearer(), served.address.port());
    for host in [
        "attacker.example",
        &format!("attacker.example:{port}"),
        &format!("localhost:{port}.attacker.example"),
        "",
    ] {
        let answer = served.send("GET /pending", &[format!("Host: {host}"), bearer.clone()], b"").await;
        assert!(matches!(answer.status, 400 | 421), "{host}: {}", answer.status);
        assert!(!answer.body.contains(SECRET) && !answer.body.contains("attacker"));
    }
    assert_eq!(
        served
            .send("GET http://attacker.example/pending", &[served.host(), bearer.clone()], b"")
            .await
            .status,
        421
    );
    for header in [
        "Origin: http://attacker.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        for line in ["GET /pending", "POST /what-if"] {
            let headers = [served.host(), bearer.clone(), header.to_owned()];
            let answer = served.send(line, &headers, b"").await;
            assert_eq!(answer.status, 403, "{line} {header}");
            assert!(answer.header("access-control-allow-origin").is_none() && !answer.body.contains(SECRET));
        }
    }
}

#[tokio::test]
async fn the_redirect_does_not_lead_elsewhere() {
    let served = served().await;
    for path in ["//attacker.example", "///attacker.example/", "/\\attacker.example"] {
        let line = format!("GET {path}?token={}", served.token.secret());
        let answer = served.send(&line, &[served.host()], b"").await;
        let location = answer.header("location").unwrap_or("/none");
        assert!(location.starts_with('/') && !location[1..].starts_with(['/', '\\']), "{location}");
    }
}

#[tokio::test]
async fn paths_lead_to_no_files() {
    let served = served().await;
    for path in [
        "/../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/assets/..%5c..%5cetc%5cpasswd",
        "/pods/..%2f..%2fetc/passwd",
        "/%00",
        "/%ff%fe",
    ] {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.contains("root:"), "{path}");
    }
}

#[tokio::test]
async fn names_labels_and_parameters_stay_text() {
    let labels = format!("{{app: '{SCRIPT}', '\"onload=alert(1)': \"'><img src=x>\"}}");
    // Names that the API server does not allow: dumps are not checked by it.
    let pod = |name: &str, node: &str, status: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: '{name}', namespace: '{SCRIPT}', labels: {labels}, \
             creationTimestamp: '2026-01-01T00:00:00Z'}}, spec: {{{node} nodeSelector: {{x: '{SCRIPT}'}}, containers: [{{name: \
             '{SCRIPT}', image: '{SCRIPT}'}}]}}, status: {{{status}}}}}"
        )
    };
    let node = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: '{SCRIPT}', labels: {{topology.kubernetes.io/zone: '\"><b>'}}}}, status: \
         {{allocatable: {{cpu: 2, pods: 10}}}}}}"
    );
    let running = pod("running", &format!("nodeName: '{SCRIPT}',"), "phase: Running");
    let rejected = pod("rejected", &format!("nodeName: '{SCRIPT}',"), "");
    let objects = format!("{node}\n---\n{}\n---\n{running}\n---\n{rejected}", pod(SCRIPT, "", ""));
    let served = serve(&objects, false).await;
    let encoded = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in [
        "/".to_owned(),
        "/topology?color=workload".to_owned(),
        "/pending".to_owned(),
        "/workloads".to_owned(),
        "/rules".to_owned(),
        "/lint".to_owned(),
        "/enforcer".to_owned(),
        "/events".to_owned(),
        "/timeline".to_owned(),
        "/what-if".to_owned(),
        format!("/what-if?remove-node={encoded}"),
        format!("/search?q={encoded}"),
        format!("/pods/{encoded}/{encoded}"),
        format!("/nodes/{encoded}"),
        format!("/{encoded}?{encoded}={encoded}"),
        format!("/topology?color={encoded}%22%20onload=%22alert(1)"),
    ] {
        let answer = served.get(&path).await;
        assert_ne!(answer.status, 500, "{path}");
        for wrong in ["<script>alert", "<img", "<b>", "\"onload=alert(1)\"", " onload=\""] {
            assert!(!answer.body.contains(wrong), "{path} has {wrong}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn large_annotations_are_not_shown() {
    let annotation = "x".repeat(1 << 20);
    // The API server would not have admitted it: a pod with a creation timestamp is taken as it is.
    let more = format!(
        "metadata: {{creationTimestamp: '2026-01-01T00:00:00Z', annotations: {{a: {annotation}}}, name: secret"
    );
    let objects = objects().replace("metadata: {name: secret", &more);
    let served = serve(&objects, false).await;
    for path in ["/", "/pending", &format!("/pods/default/{SECRET}")] {
        let answer = served.get(path).await;
        assert!(answer.status != 500 && answer.body.len() < 300_000, "{path}: {}", answer.body.len());
    }
}

#[tokio::test]
async fn large_requests_and_other_methods_are_refused() {
    let served = served().await;
    let form = "Content-Type: application/x-www-form-urlencoded".to_owned();
    let large = vec![b'a'; (1 << 20) + 1];
    let length = format!("Content-Length: {}", large.len());
    let headers = [served.host(), served.bearer(), form.clone(), length];
    assert_eq!(served.send("POST /what-if", &headers, &large).await.status, 413);
    let headers = [
        served.host(),
        served.bearer(),
        "Content-Length: 2".to_owned(),
        "Content-Type: text/plain".to_owned(),
    ];
    assert_eq!(served.send("POST /what-if", &headers, b"{}").await.status, 415);
    let headers = [served.host(), served.bearer(), "Content-Length: 2".to_owned(), form];
    assert_eq!(served.send("POST /what-if", &headers, b"\xff\xfe").await.status, 400);
    assert_eq!(served.get(&format!("/?q={}", "a".repeat(65 << 10))).await.status, 414);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let answer = served.send(&format!("{method} /"), &[served.host(), served.bearer()], b"").await;
        assert_eq!(answer.status, 405, "{method}");
    }
}

#[tokio::test]
async fn a_thousand_followers_do_not_keep_others_out() {
    let served = served().await;
    let (mut open, mut n_refused) = (Vec::new(), 0);
    for _ in 0..1000 {
        let (stream, first) = served.follow().await;
        match first.split(' ').nth(1) {
            Some("200") => open.push(stream),
            Some("503") => n_refused += 1,
            other => panic!("{other:?}: {first}"),
        }
    }
    assert_eq!((open.len(), n_refused), (256, 744));
    assert_eq!(served.get("/pending").await.status, 200);
    // A page that is closed gives its place back.
    drop(open);
    served.console.update(|_| true).await;
    loop {
        let (_stream, first) = served.follow().await;
        if first.starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_others_waiting_for_nothing() {
    let served = served().await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        use tokio::io::AsyncWriteExt as _;
        let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\n{}\r\n{}\r\n\r\n", served.host(), served.bearer());
        stream.write_all(request.repeat(20).as_bytes()).await.unwrap();
        silent.push(stream);
    }
    assert_eq!(served.get("/pending").await.status, 200);
}
