//! Certificate changes under load.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use berth_testkit::programs::TempDir;
use http::Method;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;

use super::world::{PODS, World, ask, client, entry, pod, post, rules};
use crate::client::eventually;

/// A certificate for this machine with its key and authority, in PEM.
struct Issue {
    ca: String,
    certificate: String,
    key: String,
}

impl Issue {
    fn new() -> Issue {
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_key = KeyPair::generate().unwrap();
        let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &Issuer::from_params(&ca, &ca_key)).unwrap().pem();
        Issue { ca: ca_pem, certificate, key: key.serialize_pem() }
    }

    /// Replaces one file after the other, as a user does.
    fn put(&self, directory: &TempDir) {
        fs::write(directory.file("tls.crt"), &self.certificate).unwrap();
        fs::write(directory.file("tls.key"), &self.key).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_under_load_and_no_request_is_dropped() {
    let world = World::new("webhook-rotation", true).await;
    let (first, second) = (Issue::new(), Issue::new());
    first.put(&world.directory);
    let files = ["tls.crt", "tls.key"].map(|name| world.directory.file(name).display().to_string());
    let webhook = world.webhook("", &["--cert-file", &files[0], "--key-file", &files[1], "-v"]).await;
    let both = format!("{}{}", second.ca, first.ca);
    let entry = entry(
        "pods.berth.dev",
        &format!("{}/validate-pods", webhook.url),
        &both,
        "Fail",
        rules("", &["pods"], &["CREATE"]),
    );
    world.register("Validating", "berth", entry).await;

    // Some clients call the webhook with new connections; others create pods, which must be reviewed.
    let (stop, n_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = Vec::new();
    let asking = client(&world.directory, &webhook.url, &both).await;
    drop(asking);
    for task in 0..4 {
        let (stop, n_asked, admin) = (stop.clone(), n_asked.clone(), world.admin.clone());
        let (url, both) = (webhook.url.clone(), both.clone());
        let directory = TempDir(world.directory.0.clone());
        load.push(tokio::spawn(async move {
            // Another owner removes the directory.
            let directory = std::mem::ManuallyDrop::new(directory);
            while !stop.load(Ordering::Relaxed) {
                let direct = client(&directory, &url, &both).await;
                for round in 0..5 {
                    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                        "uid": format!("{round}"), "operation": "CREATE", "namespace": "default",
                        "resource": {"group": "", "version": "v1", "resource": "pods"},
                        "object": pod("p", json!({}), json!({})),
                    }});
                    let reply = ask(&direct, Method::POST, "/validate-pods", "application/json", review.to_string());
                    let reply = reply.await.unwrap();
                    assert_eq!((reply.code, &reply.object["response"]["allowed"]), (200, &json!(true)), "{reply:?}");
                    let tried = pod(&format!("p-{task}"), json!({}), json!({}));
                    let reply = post(&admin, &format!("{PODS}?dryRun=All"), &tried).await;
                    assert_eq!(reply.code, 201, "{reply:?}");
                    n_asked.fetch_add(2, Ordering::Relaxed);
                }
            }
        }));
    }
    let asked = async |more: usize| {
        let before = n_asked.load(Ordering::Relaxed);
        eventually("requests go on", async || {
            let n_asked = n_asked.load(Ordering::Relaxed) - before;
            if n_asked >= more { Ok(()) } else { Err(n_asked.to_string()) }
        })
        .await;
    };
    asked(100).await;
    second.put(&world.directory);
    eventually("new connections see the second certificate", async || {
        // A client that trusts only the second authority succeeds now.
        let trusting = client(&world.directory, &webhook.url, &second.ca).await;
        ask(&trusting, Method::GET, "/healthz", "", "").await.map(drop)
    })
    .await;
    asked(100).await;
    let of_old = client(&world.directory, &webhook.url, &first.ca).await;
    assert!(
        ask(&of_old, Method::GET, "/healthz", "", "").await.is_err(),
        "new connections see the second only"
    );

    // Invalid files are ignored.
    fs::write(world.directory.file("tls.key"), "no key").unwrap();
    eventually("the invalid key is logged", async || {
        let stderr = webhook.process.stderr();
        if stderr.contains("the previous certificate stays in use") { Ok(()) } else { Err(stderr) }
    })
    .await;
    asked(20).await;
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
}
