"""lightkube: typed models from the OpenAPI of Kubernetes."""
import lightkube
from lightkube.core.exceptions import ApiError
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.types import PatchType

client = lightkube.Client(field_manager="one", namespace="default")
assert [node.metadata.name for node in client.list(Node)] == ["node-1", "node-2"]
client.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "1"}))
client.patch(ConfigMap, "a", {"data": {"merge": "x"}}, patch_type=PatchType.MERGE)
client.patch(ConfigMap, "a", [{"op": "remove", "path": "/data/k"}], patch_type=PatchType.JSON)
assert client.get(ConfigMap, "a").data == {"merge": "x"}
applied = lambda value: ConfigMap(metadata=ObjectMeta(name="applied"), data={"k": value}, apiVersion="v1", kind="ConfigMap")
client.apply(applied("one"))
try:
    client.apply(applied("two"), field_manager="two")
    raise SystemExit("a conflict is accepted")
except ApiError as error:
    assert error.status.code == 409, error
client.apply(applied("two"), field_manager="two", force=True)

labels = {"app": "web"}
template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image="x")]))
spec = DeploymentSpec(replicas=1, selector=LabelSelector(matchLabels=labels), template=template)
client.create(Deployment(metadata=ObjectMeta(name="web"), spec=spec))
client.patch(Deployment.Scale, "web", {"spec": {"replicas": 2}}, patch_type=PatchType.MERGE)
for _, deployment in client.watch(Deployment, fields={"metadata.name": "web"}, server_timeout=60):
    if (deployment.status and deployment.status.readyReplicas or 0) == 2:
        break
client.patch(Deployment, "web", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "y"}]}}}},
             patch_type=PatchType.STRATEGIC)
assert client.get(Deployment, "web").spec.template.spec.containers[0].image == "y"
client.wait(Deployment, "web", for_conditions=["Available"])
client.deletecollection(Pod)
client.delete(Deployment, "web")
try:
    client.get(Deployment, "web")
except ApiError as error:
    assert error.status.code == 404, error
print("ok")
