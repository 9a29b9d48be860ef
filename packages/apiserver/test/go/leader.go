package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leader runs three candidates for one Lease, and has the one that leads give up for each line that it reads.
func leader(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	leads := make(chan context.CancelFunc)
	for at := range 3 {
		go candidate(ctx, client, fmt.Sprintf("candidate-%d", at), leads)
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		giveUp := <-leads
		giveUp()
	}
	return nil
}

func candidate(ctx context.Context, client kubernetes.Interface, name string, leads chan<- context.CancelFunc) {
	own, giveUp := context.WithCancel(ctx)
	defer giveUp()
	leaderelection.RunOrDie(own, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "election"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     100 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				say(map[string]any{"leads": name})
				select {
				case leads <- giveUp:
				case <-own.Done():
				}
			},
			OnStoppedLeading: func() { say(map[string]any{"stopped": name}) },
		},
	})
}
