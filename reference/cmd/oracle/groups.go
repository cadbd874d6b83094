//go:build !v1.36

package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Groups are decided by the whole scheduler, its queue and informers included, on a client in memory. It is called once for each attempt.
// Between equal nodes and domains it would choose at random: a plugin whose score is less than any difference makes it the first by name.

// Scores of other plugins count so many times.
const aboveTies = 1000

type byName struct{ nodes []string }

func (*byName) Name() string { return "ByName" }

func (p *byName) rank(node string) int64 { return fwk.MaxScore - int64(slices.Index(p.nodes, node)) }

func (p *byName) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.rank(node.Node().Name), nil
}
func (*byName) ScoreExtensions() fwk.ScoreExtensions { return nil }

// ScorePlacement: domains have the order of their first nodes.
func (p *byName) ScorePlacement(_ context.Context, _ fwk.PlacementCycleState, _ fwk.PodGroupInfo, placement *fwk.PodGroupAssignments) (int64, *fwk.Status) {
	var best int64
	for _, node := range placement.Placement.Nodes {
		best = max(best, p.rank(node.Node().Name))
	}
	return best, nil
}
func (*byName) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return nil }

var groupGates sync.Once

type groupWorld struct {
	ctx    context.Context
	sc     *scenario
	client *fake.Clientset
	sched  *scheduler.Scheduler
	mu     sync.Mutex
	failed map[string]bool // pods that this attempt did not place: whether they are nominated
}

// decideGroups decides the pending pods group by group.
func (sc *scenario) decideGroups(ctx context.Context) ([]groupStep, error) {
	groupGates.Do(func() {
		gates := map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true}
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
			panic(err)
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &groupWorld{ctx: ctx, sc: sc}
	if err := w.start(); err != nil {
		return nil, err
	}
	defer w.sched.SchedulingQueue.Close()
	var steps []groupStep
	for rest := sc.Pending; len(rest) > 0; {
		name := *rest[0].Spec.SchedulingGroup.PodGroupName
		n := slices.IndexFunc(rest, func(p *v1.Pod) bool { return *p.Spec.SchedulingGroup.PodGroupName != name })
		if n < 0 {
			n = len(rest)
		}
		step, err := w.decide(rest[0].Namespace, name, rest[:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		steps, rest = append(steps, *step), rest[n:]
	}
	return steps, nil
}

func (w *groupWorld) start() error {
	classes := map[string]*schedulingv1.PriorityClass{"": {}}
	var objects []k8sruntime.Object
	plugin := &byName{}
	for _, n := range w.sc.Nodes {
		objects = append(objects, n)
		plugin.nodes = append(plugin.nodes, n.Name)
	}
	sort.Strings(plugin.nodes)
	for _, n := range w.sc.Namespaces {
		objects = append(objects, n)
	}
	for _, b := range w.sc.PDBs {
		legacyscheme.Scheme.Default(b)
		objects = append(objects, b)
	}
	var groups []*schedulingv1beta1.PodGroup
	for _, raw := range w.sc.Groups {
		object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return err
		}
		legacyscheme.Scheme.Default(object)
		switch object := object.(type) {
		case *schedulingv1.PriorityClass:
			classes[object.Name] = object
		case *schedulingv1beta1.PodGroup:
			groups = append(groups, object)
			object.UID = types.UID("group-" + object.Name)
			objects = append(objects, object)
		default:
			return fmt.Errorf("groups: unexpected %T", object)
		}
	}
	// As the admission plugin Priority does.
	for _, g := range groups {
		g.Spec.Priority = &classes[g.Spec.PriorityClassName].Value
	}
	for _, p := range slices.Concat(w.sc.Pods, w.sc.Pending) {
		class := classes[p.Spec.PriorityClassName]
		p.Spec.Priority, p.Spec.PreemptionPolicy = &class.Value, class.PreemptionPolicy
	}
	for i, p := range w.sc.Pods {
		q, _, _ := admit(w.ctx, p, false)
		q.Status, q.UID = p.Status, types.UID(fmt.Sprintf("running-%d", i))
		objects = append(objects, q)
	}
	w.client = fake.NewSimpleClientset(objects...)
	w.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		object, err := w.client.Tracker().Get(action.GetResource(), action.GetNamespace(), binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := object.(*v1.Pod).DeepCopy()
		pod.Spec.NodeName = binding.Target.Name
		// As the kubelet would: of pods of one priority, those that started later are preempted first.
		minute := slices.IndexFunc(w.sc.Pending, func(p *v1.Pod) bool { return p.Name == pod.Name })
		pod.Status.StartTime = &metav1.Time{Time: time.Date(2026, 6, 1, 0, minute, 0, 0, time.UTC)}
		return true, binding, w.client.Tracker().Update(action.GetResource(), pod, action.GetNamespace())
	})
	cfg, err := loadConfig(w.sc.Config)
	if err != nil {
		return err
	}
	for _, p := range cfg.Profiles {
		for _, set := range []*schedconfig.PluginSet{&p.Plugins.MultiPoint, &p.Plugins.Score, &p.Plugins.PlacementScore} {
			for i := range set.Enabled {
				set.Enabled[i].Weight = max(set.Enabled[i].Weight, 1) * aboveTies
			}
		}
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: plugin.Name(), Weight: 1})
	}
	factory := scheduler.NewInformerFactory(w.client, 0, nil)
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	w.sched, err = scheduler.New(w.ctx, w.client, factory, nil, recorders,
		scheduler.WithProfiles(cfg.Profiles...), scheduler.WithPodInitialBackoffSeconds(0), scheduler.WithPodMaxBackoffSeconds(0), scheduler.WithParallelism(1),
		scheduler.WithFrameworkOutOfTreeRegistry(fwkruntime.Registry{
			plugin.Name(): func(context.Context, k8sruntime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }}))
	if err != nil {
		return err
	}
	handle := w.sched.FailureHandler
	w.sched.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		handle(ctx, f, pod, status, nominating, start)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed[pod.Pod.Name] = nominating != nil && nominating.NominatedNodeName != ""
	}
	factory.Start(w.ctx.Done())
	factory.WaitForCacheSync(w.ctx.Done())
	if err := w.sched.WaitForHandlersSync(w.ctx); err != nil {
		return err
	}
	w.sched.SchedulingQueue.Run(klog.FromContext(w.ctx))
	if w.sched.APIDispatcher != nil {
		w.sched.APIDispatcher.Run(klog.FromContext(w.ctx))
	}
	return nil
}

