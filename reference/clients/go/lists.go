package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const nPods, nRounds = 50_000, 5

// processorTime of a process, in seconds.
func processorTime(pid string) float64 {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	must(err)
	fields := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+2:])
	user, err := strconv.ParseFloat(fields[11], 64)
	must(err)
	system, err := strconv.ParseFloat(fields[12], 64)
	must(err)
	return (user + system) / 100
}

// lists compares what a list of many pods costs the server and this client in JSON and in protobuf.
func lists(configuration *rest.Config, c kubernetes.Interface) {
	requests := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	var created sync.WaitGroup
	for worker := range 16 {
		created.Go(func() {
			for i := worker; i < nPods; i += 16 {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%05d", i), Labels: map[string]string{"app": fmt.Sprintf("a%d", i%100)}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Requests: requests}}}},
				}
				_, err := c.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
				must(err)
			}
		})
	}
	created.Wait()
	server, client := os.Getenv("SERVER_PID"), strconv.Itoa(os.Getpid())
	for range nRounds {
		for _, mediaType := range []string{"application/json", protobuf} {
			asked := rest.CopyConfig(configuration)
			asked.AcceptContentTypes, asked.DisableCompression = mediaType, true
			c := kubernetes.NewForConfigOrDie(asked)
			ofServer, ofClient := processorTime(server), processorTime(client)
			list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			must(err)
			ofServer, ofClient = processorTime(server)-ofServer, processorTime(client)-ofClient
			fmt.Printf("%-36s %d pods: server %.2f s, client %.2f s, both %.2f s\n", mediaType, len(list.Items), ofServer, ofClient, ofServer+ofClient)
		}
	}
}
