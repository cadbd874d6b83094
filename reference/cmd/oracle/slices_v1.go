//go:build v1.36 || v1.37

package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

type slice = resourceapi.ResourceSlice

type preemptionCandidate = preemption.Candidate

func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo { return n.on(node) }

func startTracker(ctx context.Context, factory informers.SharedInformerFactory, options resourceslicetracker.Options) (*resourceslicetracker.Tracker, error) {
	options.SliceInformer = factory.Resource().V1().ResourceSlices()
	return resourceslicetracker.StartTracker(ctx, options)
}

func (w *world) storeSlice(s *resourceapi.ResourceSlice) (*slice, error) {
	return s, w.store(w.factory.Resource().V1().ResourceSlices().Informer(), s)
}
