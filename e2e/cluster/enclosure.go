package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// envEnclosure names the directory of the enclosure that a process lives in.
const envEnclosure = "CSI_CLUSTER_ENCLOSURE"

// hiddenPaths are replaced inside an enclosure, because programs of a real node write below them whatever they are
// configured to, and upstream's manifests name /var/lib/kubelet.
var hiddenPaths = []string{"/var/lib", "/var/log", "/run"}

// enclosedMain runs a program as on a machine of its own: own processes, mounts, network, host name. What the program
// started ends with it, and what the kernel does not take back by itself (loop devices, cgroups, files) is removed, by
// us or, if we are killed, by a second process that only waits for that.
func enclosedMain(args []string) error {
	fs := flag.NewFlagSet("enclosed", flag.ContinueOnError)
	dir := fs.String("dir", "", "directory for everything that is written, deleted afterwards (default: a new one in /tmp)")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	program, err := enclosedProgram(fs.Args())
	if err != nil {
		return err
	}
	d, err := makeEnclosure(*dir)
	if err != nil {
		return err
	}
	leash, sweeper, err := startSweeper(d)
	if err != nil {
		return err
	}
	code, err := runEnclosed(d, append([]string{program}, fs.Args()[1:]...))
	left := sweepEnclosure(d)
	leash.Close()
	_ = sweeper.Wait()
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	case code != 0:
		return exitCode(code)
	}
	return nil
}

func enclosedProgram(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("usage: enclosed [--dir D] -- PROGRAM [ARGS...]")
	}
	if !isRoot() {
		return "", errors.New("needs root, for namespaces, mounts and containers")
	}
	program, err := exec.LookPath(words[0])
	if err != nil {
		return "", err
	}
	if program, err = filepath.Abs(program); err != nil {
		return "", err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, path := range []string{program, cwd} {
		for _, hidden := range hiddenPaths {
			if strings.HasPrefix(path, hidden+"/") {
				return "", fmt.Errorf("%s cannot be used: %s is replaced by an empty directory inside; move it elsewhere", path, hidden)
			}
		}
	}
	return program, nil
}

func makeEnclosure(dir string) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("/tmp", "csi-")
		if err != nil {
			return "", err
		}
		dir = made
	}
	l, err := newLayout(dir)
	if err != nil {
		return "", err
	}
	if err := l.checkOurs(); err != nil {
		return "", err
	}
	if left := sweepEnclosure(l.dir); len(left) > 0 {
		return "", fmt.Errorf("an earlier enclosure left behind: %s", strings.Join(left, "; "))
	}
	for _, sub := range []string{"lib", "log", "tmp"} {
		if err := os.MkdirAll(l.at(sub), 0o755); err != nil {
			return "", err
		}
	}
	if l, err = newLayout(l.dir); err != nil {
		return "", err
	}
	return l.dir, os.WriteFile(l.marker(), []byte("csi-cluster may delete everything in this directory\n"), 0o644)
}

// startSweeper starts the process that cleans up if we are killed. It sees that by the end of its standard input.
func startSweeper(dir string) (io.Closer, *exec.Cmd, error) {
	sweeper := exec.Command("/proc/self/exe", "enclosure-sweeper", "--dir", dir)
	sweeper.Args[0] = "csi-cluster"
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	leash, err := sweeper.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return leash, sweeper, sweeper.Start()
}

func enclosureSweeperMain(args []string) error {
	fs := flag.NewFlagSet("enclosure-sweeper", flag.ContinueOnError)
	dir := fs.String("dir", "", "directory of the enclosure")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if left := sweepEnclosure(*dir); len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	}
	return nil
}

// runEnclosed starts the first process of the enclosure and waits for it; when it ends, the kernel ends all others.
func runEnclosed(dir string, command []string) (int, error) {
	first := exec.Command("/proc/self/exe", append([]string{"enclosure-init", "--dir", dir, "--"}, command...)...)
	first.Args[0] = "csi-cluster"
	first.Stdin, first.Stdout, first.Stderr = os.Stdin, os.Stdout, os.Stderr
	first.Env = append(os.Environ(), envEnclosure+"="+dir, "TMPDIR="+filepath.Join(dir, "tmp"))
	first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	spawn, err := newSpawner("")
	if err != nil {
		return 0, err
	}
	if err := spawn.start(first); err != nil {
		return 0, fmt.Errorf("namespaces cannot be made here: %w", err)
	}
	go func() {
		<-signals
		_ = first.Process.Signal(syscall.SIGTERM)
		select {
		case <-signals:
		case <-time.After(30 * time.Second):
		}
		_ = first.Process.Kill()
	}()
	err = first.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.Exited() {
			return exit.ExitCode(), nil
		}
		return 0, fmt.Errorf("everything inside was ended (%w)", err)
	}
	return 0, err
}

// sweepEnclosure removes what outlives the processes of an enclosure, and names what it could not remove.
func sweepEnclosure(dir string) []string {
	var left []string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		killEnclosed(dir)
		detachLoops(dir)
		for _, device := range loopsBelow(dir) {
			left = append(left, "loop device "+device)
		}
		left = append(left, removeCgroups(cgroupName(dir))...)
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		return left
	}
	if err := os.RemoveAll(dir); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// killEnclosed ends a first process that outlived whoever started it; a parent-death signal may be a moment late.
func killEnclosed(dir string) {
	for _, pid := range allPIDs() {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(string(raw), "\x00")
		if len(words) > 3 && words[0] == "csi-cluster" && words[1] == "enclosure-init" && words[3] == dir {
			_ = unix.Kill(pid, unix.SIGKILL)
			gone(pid, 10*time.Second)
		}
	}
}
