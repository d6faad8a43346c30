package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	kubeletoptions "k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/local"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"

	"golang.org/x/sys/unix"
)

type nodeFlags struct {
	dir, name, gates string
	taint            string
	statusPeriod     time.Duration
	realMounts       bool
	verbosity        int
}

// nodeMain runs one kubelet. One per process, because the CSI volume plugin keeps its driver table in globals.
func nodeMain(args []string) error {
	var n nodeFlags
	fs := flag.NewFlagSet("node", flag.ContinueOnError)
	fs.StringVar(&n.dir, "dir", "", "cluster directory")
	fs.StringVar(&n.name, "name", "", "node name")
	fs.StringVar(&n.gates, "feature-gates", "", "kubelet feature gates")
	fs.StringVar(&n.taint, "register-with-taint", "", "key of a taint with which the node is registered")
	fs.DurationVar(&n.statusPeriod, "status-period", 500*time.Millisecond, "node status period")
	fs.BoolVar(&n.realMounts, "real-mounts", false, "we are root: use the real mounter")
	fs.IntVar(&n.verbosity, "v", 2, "log verbosity")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(n.dir)
	if err != nil {
		return err
	}
	klogFlags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(klogFlags)
	if err := klogFlags.Set("v", fmt.Sprint(n.verbosity)); err != nil {
		return err
	}
	if n.gates != "" {
		if err := utilfeature.DefaultMutableFeatureGate.Set(n.gates); err != nil {
			return fmt.Errorf("--feature-gates: %w", err)
		}
	}
	server, err := kubeletServer(l, n)
	if err != nil {
		return err
	}
	deps, err := kubeletDependencies(l, n)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := kubeletapp.RunKubelet(ctx, server, deps); err != nil {
		return err
	}
	select {}
}

// kubeletServer is the configuration of a kubelet that serves nothing, runs no containers and watches no host.
func kubeletServer(l layout, n nodeFlags) (*kubeletoptions.KubeletServer, error) {
	f := kubeletoptions.NewKubeletFlags()
	f.RootDirectory = l.kubeletDir(n.name)
	f.CertDirectory = l.at("tmp", n.name+"-pki")
	f.HostnameOverride = n.name
	f.NodeIP = nodeAddress()
	f.NodeLabels = map[string]string{"kubernetes.io/hostname": n.name}

	c, err := kubeletoptions.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	if n.taint != "" {
		c.RegisterWithTaints = []v1.Taint{{Key: n.taint, Effect: v1.TaintEffectNoSchedule}}
	}
	c.ProviderID = "csi-cluster://" + n.name
	c.PodLogsDir = l.podLogs(n.name)
	c.VolumePluginDir = l.at("tmp", n.name+"-flexvolume")
	c.ContainerRuntimeEndpoint = "unix://" + l.criSocket(n.name)
	c.ImageServiceEndpoint = c.ContainerRuntimeEndpoint
	c.ResolverConfig = ""
	c.StaticPodPath = ""
	c.ClusterDNS = []string{"10.0.0.10"} // nobody is there; without an address every pod sync emits an event
	c.MaxPods = 500
	// A server would listen on all addresses, and nothing here asks a kubelet anything.
	c.EnableServer, c.ReadOnlyPort, c.HealthzPort = false, 0, 0
	c.EnableControllerAttachDetach = true
	c.LocalStorageCapacityIsolation = false
	c.CgroupsPerQOS, c.CgroupRoot = false, ""
	c.EnforceNodeAllocatable = nil
	c.FailSwapOn, c.FailCgroupV1 = false, false
	c.MakeIPTablesUtilChains = false
	c.HairpinMode = kubeletconfig.HairpinNone
	// With the default of 10 s every attach waits for volumesInUse, which only a status update carries.
	c.NodeStatusUpdateFrequency.Duration = n.statusPeriod
	c.SyncFrequency.Duration = 10 * time.Second
	c.MaxOpenFiles = openFileLimit()
	return &kubeletoptions.KubeletServer{KubeletFlags: *f, KubeletConfiguration: *c}, nil
}

