//! The check of allocations finds each kind of problem.

use berth_api::object::device::{ResourceClaim, ResourceSlice};
use berth_testkit::check::devices::check;
use serde_json::{Value, json};

/// Problems of claims that hold devices of one pool, with constraints.
fn problems(claims: &[(Value, Value)]) -> String {
    let device = |name: &str, numa: i64| {
        json!({"name": name, "attributes": {"numa": {"int": numa}},
               "consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "2"}}}]})
    };
    let mut shared = json!({"name": "shared", "allowMultipleAllocations": true});
    shared["capacity"] = json!({"bandwidth": {"value": "4"}});
    let spec = |more: (&str, Value)| {
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 2});
        let mut spec = json!({"driver": "d.example.com", "pool": pool, "nodeName": "n"});
        spec[more.0] = more.1;
        json!({"metadata": {"name": more.0}, "spec": spec})
    };
    let devices = json!([device("a", 0), device("b", 0), device("c", 1), shared]);
    let counters = json!([{"name": "c", "counters": {"memory": {"value": "4"}}}]);
    let slices = [spec(("devices", devices)), spec(("sharedCounters", counters))];
    let slices = slices.map(|slice| serde_json::from_value::<ResourceSlice>(slice).expect("a slice"));
    let claim = |(i, (results, constraints)): (usize, &(Value, Value))| {
        let mut results = results.clone();
        for result in results.as_array_mut().expect("results") {
            result["request"] = json!("r");
            result["driver"] = json!("d.example.com");
            result["pool"] = json!("p");
        }
        let claim = json!({
            "metadata": {"name": format!("c{i}"), "namespace": "default"},
            "spec": {"devices": {"constraints": constraints}},
            "status": {"allocation": {"devices": {"results": results}}},
        });
        serde_json::from_value::<ResourceClaim>(claim).expect("a claim")
    };
    let claims: Vec<_> = claims.iter().enumerate().map(claim).collect();
    check(&claims, &slices).join("; ")
}

#[test]
fn an_allocation_without_problems_has_none() {
    let constraints = json!([{"matchAttribute": "d.example.com/numa"}]);
    let shares = json!([{"device": "shared", "consumedCapacity": {"bandwidth": "2"}}]);
    let claims = [
        (json!([{"device": "a"}, {"device": "b"}]), constraints),
        (shares.clone(), json!([])),
        (shares, json!([])),
        (json!([{"device": "a", "adminAccess": true}]), json!([])),
    ];
    assert_eq!(problems(&claims), "");
}

#[test]
fn each_problem_is_found() {
    let alone = |results: Value| problems(&[(results, json!([]))]);
    assert!(alone(json!([{"device": "x"}])).contains("does not exist"));
    assert!(alone(json!([{"device": "a"}, {"device": "a"}])).contains("is exclusive"));
    assert!(
        alone(json!([{"device": "a"}, {"device": "b"}, {"device": "c"}])).contains("6 of counter c/memory")
    );
    let share = json!({"device": "shared", "consumedCapacity": {"bandwidth": "3"}});
    assert!(alone(json!([share, share])).contains("6 of bandwidth are taken, of 4"));
    let constrained = |constraint: &str, results: Value| {
        problems(&[(results, json!([{constraint: "d.example.com/numa"}]))])
    };
    assert!(
        constrained("matchAttribute", json!([{"device": "a"}, {"device": "c"}])).contains("does not hold")
    );
    assert!(
        constrained("distinctAttribute", json!([{"device": "a"}, {"device": "b"}])).contains("does not hold")
    );
    assert!(constrained("matchAttribute", json!([{"device": "shared"}])).contains("does not hold"));
}
