package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
)

// guard watches over a supervisor.
type guard struct {
	signals chan os.Signal
	closed  <-chan struct{}
}

func newGuard() *guard {
	g := &guard{signals: make(chan os.Signal, 1), closed: stdinClosed()}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // whoever read our progress may be gone
	signal.Notify(g.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return g
}

// run runs a supervisor in a fresh D until it ends, because of a signal, because standard input (if it is a pipe) is
// closed, or by itself.
func (g *guard) run(l layout, o options) error {
	if err := l.prepare(); err != nil {
		return err
	}
	// D exists only now, so only now can its path be resolved.
	l, err := newLayout(l.dir)
	if err != nil {
		return err
	}
	o.Dir = l.dir
	supervisor, lifeline, err := startSupervisor(o)
	if err != nil {
		return err
	}
	defer lifeline.Close()
	ended := make(chan error, 1)
	go func() { ended <- supervisor.Wait() }()
	debug.FreeOSMemory() // from here on we only wait
	asked := false
	for {
		select {
		case <-g.signals:
		case <-g.closed:
			g.closed = nil
		case err := <-ended:
			if left := sweep(l); len(left) > 0 {
				return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
			}
			return supervisorEnd(err, asked)
		}
		asked = true
		_ = supervisor.Process.Signal(syscall.SIGTERM)
	}
}

// startSupervisor returns the process and a pipe that the supervisor sees break when we are killed.
func startSupervisor(o options) (*exec.Cmd, io.Closer, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, nil, err
	}
	supervisor := exec.Command("/proc/self/exe", "supervise", "--options", string(raw))
	supervisor.Args[0] = "csi-cluster"
	// A session of its own: an interrupt at the terminal reaches only us, and we stop things in order.
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	supervisor.Stdout, supervisor.Stderr = os.Stdout, os.Stderr
	lifeline, err := supervisor.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return supervisor, lifeline, supervisor.Start()
}

func supervisorEnd(err error, asked bool) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return exitCode(exit.ExitCode()) // it has said why
	case asked:
		return errors.New("stopped before the cluster was ready")
	}
	return fmt.Errorf("the supervisor was killed (%w); everything it had started has been removed", err)
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
