package main

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	componentversion "k8s.io/component-base/version"
)

// supervisor owns every component of one cluster. It is a process of its own below `up` (the guard): whichever of
// the two is killed, the other one cleans up.
type supervisor struct {
	layout  layout
	options options
	ports   ports
	began   time.Time
	log     io.Writer

	ca     *authority
	spawn  *spawner
	health *http.Client
	admin  *kubernetes.Clientset

	// ops serialises whatever changes the set of components; mu guards the two collections.
	ops        sync.Mutex
	mu         sync.Mutex
	components []*component
	nodes      []*node

	stop     chan struct{}
	stopOnce sync.Once
}

// node is a host process (mount namespace, container runtime) and a kubelet.
type node struct {
	name          string
	host, kubelet *component
}

func (s *supervisor) say(format string, args ...any) {
	fmt.Fprintf(s.log, "%6.2fs %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// readyLine ends the progress of a start.
const readyLine = "cluster ready"

func (s *supervisor) requestStop() { s.stopOnce.Do(func() { close(s.stop) }) }

// superviseMain is started by `up` with options as JSON on the command line, a pipe as standard input that breaks
// when `up` dies, and a pipe as standard output for the one JSON line.
func superviseMain(args []string) error {
	fs := flag.NewFlagSet("supervise", flag.ContinueOnError)
	raw := fs.String("options", "", "options as JSON")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var o options
	if err := json.Unmarshal([]byte(*raw), &o); err != nil {
		return fmt.Errorf("--options: %w", err)
	}
	l, err := newLayout(o.Dir)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(l.log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// Progress goes to a standard error that may be a pipe nobody reads any more; that must not kill us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s := &supervisor{layout: l, options: o, began: time.Now(), log: io.MultiWriter(log, os.Stderr), stop: make(chan struct{})}
	s.watchForStop()
	return s.run()
}

func (s *supervisor) watchForStop() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		s.requestStop()
	}()
	go func() {
		// Nothing is ever sent; the read ends when the guard is gone.
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.requestStop()
	}()
}

func (s *supervisor) run() error {
	err := s.startWithRetry()
	if err == nil {
		err = s.serveUntilStopped()
	}
	if left := s.teardown(); left != nil {
		return left
	}
	return err
}

// startWithRetry starts the cluster and, because free ports can be lost to another process, tries again when a
// component complains of one.
func (s *supervisor) startWithRetry() error {
	for attempt := 1; ; attempt++ {
		err := s.start()
		if err == nil || attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		s.say("a port was taken by another process, starting again")
		if err := s.teardown(); err != nil {
			return err
		}
		if err := s.layout.prepare(); err != nil {
			return err
		}
	}
}

func (s *supervisor) serveUntilStopped() error {
	listener, err := s.listenControl()
	if err != nil {
		return err
	}
	defer listener.Close()
	state, err := s.saveState()
	if err != nil {
		return err
	}
	line, err := json.Marshal(state)
	if err != nil {
		return err
	}
	s.say(readyLine)
	fmt.Println(string(line))
	<-s.stop
	return nil
}

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
		if err := s.launchNode(ctx, fmt.Sprintf("node-%d", i)); err != nil {
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
	s.ports = ports{free[0], free[1], free[2], free[3], free[4], free[5], free[6]}
	if s.ca, err = writePKI(s.layout); err != nil {
		return err
	}
	tokens, err := writeTokens(s.layout)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.layout.auditPolicy(), []byte(auditPolicy), 0o644); err != nil {
		return err
	}
	server := loopback("https", s.ports.apiserver)
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
	apiserver := s.add("kube-apiserver", apiserverArgs(l, p, o), loopback("https", p.apiserver)+"/readyz")
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

// launchNode starts a node's host and kubelet; readiness is the caller's to await.
func (s *supervisor) launchNode(ctx context.Context, name string) error {
	l := s.layout
	subject := pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
	// A client certificate, unlike a line of the token file, can be made while the API server runs.
	cred := credential{certFile: l.pki(name + ".crt"), keyFile: l.pki(name + ".key")}
	if err := s.ca.issue(cred.certFile, cred.keyFile, subject); err != nil {
		return err
	}
	server := loopback("https", s.ports.apiserver)
	if err := writeKubeconfig(l.kubeconfig(name), server, l.caFile(), name, cred); err != nil {
		return err
	}
	if err := os.MkdirAll(l.kubeletDir(name), 0o755); err != nil {
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
		args:  append(append([]string{"node"}, common...), "--status-period="+s.options.StatusPeriod.String(), "--feature-gates="+s.options.FeatureGates),
		ready: nodeReady(s.admin, name),
	}
	s.mu.Lock()
	s.nodes = append(s.nodes, n)
	s.components = append(s.components, n.host, n.kubelet)
	s.mu.Unlock()
	return s.startNode(ctx, n)
}

func (s *supervisor) startNode(ctx context.Context, n *node) error {
	since := time.Now()
	if err := n.host.start(s.layout, s.report); err != nil {
		return err
	}
	if err := n.host.awaitReady(ctx, s.layout, since); err != nil {
		return err
	}
	n.kubelet.spawn = s.spawn
	if isRoot() {
		pid, _ := n.host.snapshot()
		inside, err := newSpawner(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err != nil {
			return err
		}
		n.kubelet.spawn = inside
	}
	return n.kubelet.start(s.layout, s.report)
}

// state describes the cluster as it is now.
func (s *supervisor) state() *clusterState {
	l := s.layout
	out := &clusterState{
		Dir: l.dir, Version: componentversion.Get().GitVersion,
		APIServer: loopback("https", s.ports.apiserver), Etcd: loopback("http", s.ports.etcdClient),
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
			Name: n.name, KubeletDir: l.kubeletDir(n.name), PluginsRegistry: l.at(n.name, "plugins_registry"),
			Kubeconfig: l.kubeconfig(n.name), RealMounts: isRoot(), MountNamespacePID: pid,
		})
	}
	return out
}

func (s *supervisor) saveState() (*clusterState, error) {
	state := s.state()
	state.StartMilliseconds = time.Since(s.began).Milliseconds()
	return state, state.write(s.layout)
}

// teardown ends everything the hard way (the API server would drain for a minute) and proves that nothing is left.
func (s *supervisor) teardown() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	s.mu.Lock()
	components, nodes := s.components, s.nodes
	s.components, s.nodes = nil, nil
	s.mu.Unlock()
	began := time.Now()

	hosts := map[*component]bool{}
	for _, n := range nodes {
		hosts[n.host] = true
	}
	// The newest first: kubelets, then scheduler, controllers, API server, etcd.
	for i := len(components) - 1; i >= 0; i-- {
		if c := components[i]; !hosts[c] {
			if err := c.kill(); err != nil {
				s.say("%v", err)
			}
		}
	}
	keep := map[int]bool{}
	for _, n := range nodes {
		if pid, state := n.host.snapshot(); state == stateRunning {
			keep[pid] = true
		}
	}
	for _, p := range killProcesses(s.layout, keep) {
		s.say("ended %s, which still ran on %s", p.name, p.node)
	}
	// While the hosts hold the mount namespaces, backing files of loop devices still have their full paths.
	detachLoops(s.layout)
	for host := range hosts {
		if err := host.kill(); err != nil {
			s.say("%v", err)
		}
	}
	left := sweep(s.layout)
	s.say("stopped in %.2fs", time.Since(began).Seconds())
	if len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	}
	return nil
}
