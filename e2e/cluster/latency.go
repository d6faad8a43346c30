//go:build !v1_34 && !v1_35 && !v1_36

package main

import (
	"k8s.io/klog/v2"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
)

func newNodeStartupLatencyTracker() kubeletutil.NodeStartupLatencyTracker {
	return kubeletutil.NewNodeStartupLatencyTracker(klog.Background())
}
