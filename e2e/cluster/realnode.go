package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"

	"golang.org/x/sys/unix"
)

// realKubeletDir is where every kubelet has its root and where upstream's manifests expect it. In an enclosure it
// belongs to us alone.
const realKubeletDir = "/var/lib/kubelet"

// nodePrograms are what a real node needs besides a kubelet, below the folder that --runtime names.
var nodePrograms = []string{"bin/containerd", "bin/ctr", "bin/runc", "bin/containerd-shim-runc-v2", "cni/ptp", "cni/host-local", "cni/loopback"}

func (o *options) validateReal() error {
	switch {
	case o.Nodes != 1:
		return fmt.Errorf("--nodes %d: there is exactly one real node", o.Nodes)
	case os.Getenv(envEnclosure) == "":
		return fmt.Errorf("--real-node needs an enclosure: csi-cluster enclosed -- csi-cluster up --real-node ...")
	case o.Runtime == "":
		return fmt.Errorf("--real-node needs --runtime: a folder with the programs of a node")
	}
	runtime, err := filepath.Abs(o.Runtime)
	if err != nil {
		return err
	}
	for _, name := range nodePrograms {
		if _, err := exec.LookPath(filepath.Join(runtime, name)); err != nil {
			return fmt.Errorf("--runtime %s lacks %s", runtime, name)
		}
	}
	o.Runtime = runtime
	return nil
}

func (s *supervisor) kubeletDir(node string) string {
	if s.options.RealNode {
		return realKubeletDir
	}
	return s.layout.kubeletDir(node)
}

func (s *supervisor) containerdSocket() string {
	if s.options.RealNode {
		return s.layout.at("run", "containerd.sock")
	}
	return ""
}

// makeReal turns a hollow node into a real one: containerd instead of a runtime that runs nothing, and the kubelet as
// it is shipped.
func (s *supervisor) makeReal(n *node) error {
	l, runtime, socket := s.layout, s.options.Runtime, s.containerdSocket()
	files := map[string]string{
		l.at("containerd.toml"):          containerdConfig(l, runtime, socket),
		l.at("cni", "10-ptp.conflist"):   networkConfig,
		l.at("resolv.conf"):              "nameserver 10.0.0.10\n", // nobody is there
		l.at(n.name + ".kubelet.config"): kubeletConfig(l, n.name, socket, s.options.gatesYAML()),
	}
	for file, text := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	bin := filepath.Join(runtime, "bin")
	n.host = &component{
		name: n.host.name, node: n.name, spawn: s.spawn,
		program: filepath.Join(bin, "containerd"), path: bin,
		args:  []string{"--config", l.at("containerd.toml")},
		ready: containerdReady(bin, socket),
	}
	n.kubelet.args = []string{
		"kubelet",
		"--config=" + l.at(n.name+".kubelet.config"),
		"--kubeconfig=" + l.kubeconfig(n.name),
		"--root-dir=" + realKubeletDir,
		"--cert-dir=" + l.at("tmp", n.name+"-pki"),
		"--hostname-override=" + n.name,
		// The loop-back address is refused; this one is as private here.
		"--node-ip=" + firstServiceIP,
		"--v=2",
	}
	return nil
}

func containerdReady(bin, socket string) func(context.Context, time.Time) error {
	return func(ctx context.Context, _ time.Time) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(bin, "ctr"), "-a", socket, "version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("containerd: %w: %.200s", err, out)
		}
		return nil
	}
}

// kubeletMain is upstream's command. It gets a context of our own because the command's default one installs a signal
// handler that may exist only once.
func kubeletMain(args []string) error {
	return runCobra(kubeletapp.NewKubeletCommand(context.Background()), args)
}

// killContainers ends what containers run; their shims carry the cluster's mark, they do not.
func killContainers() {
	for _, pid := range cgroupProcesses(cgroupName(os.Getenv(envEnclosure))) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// importImagesMain loads OCI archives. It is ctr, with the right socket and namespace.
func importImagesMain(args []string) error {
	fs := flag.NewFlagSet("import-images", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	state, err := readState(l)
	if err != nil {
		return err
	}
	for _, node := range state.Nodes {
		if node.Containerd == "" {
			return fmt.Errorf("node %s runs no containers (up --real-node starts one that does)", node.Name)
		}
		for _, archive := range fs.Args() {
			ctr := exec.Command(filepath.Join(node.Runtime, "bin", "ctr"), "-a", node.Containerd, "-n", "k8s.io", "images", "import", archive)
			if out, err := ctr.CombinedOutput(); err != nil {
				return fmt.Errorf("import %s: %w: %s", archive, err, out)
			}
		}
	}
	return nil
}
