package main

import (
	"fmt"
	"strings"
	"time"
)

// teardown ends everything the hard way (the API server would drain for a minute) and proves that nothing is left.
func (s *supervisor) teardown() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	began := time.Now()
	for _, n := range s.nodes {
		if err := s.haltNode(n); err != nil {
			s.say("%v", err)
		}
	}
	// The newest first: scheduler, controllers, API server, etcd.
	for i := len(s.components) - 1; i >= 0; i-- {
		if err := s.components[i].kill(); err != nil {
			s.say("%v", err)
		}
	}
	left := sweep(s.layout)
	s.mu.Lock()
	s.components, s.nodes = nil, nil
	s.mu.Unlock()
	s.say("stopped in %.2fs", time.Since(began).Seconds())
	if len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	}
	return nil
}
