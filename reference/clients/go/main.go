// client-go with typed clients and informers that speak protobuf only, and a controller of controller-runtime with its cache and finalizers.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	namespace = "default"
	protobuf  = "application/vnd.kubernetes.protobuf"
	finalizer = "example.com/check"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func assert(holds bool, what ...any) {
	if !holds {
		log.Fatal(what...)
	}
}

func until(what string, holds func() bool) {
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		assert(time.Now().Before(end), "never: "+what)
	}
}

func typed(c kubernetes.Interface) {
	maps := c.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{})
	must(err)
	made.Data["k"] = "2"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	must(err)
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	assert(apierrors.IsConflict(err), "an update of an old version: ", err)
	_, err = maps.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"add","path":"/data/json","value":"x"}]`), metav1.PatchOptions{})
	must(err)
	got, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"k":null}}`), metav1.PatchOptions{})
	must(err)
	assert(len(got.Data) == 1 && got.Data["json"] == "x", got.Data)
	applied := corev1apply.ConfigMap("applied", namespace).WithData(map[string]string{"k": "one"})
	_, err = maps.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "one"})
	must(err)
	applied.Data["k"] = "two"
	_, err = maps.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "two"})
	assert(apierrors.IsConflict(err), "a conflict: ", err)
	_, err = maps.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "two", Force: true})
	must(err)
	page, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
	must(err)
	assert(len(page.Items) == 1 && page.Continue != "", page)
	_, err = maps.Get(ctx, "none", metav1.GetOptions{})
	assert(apierrors.IsNotFound(err), err)

	labels, replicas := map[string]string{"app": "web"}, int32(1)
	deployments := c.AppsV1().Deployments(namespace)
	_, err = deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}},
	}}, metav1.CreateOptions{})
	must(err)
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	must(err)
	scale.Spec.Replicas = 2
	_, err = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
	must(err)
	_, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"y"}]}}}}`), metav1.PatchOptions{})
	must(err)
	until("2 ready replicas", func() bool {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		must(err)
		return d.Status.ReadyReplicas == 2 && d.Status.UpdatedReplicas == 2
	})
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	must(err)
	must(c.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[0].Name, Namespace: namespace}}))
	must(deployments.Delete(ctx, "web", metav1.DeleteOptions{}))
}

// An informer lists with a watch, and goes on after the server has been started again.
func informer(c kubernetes.Interface) {
	factory := informers.NewSharedInformerFactory(c, 0)
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	_, err := lister.ConfigMaps(namespace).Get("applied")
	must(err)
	fmt.Println("restart")
	time.Sleep(2 * time.Second)
	until("the server answers", func() bool {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	until("the informer goes on", func() bool {
		_, err := lister.ConfigMaps(namespace).Get("later")
		return err == nil
	})
}

// reconciler counts the keys of ConfigMaps in an annotation, and holds them with a finalizer.
type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &object); err != nil || object.Namespace != namespace {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := client.MergeFrom(object.DeepCopy())
	if object.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(&object, finalizer)
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, "example.com/keys", fmt.Sprint(len(object.Data)))
	} else {
		controllerutil.RemoveFinalizer(&object, finalizer)
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, &object, before))
}

func controller(configuration *rest.Config, c kubernetes.Interface) {
	m, err := manager.New(configuration, manager.Options{Metrics: server.Options{BindAddress: "0"}, LeaderElection: true, LeaderElectionID: "check", LeaderElectionNamespace: namespace})
	must(err)
	must(ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(reconciler{m.GetClient()}))
	stopped, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- m.Start(stopped) }()
	maps := c.CoreV1().ConfigMaps(namespace)
	until("the controller writes", func() bool {
		object, err := maps.Get(ctx, "applied", metav1.GetOptions{})
		must(err)
		return object.Annotations["example.com/keys"] == "1" && len(object.Finalizers) == 1
	})
	must(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	until("the finalizers go", func() bool {
		list, err := maps.List(ctx, metav1.ListOptions{})
		must(err)
		return len(list.Items) == 0
	})
	stop()
	must(<-ended)
}

func main() {
	logf.SetLogger(zap.New())
	configuration := config.GetConfigOrDie()
	configuration.QPS, configuration.Burst = 1000, 1000
	binary := rest.CopyConfig(configuration)
	binary.ContentType, binary.AcceptContentTypes = protobuf, protobuf
	c := kubernetes.NewForConfigOrDie(binary)
	version, err := c.Discovery().ServerVersion()
	must(err)
	_, err = json.Marshal(version)
	must(err)
	typed(c)
	informer(c)
	controller(configuration, c)
	fmt.Println("ok")
}
