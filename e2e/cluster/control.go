package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// controlRequest is one line of JSON on the control socket; the answer is one line too.
type controlRequest struct {
	Verb      string        `json:"verb"`
	Component string        `json:"component,omitempty"`
	NoWait    bool          `json:"noWait,omitempty"`
	Taint     string        `json:"taint,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
}

type controlAnswer struct {
	Error string        `json:"error,omitempty"`
	State *clusterState `json:"state,omitempty"`
	// Component, PID and ComponentState describe the component a verb was about.
	Component      string `json:"component,omitempty"`
	PID            int    `json:"pid,omitempty"`
	ComponentState string `json:"componentState,omitempty"`
	Milliseconds   int64  `json:"milliseconds"`
}

func (s *supervisor) listenControl() (net.Listener, error) {
	listener, err := net.Listen("unix", s.layout.controlSocket())
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.answerControl(conn)
		}
	}()
	return listener, nil
}

func (s *supervisor) answerControl(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return
	}
	var req controlRequest
	answer := &controlAnswer{}
	began := time.Now()
	if err := json.Unmarshal(line, &req); err != nil {
		answer.Error = "not a control request: " + err.Error()
	} else if err := s.control(req, answer); err != nil {
		answer.Error = err.Error()
	}
	answer.Milliseconds = time.Since(began).Milliseconds()
	_ = json.NewEncoder(conn).Encode(answer)
}

// control carries one request out.
func (s *supervisor) control(req controlRequest, answer *controlAnswer) error {
	switch req.Verb {
	case "status":
		answer.State = s.state()
		return nil
	case "down":
		s.requestStop()
		return nil
	}
	s.ops.Lock()
	defer s.ops.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), max(req.Timeout, time.Second))
	defer cancel()
	var err error
	switch req.Verb {
	case "add-node":
		err = s.addNode(ctx, req)
	case "reboot-node":
		err = s.rebootNode(ctx, req)
	case "remove-node":
		err = s.removeNode(ctx, req)
	default:
		err = s.controlComponent(ctx, req)
	}
	if c := s.component(req.Component); c != nil {
		answer.Component = c.name
		answer.PID, answer.ComponentState = c.snapshot()
	}
	if _, saveErr := s.saveState(); err == nil {
		err = saveErr
	}
	return err
}

func (s *supervisor) component(name string) *component {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.components {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (s *supervisor) controlComponent(ctx context.Context, req controlRequest) error {
	c := s.component(req.Component)
	if c == nil {
		return fmt.Errorf("no component %q; csi-cluster ctl --dir %s status lists them", req.Component, s.layout.dir)
	}
	s.say("%s %s", req.Verb, req.Component)
	switch req.Verb {
	case "kill":
		return c.kill()
	case "term":
		return c.signal(syscall.SIGTERM)
	case "stop":
		return stopGently(c)
	case "pause":
		return c.signal(syscall.SIGSTOP)
	case "resume":
		return c.signal(syscall.SIGCONT)
	case "restart":
		if c.unshare {
			return s.startComponent(ctx, c, req.NoWait) // says what to do instead
		}
		if err := c.kill(); err != nil {
			return err
		}
		return s.startComponent(ctx, c, req.NoWait)
	case "start":
		return s.startComponent(ctx, c, req.NoWait)
	}
	return fmt.Errorf("unknown control verb %q", req.Verb)
}

func (s *supervisor) startComponent(ctx context.Context, c *component, noWait bool) error {
	if c.unshare {
		return fmt.Errorf("%s holds the mount namespace of %s and cannot be started alone; use reboot-node %s", c.name, c.node, c.node)
	}
	since := time.Now()
	if err := c.start(s.layout, s.report); err != nil {
		return err
	}
	if noWait {
		return nil
	}
	return c.awaitReady(ctx, s.layout, since)
}

// stopGently asks first and kills after five seconds.
func stopGently(c *component) error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if c.wait(5*time.Second) == nil {
		return nil
	}
	return c.kill()
}

// askSupervisor sends one request and waits for the answer.
func askSupervisor(l layout, req controlRequest) (*controlAnswer, error) {
	conn, err := net.Dial("unix", l.controlSocket())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("no cluster is running in %s (start one with: csi-cluster up --dir %s): %w", l.dir, l.dir, err)
		}
		return nil, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return nil, err
	}
	var answer controlAnswer
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the supervisor ended before it answered: %w", err)
	}
	if answer.Error != "" {
		return &answer, errors.New(answer.Error)
	}
	return &answer, nil
}

var controlVerbs = []string{"restart", "kill", "term", "stop", "start", "pause", "resume", "add-node", "reboot-node", "remove-node"}

// ctlMain is the command line of the control socket.
func ctlMain(args []string) error {
	fs := flag.NewFlagSet("ctl", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	noWait := fs.Bool("no-wait", false, "do not wait until a started component is ready")
	taint := fs.String("taint", "", "add-node: the key of a taint with which the kubelet registers the node, with the effect NoSchedule")
	timeout := fs.Duration("timeout", 60*time.Second, "how long to wait until it is ready")
	// Flags may stand before or after the verb.
	var words []string
	for rest := args; ; {
		if err := parseFlags(fs, rest); err != nil {
			return err
		}
		if rest = fs.Args(); len(rest) == 0 {
			break
		}
		words, rest = append(words, rest[0]), rest[1:]
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	req := controlRequest{NoWait: *noWait, Taint: *taint, Timeout: *timeout}
	switch {
	case len(words) == 1 && words[0] == "status":
		req.Verb = "status"
	case len(words) == 2 && slices.Contains(controlVerbs, words[0]):
		req.Verb, req.Component = words[0], words[1]
	default:
		return fmt.Errorf("usage: ctl --dir D status | ctl --dir D %s NAME", strings.Join(controlVerbs, "|"))
	}
	answer, err := askSupervisor(l, req)
	if err != nil {
		return err
	}
	if answer.State != nil {
		return json.NewEncoder(os.Stdout).Encode(answer.State)
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}