// nodeAddress is an address that kubelet accepts as its own. Nothing listens on it; kubelet insists on one that is not
// the loopback, and would look the node name up in DNS on every status update if it had none.
func nodeAddress() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// openFileLimit keeps the limit we have: raising it needs a capability that containers often lack.
func openFileLimit() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max > 1<<20 {
		return 1 << 20
	}
	return int64(limit.Max)
}

func kubeletDependencies(l layout, n nodeFlags) (*kubelet.Dependencies, error) {
	client, heartbeat, err := kubeletClients(l, n.name)
	if err != nil {
		return nil, err
	}
	deps := &kubelet.Dependencies{
		KubeClient:        client,
		HeartbeatClient:   heartbeat,
		EventClient:       client.CoreV1(),
		CAdvisorInterface: &cadvisortest.Fake{NodeName: n.name},
		ContainerManager:  cm.NewStubContainerManager(),
		OOMAdjuster:       oom.NewFakeOOMAdjuster(),
		VolumePlugins:     volumePlugins(),
		TracerProvider:    noop.NewTracerProvider(),
		// ProbeManager stays nil: the fake one reports containers ready before their volumes are mounted.
		PodStartupLatencyTracker:  kubeletutil.NewPodStartupLatencyTracker(),
		NodeStartupLatencyTracker: newNodeStartupLatencyTracker(),
	}
	if err := connectRuntime(deps, "unix://"+l.criSocket(n.name)); err != nil {
		return nil, err
	}
	if n.realMounts {
		mounter := mount.New("")
		deps.Mounter, deps.Subpather, deps.HostUtil = mounter, subpath.New(mounter), hostutil.NewHostUtil()
		deps.OSInterface = kubecontainer.RealOS{}
		return deps, nil
	}
	// Without root: node RPCs are still sent, nothing is mounted. A real recorder would make kubelet open the kernel
	// log device.
	deps.Mounter, deps.Subpather = &mount.FakeMounter{}, &subpath.FakeSubpath{}
	deps.HostUtil, deps.OSInterface = hostutil.NewFakeHostUtil(nil), &containertest.FakeOS{}
	deps.Recorder = &record.FakeRecorder{}
	return deps, nil
}

// kubeletClients returns the general client and one with a short timeout for heartbeats, so that a paused API server
// cannot hold the lease renewal up for long.
func kubeletClients(l layout, node string) (client, heartbeat *kubernetes.Clientset, err error) {
	cfg, err := clientConfig(l.kubeconfig(node))
	if err != nil {
		return nil, nil, err
	}
	cfg.UserAgent = "kubelet"
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	if client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, nil, err
	}
	cfg.Timeout = 10 * time.Second
	heartbeat, err = kubernetes.NewForConfig(cfg)
	return client, heartbeat, err
}

func volumePlugins() []volume.VolumePlugin {
	var plugins []volume.VolumePlugin
	plugins = append(plugins, csi.ProbeVolumePlugins()...)
	plugins = append(plugins, emptydir.ProbeVolumePlugins()...)
	plugins = append(plugins, projected.ProbeVolumePlugins()...)
	plugins = append(plugins, secret.ProbeVolumePlugins()...)
	plugins = append(plugins, configmap.ProbeVolumePlugins()...)
	plugins = append(plugins, downwardapi.ProbeVolumePlugins()...)
	plugins = append(plugins, hostpath.ProbeVolumePlugins(volume.VolumeConfig{})...)
	return append(plugins, local.ProbeVolumePlugins()...)
}

// checkNodeName keeps names usable as file names, component names and Node objects.
func checkNodeName(name string) error {
	if name == "" || len(name) > 63 {
		return fmt.Errorf("node name %q: want 1 to 63 characters", name)
	}
	// A node's directory and kubeconfig stand beside these.
	reserved := []string{"pki", "tokens", "log", "run", "tmp", "etcd", adminUser, controllerManagerUser, schedulerUser}
	if slices.Contains(reserved, name) || strings.HasSuffix(name, "-host") {
		return fmt.Errorf("node name %q is reserved", name)
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
			return fmt.Errorf("node name %q: only a-z, 0-9 and - are allowed", name)
		}
	}
	return nil
}

func isRoot() bool { return os.Geteuid() == 0 }
