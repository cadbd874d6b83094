//go:build v1.38

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	draapi "k8s.io/dynamic-resource-allocation/api"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type slice = draapi.ResourceSlice

type preemptionCandidate = fwk.PreemptionCandidate

func (n *nominator) NominatedPodsForNode(_ klog.Logger, node string) []fwk.PodInfo { return n.on(node) }

func newCache(ctx context.Context) schedcache.Cache { return schedcache.New(ctx, nil, false, false) }

func leaveVictims(*defaultpreemption.DefaultPreemption) {}

func optionsOfVersion(w *world) []fwkruntime.Option {
	manager := func(h fwk.Handle) fwk.PreemptionManager {
		m := preemption.NewPreemptionManager(h, plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		// The victims are removed by the oracle, not by calls to an API server.
		m.Executor().(*preemption.Executor).PreemptPod = func(context.Context, fwk.PreemptionCandidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error) {
			return true, nil
		}
		return m
	}
	return []fwkruntime.Option{fwkruntime.WithMutableSnapshotLister(w.snapshot), fwkruntime.WithPreemptionManager(manager)}
}

func startTracker(ctx context.Context, factory informers.SharedInformerFactory, options resourceslicetracker.Options) (*resourceslicetracker.Tracker, error) {
	options.SliceInformer = draapi.NewInformerForResourceSlice(factory)
	options.SliceLister = draapi.NewResourceSliceLister(options.SliceInformer.GetIndexer())
	return resourceslicetracker.StartTracker(ctx, options)
}

// storeSlice converts, as the scheduler's informer does.
func (w *world) storeSlice(s *resourceapi.ResourceSlice) (*slice, error) {
	var own slice
	if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(s, &own, nil); err != nil {
		return nil, err
	}
	return &own, draapi.NewInformerForResourceSlice(w.factory).GetStore().Add(&own)
}
