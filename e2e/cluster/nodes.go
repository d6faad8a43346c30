package main

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node is a host process (mount namespace, container runtime) and a kubelet.
type node struct {
	name          string
	host, kubelet *component
}

// launchNode starts a node's host and kubelet, which registers it with that taint unless it is empty; readiness is the caller's to await.
func (s *supervisor) launchNode(ctx context.Context, name, taint string) error {
	l := s.layout
	subject := pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
	// A client certificate, unlike a line of the token file, can be made while the API server runs.
	cred := credential{certFile: l.pki(name + ".crt"), keyFile: l.pki(name + ".key")}
	if err := s.ca.issue(cred.certFile, cred.keyFile, subject); err != nil {
		return err
	}
	server := s.ports.apiserverURL()
	if err := writeKubeconfig(l.kubeconfig(name), server, l.caFile(), name, cred); err != nil {
		return err
	}
	if err := os.MkdirAll(s.kubeletDir(name), 0o755); err != nil {
		return err
	}
	common := []string{"--dir=" + l.dir, "--name=" + name, fmt.Sprintf("--real-mounts=%t", isRoot())}
	n := &node{name: name}
	n.host = &component{
		name: name + "-host", node: name, spawn: s.spawn, unshare: isRoot(),
		args:  append([]string{"node-host"}, common...),
		ready: fileReady(l.nodeReady(name)),
	}
	n.kubelet = &component{
		name: name, node: name,
		args:  append(append([]string{"node"}, common...), "--status-period="+s.options.StatusPeriod.String(), "--feature-gates="+s.options.FeatureGates, "--register-with-taint="+taint),
		ready: nodeReady(s.admin, name, taint),
	}
	if s.options.RealNode {
		if err := s.makeReal(n); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.nodes = append(s.nodes, n)
	s.components = append(s.components, n.host, n.kubelet)
	s.mu.Unlock()
	return s.startNode(ctx, n)
}

// startNode starts the host first: the kubelet lives in the mount namespace that it holds.
func (s *supervisor) startNode(ctx context.Context, n *node) error {
	since := time.Now()
	if err := n.host.start(s.layout, s.report); err != nil {
		return err
	}
	if err := n.host.awaitReady(ctx, s.layout, since); err != nil {
		return err
	}
	n.kubelet.spawn = s.spawn
	if isRoot() && !s.options.RealNode {
		pid, _ := n.host.snapshot()
		inside, err := newSpawner(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err != nil {
			return err
		}
		n.kubelet.spawn = inside
	}
	return n.kubelet.start(s.layout, s.report)
}

// haltNode ends everything that runs on a node, drivers that tests started included, as a power cut would; with its
// last process the mount namespace goes.
func (s *supervisor) haltNode(n *node) error {
	if err := n.kubelet.kill(); err != nil {
		return err
	}
	host, _ := n.host.snapshot()
	ended := killProcesses(s.layout, func(p process) bool { return p.node == n.name && p.pid != host })
	for _, p := range ended {
		s.say("ended %s, which still ran on %s", p.name, p.node)
	}
	if s.options.RealNode {
		killContainers()
	}
	// While the namespace exists, backing files of loop devices in it still have their full paths.
	detachLoops(s.layout.kubeletDir(n.name))
	if err := n.host.kill(); err != nil {
		return err
	}
	if n.kubelet.spawn != nil && n.kubelet.spawn != s.spawn {
		// Its thread is in the namespace too.
		n.kubelet.spawn.close()
		n.kubelet.spawn = nil
	}
	return nil
}

func (s *supervisor) findNode(name string) (*node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %q; csi-cluster ctl --dir %s status lists them", name, s.layout.dir)
}

func (s *supervisor) addNode(ctx context.Context, req controlRequest) error {
	if err := checkNodeName(req.Component); err != nil {
		return err
	}
	if s.component(req.Component) != nil {
		return fmt.Errorf("%s exists already", req.Component)
	}
	since := time.Now()
	if err := s.launchNode(ctx, req.Component, req.Taint); err != nil {
		return err
	}
	return s.awaitNode(ctx, req, since)
}

func (s *supervisor) awaitNode(ctx context.Context, req controlRequest, since time.Time) error {
	if req.NoWait {
		return nil
	}
	return s.component(req.Component).awaitReady(ctx, s.layout, since)
}

// rebootNode is a machine that restarts: mounts and pods' containers are gone, the kubelet's files are still there.
func (s *supervisor) rebootNode(ctx context.Context, req controlRequest) error {
	n, err := s.findNode(req.Component)
	if err != nil {
		return err
	}
	if err := s.haltNode(n); err != nil {
		return err
	}
	since := time.Now()
	if err := s.startNode(ctx, n); err != nil {
		return err
	}
	return s.awaitNode(ctx, req, since)
}

// removeNode also deletes the Node object, as a cloud provider does after a machine is gone.
func (s *supervisor) removeNode(ctx context.Context, req controlRequest) error {
	n, err := s.findNode(req.Component)
	if err != nil {
		return err
	}
	if err := s.haltNode(n); err != nil {
		return err
	}
	s.mu.Lock()
	s.nodes = slices.DeleteFunc(s.nodes, func(other *node) bool { return other == n })
	s.components = slices.DeleteFunc(s.components, func(c *component) bool { return c == n.host || c == n.kubelet })
	s.mu.Unlock()
	err = s.admin.CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
