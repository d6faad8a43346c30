package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawner starts processes from one OS thread that never ends. The kernel delivers a parent-death signal when the
// *thread* that forked ends, and Go ends threads as it likes, so every child that carries Pdeathsig must come from a
// thread that lives as long as this process.
type spawner struct{ jobs chan func() }

// newSpawner returns a spawner whose children live in the mount namespace nsFile (a /proc/PID/ns/mnt path); with ""
// they live in ours.
func newSpawner(nsFile string) (*spawner, error) {
	s := &spawner{jobs: make(chan func())}
	entered := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if nsFile != "" {
			if err := enterMountNamespace(nsFile); err != nil {
				// The goroutine ends locked, which makes Go discard the half-moved thread.
				entered <- err
				return
			}
		}
		entered <- nil
		for job := range s.jobs {
			job()
		}
	}()
	return s, <-entered
}

// close ends the thread, and with it every child that is still alive.
func (s *spawner) close() { close(s.jobs) }

// enterMountNamespace moves the calling, locked thread into a mount namespace.
func enterMountNamespace(nsFile string) error {
	fd, err := unix.Open(nsFile, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", nsFile, err)
	}
	defer unix.Close(fd)
	// A thread that shares its root and working directory with others may not change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare filesystem attributes: %w", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace %s: %w", nsFile, err)
	}
	return nil
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}

// envDir and envNode mark every process of a cluster, so that what is left can be found after any kind of crash.
const (
	envDir  = "CSI_CLUSTER_DIR"
	envNode = "CSI_CLUSTER_NODE"
)

// componentCommand prepares a child of our own executable: own process group, killed with us, and an environment
// that holds nothing of the caller's (a stray KUBECONFIG overrides the flag in some programs).
func componentCommand(l layout, component, node string, args []string) (*exec.Cmd, error) {
	log, err := os.OpenFile(l.log(component), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// A working directory of its own, and empty: the container runtime without containers reports no log path, and
	// kubelet, cleaning a dead container's logs up, removes everything that matches PATH* from where it stands.
	cwd := l.cwd(component)
	if err := os.MkdirAll(cwd, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "csi-cluster"
	cmd.Dir = cwd
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + l.at("tmp"),
		"TMPDIR=" + l.at("tmp"),
		envDir + "=" + l.dir,
	}
	if node != "" {
		cmd.Env = append(cmd.Env, envNode+"="+node)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}