// until waits for what other goroutines do.
func until(is func() bool, limit time.Duration) bool {
	for end := time.Now().Add(limit); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// pods are those of the API server, by name.
func (w *groupWorld) pods() map[string]*v1.Pod {
	list, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	out := map[string]*v1.Pod{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// isSeen says whether the scheduler knows of all pods, and of those that are gone.
func (w *groupWorld) isSeen() bool {
	assigned, pending := 0, 0
	for _, p := range w.pods() {
		if p.Spec.NodeName != "" {
			assigned++
		} else {
			pending++
		}
	}
	cached, err := w.sched.Cache.PodCount()
	queued, _ := w.sched.SchedulingQueue.PendingPods()
	return err == nil && cached == assigned && len(queued) == pending
}

func (w *groupWorld) isReady() bool {
	q := w.sched.SchedulingQueue
	return w.isSeen() && len(q.PodsInActiveQ())+len(q.PodsInBackoffQ()) > 0
}

// flush does what the queue does after five minutes: that victims are gone does not always bring their preemptor back.
func (w *groupWorld) flush() bool {
	return until(w.isReady, 2*time.Second) || until(func() bool {
		w.sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.FromContext(w.ctx), framework.EventUnschedulableTimeout, nil, nil, nil)
		return w.isReady()
	}, 10*time.Second)
}

// decide attempts a group until an attempt changes nothing. Pods that then have no node are gone before the next group.
func (w *groupWorld) decide(namespace, name string, pods []*v1.Pod) (*groupStep, error) {
	before := w.pods()
	for i, p := range pods {
		admitted, bad, _ := admit(w.ctx, p, true)
		if len(bad) > 0 {
			return nil, fmt.Errorf("%s: %s", p.Name, bad[0].Error)
		}
		admitted.UID = types.UID(fmt.Sprintf("%s-%d", name, i))
		if _, err := w.client.CoreV1().Pods(namespace).Create(w.ctx, admitted, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	if !until(w.isSeen, 10*time.Second) {
		return nil, fmt.Errorf("not all pods were queued")
	}
	// A group that lacks pods is not ready.
	waits := false
	for until(w.isReady, 200*time.Millisecond) || waits && w.flush() {
		left := len(w.unplaced(pods))
		w.failed = map[string]bool{}
		w.sched.ScheduleOne(w.ctx)
		if !until(func() bool { return len(w.unplaced(pods)) == len(w.failed) && w.isSeen() }, 10*time.Second) {
			return nil, fmt.Errorf("bindings did not end: %v of %v", w.failed, w.unplaced(pods))
		}
		waits = false
		for _, nominated := range w.failed {
			waits = waits || nominated
		}
		if len(w.failed) == 0 || len(w.failed) == left && !waits {
			break
		}
	}
	step := &groupStep{Group: namespace + "/" + name, Placed: map[string]string{}}
	after := w.pods()
	for n := range before {
		if after[n] == nil {
			step.Victims = append(step.Victims, n)
		}
	}
	sort.Strings(step.Victims)
	for _, p := range pods {
		if node := after[p.Name].Spec.NodeName; node != "" {
			step.Placed[p.Name] = node
		}
	}
	group, err := w.client.SchedulingV1beta1().PodGroups(namespace).Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range group.Status.Conditions {
		if c.Reason == schedulingv1beta1.PodGroupReasonSchedulerError {
			step.Message = c.Message
		}
	}
	for _, p := range w.unplaced(pods) {
		if err := w.client.CoreV1().Pods(namespace).Delete(w.ctx, p, metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
	}
	if !until(w.isSeen, 10*time.Second) {
		return nil, fmt.Errorf("pods without a node stay queued")
	}
	return step, nil
}

func (w *groupWorld) unplaced(pods []*v1.Pod) []string {
	var out []string
	now := w.pods()
	for _, p := range pods {
		if now[p.Name].Spec.NodeName == "" {
			out = append(out, p.Name)
		}
	}
	return out
}
