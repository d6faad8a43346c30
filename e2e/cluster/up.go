package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
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
	g := newGuard()
	for attempt := 1; ; attempt++ {
		err := g.run(l, o)
		if !errors.Is(err, portTaken) || attempt == 3 {
			return err
		}
		fmt.Fprintln(os.Stderr, "a port was taken by another process, starting again")
	}
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
	answer, err := askSupervisor(l, controlRequest{Verb: "status"})
	if err != nil {
		if _, err := os.Stat(l.marker()); err != nil {
			return fmt.Errorf("%s is not the directory of a cluster: %w", l.dir, err)
		}
	} else {
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
