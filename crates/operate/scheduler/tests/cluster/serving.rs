//! What the scheduler serves, and to whom.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use berth_client::call::{self, CallError};
use berth_client::serving::{SecureServingOptions, ServeError, ServingOptions};
use berth_scheduler::SchedulerOptions;
use berth_serve::CertificateSource;
use serde_json::{Value, json};

use super::support::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn https() -> SchedulerOptions {
    let https = SecureServingOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        certificate: CertificateSource::Own {
            common_name: "berth-scheduler",
            names: vec!["127.0.0.1".to_owned()],
        },
        client_ca_file: None,
        always_allowed_paths: berth_client::delegated::ALWAYS_ALLOWED_PATHS.map(str::to_owned).to_vec(),
    };
    SchedulerOptions { serving: ServingOptions { http: None, https: Some(https) }, ..impatient() }
}

/// Reads a path of the scheduler over HTTPS.
async fn read(scheduler: &Scheduler, token: Option<&str>, path: &str) -> Result<String, CallError> {
    let address = scheduler.handle.https_address().unwrap();
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = berth_client::connect::client(config).unwrap();
    let bytes = call::send(&client, call::get(path), Duration::from_secs(30), 16 << 20).await?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

async fn token(world: &World, account: &str) -> String {
    world.create(ACCOUNTS, json!({"metadata": {"name": account}})).await;
    let answer = world.create(&format!("{ACCOUNTS}/{account}/token"), json!({"spec": {}})).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// A service account that may read all that components serve.
async fn monitor(world: &World) -> String {
    let urls = json!(["/metrics", "/metrics/resources", "/configz"]);
    let rules = json!([{"nonResourceURLs": urls, "verbs": ["get"]}]);
    world.create(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "m"}, "rules": rules})).await;
    let subjects = json!([{"kind": "ServiceAccount", "name": "monitor", "namespace": "default"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m"});
    let binding = json!({"metadata": {"name": "m"}, "roleRef": role, "subjects": subjects});
    world.create(&format!("{RBAC}/clusterrolebindings"), binding).await;
    token(world, "monitor").await
}

#[tokio::test]
async fn https_is_for_those_whom_the_api_server_allows() {
    let world = World::start().await;
    let (monitor, other) = (monitor(&world).await, token(&world, "other").await);
    let scheduler = world.schedule(https()).await;
    scheduler.until("ready", berth_scheduler::Status::is_ready).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(read(&scheduler, None, path).await.unwrap(), "ok", "{path}");
    }
    for (who, code) in [(None, 403), (Some("nonsense"), 401), (Some(other.as_str()), 403)] {
        for path in ["/metrics", "/metrics/resources", "/configz", "/unknown"] {
            let error = read(&scheduler, who, path).await.unwrap_err();
            assert_eq!(error.code(), Some(code), "{who:?} {path}");
        }
    }
    let error = read(&scheduler, None, "/metrics").await.unwrap_err().message();
    assert_eq!(error, "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"");
    let metrics = read(&scheduler, Some(&monitor), "/metrics").await.unwrap();
    assert!(metrics.contains("scheduler_pending_pods{queue=\"active\"} 0"), "{metrics}");
    let config: Value =
        serde_json::from_str(&read(&scheduler, Some(&monitor), "/configz").await.unwrap()).unwrap();
    assert_eq!(config["componentconfig"]["profiles"][0]["schedulerName"], "berth");
    scheduler.stopped().await;
}

/// A certificate authority, and a function that signs client certificates: their chain and key as PEM.
fn authority() -> (String, impl Fn(&str, &str) -> (String, String)) {
    let authority = berth_serve::authority::Authority::new("clients", berth_serve::authority::LONG).unwrap();
    let (pem, key) = (authority.pem.clone(), rcgen::KeyPair::from_pem(&authority.key_pem()).unwrap());
    let issuer = rcgen::Issuer::from_ca_cert_pem(&pem, key).unwrap();
    let sign = move |name: &str, group: &str| {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    (pem, sign)
}

#[tokio::test]
async fn https_knows_clients_by_certificates_of_the_authorities_that_the_cluster_publishes() {
    let world = World::start().await;
    let monitor = monitor(&world).await;
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "watchers"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m"});
    let binding = json!({"metadata": {"name": "watchers"}, "roleRef": role, "subjects": subjects});
    world.create(&format!("{RBAC}/clusterrolebindings"), binding).await;
    let ((pem, sign), (_, sign_unknown)) = (authority(), authority());
    let published = json!({"metadata": {"name": "extension-apiserver-authentication"},
        "data": {"client-ca-file": pem}});
    world.create("/api/v1/namespaces/kube-system/configmaps", published).await;
    let scheduler = world.schedule(https()).await;
    let address = scheduler.handle.https_address().unwrap();
    let read = async |(chain, key): &(String, String), token: Option<&str>| {
        let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
        config.accept_invalid_certs = true;
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        config.auth_info.client_certificate_data = Some(encode(chain));
        config.auth_info.client_key_data = Some(encode(key).into());
        config.auth_info.token = token.map(|token| token.to_owned().into());
        let client = berth_client::connect::client(config).unwrap();
        let answer = call::send(&client, call::get("/metrics"), Duration::from_secs(30), 16 << 20).await;
        answer.map(|_| ()).map_err(|error| (error.code(), error.message()))
    };
    let watcher = sign("ann", "watchers");
    until("the authorities are known", async || read(&watcher, None).await).await;
    let refused = "forbidden: User \"bob\" cannot get path \"/metrics\"".to_owned();
    assert_eq!(read(&sign("bob", "others"), None).await, Err((Some(403), refused)));
    let unknown = sign_unknown("ann", "watchers");
    assert_eq!(read(&unknown, None).await.unwrap_err().0, Some(401));
    assert_eq!(read(&unknown, Some(&monitor)).await, Ok(()), "the token counts");
    scheduler.stopped().await;
}

#[tokio::test]
async fn the_resources_of_pods_are_those_of_kube_scheduler() {
    let world = World::start().await;
    world.nodes(1, 1, 30).await;
    let monitor = monitor(&world).await;
    let scheduler = world.schedule(https()).await;
    let mut sized = pod("sized", "a");
    sized["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1500m"}});
    sized["spec"]["initContainers"] =
        json!([{"name": "i", "image": "registry.example/i:1", "resources": {"limits": {"cpu": "2"}}}]);
    world.pod(sized).await;
    world.until_bound("sized").await;
    let text = read(&scheduler, Some(&monitor), "/metrics/resources").await.unwrap();
    let labels = |resource: &str, unit: &str| {
        format!(
            "{{namespace=\"default\",pod=\"sized\",node=\"n0\",scheduler=\"berth\",priority=\"0\",resource=\"{resource}\",\
             unit=\"{unit}\"}}"
        )
    };
    let (cpu, memory) = (labels("cpu", "cores"), labels("memory", "bytes"));
    for line in [
        format!("kube_pod_resource_limit{cpu} 2"),
        format!("kube_pod_resource_request{cpu} 2"),
        format!("kube_pod_resource_request{memory} 67108864"),
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(!text.contains(&format!("kube_pod_resource_limit{memory}")), "{text}");
    world.delete(&format!("{PODS}/sized")).await;
    until("the deleted pod is not shown", async || {
        let text = read(&scheduler, Some(&monitor), "/metrics/resources").await.unwrap();
        if text.contains("sized") { Err(text) } else { Ok(()) }
    })
    .await;
    scheduler.stopped().await;
}

#[tokio::test]
async fn metrics_name_the_plugins_that_reject_pods() {
    let world = World::start().await;
    world.nodes(2, 1, 1).await;
    let monitor = monitor(&world).await;
    let scheduler = world.schedule(https()).await;
    world.pod(pod("fits", "a")).await;
    world.until_bound("fits").await;
    let mut large = pod("large", "a");
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("5");
    world.pod(large).await;
    let mut gated = pod("gated", "a");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
    world.pod(gated).await;
    world.until_refused("large").await;
    until("the metrics are there", async || {
        let text = read(&scheduler, Some(&monitor), "/metrics").await.unwrap();
        let wanted = [
            "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"berth\"} 1",
            "scheduler_unschedulable_pods{plugin=\"SchedulingGates\",profile=\"berth\"} 1",
            "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"berth\"} 1",
            "scheduler_pod_scheduling_attempts_bucket{le=\"1.0\"} 1",
            "scheduler_plugin_evaluation_total{plugin=\"InterPodAffinity\",extension_point=\"Filter\",profile=\"berth\"} 2",
            "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Bind\",status=\"Success\",\
             profile=\"berth\"} 1",
            "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PostFilter\",\
             status=\"Unschedulable\",profile=\"berth\"} 1",
            "scheduler_plugin_execution_duration_seconds_count{plugin=\"DefaultBinder\",extension_point=\"Bind\",\
             status=\"Success\"} 1",
        ];
        let missing = wanted.into_iter().find(|line| !text.lines().any(|l| l == *line));
        // The first decision is always a sample.
        let sampled = "scheduler_plugin_execution_duration_seconds_count{plugin=\"NodeResourcesFit\",\
                       extension_point=\"Filter\"";
        assert!(text.contains(sampled), "{text}");
        missing.map_or(Ok(()), |line| Err(format!("{line} is not in\n{text}")))
    })
    .await;
    scheduler.stopped().await;
}

#[tokio::test]
async fn plain_http_is_served_on_loopback_only() {
    let world = World::start().await;
    let serving =
        ServingOptions { http: Some(SocketAddr::from(([0, 0, 0, 0], 0))), ..ServingOptions::default() };
    let options = SchedulerOptions { serving, ..impatient() };
    let stop = tokio_util::sync::CancellationToken::new();
    let error = berth_scheduler::start(world.connection(), options, stop).await.unwrap_err();
    let is_it = matches!(error, berth_scheduler::SchedulerError::Serve(ServeError::NotLoopback(_)));
    assert!(is_it, "{error}");
}
