// Go programs on a Kubernetes API server: what client-go and controller-runtime see of it. Each reads a kubeconfig from
// KUBECONFIG, works in the namespace "go", prints one JSON line for each thing that happens, and ends when its input does.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const namespace = "go"

var programs = map[string]func(context.Context, *rest.Config) error{
	"informer": informer,
	"leader":   leader,
	"apply":    apply,
	"manager":  runManager,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		return fmt.Errorf("usage: clients informer|leader|apply|manager")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	return programs[os.Args[1]](ctx, config)
}

var output sync.Mutex

// say prints one line of JSON.
func say(what any) {
	output.Lock()
	defer output.Unlock()
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
