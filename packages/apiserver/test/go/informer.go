package main

import (
	"bufio"
	"context"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// informer keeps a cache of ConfigMaps, and prints it (name to resourceVersion) for each line that it reads.
func informer(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var relists atomic.Int64
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	configMaps := factory.Core().V1().ConfigMaps()
	shared := configMaps.Informer()
	if err := shared.SetWatchErrorHandler(func(*cache.Reflector, error) { relists.Add(1) }); err != nil {
		return err
	}
	var last atomic.Int64
	touch := func(any) { last.Store(time.Now().UnixNano()) }
	if _, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    touch,
		UpdateFunc: func(_, object any) { touch(object) },
		DeleteFunc: touch,
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	say(map[string]any{"synced": true})
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		held := map[string]string{}
		for _, object := range shared.GetStore().List() {
			configMap := object.(*corev1.ConfigMap)
			held[configMap.Name] = configMap.ResourceVersion
		}
		say(map[string]any{"held": held, "errors": relists.Load()})
	}
	return nil
}
