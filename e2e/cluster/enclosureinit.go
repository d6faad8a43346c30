package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// enclosureInitMain is process 1 of an enclosure: it furnishes the namespaces, starts the program, reaps what nobody
// else does, and ends with the program. Containers that enter "the host" through process 1 arrive here.
func enclosureInitMain(args []string) error {
	fs := flag.NewFlagSet("enclosure-init", flag.ContinueOnError)
	dir := fs.String("dir", "", "directory of the enclosure")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if os.Getpid() != 1 || fs.NArg() == 0 {
		return fmt.Errorf("this is for csi-cluster enclosed alone")
	}
	if err := enclosureMounts(*dir); err != nil {
		return err
	}
	if err := enclosureNetwork(); err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	child, err := os.StartProcess(fs.Arg(0), fs.Args(), &os.ProcAttr{Dir: cwd, Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = child.Signal(s)
		}
	}()
	return reapUntil(child.Pid)
}

// reapUntil reaps every child until the given one has ended, and gives its exit code.
func reapUntil(pid int) error {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case ended != pid:
		case status.Signaled():
			return exitCode(128 + int(status.Signal()))
		case status.ExitStatus() != 0:
			return exitCode(status.ExitStatus())
		default:
			return nil
		}
	}
}

func enclosureMounts(dir string) error {
	steps := []struct {
		what, source, target, kind string
		flags                      uintptr
	}{
		{"keep mounts to ourselves", "", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"own /var/lib", filepath.Join(dir, "lib"), "/var/lib", "", unix.MS_BIND},
		{"own /var/log", filepath.Join(dir, "log"), "/var/log", "", unix.MS_BIND},
		{"own /run", "tmpfs", "/run", "tmpfs", 0},
		{"own /proc", "proc", "/proc", "proc", 0},
		// As on a real node: what a driver mounts in its container must arrive at the kubelet.
		{"share mounts with containers", "", "/", "", unix.MS_REC | unix.MS_SHARED},
	}
	for _, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, ""); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// enclosureNetwork raises the loop-back interface and gives it the first service address: an API server that listens
// there is found by the in-cluster configuration of pods, without kube-proxy and DNS.
func enclosureNetwork() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("raise lo: %w", err)
	}
	for _, set := range []struct {
		request uint
		address [4]byte
	}{{unix.SIOCSIFADDR, serviceAddress}, {unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 255}}} {
		alias, err := unix.NewIfreq("lo:0")
		if err != nil {
			return err
		}
		if err := alias.SetInet4Addr(set.address[:]); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, set.request, alias); err != nil {
			return fmt.Errorf("give lo the address %s: %w", firstServiceIP, err)
		}
	}
	return nil
}
