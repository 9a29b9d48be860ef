package main

import (
	"bufio"
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.io/copied"

// copier keeps a Secret beside each ConfigMap that is labelled copy=yes, and takes leave of it by a finalizer.
type copier struct{ client.Client }

func (c copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := c.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !source.DeletionTimestamp.IsZero() {
		if !controllerutil.RemoveFinalizer(source, finalizer) {
			return ctrl.Result{}, nil
		}
		say(map[string]any{"released": source.Name})
		return ctrl.Result{}, c.Update(ctx, source)
	}
	if source.Labels["copy"] != "yes" {
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(source, finalizer) {
		if err := c.Update(ctx, source); err != nil {
			return ctrl.Result{}, err
		}
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, c.Client, copied, func() error {
		copied.Data = map[string][]byte{"text": []byte(source.Data["text"])}
		return controllerutil.SetControllerReference(source, copied, c.Scheme())
	})
	if err == nil && result != controllerutil.OperationResultNone {
		say(map[string]any{"copied": source.Name, "how": string(result)})
	}
	return ctrl.Result{}, err
}

// runManager runs the copier until its input ends.
func runManager(ctx context.Context, config *rest.Config) error {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "copier",
		LeaderElectionNamespace: namespace,
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(copier{manager.GetClient()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		}
		stop()
	}()
	return manager.Start(ctx)
}
