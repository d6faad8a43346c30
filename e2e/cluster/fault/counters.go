package fault

import (
	"io"
	"net/http"
	"strconv"
	"sync"
)

// agentCount is the traffic of one user agent. Bytes are those of bodies as they went over the wire.
type agentCount struct {
	Requests      int            `json:"requests"`
	Open          int            `json:"open"`
	Faulted       int            `json:"faulted"`
	RequestBytes  int64          `json:"requestBytes"`
	ResponseBytes int64          `json:"responseBytes"`
	Codes         map[string]int `json:"codes"`
}

type counters struct {
	mu     sync.Mutex
	agents map[string]*agentCount
}

func newCounters() *counters { return &counters{agents: map[string]*agentCount{}} }

// requestCounter books one request on its user agent.
type requestCounter struct {
	all   *counters
	agent string
}

// update changes the user agent's figures. It looks them up each time, so that a reset also takes open streams along.
func (c requestCounter) update(change func(*agentCount)) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	a := c.all.agents[c.agent]
	if a == nil {
		a = &agentCount{Codes: map[string]int{}}
		c.all.agents[c.agent] = a
	}
	change(a)
}

func (f *counters) begin(req *http.Request) requestCounter {
	c := requestCounter{f, req.UserAgent()}
	c.update(func(a *agentCount) { a.Requests++; a.Open++ })
	return c
}

func (c requestCounter) faulted() { c.update(func(a *agentCount) { a.Faulted++ }) }

func (f *counters) snapshot() map[string]agentCount {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]agentCount{}
	for agent, a := range f.agents {
		copied := *a
		copied.Codes = map[string]int{}
		for code, n := range a.Codes {
			copied.Codes[code] = n
		}
		out[agent] = copied
	}
	return out
}

// reset zeroes everything but the number of open requests.
func (f *counters) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for agent, a := range f.agents {
		if a.Open == 0 {
			delete(f.agents, agent)
			continue
		}
		*a = agentCount{Open: a.Open, Codes: map[string]int{}}
	}
}

// countingWriter counts reply bytes and codes. Code 0 stands for a reply that never came.
type countingWriter struct {
	http.ResponseWriter
	count requestCounter
	code  int
}

func (w *countingWriter) WriteHeader(code int) {
	if code >= http.StatusOK {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.count.update(func(a *agentCount) { a.ResponseBytes += int64(n) })
	return n, err
}

func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countingWriter) finish() {
	w.count.update(func(a *agentCount) { a.Open--; a.Codes[strconv.Itoa(w.code)]++ })
}

type countingBody struct {
	io.ReadCloser
	count requestCounter
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.update(func(a *agentCount) { a.RequestBytes += int64(n) })
	return n, err
}
