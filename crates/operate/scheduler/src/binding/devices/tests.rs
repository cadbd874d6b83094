//! The stages of an attempt.

use berth_api::object::device::{AllocationResult, ClaimDecision, DeviceDecision};
use berth_client::connect;
use berth_client::lease::Leadership;
use berth_engine::Settings;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::*;

const ID: PodId = PodId(1);
const TIMEOUT: Duration = Duration::from_secs(7);

struct Fixture {
    bindings: DeviceBindings,
    cluster: Cluster,
    pod: Arc<Pod>,
    claim: NamespacedName,
    now: Instant,
}

/// A claim in a version, with what is allocated.
fn state(version: u64, readiness: DeviceReadiness) -> DeviceClaimState {
    DeviceClaimState { uid: "c".to_owned(), version, allocation: Some(1), readiness }
}

impl Fixture {
    /// A pod whose claim is being written. The claim was shown in version 1.
    fn writing() -> Fixture {
        let client = connect::client(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let writer = DeviceWriter::new(client, Leadership::uncontested(), Duration::from_secs(1), 1);
        let metrics = Arc::new(Metrics::new(&mut Registry::default()));
        let mut pod = Pod::default();
        pod.metadata.uid = "p".to_owned();
        let mut fixture = Fixture {
            bindings: DeviceBindings::new(writer, mpsc::unbounded_channel().0, metrics),
            cluster: Cluster::new(Settings::default()),
            pod: Arc::new(pod),
            claim: NamespacedName::new("n", "c"),
            now: Instant::now(),
        };
        fixture.show(DeviceClaimState { allocation: None, ..state(1, DeviceReadiness::Ready) });
        let decided = ClaimDecision {
            claim: fixture.claim.clone(),
            name_in_pod: Some("c".to_owned()),
            allocation: Some(AllocationResult::default()),
            is_reserved_now: true,
            waits: true,
            group: None,
            extended: None,
        };
        let devices = DeviceDecision { claims: vec![decided], ..DeviceDecision::default() };
        let assumed = AssumedDevices { uid: "p".to_owned(), devices, in_flight: true, ..Default::default() };
        let (abandoned, node) = (Arc::default(), Arc::from("a"));
        let Fixture { bindings, cluster, pod, now, .. } = &mut fixture;
        let binding = Binding { id: ID, pod: pod.clone(), node, relaxed: None, abandoned };
        assert!(bindings.assume(cluster, &binding, assumed, TIMEOUT, *now));
        assert!(bindings.start(binding, *now).is_none());
        fixture
    }

    fn show(&mut self, state: DeviceClaimState) {
        self.bindings.claim_changed(&mut self.cluster, &self.claim, Some(state));
    }

    fn written(&mut self) -> Option<PreBindOutcome> {
        let written = vec![(self.claim.clone(), state(2, DeviceReadiness::Waits))];
        self.bindings.written(ID, Ok(written), self.now)
    }

    fn check(&mut self) -> Option<PreBindOutcome> {
        self.bindings.check(ID, &QueuedPods::default())
    }

    fn rolled_back(&mut self, version: u64) {
        let versions = vec![(self.claim.clone(), version)];
        self.bindings.rolled_back(&mut self.cluster, ID, versions);
    }
}

#[tokio::test]
async fn a_pod_is_bound_when_the_watch_shows_that_its_devices_are_ready() {
    let mut fixture = Fixture::writing();
    assert!(fixture.check().is_none(), "its requests are not answered");
    assert!(fixture.written().is_none() && fixture.check().is_none(), "the watch shows the claim before");
    fixture.show(state(2, DeviceReadiness::Waits));
    assert!(fixture.check().is_none() && fixture.bindings.waits_for_conditions(ID));
    fixture.show(state(3, DeviceReadiness::Ready));
    assert!(matches!(fixture.check(), Some(PreBindOutcome::Bound(_))));
    assert!(fixture.bindings.next_due().is_none() && fixture.bindings.is_busy(&fixture.pod));
    fixture.bindings.keep(&mut fixture.cluster, ID);
    assert!(!fixture.bindings.is_busy(&fixture.pod));
}

#[tokio::test]
async fn devices_that_are_not_ready_in_time_end_the_attempt_and_the_pod_waits_until_all_is_taken_back() {
    let mut fixture = Fixture::writing();
    fixture.written();
    let end = fixture.now + TIMEOUT;
    assert!(fixture.bindings.expire(end - Duration::from_secs(1)).is_none());
    let Some(PreBindOutcome::Failed(_, error)) = fixture.bindings.expire(end) else {
        panic!("the time is over")
    };
    assert_eq!(error, "running PreBind plugin \"DynamicResources\": device binding timeout");
    assert!(fixture.bindings.expire(end).is_none());
    fixture.rolled_back(3);
    assert!(fixture.bindings.is_busy(&fixture.pod), "the watch does not show it");
    fixture.show(state(3, DeviceReadiness::Waits));
    assert!(!fixture.bindings.is_busy(&fixture.pod));
}

#[tokio::test]
async fn an_attempt_that_ends_while_it_is_written_is_taken_back_when_its_requests_are_answered() {
    for is_written in [true, false] {
        let mut fixture = Fixture::writing();
        fixture.bindings.roll_back(&mut fixture.cluster, ID);
        assert!(fixture.bindings.is_busy(&fixture.pod));
        let outcome = match is_written {
            true => fixture.written(),
            false => fixture.bindings.written(ID, Err(WriteError::NotSent), fixture.now),
        };
        assert!(outcome.is_none() && fixture.check().is_none());
        // The claim was deleted meanwhile.
        fixture.bindings.claim_changed(&mut fixture.cluster, &fixture.claim, None);
        fixture.rolled_back(3);
        assert!(!fixture.bindings.is_busy(&fixture.pod));
    }
}
