package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	resourceinternal "k8s.io/kubernetes/pkg/apis/resource"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"
)

// ---- what is written -------------------------------------------------------

// claimed says what a step did to one claim of its pod.
type claimed struct {
	Claim        string                                      `json:"claim"`         // namespace/name
	For          string                                      `json:"for,omitempty"` // name in the pod's spec.resourceClaims
	New          bool                                        `json:"new,omitempty"` // allocated by this step
	Devices      []resourceapi.DeviceRequestAllocationResult `json:"devices,omitempty"`
	Config       []resourceapi.DeviceAllocationConfiguration `json:"config,omitempty"`
	NodeSelector *v1.NodeSelector                            `json:"nodeSelector,omitempty"`
	ReservedFor  *resourceapi.ResourceClaimConsumerReference `json:"reservedFor,omitempty"` // the entry that this step added
	Waits        bool                                        `json:"waits,omitempty"`       // for binding conditions
	Requests     []resourceapi.DeviceRequest                 `json:"requests,omitempty"`    // of the claim made for extended resources
	Mappings     []v1.ContainerExtendedResourceRequest       `json:"mappings,omitempty"`
}

type postFilter struct {
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	Deallocated string   `json:"deallocated,omitempty"` // claim
	Acceptable  []string `json:"acceptable,omitempty"`  // when several could be taken
	Deleted     string   `json:"deleted,omitempty"`     // claim
}

// ---- the objects -------------------------------------------------------------

// draWorld is the scheduler's own DRA manager, fed by hand.
type draWorld struct {
	fwk.SharedDRAManager
	w         *world
	claims    *assumecache.AssumeCache
	classes   []cache.ResourceEventHandler
	slices    []*slice
	published []*resourceapi.ResourceSlice // as the API server has them
	rules     []k8sruntime.Object
	tainted   []*slice // the slices with the taints of the rules
	version   int64
	made      map[string]bool // claims made for extended resources
	cleared   string          // the claim whose allocation the last UpdateStatus took away
	deleted   string          // the claim that was deleted last
}

type noInformer struct{}

func (noInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

func (noInformer) AddEventHandlerWithOptions(cache.ResourceEventHandler, cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// ResourceSlices come in the order of their names. (The scheduler's come in the random order of a map.)
func (d *draWorld) ResourceSlices() fwk.ResourceSliceLister { return d }

func newDRAWorld(ctx context.Context, w *world) (*draWorld, error) {
	d := &draWorld{w: w, version: 1, made: map[string]bool{}}
	d.claims = assumecache.NewAssumeCache(w.logger, noInformer{}, "ResourceClaim", "", nil)
	tracker, err := startTracker(ctx, w.factory, resourceslicetracker.Options{})
	if err != nil {
		return nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, d.claims, tracker, w.factory)
	d.SharedDRAManager = manager
	if h, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler); ok {
		d.classes = append(d.classes, h)
	}
	w.client.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		c := a.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim)
		if c.Name == "" {
			c.Name = c.GenerateName + "0"
		}
		c.UID = types.UID("made-" + c.Name)
		d.made[c.Namespace+"/"+c.Name] = true
		if err := w.client.Tracker().Add(c.DeepCopy()); err != nil {
			return true, nil, err
		}
		return true, c, d.tell(c)
	})
	w.client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		c := a.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).DeepCopy()
		status := a.GetSubresource() == "status"
		if status && c.Status.Allocation == nil {
			d.cleared = c.Namespace + "/" + c.Name
			return true, c, nil
		}
		obj, err := w.client.Tracker().Get(a.GetResource(), c.Namespace, c.Name)
		if err != nil {
			return true, nil, err
		}
		old := obj.(*resourceapi.ResourceClaim)
		if c.ResourceVersion != old.ResourceVersion {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), c.Name, errors.New("the object has been modified"))
		}
		if status {
			c.ObjectMeta, c.Spec = *old.ObjectMeta.DeepCopy(), old.Spec
			var in, was resourceinternal.ResourceClaim
			if err := errors.Join(legacyscheme.Scheme.Convert(c, &in, nil), legacyscheme.Scheme.Convert(old, &was, nil)); err != nil {
				return true, nil, err
			}
			if l := resourcevalidation.ValidateResourceClaimStatusUpdate(&in, &was); len(l) > 0 {
				return true, nil, apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), c.Name, l)
			}
		} else {
			c.Status = old.Status
		}
		d.version++
		c.ResourceVersion = fmt.Sprint(d.version)
		return true, c, w.client.Tracker().Update(a.GetResource(), c.DeepCopy(), c.Namespace)
	})
	w.client.PrependReactor("delete", "resourceclaims", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		ns, name := a.GetNamespace(), a.(clienttesting.DeleteAction).GetName()
		d.deleted = ns + "/" + name
		assumecache.DeleteTestObject(d.claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
		return false, nil, nil
	})
	return d, nil
}

