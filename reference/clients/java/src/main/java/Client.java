import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** fabric8's client: the DSL with its patches, and an informer. */
public class Client {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    static void until(String what, BooleanSupplier holds) throws InterruptedException {
        for (int i = 0; i < 300; i++) {
            if (holds.getAsBoolean()) {
                return;
            }
            Thread.sleep(200);
        }
        throw new IllegalStateException("never: " + what);
    }

    static ConfigMap configMap(String name, Map<String, String> data) {
        return new ConfigMapBuilder().withNewMetadata().withName(name).withNamespace("default").endMetadata().withData(data).build();
    }

    static void applyAs(KubernetesClient client, String manager, boolean force) {
        var context = new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager(manager).withForce(force).build();
        client.resource(configMap("applied", Map.of("k", manager))).patch(context);
    }

    public static void main(String[] arguments) throws Exception {
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            var maps = client.configMaps().inNamespace("default");
            var made = client.resource(configMap("a", Map.of("k", "1"))).create();
            client.resource(new ConfigMapBuilder(made).addToData("k", "2").build()).update();
            try {
                client.resource(new ConfigMapBuilder(made).addToData("k", "3").build()).lockResourceVersion(made.getMetadata().getResourceVersion()).update();
                throw new IllegalStateException("a replacement of an old version is accepted");
            } catch (KubernetesClientException e) {
                check(e.getCode() == 409, e.getMessage());
            }
            maps.withName("a").patch(PatchContext.of(PatchType.JSON), "[{\"op\":\"add\",\"path\":\"/data/json\",\"value\":\"x\"}]");
            maps.withName("a").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"k\":null}}");
            maps.withName("a").edit(found -> new ConfigMapBuilder(found).addToData("edited", "y").build());
            check(maps.withName("a").get().getData().equals(Map.of("json", "x", "edited", "y")), "patches");
            applyAs(client, "one", false);
            try {
                applyAs(client, "two", false);
                throw new IllegalStateException("a conflict is accepted");
            } catch (KubernetesClientException e) {
                check(e.getCode() == 409, e.getMessage());
            }
            applyAs(client, "two", true);

            var labels = Map.of("app", "web");
            var web = new DeploymentBuilder().withNewMetadata().withName("web").withNamespace("default").endMetadata()
                .withNewSpec().withReplicas(1).withNewSelector().withMatchLabels(labels).endSelector()
                .withNewTemplate().withNewMetadata().withLabels(labels).endMetadata()
                .withNewSpec().addNewContainer().withName("c").withImage("x").endContainer().endSpec().endTemplate().endSpec().build();
            client.resource(web).create();
            var deployment = client.apps().deployments().inNamespace("default").withName("web");
            deployment.scale(2);
            deployment.patch(PatchContext.of(PatchType.STRATEGIC_MERGE),
                "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"y\"}]}}}}");
            deployment.waitUntilCondition(found -> found.getStatus() != null && Integer.valueOf(2).equals(found.getStatus().getReadyReplicas())
                && Integer.valueOf(2).equals(found.getStatus().getUpdatedReplicas()), 60, TimeUnit.SECONDS);
            Pod pod = client.pods().inNamespace("default").withLabels(labels).list().getItems().get(0);
            check(client.pods().inNamespace("default").withName(pod.getMetadata().getName()).evict(), "evicted");

            var informer = maps.inform();
            until("the informer has the objects", () -> informer.getStore().getByKey("default/applied") != null);
            System.out.println("restart");
            Thread.sleep(2000);
            until("the server answers", () -> {
                try {
                    client.resource(configMap("later", Map.of())).serverSideApply();
                    return true;
                } catch (KubernetesClientException e) {
                    return false;
                }
            });
            until("the informer goes on", () -> informer.getStore().getByKey("default/later") != null);
            informer.close();
            deployment.delete();
            maps.delete();
            until("deleted", () -> maps.list().getItems().isEmpty());
            System.out.println("ok");
        }
    }
}
