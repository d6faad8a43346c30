package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// healthClient asks health URLs under the cluster's authority. Connections are not kept, because components restart.
func healthClient(caFile string) (*http.Client, error) {
	pool, err := certPool(caFile)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}, nil
}

func certPool(caFile string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	return pool, nil
}

func httpReady(client *http.Client, url string) func(context.Context, time.Time) error {
	return func(ctx context.Context, _ time.Time) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s: %.200s", url, resp.Status, body)
		}
		return nil
	}
}

func fileReady(path string) func(context.Context, time.Time) error {
	return func(_ context.Context, since time.Time) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.ModTime().Before(since) {
			return fmt.Errorf("%s is from an earlier start", path)
		}
		return nil
	}
}

// nodeReady holds when the node is Ready and, but for its start-up taint, schedulable in the words of a kubelet that started after since: the Node
// is new, or (its conditions may be those of an earlier kubelet) its lease was renewed. A new kubelet's first attempt
// at the lease fails because the Node does not exist yet, and the next one comes 10 s later.
func nodeReady(client *kubernetes.Clientset, name, startup string) func(context.Context, time.Time) error {
	return func(ctx context.Context, since time.Time) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node.CreationTimestamp.Time.Before(since.Truncate(time.Second)) {
			lease, err := client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
				return fmt.Errorf("node %s has not renewed its lease yet", name)
			}
		}
		for _, taint := range node.Spec.Taints {
			if taint.Effect == v1.TaintEffectNoSchedule && taint.Key != startup {
				return fmt.Errorf("node %s has the taint %s", name, taint.Key)
			}
		}
		for _, c := range node.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not Ready", name)
	}
}

// freePorts asks the kernel for unused ports on 127.0.0.1. All are held until all are known, so they differ; one may
// be taken by somebody else before its component binds it, which `up` answers with another try.
func freePorts(n int) ([]int, error) {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("unexpected listener address %s", l.Addr())
		}
		out = append(out, addr.Port)
	}
	return out, nil
}
