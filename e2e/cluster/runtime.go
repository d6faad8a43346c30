//go:build !v1_34 && !v1_35

package main

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	remote "k8s.io/cri-client/pkg"
	"k8s.io/kubernetes/pkg/kubelet"
)

// connectRuntime gives the kubelet the container runtime that listens at endpoint.
func connectRuntime(deps *kubelet.Dependencies, endpoint string) (err error) {
	tracer := noop.NewTracerProvider()
	deps.RemoteRuntimeService, err = remote.NewRemoteRuntimeService(context.Background(), endpoint, 15*time.Second, tracer, false)
	if err != nil {
		return fmt.Errorf("container runtime: %w", err)
	}
	deps.RemoteImageService, err = remote.NewRemoteImageService(context.Background(), endpoint, 15*time.Second, tracer, false)
	if err != nil {
		return fmt.Errorf("image service: %w", err)
	}
	return nil
}
