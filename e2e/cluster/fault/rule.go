package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Rule says what happens to which requests. The first rule that matches and is not used up applies.
type Rule struct {
	ID   int    `json:"id"`
	Name string `json:"name,omitempty"`

	// Regular expressions; an empty one matches everything. URI is path and query.
	UserAgent string `json:"userAgent,omitempty"`
	Method    string `json:"method,omitempty"`
	URI       string `json:"uri,omitempty"`

	// Skip lets that many matching requests pass first; Count limits how many are hit (0: no limit).
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`

	Action string `json:"action"`

	// Code, Reason, RetryAfter (seconds) and Body shape the reply of status and lose-reply. Without Body it is a
	// Kubernetes Status object.
	Code       int    `json:"code,omitempty"`
	Reason     string `json:"reason,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"`
	Body       string `json:"body,omitempty"`

	// DelayMS comes before any action.
	DelayMS int `json:"delayMs,omitempty"`
	// AfterMS is counted from the reply's header on, for cut-watch and gone.
	AfterMS int `json:"afterMs,omitempty"`
	// Abort makes cut-watch reset the stream instead of ending it properly.
	Abort bool `json:"abort,omitempty"`
	// BytesPerSecond is slow-body's rate.
	BytesPerSecond int `json:"bytesPerSecond,omitempty"`

	// Seen counts matching requests, Hits those the rule was applied to. Both are output only.
	Seen int `json:"seen"`
	Hits int `json:"hits"`

	userAgent, method, uri *regexp.Regexp
}

const (
	actionStatus    = "status"
	actionDelay     = "delay"
	actionAbort     = "abort"
	actionClose     = "close"
	actionLoseReply = "lose-reply"
	actionCutWatch  = "cut-watch"
	actionGone      = "gone"
	actionDuplicate = "duplicate-event"
	actionFreeze    = "freeze"
	actionSlowBody  = "slow-body"
)

var actions = []string{
	actionStatus, actionDelay, actionAbort, actionClose, actionLoseReply, actionCutWatch, actionGone,
	actionDuplicate, actionFreeze, actionSlowBody,
}

var isWatch = regexp.MustCompile(`[?&]watch=(true|1)(&|$)`)

// compile checks a rule and prepares its expressions.
func (r *Rule) compile() error {
	for _, e := range []struct {
		name, text string
		compiled   **regexp.Regexp
	}{{"userAgent", r.UserAgent, &r.userAgent}, {"method", r.Method, &r.method}, {"uri", r.URI, &r.uri}} {
		re, err := regexp.Compile(e.text)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		*e.compiled = re
	}
	switch {
	case !slices.Contains(actions, r.Action):
		return fmt.Errorf("action %q: want one of %v", r.Action, actions)
	case r.Action == actionStatus && (r.Code < 200 || r.Code > 599):
		return fmt.Errorf("action status needs code 200 to 599, got %d", r.Code)
	case r.Action == actionLoseReply && r.Code != 0 && (r.Code < 200 || r.Code > 599):
		return fmt.Errorf("action lose-reply: code %d: want 200 to 599, or none to reset the stream", r.Code)
	case r.Action == actionDelay && r.DelayMS <= 0:
		return fmt.Errorf("action delay needs delayMs")
	case r.Action == actionSlowBody && r.BytesPerSecond <= 0:
		return fmt.Errorf("action slow-body needs bytesPerSecond")
	case r.Skip < 0 || r.Count < 0 || r.DelayMS < 0 || r.AfterMS < 0:
		return fmt.Errorf("negative number")
	}
	return nil
}

func (r *Rule) matches(req *http.Request) bool {
	uri := req.URL.RequestURI()
	// What is done to a stream of events is for watches only.
	switch r.Action {
	case actionCutWatch, actionGone, actionDuplicate:
		if !isWatch.MatchString(uri) {
			return false
		}
	}
	return r.userAgent.MatchString(req.UserAgent()) && r.method.MatchString(req.Method) && r.uri.MatchString(uri)
}

// ruleList is the current list. Changed is closed and replaced on every change, so that frozen requests look again.
type ruleList struct {
	mu      sync.Mutex
	rules   []*Rule
	nextID  int
	changed chan struct{}
}

func newRuleList() *ruleList { return &ruleList{nextID: 1, changed: make(chan struct{})} }

// choose counts the request against all rules it meets and returns a copy of the one that applies, or nil.
func (f *ruleList) choose(req *http.Request) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.Count > 0 && r.Hits >= r.Count || !r.matches(req) {
			continue
		}
		r.Seen++
		if r.Seen <= r.Skip {
			continue
		}
		r.Hits++
		applied := *r
		return &applied
	}
	return nil
}

// frozen reports whether a freeze rule holds the request, with the channel that is closed at the next change. It
// counts nothing: an open stream asks again and again.
func (f *ruleList) frozen(req *http.Request) (bool, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.Action == actionFreeze && r.matches(req) {
			return true, f.changed
		}
	}
	return false, nil
}

// add checks and appends rules; with replace it drops the old ones. All or nothing.
func (f *ruleList) add(rules []*Rule, replace bool) error {
	for i, r := range rules {
		r.Seen, r.Hits = 0, 0
		if err := r.compile(); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if replace {
		f.rules = nil
	}
	for _, r := range rules {
		r.ID = f.nextID
		f.nextID++
		f.rules = append(f.rules, r)
	}
	f.notify()
	return nil
}

// remove drops one rule, or all with id 0, and reports whether there was one.
func (f *ruleList) remove(id int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.rules)
	f.rules = slices.DeleteFunc(f.rules, func(r *Rule) bool { return id == 0 || r.ID == id })
	f.notify()
	return id == 0 || len(f.rules) < before
}

func (f *ruleList) list() []Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Rule, 0, len(f.rules))
	for _, r := range f.rules {
		out = append(out, *r)
	}
	return out
}

func (f *ruleList) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// parseRules reads one rule or a list of rules. A misspelt field is an error, because it would match too much.
func parseRules(raw []byte) ([]*Rule, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		rule := &Rule{}
		return []*Rule{rule}, decoder.Decode(rule)
	}
	var rules []*Rule
	if err := decoder.Decode(&rules); err != nil {
		return nil, err
	}
	for i, r := range rules {
		if r == nil {
			return nil, fmt.Errorf("rule %d is null", i)
		}
	}
	return rules, nil
}