// tell stores a claim, and lets the assume cache know as the informer would.
func (d *draWorld) tell(c *resourceapi.ResourceClaim) error {
	d.version++
	c.ResourceVersion = fmt.Sprint(d.version)
	assumecache.UpdateTestObject(d.claims, c.DeepCopy())
	return d.w.client.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), c.DeepCopy(), c.Namespace)
}

// add defaults and validates an object of the scenario as the API server would, and stores it.
func (d *draWorld) add(obj k8sruntime.Object) error {
	bad := func(name string, in any, check func() field.ErrorList) error {
		if err := legacyscheme.Scheme.Convert(obj, in, nil); err != nil {
			return err
		}
		if l := check(); len(l) > 0 {
			return fmt.Errorf("%s: %w", name, l.ToAggregate())
		}
		return nil
	}
	f := d.w.factory.Resource().V1()
	switch o := obj.(type) {
	case *resourceapi.ResourceSlice:
		var in resourceinternal.ResourceSlice
		if err := bad(o.Name, &in, func() field.ErrorList { return resourcevalidation.ValidateResourceSlice(&in) }); err != nil {
			return err
		}
		own, err := d.w.storeSlice(o)
		if err != nil {
			return err
		}
		i, _ := slices.BinarySearchFunc(d.slices, o.Name, func(s *slice, n string) int { return strings.Compare(s.Name, n) })
		d.slices = slices.Insert(d.slices, i, own)
		d.published = append(d.published, o)
		return nil
	case *resourceapi.DeviceClass:
		var in resourceinternal.DeviceClass
		if err := bad(o.Name, &in, func() field.ErrorList { return resourcevalidation.ValidateDeviceClass(&in) }); err != nil {
			return err
		}
		for _, h := range d.classes {
			h.OnAdd(o, true)
		}
		return d.w.store(f.DeviceClasses().Informer(), o)
	case *resourceapi.ResourceClaimTemplate:
		return nil // of the claim controller, not of the scheduler
	case *resourceapi.ResourceClaim:
		o.ResourceVersion = "1"
		var in resourceinternal.ResourceClaim
		if err := bad(o.Name, &in, func() field.ErrorList {
			l := resourcevalidation.ValidateResourceClaim(&in)
			old := in.DeepCopy()
			old.Status = resourceinternal.ResourceClaimStatus{}
			return append(l, resourcevalidation.ValidateResourceClaimStatusUpdate(&in, old)...)
		}); err != nil {
			return err
		}
		if err := d.w.client.Tracker().Add(o.DeepCopy()); err != nil {
			return err
		}
		assumecache.AddTestObject(d.claims, o)
		return nil
	}
	return d.addRule(obj)
}

// ---- after the filters ---------------------------------------------------------

func (d *draWorld) all() map[string]*resourceapi.ResourceClaim {
	out := map[string]*resourceapi.ResourceClaim{}
	l, _ := d.ResourceClaims().List()
	for _, c := range l {
		out[c.Namespace+"/"+c.Name] = c
	}
	return out
}

