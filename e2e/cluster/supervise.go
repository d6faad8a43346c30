package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
)

// supervisor owns every component of one cluster. It is a process of its own below `up` (the guard): whichever of
// the two is killed, the other one cleans up.
type supervisor struct {
	layout  layout
	options options
	ports   ports
	began   time.Time
	log     io.Writer

	ca     *authority
	spawn  *spawner
	health *http.Client
	admin  *kubernetes.Clientset

	// ops serialises whatever changes the set of components; mu guards the two collections.
	ops        sync.Mutex
	mu         sync.Mutex
	components []*component
	nodes      []*node

	stop     chan struct{}
	stopOnce sync.Once
}

func (s *supervisor) say(format string, args ...any) {
	fmt.Fprintf(s.log, "%6.2fs %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// readyLine ends the progress of a start.
const readyLine = "cluster ready"

func (s *supervisor) requestStop() { s.stopOnce.Do(func() { close(s.stop) }) }

// superviseMain is started by `up` with options as JSON on the command line, a pipe as standard input that breaks
// when `up` dies, and a pipe as standard output for the one JSON line.
func superviseMain(args []string) error {
	fs := flag.NewFlagSet("supervise", flag.ContinueOnError)
	raw := fs.String("options", "", "options as JSON")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	var o options
	if err := json.Unmarshal([]byte(*raw), &o); err != nil {
		return fmt.Errorf("--options: %w", err)
	}
	l, err := newLayout(o.Dir)
	if err != nil {
		return err
	}
	// Progress goes to a standard error that may be a pipe nobody reads any more; that must not kill us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s := &supervisor{layout: l, options: o, began: time.Now(), stop: make(chan struct{})}
	file, err := os.OpenFile(l.log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	s.log = io.MultiWriter(file, os.Stderr)
	s.watchForStop()
	return s.run()
}

func (s *supervisor) watchForStop() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		s.requestStop()
	}()
	go func() {
		// A cluster whose directory was deleted can be neither used nor found any more.
		for {
			time.Sleep(time.Second)
			if _, err := os.Stat(s.layout.at("run")); os.IsNotExist(err) {
				s.say("%s is gone", s.layout.dir)
				s.requestStop()
				return
			}
		}
	}()
	go func() {
		// Nothing is ever sent; the read ends when the guard is gone.
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.requestStop()
	}()
}

// portTaken is the supervisor's exit code when a port that was free a moment ago is not: the guard tries again, with a
// new supervisor because this one's HTTP clients have cached the authority.
const portTaken exitCode = 75

func (s *supervisor) run() error {
	err := s.start()
	if err == nil {
		err = s.serveUntilStopped()
	}
	if left := s.teardown(); left != nil {
		return left
	}
	if err != nil && strings.Contains(err.Error(), "address already in use") {
		s.say("%v", err)
		return portTaken
	}
	return err
}

func (s *supervisor) serveUntilStopped() error {
	listener, err := s.listenControl()
	if err != nil {
		return err
	}
	defer listener.Close()
	state, err := s.saveState()
	if err != nil {
		return err
	}
	line, err := json.Marshal(state)
	if err != nil {
		return err
	}
	s.say(readyLine)
	fmt.Println(string(line))
	<-s.stop
	return nil
}
