package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	componentversion "k8s.io/component-base/version"
)

// clusterState is the JSON line of `up`, the content of D/cluster.json and the core of `ctl status`.
type clusterState struct {
	Dir               string            `json:"dir"`
	Version           string            `json:"version"`
	APIServer         string            `json:"apiServer"`
	Etcd              string            `json:"etcd"`
	CAFile            string            `json:"caFile"`
	Kubeconfig        string            `json:"kubeconfig"`
	Proxy             string            `json:"proxy,omitempty"`
	ProxyControl      string            `json:"proxyControl,omitempty"`
	ProxyKubeconfig   string            `json:"proxyKubeconfig,omitempty"`
	ServingCert       string            `json:"servingCertFile"`
	TokenFiles        map[string]string `json:"tokenFiles"`
	AuditLog          string            `json:"auditLog,omitempty"`
	LogDir            string            `json:"logDir"`
	ControlSocket     string            `json:"controlSocket"`
	SupervisorPID     int               `json:"supervisorPid"`
	GuardPID          int               `json:"guardPid"`
	PIDs              map[string]int    `json:"pids"`
	Components        map[string]string `json:"components"`
	Nodes             []nodeState       `json:"nodes"`
	StartMilliseconds int64             `json:"startMilliseconds"`
}

// nodeState is what a test needs in order to run a driver on a node.
type nodeState struct {
	Name              string `json:"name"`
	KubeletDir        string `json:"kubeletDir"`
	PluginsRegistry   string `json:"pluginsRegistry"`
	Kubeconfig        string `json:"kubeconfig"`
	RealMounts        bool   `json:"realMounts"`
	MountNamespacePID int    `json:"mountNamespacePid"`
	Containerd        string `json:"containerd,omitempty"`
	Runtime           string `json:"runtime,omitempty"`
}

func readState(l layout) (*clusterState, error) {
	raw, err := os.ReadFile(l.state())
	if err != nil {
		return nil, fmt.Errorf("no cluster in %s (start one with: csi-cluster up --dir %s): %w", l.dir, l.dir, err)
	}
	var s clusterState
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", l.state(), err)
	}
	return &s, nil
}

// write replaces the file in one step, so that a reader never sees half of it.
func (s *clusterState) write(l layout) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next := l.state() + ".next"
	if err := os.WriteFile(next, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, l.state())
}

func (s *clusterState) node(name string) (*nodeState, error) {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i], nil
		}
	}
	return nil, fmt.Errorf("no node %q in %s", name, s.Dir)
}

// state describes the cluster as it is now.
func (s *supervisor) state() *clusterState {
	l := s.layout
	out := &clusterState{
		Dir: l.dir, Version: componentversion.Get().GitVersion,
		APIServer: s.ports.apiserverURL(), Etcd: loopback("http", s.ports.etcdClient),
		CAFile: l.caFile(), ServingCert: l.pki("serving.crt"), Kubeconfig: l.kubeconfig(adminUser),
		TokenFiles: map[string]string{}, LogDir: l.at("log"), ControlSocket: l.controlSocket(),
		SupervisorPID: os.Getpid(), GuardPID: os.Getppid(),
		PIDs: map[string]int{}, Components: map[string]string{}, Nodes: []nodeState{},
	}
	for _, u := range staticUsers() {
		out.TokenFiles[u.file] = l.tokenFile(u.file)
	}
	if s.options.Audit {
		out.AuditLog = l.auditLog()
	}
	if s.options.Proxy {
		out.Proxy, out.ProxyControl = loopback("https", s.ports.proxy), loopback("http", s.ports.proxyControl)
		out.ProxyKubeconfig = l.proxyKubeconfig(adminUser)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.components {
		pid, state := c.snapshot()
		out.Components[c.name] = state
		if state == stateRunning || state == statePaused {
			out.PIDs[c.name] = pid
		}
	}
	for _, n := range s.nodes {
		pid, _ := n.host.snapshot()
		out.Nodes = append(out.Nodes, nodeState{
			Name: n.name, KubeletDir: s.kubeletDir(n.name), PluginsRegistry: filepath.Join(s.kubeletDir(n.name), "plugins_registry"),
			Kubeconfig: l.kubeconfig(n.name), RealMounts: isRoot(), MountNamespacePID: pid,
			Containerd: s.containerdSocket(), Runtime: s.options.Runtime,
		})
	}
	return out
}

func (s *supervisor) saveState() (*clusterState, error) {
	state := s.state()
	state.StartMilliseconds = time.Since(s.began).Milliseconds()
	return state, state.write(s.layout)
}
