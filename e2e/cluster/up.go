package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// upMain is the guard: it prepares D, starts the supervisor, prints its JSON line, and stays in the foreground. It is
// a process of its own so that somebody is left to clean up when the supervisor is killed.
func upMain(args []string) error {
	var o options
	fs := flag.NewFlagSet("up", flag.ContinueOnError)
	o.register(fs)
	detach := fs.Bool("detach", false, "return when the cluster is ready; stop it with csi-cluster down")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err := o.validate(); err != nil {
		return err
	}
	l, err := newLayout(o.Dir)
	if err != nil {
		return err
	}
	if *detach {
		return detachGuard(args)
	}
	if _, err := askSupervisor(l, controlRequest{Verb: "status"}); err == nil {
		return fmt.Errorf("a cluster is already running in %s; stop it with: csi-cluster down --dir %s", l.dir, l.dir)
	}
	if err := l.checkOurs(); err != nil {
		return err
	}
	if left := sweep(l); len(left) > 0 {
		return fmt.Errorf("an earlier cluster left behind: %s", strings.Join(left, "; "))
	}
	if err := l.prepare(); err != nil {
		return err
	}
	// D exists only now, so only now can its path be resolved.
	if l, err = newLayout(o.Dir); err != nil {
		return err
	}
	o.Dir = l.dir
	return guard(l, o)
}

// guard runs the supervisor until one of: it ends, a signal arrives, standard input (if it is a pipe) is closed.
func guard(l layout, o options) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	supervisor := exec.Command("/proc/self/exe", "supervise", "--options", string(raw))
	supervisor.Args[0] = "csi-cluster"
	// A session of its own: an interrupt at the terminal reaches only us, and we stop things in order.
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	supervisor.Stderr = os.Stderr
	supervisor.Stdout = os.Stdout
	// The supervisor sees this pipe break when we are killed.
	lifeline, err := supervisor.StdinPipe()
	if err != nil {
		return err
	}
	defer lifeline.Close()
	if err := supervisor.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- supervisor.Wait() }()
	closed := stdinClosed()
	for {
		select {
		case <-signals:
			_ = supervisor.Process.Signal(syscall.SIGTERM)
		case <-closed:
			closed = nil
			_ = supervisor.Process.Signal(syscall.SIGTERM)
		case err := <-ended:
			if left := sweep(l); len(left) > 0 {
				return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
			}
			if err == nil {
				return nil
			}
			if state, ok := err.(*exec.ExitError); ok && state.Exited() {
				return exitCode(state.ExitCode()) // it has said why
			}
			return fmt.Errorf("the supervisor was killed (%w); everything it had started has been removed", err)
		}
	}
}

// stdinClosed reports the end of standard input if that is a pipe or socket, as when a test harness owns us. The end
// of /dev/null or of a terminal means nothing.
func stdinClosed() <-chan struct{} {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil
	}
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
	}()
	return closed
}

// detachGuard runs the guard in a session of its own, passes its progress and its JSON line on, and returns.
func detachGuard(args []string) error {
	var rest []string
	for _, a := range args {
		if name := strings.TrimLeft(strings.SplitN(a, "=", 2)[0], "-"); name != "detach" {
			rest = append(rest, a)
		}
	}
	guard := exec.Command("/proc/self/exe", append([]string{"up"}, rest...)...)
	guard.Args[0] = "csi-cluster"
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := guard.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := guard.StderrPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for range signals {
			_ = guard.Process.Signal(syscall.SIGTERM)
		}
	}()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(os.Stderr, lines.Text())
			if strings.HasSuffix(lines.Text(), readyLine) {
				return
			}
		}
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	<-copied
	if err != nil {
		_ = guard.Wait()
		return exitCode(1) // the guard has said why
	}
	fmt.Print(line)
	return nil
}

// downMain stops a cluster however far it got, and checks that nothing is left.
func downMain(args []string) error {
	fs := flag.NewFlagSet("down", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	remove := fs.Bool("remove", false, "also delete the directory")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.marker()); err != nil {
		return fmt.Errorf("%s is not the directory of a cluster: %w", l.dir, err)
	}
	if answer, err := askSupervisor(l, controlRequest{Verb: "status"}); err == nil {
		_, _ = askSupervisor(l, controlRequest{Verb: "down"})
		for _, pid := range []int{answer.State.SupervisorPID, answer.State.GuardPID} {
			if !gone(pid, 20*time.Second) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	if left := sweep(l); len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	}
	if *remove {
		return os.RemoveAll(l.dir)
	}
	return nil
}

// gone waits until a process has ended; one that only waits to be reaped has.
func gone(pid int, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		if at := strings.LastIndex(string(stat), ") "); at >= 0 && strings.HasPrefix(string(stat)[at+2:], "Z") {
			return true
		}
	}
	return false
}
