//! Lists: pages, selectors, forms.

use http::StatusCode;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn all_pages_come_from_one_version() {
    let server = server().await;
    let client = admin(&server);
    for name in ["a", "b", "c", "d", "e"] {
        post(&client, PODS, &pod(name)).await;
    }
    let (_, first) = get(&client, &format!("{PODS}?limit=2")).await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(3)));
    delete(&client, &format!("{PODS}/c"), &json!(null)).await;
    post(&client, PODS, &pod("bb")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!((names(&second), version(&second)), (vec!["c", "d"], version(&first)));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let (_, third) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!((names(&third), &third["metadata"]["continue"]), (vec!["e"], &json!(null)));
    let (_, now) = get(&client, PODS).await;
    assert_eq!(names(&now), ["a", "b", "bb", "d", "e"]);

    let (code, _) = get(&client, &format!("{PODS}?limit=2&continue=nonsense")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    // {"v":"meta.k8s.io/v1","rv":1,"start":"default/b\u0000"}
    let old = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJkZWZhdWx0L2JcdTAwMDAifQ";
    let (code, status) = get(&client, &format!("{PODS}?limit=2&continue={old}")).await;
    assert_eq!((code, &status["reason"]), (StatusCode::GONE, &json!("Expired")));
    // The answer has a token to go on with what is present.
    let token = status["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&rest), ["bb", "d"]);
    let token = rest["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&rest), ["e"]);
}

#[tokio::test]
async fn first_pages_of_others_do_not_evict_a_continue_token() {
    let server = server().await;
    let client = admin(&server);
    for name in ["a", "b", "c"] {
        post(&client, PODS, &pod(name)).await;
    }
    let (_, first) = get(&client, &format!("{PODS}?limit=1")).await;
    for i in 0..100 {
        let labels = json!({"metadata": {"labels": {"i": i.to_string()}}});
        merge(&client, &format!("{PODS}/b"), &labels).await;
        get(&client, &format!("{PODS}?limit=1")).await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!((names(&second), version(&second)), (vec!["b", "c"], version(&first)));
    assert_eq!(second["items"][0]["metadata"]["labels"], json!(null), "as it was at the first page");
}

#[tokio::test]
async fn long_answers_are_compressed_for_clients_that_accept_it() {
    let server = server().await;
    let client = admin(&server);
    let configmaps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        let object = json!({"metadata": {"name": name}, "data": {"x": "y".repeat(100_000)}});
        assert_eq!(post(&client, configmaps, &object).await.0, StatusCode::CREATED);
    }
    for (path, encoding, compressed) in [
        (configmaps.to_owned(), "gzip", true),
        (configmaps.to_owned(), "deflate, gzip;q=1.0", true),
        (configmaps.to_owned(), "gzip;q=0", false),
        (format!("{configmaps}/a"), "gzip", false),
    ] {
        let request = http::Request::get(&path).header("accept-encoding", encoding);
        let response = client.send(request.body(kube::client::Body::empty()).unwrap()).await.unwrap();
        let told = response.headers().get("content-encoding").is_some_and(|value| value == "gzip");
        assert_eq!(told, compressed, "{path} {encoding}");
        let bytes = response.into_body().collect_bytes().await.unwrap();
        if compressed {
            assert!(bytes.len() < 10_000);
            let list: serde_json::Value =
                serde_json::from_reader(flate2::read::GzDecoder::new(&*bytes)).unwrap();
            assert_eq!(names(&list), ["a", "b"]);
        } else {
            assert!(bytes.len() > 100_000);
        }
    }
}

#[tokio::test]
async fn selectors_filter_objects() {
    let server = server().await;
    let client = admin(&server);
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"app": app});
        post(&client, PODS, &pod).await;
    }
    bind(&client, "c", "n1").await;
    for (query, wanted) in [
        ("labelSelector=app%3Dweb", &["a", "c"][..]),
        ("labelSelector=app+in+(db),!other", &["b"]),
        ("labelSelector=app%3Dweb&fieldSelector=spec.nodeName%3Dn1", &["c"]),
        ("fieldSelector=metadata.name%3Db", &["b"]),
        ("fieldSelector=status.phase!%3DPending", &[]),
        ("fieldSelector=spec.schedulerName%3Ddefault-scheduler", &["a", "b", "c"]),
    ] {
        let (_, list) = get(&client, &format!("/api/v1/pods?{query}")).await;
        assert_eq!(names(&list), wanted, "{query}");
    }
    for query in ["labelSelector=a+b", "fieldSelector=spec.color%3Dred"] {
        let (code, status) = get(&client, &format!("/api/v1/pods?{query}")).await;
        assert_eq!((code, &status["reason"]), (StatusCode::BAD_REQUEST, &json!("BadRequest")), "{query}");
    }
}

#[tokio::test]
async fn a_list_of_a_version_is_exact() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    let (_, list) = get(&client, PODS).await;
    let exact = |version: &str| format!("{PODS}?resourceVersion={version}&resourceVersionMatch=Exact");
    // A change of another resource leaves the pods as they were.
    post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let (_, same) = get(&client, &exact(version(&list))).await;
    assert_eq!((names(&same), version(&same)), (vec!["a"], version(&list)));
    post(&client, PODS, &pod("b")).await;
    let (_, same) = get(&client, &exact(version(&list))).await;
    assert_eq!((names(&same), version(&same)), (vec!["a"], version(&list)));
    let (code, _) = get(&client, &exact("1")).await;
    assert_eq!(code, StatusCode::GONE);
}

#[tokio::test]
async fn a_continue_token_of_another_list_is_refused() {
    let server = server().await;
    let client = admin(&server);
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    for name in ["a", "b"] {
        post(&client, PODS, &pod(name)).await;
        for namespace in ["default", "kube-system"] {
            post(&client, &maps(namespace), &json!({"metadata": {"name": name}})).await;
        }
    }
    let namespaced = [PODS.to_owned(), maps("default"), maps("kube-system")];
    let lists = [&namespaced[..], &["/api/v1/pods".into(), "/api/v1/namespaces".into()]].concat();
    for from in &lists {
        let (_, page) = get(&client, &format!("{from}?limit=1")).await;
        let token = page["metadata"]["continue"].as_str().unwrap();
        for to in &lists {
            let (code, answer) = get(&client, &format!("{to}?limit=1&continue={token}")).await;
            let wanted = if from == to { StatusCode::OK } else { StatusCode::BAD_REQUEST };
            assert_eq!(code, wanted, "{from} {to}: {answer}");
        }
    }
}