// bind runs PreBind and says what has become of the pod's claims. A pod whose devices have binding
// conditions would wait there; here it does not.
func (d *draWorld) bind(pl *dynamicresources.DynamicResources, dec *decided, pod *v1.Pod, node string) ([]claimed, error) {
	if _, status := pl.PreBindPreFlight(d.w.ctx, dec.state, pod, node); status.IsSkip() {
		return nil, nil
	}
	before := d.all()
	if err := d.w.client.Tracker().Add(pod.DeepCopy()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(d.w.ctx)
	cancel()
	var failed error
	if status := pl.PreBind(ctx, dec.state, pod, node); !status.IsSuccess() && !errors.Is(status.AsError(), context.Canceled) {
		// What was written stays written, but for what Unreserve takes back.
		failed = status.AsError()
		pl.Unreserve(d.w.ctx, dec.state, pod, node)
		for key := range d.all() {
			ns, name, _ := strings.Cut(key, "/")
			c, err := d.w.client.ResourceV1().ResourceClaims(ns).Get(d.w.ctx, name, metav1.GetOptions{})
			if err == nil {
				err = d.tell(c.DeepCopy())
			}
			if err != nil {
				return nil, err
			}
		}
	}
	after := d.all()
	var out []claimed
	shares := 0
	record := func(key, name string) {
		c, old := after[key], before[key]
		if c.Status.Allocation == nil {
			return
		}
		a := claimed{Claim: key, For: name}
		if old == nil || old.Status.Allocation == nil {
			a.New = true
			for _, r := range c.Status.Allocation.Devices.Results {
				r = *r.DeepCopy()
				if r.ShareID != nil {
					shares++
					r.ShareID = ptr.To(types.UID(fmt.Sprintf("share-%d", shares)))
				}
				a.Devices = append(a.Devices, r)
			}
			a.Config = c.Status.Allocation.Devices.Config
			a.NodeSelector = c.Status.Allocation.NodeSelector
		}
		if old == nil || len(old.Status.ReservedFor) < len(c.Status.ReservedFor) {
			a.ReservedFor = &c.Status.ReservedFor[len(c.Status.ReservedFor)-1]
		}
		a.Waits = c.Status.Allocation != nil && waits(c)
		if d.made[key] && old == nil {
			a.Requests = c.Spec.Devices.Requests
			if p, err := d.w.client.CoreV1().Pods(pod.Namespace).Get(d.w.ctx, pod.Name, metav1.GetOptions{}); err == nil && p.Status.ExtendedResourceClaimStatus != nil {
				a.Mappings = p.Status.ExtendedResourceClaimStatus.RequestMappings
			}
		}
		out = append(out, a)
	}
	for _, r := range pod.Spec.ResourceClaims {
		name := r.ResourceClaimName
		for _, s := range pod.Status.ResourceClaimStatuses {
			if name == nil && s.Name == r.Name {
				name = s.ResourceClaimName
			}
		}
		if name != nil {
			record(pod.Namespace+"/"+*name, r.Name)
		}
	}
	var made []string
	for key := range after {
		if before[key] == nil {
			made = append(made, key)
		}
	}
	sort.Strings(made)
	for _, key := range made {
		record(key, "")
	}
	return out, failed
}

// waits says whether binding conditions of a claim's devices are not all true yet.
func waits(c *resourceapi.ResourceClaim) bool {
	for _, r := range c.Status.Allocation.Devices.Results {
		for _, cond := range r.BindingConditions {
			if !slices.ContainsFunc(c.Status.Devices, func(s resourceapi.AllocatedDeviceStatus) bool {
				return s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device && apimeta.IsStatusConditionTrue(s.Conditions, cond)
			}) {
				return true
			}
		}
	}
	return false
}

// postFilter takes a claim's allocation away where that may help. The plugin takes a random one of those that it
// can take: it is asked often enough to see them all, and the first by name is taken.
func (d *draWorld) postFilter(pl *dynamicresources.DynamicResources, dec *decided, pod *v1.Pod) (*postFilter, error) {
	if _, err := dec.state.Read(fwk.StateKey(dynamicresources.Name)); err != nil {
		return nil, nil
	}
	found := map[string]bool{}
	out := &postFilter{}
	for range 100 {
		d.cleared, d.deleted = "", ""
		_, status := pl.PostFilter(d.w.ctx, dec.state, pod, dec.diagnosis.NodeToStatus)
		out.Code, out.Message = status.Code().String(), status.Message()
		if d.cleared == "" {
			break
		}
		found[d.cleared] = true
	}
	if d.deleted != "" {
		out.Deleted = d.deleted
		return out, nil
	}
	if len(found) == 0 {
		if out.Message == "" || out.Message == "no new claims to deallocate" || out.Message == "still not schedulable" {
			return nil, nil
		}
		return out, nil
	}
	for key := range found {
		out.Acceptable = append(out.Acceptable, key)
	}
	sort.Strings(out.Acceptable)
	out.Deallocated = out.Acceptable[0]
	if len(out.Acceptable) == 1 {
		out.Acceptable = nil
	}
	c := d.all()[out.Deallocated].DeepCopy()
	c.Status = resourceapi.ResourceClaimStatus{}
	return out, d.tell(c)
}
