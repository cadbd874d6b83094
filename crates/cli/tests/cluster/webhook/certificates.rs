//! Certificates that change while everybody is asking.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;

use super::world::{PODS, World, ask, client, entry, pod, post, rules};
use crate::client::eventually;
use crate::process::Room;

/// A certificate for this machine with its key, and who signed it; PEM.
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

    /// One file after the other, as whoever replaces them by hand.
    fn put(&self, room: &Room) {
        fs::write(room.file("tls.crt"), &self.certificate).unwrap();
        fs::write(room.file("tls.key"), &self.key).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_under_load_and_no_request_is_dropped() {
    let world = World::new("webhook-rotation", true).await;
    let (first, second) = (Issue::new(), Issue::new());
    first.put(&world.room);
    let files = ["tls.crt", "tls.key"].map(|name| world.room.file(name).display().to_string());
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

    // Some ask the webhook itself, with new connections all the time; some create pods, which must be reviewed.
    let (stop, n_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = Vec::new();
    let asking = client(&world.room, &webhook.url, &both).await;
    drop(asking);
    for task in 0..4 {
        let (stop, n_asked, admin) = (stop.clone(), n_asked.clone(), world.admin.clone());
        let (url, both) = (webhook.url.clone(), both.clone());
        let room = Room(world.room.0.clone());
        load.push(tokio::spawn(async move {
            // The room is another's to remove.
            let room = std::mem::ManuallyDrop::new(room);
            while !stop.load(Ordering::Relaxed) {
                let direct = client(&room, &url, &both).await;
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
    second.put(&world.room);
    eventually("new connections see the second certificate", async || {
        // Whoever trusts the second authority alone is content now.
        let trusting = client(&world.room, &webhook.url, &second.ca).await;
        ask(&trusting, Method::GET, "/healthz", "", "").await.map(drop)
    })
    .await;
    asked(100).await;
    let of_old = client(&world.room, &webhook.url, &first.ca).await;
    assert!(
        ask(&of_old, Method::GET, "/healthz", "", "").await.is_err(),
        "new connections see the second only"
    );

    // What cannot be used is not taken.
    fs::write(world.room.file("tls.key"), "no key").unwrap();
    eventually("the bad key is told", async || {
        let stderr = webhook.process.stderr();
        if stderr.contains("the certificate in use stays") { Ok(()) } else { Err(stderr) }
    })
    .await;
    asked(20).await;
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
}
