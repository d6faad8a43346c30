// Package audit counts API requests in an audit log.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
)

// Policy logs every API request once (twice for a watch: when it starts and when it ends), without bodies and
// without the noise of health checks and discovery of schemas.
const Policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/metrics*", "/openapi*", "/version"]
- level: Metadata
`

// event is the part of an audit.k8s.io/v1 Event that counting needs.
type event struct {
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Key is what requests are counted by. UserAgent is empty unless asked for.
type Key struct {
	User        string `json:"user"`
	UserAgent   string `json:"userAgent,omitempty"`
	Verb        string `json:"verb"`
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Code        int    `json:"code"`
}

type Row struct {
	Key
	Count int `json:"count"`
}

// Result is the answer of `requests`.
type Result struct {
	Since  string `json:"since,omitempty"`
	Until  string `json:"until,omitempty"`
	Total  int    `json:"total"`
	Counts []Row  `json:"counts"`
}

// Filter selects events; nil expressions select all.
type Filter struct {
	User, UserAgent *regexp.Regexp
	ByUserAgent     bool
}

// counts says whether the event stands for a request. A watch counts when it starts, so that one that is still open
// counts too; everything else when it ends.
func (e *event) counts() bool {
	if strings.HasPrefix(e.RequestURI, MarkPath) {
		return false
	}
	if e.Verb == "watch" {
		return e.Stage == "ResponseStarted"
	}
	return e.Stage == "ResponseComplete" || e.Stage == "Panic"
}

// MarkPath is a URL that only marks use. It answers 404 and stands in the audit log at the moment it was asked.
const MarkPath = "/csi-cluster-mark/"

var errNoMark = errors.New("mark not found")

// Count counts between two marks; an empty mark means the beginning or the end of the log. A line that is not
// complete yet is left out.
func Count(log io.Reader, since, until string, filter Filter) (*Result, error) {
	counts := map[Key]int{}
	open, closed := since == "", false
	for lines := bufio.NewReaderSize(log, 1<<20); !closed; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w in %.200q", err, line)
		}
		switch {
		case since != "" && e.RequestURI == MarkPath+since:
			// The last one wins, so a name may be used again.
			open = true
			clear(counts)
		case until != "" && e.RequestURI == MarkPath+until:
			closed = true
		case open && e.counts() && filter.matches(&e):
			counts[filter.key(&e)]++
		}
	}
	if !open {
		return nil, fmt.Errorf("%w: %q", errNoMark, since)
	}
	if until != "" && !closed {
		return nil, fmt.Errorf("%w: %q", errNoMark, until)
	}
	return sortedCount(since, until, counts), nil
}

func (f Filter) matches(e *event) bool {
	return (f.User == nil || f.User.MatchString(e.User.Username)) &&
		(f.UserAgent == nil || f.UserAgent.MatchString(e.UserAgent))
}

func (f Filter) key(e *event) Key {
	key := Key{
		User: e.User.Username, Verb: e.Verb, APIGroup: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource, Code: e.ResponseStatus.Code,
	}
	if f.ByUserAgent {
		key.UserAgent = e.UserAgent
	}
	return key
}

func sortedCount(since, until string, counts map[Key]int) *Result {
	out := &Result{Since: since, Until: until, Counts: []Row{}}
	for key, n := range counts {
		out.Counts = append(out.Counts, Row{key, n})
		out.Total += n
	}
	sort.Slice(out.Counts, func(i, j int) bool {
		a, b := out.Counts[i].Key, out.Counts[j].Key
		return fmt.Sprintf("%q", a) < fmt.Sprintf("%q", b)
	})
	return out
}

// HasMark reports whether a mark is in the part of the log from offset on.
func HasMark(file string, offset int64, name string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return false, err
	}
	raw, err := io.ReadAll(f)
	return bytes.Contains(raw, []byte(`"requestURI":"`+MarkPath+name+`"`)) && bytes.HasSuffix(raw, []byte("\n")), err
}
