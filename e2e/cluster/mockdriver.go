package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	mock "k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

// mockDriverMain serves the CSI driver that Kubernetes' own storage tests use: a driver that nobody in this project
// wrote. It keeps volumes in memory and mounts nothing.
func mockDriverMain(args []string) error {
	var config mock.Config
	flags := flag.NewFlagSet("mock-driver", flag.ContinueOnError)
	endpoint := flags.String("endpoint", "", "unix://PATH or PATH of the socket (required)")
	nodeID := flags.String("nodeid", "", "node ID that NodeGetInfo reports (required)")
	flags.StringVar(&config.DriverName, "name", mock.Name, "driver name")
	flags.BoolVar(&config.DisableAttach, "disable-attach", false, "no ControllerPublish")
	flags.Int64Var(&config.AttachLimit, "attach-limit", 0, "volumes per node")
	flags.BoolVar(&config.EnableTopology, "enable-topology", false, "report topology")
	flags.BoolVar(&config.NodeExpansionRequired, "node-expand-required", false, "expansion needs a node call")
	flags.BoolVar(&config.DisableControllerExpansion, "disable-controller-expansion", false, "no ControllerExpand")
	flags.BoolVar(&config.PermissiveTargetPath, "permissive-target-path", true, "create missing parents of target paths")
	// By these, upstream's manifests start the image that this program stands for (conformance --mock).
	flags.StringVar(&config.DriverName, "drivername", mock.Name, "the same as --name")
	enableAttach := flags.Bool("enable-attach", false, "ControllerPublish, where --drivername names the driver")
	flags.String("statedir", "", "ignored: volumes are in memory")
	proxied := flags.String("proxy-endpoint", "", "tcp://[HOST]:PORT: be no driver, pass connections to --endpoint on to who connects there")
	klog.InitFlags(flags)
	if err := flags.Set("v", "3"); err != nil { // from 3 on it logs every call
		return err
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	path := strings.TrimPrefix(*endpoint, "unix://")
	if path == "" || *nodeID == "" {
		return errors.New("--endpoint and --nodeid are required")
	}
	if err := removeSocket(path); err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	if *proxied != "" {
		return passOn(listener, strings.TrimPrefix(*proxied, "tcp://"))
	}
	byManifest := false
	flags.Visit(func(f *flag.Flag) { byManifest = byManifest || f.Name == "drivername" })
	if byManifest {
		config.DisableAttach = !*enableAttach
	}
	service := mock.New(config)
	var node csi.NodeServer = mockNode{service, *nodeID}
	if byManifest {
		// Its controller attaches to no node but the one that its own node service names.
		node = service
	}
	d := driver.NewCSIDriver(&driver.CSIDriverServers{
		Identity: service, Controller: service, Node: node,
	})
	if err := d.Start(listener, nil); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	d.Stop()
	return nil
}

// passOn joins each connection to the socket with one to address. The suite, which is the driver then, makes those in
// advance, and the sidecars' deadlines begin with theirs.
func passOn(socket net.Listener, address string) error {
	remote, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--proxy-endpoint: %w", err)
	}
	for {
		driver, err := remote.Accept()
		if err != nil {
			return fmt.Errorf("--proxy-endpoint: %w", err)
		}
		sidecar, err := socket.Accept()
		if err != nil {
			return fmt.Errorf("--endpoint: %w", err)
		}
		go copyUntilClosed(sidecar, driver)
		go copyUntilClosed(driver, sidecar)
	}
}

// copyUntilClosed closes both at the end of either, which ends the copy in the other direction, too.
func copyUntilClosed(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// removeSocket removes what an earlier driver left at path, but nothing that is not a socket.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--endpoint: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("--endpoint %s exists and is not a socket", path)
	}
	return os.Remove(path)
}

// mockNode reports the node ID it was given; upstream's service always reports the driver's name.
type mockNode struct {
	csi.NodeServer
	nodeID string
}

func (m mockNode) NodeGetInfo(ctx context.Context, req *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	info, err := m.NodeServer.NodeGetInfo(ctx, req)
	if err == nil {
		info.NodeId = m.nodeID
	}
	return info, err
}
