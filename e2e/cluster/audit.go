package main

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

// auditPolicy logs every API request once (twice for a watch: when it starts and when it ends), without bodies and
// without the noise of health checks and discovery of schemas.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/metrics*", "/openapi*", "/version"]
- level: Metadata
`

// auditEvent is the part of an audit.k8s.io/v1 Event that counting needs.
type auditEvent struct {
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

// countKey is what requests are counted by. UserAgent is empty unless asked for.
type countKey struct {
	User        string `json:"user"`
	UserAgent   string `json:"userAgent,omitempty"`
	Verb        string `json:"verb"`
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Code        int    `json:"code"`
}

type countRow struct {
	countKey
	Count int `json:"count"`
}

// requestCount is the answer of `requests`.
type requestCount struct {
	Since  string     `json:"since,omitempty"`
	Until  string     `json:"until,omitempty"`
	Total  int        `json:"total"`
	Counts []countRow `json:"counts"`
}

// auditFilter selects events; nil expressions select all.
type auditFilter struct {
	user, userAgent *regexp.Regexp
	byUserAgent     bool
}

// counts says whether the event stands for a request. A watch counts when it starts, so that one that is still open
// counts too; everything else when it ends.
func (e *auditEvent) counts() bool {
	if strings.HasPrefix(e.RequestURI, markPath) {
		return false
	}
	if e.Verb == "watch" {
		return e.Stage == "ResponseStarted"
	}
	return e.Stage == "ResponseComplete" || e.Stage == "Panic"
}

// markPath is a URL that only marks use. It answers 404 and stands in the audit log at the moment it was asked.
const markPath = "/csi-cluster-mark/"

var errNoMark = errors.New("mark not found")

// countRequests counts between two marks; an empty mark means the beginning or the end of the log. A line that is not
// complete yet is left out.
func countRequests(log io.Reader, since, until string, filter auditFilter) (*requestCount, error) {
	counts := map[countKey]int{}
	open, closed := since == "", false
	for lines := bufio.NewReaderSize(log, 1<<20); !closed; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w in %.200q", err, line)
		}
		switch {
		case since != "" && e.RequestURI == markPath+since:
			// The last one wins, so a name may be used again.
			open = true
			clear(counts)
		case until != "" && e.RequestURI == markPath+until:
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

func (f auditFilter) matches(e *auditEvent) bool {
	return (f.user == nil || f.user.MatchString(e.User.Username)) &&
		(f.userAgent == nil || f.userAgent.MatchString(e.UserAgent))
}

func (f auditFilter) key(e *auditEvent) countKey {
	key := countKey{
		User: e.User.Username, Verb: e.Verb, APIGroup: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource, Code: e.ResponseStatus.Code,
	}
	if f.byUserAgent {
		key.UserAgent = e.UserAgent
	}
	return key
}

func sortedCount(since, until string, counts map[countKey]int) *requestCount {
	out := &requestCount{Since: since, Until: until, Counts: []countRow{}}
	for key, n := range counts {
		out.Counts = append(out.Counts, countRow{key, n})
		out.Total += n
	}
	sort.Slice(out.Counts, func(i, j int) bool {
		a, b := out.Counts[i].countKey, out.Counts[j].countKey
		return fmt.Sprintf("%q", a) < fmt.Sprintf("%q", b)
	})
	return out
}

// endsWithMark reports whether a mark is in the part of the log from offset on.
func endsWithMark(file string, offset int64, name string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return false, err
	}
	raw, err := io.ReadAll(f)
	return bytes.Contains(raw, []byte(`"requestURI":"`+markPath+name+`"`)) && bytes.HasSuffix(raw, []byte("\n")), err
}
