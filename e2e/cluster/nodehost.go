package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	fakeremote "k8s.io/cri-client/pkg/fake"

	"golang.org/x/sys/unix"
)

// nodeHostMain is the part of a node that outlives its kubelet: it holds the mount namespace (unshared by whoever
// started it) and serves a container runtime without containers, so that a restarted kubelet finds its mounts and its
// running pods again, as on a real machine.
func nodeHostMain(args []string) error {
	fs := flag.NewFlagSet("node-host", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	name := fs.String("name", "", "node name")
	realMounts := fs.Bool("real-mounts", false, "we are root in a mount namespace of our own")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	if *realMounts {
		if err := prepareMounts(l, *name); err != nil {
			return err
		}
	}
	runtime := fakeremote.NewFakeRemoteRuntime()
	// The kubelet refuses to start a container from an image without a size, and the fake's default is zero.
	runtime.ImageService.SetFakeImageSize(1)
	if err := runtime.Start("unix://" + l.criSocket(*name)); err != nil {
		return err
	}
	if err := os.WriteFile(l.nodeReady(*name), nil, 0o644); err != nil {
		return err
	}
	// What Kubernetes' packages allocated on start is garbage to this process, and there is one per node.
	debug.FreeOSMemory()
	select {}
}

func prepareMounts(l layout, node string) error {
	root := l.kubeletDir(node)
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s on itself: %w", root, err)
	}
	// Shared as on a real node: a driver may run in a namespace below ours and its mounts must still arrive here.
	if err := unix.Mount("", root, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make %s shared: %w", root, err)
	}
	// Kubelet creates links in /var/log/containers, a path that cannot be configured.
	const logs = "/var/log"
	if strings.HasPrefix(l.dir, logs) {
		return fmt.Errorf("the cluster directory %s must not lie below %s", l.dir, logs)
	}
	if err := unix.Mount("tmpfs", logs, "tmpfs", 0, "size=16m,mode=755"); err != nil {
		return fmt.Errorf("private %s: %w", logs, err)
	}
	return nil
}
