package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"csi-sidecars/e2e/cluster/audit"
)

// start brings up all components in order. ctx ends at the time limit or when somebody asks us to stop.
func (s *supervisor) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.writeFiles(); err != nil {
		return err
	}
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	for i := range s.options.Nodes {
		if err := s.launchNode(ctx, fmt.Sprintf("node-%d", i), ""); err != nil {
			return err
		}
	}
	for _, n := range s.nodes {
		if err := n.kubelet.awaitReady(ctx, s.layout, s.began); err != nil {
			return err
		}
		s.say("%s ready", n.name)
	}
	return nil
}

func (s *supervisor) writeFiles() error {
	free, err := freePorts(7)
	if err != nil {
		return err
	}
	s.ports = ports{free[0], free[1], free[2], free[3], free[4], free[5], free[6], "127.0.0.1"}
	if s.options.RealNode {
		s.ports.apiHost, s.ports.apiserver = firstServiceIP, 443
	}
	if s.ca, err = writePKI(s.layout); err != nil {
		return err
	}
	tokens, err := writeTokens(s.layout)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.layout.auditPolicy(), []byte(audit.Policy), 0o644); err != nil {
		return err
	}
	server := s.ports.apiserverURL()
	for user, token := range tokens {
		if err := writeKubeconfig(s.layout.kubeconfig(user), server, s.layout.caFile(), user, credential{token: token}); err != nil {
			return err
		}
	}
	if s.options.Proxy {
		cred := credential{token: tokens[adminUser]}
		err := writeKubeconfig(s.layout.proxyKubeconfig(adminUser), loopback("https", s.ports.proxy), s.layout.caFile(), adminUser, cred)
		if err != nil {
			return err
		}
	}
	if s.health, err = healthClient(s.layout.caFile()); err != nil {
		return err
	}
	if s.admin, err = clientFor(s.layout.kubeconfig(adminUser)); err != nil {
		return err
	}
	s.spawn, err = newSpawner("")
	return err
}

func (s *supervisor) startControlPlane(ctx context.Context) error {
	l, p, o := s.layout, s.ports, s.options
	etcd := s.add("etcd", etcdArgs(l, p), loopback("http", p.etcdClient)+"/health")
	apiserver := s.add("kube-apiserver", apiserverArgs(l, p, o), p.apiserverURL()+"/readyz")
	controllers := s.add("kube-controller-manager", controllerManagerArgs(l, p, o), loopback("https", p.controllerManager)+"/healthz")
	scheduler := s.add("kube-scheduler", schedulerArgs(l, p, o), loopback("https", p.scheduler)+"/readyz")
	steps := [][]*component{{etcd}, {apiserver}, {controllers, scheduler}}
	if o.Proxy {
		proxy := s.add("fault-proxy", faultProxyArgs(l, p), loopback("http", p.proxyControl)+"/healthz")
		steps[2] = append(steps[2], proxy)
	}
	for _, step := range steps {
		if err := s.launch(ctx, step...); err != nil {
			return err
		}
	}
	return s.awaitServiceAccount(ctx)
}

// add registers a component whose readiness is a health URL.
func (s *supervisor) add(name string, args []string, healthURL string) *component {
	c := &component{
		name:  name,
		args:  append([]string{name}, args...),
		spawn: s.spawn,
		ready: httpReady(s.health, healthURL),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.components = append(s.components, c)
	return c
}

// launch starts components side by side and waits for all of them.
func (s *supervisor) launch(ctx context.Context, group ...*component) error {
	since := time.Now()
	for _, c := range group {
		if err := c.start(s.layout, s.report); err != nil {
			return err
		}
	}
	for _, c := range group {
		if err := c.awaitReady(ctx, s.layout, since); err != nil {
			return err
		}
		s.say("%s ready", c.name)
	}
	return nil
}

func (s *supervisor) report(event string) { s.say("%s", event) }

// awaitServiceAccount waits until pods can be created in the default namespace.
func (s *supervisor) awaitServiceAccount(ctx context.Context) error {
	for {
		_, err := s.admin.CoreV1().ServiceAccounts(v1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			s.say("default ServiceAccount exists")
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the default ServiceAccount does not exist (%w); kube-controller-manager's log ends with:\n%s",
				err, logTail(s.layout.log("kube-controller-manager")))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
