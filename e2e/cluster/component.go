package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// component is one process of the cluster together with what it takes to start it again.
type component struct {
	name string
	node string // the node it belongs to, or ""
	args []string
	// program is what to run instead of ourselves; path comes first in its PATH.
	program, path string
	// spawn decides the mount namespace; unshare asks for a new one instead.
	spawn   *spawner
	unshare bool
	ready   func(ctx context.Context, since time.Time) error

	mu    sync.Mutex
	cmd   *exec.Cmd
	state string        // running, paused, stopped or exited
	done  chan struct{} // closed when the process has been reaped
	asked bool          // somebody asked for the process to end
}

const (
	stateRunning = "running"
	statePaused  = "paused"
	stateStopped = "stopped"
	stateExited  = "exited"
)

// start runs the process; it does not wait until it is ready.
func (c *component) start(l layout, report func(string)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateRunning || c.state == statePaused {
		return fmt.Errorf("%s is already %s (pid %d)", c.name, c.state, c.cmd.Process.Pid)
	}
	cmd, err := componentCommand(l, c.name, c.node, c.args)
	if err != nil {
		return err
	}
	if c.program != "" {
		cmd.Path, cmd.Args = c.program, append([]string{c.program}, c.args...)
		cmd.Env = append(cmd.Env, "PATH="+c.path+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if log, ok := cmd.Stdout.(*os.File); ok {
		defer log.Close()
	}
	if c.unshare {
		// Go makes the new namespace's mounts private before exec: nothing leaks out or in.
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if err := c.spawn.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	done := make(chan struct{})
	c.cmd, c.state, c.done, c.asked = cmd, stateRunning, done, false
	go c.reap(cmd, done, report)
	return nil
}

func (c *component) reap(cmd *exec.Cmd, done chan struct{}, report func(string)) {
	err := cmd.Wait()
	c.mu.Lock()
	if c.asked {
		c.state = stateStopped
	} else {
		c.state = stateExited
	}
	unexpected := !c.asked
	c.mu.Unlock()
	close(done)
	if unexpected {
		report(fmt.Sprintf("%s ended by itself: %v", c.name, err))
	}
}

func (c *component) snapshot() (pid int, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return 0, stateStopped
	}
	return c.cmd.Process.Pid, c.state
}

// signal sends sig to the process group, so that short-lived children (mount) go with their parent.
func (c *component) signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateRunning && c.state != statePaused {
		return fmt.Errorf("%s is not running (%s)", c.name, c.state)
	}
	switch sig {
	case syscall.SIGSTOP:
		c.state = statePaused
	case syscall.SIGCONT:
		c.state = stateRunning
	case syscall.SIGKILL, syscall.SIGTERM:
		c.asked = true
	}
	return syscall.Kill(-c.cmd.Process.Pid, sig)
}

// kill ends the process and waits until it has been reaped.
func (c *component) kill() error {
	if _, state := c.snapshot(); state != stateRunning && state != statePaused {
		return nil
	}
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return c.wait(10 * time.Second)
}

func (c *component) wait(limit time.Duration) error {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s did not end within %s", c.name, limit)
	}
}

// awaitReady polls the component's readiness until it holds, the process ends or ctx is over.
func (c *component) awaitReady(ctx context.Context, l layout, since time.Time) error {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	var last error
	for {
		if last = c.ready(ctx, since); last == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended before it was ready; its log ends with:\n%s", c.name, logTail(l.log(c.name)))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w); its log ends with:\n%s", c.name, last, logTail(l.log(c.name)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logTail returns the last lines of a log, indented.
func logTail(file string) string {
	const lines, bytes = 15, 8192
	f, err := os.Open(file)
	if err != nil {
		return "  " + err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > bytes {
		if _, err := f.Seek(-bytes, 2); err != nil {
			return "  " + err.Error()
		}
	}
	buf := make([]byte, bytes)
	n, _ := f.Read(buf)
	all := strings.Split(strings.TrimRight(string(buf[:n]), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + strings.Join(all, "\n  ")
}
