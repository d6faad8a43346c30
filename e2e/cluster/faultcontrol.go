package main

import (
	"encoding/json"
	"fmt"
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

type faultCounters struct {
	mu     sync.Mutex
	agents map[string]*agentCount
}

func newFaultCounters() *faultCounters { return &faultCounters{agents: map[string]*agentCount{}} }

// requestCounter books one request on its user agent.
type requestCounter struct {
	all   *faultCounters
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

func (f *faultCounters) begin(req *http.Request) requestCounter {
	c := requestCounter{f, req.UserAgent()}
	c.update(func(a *agentCount) { a.Requests++; a.Open++ })
	return c
}

func (c requestCounter) faulted() { c.update(func(a *agentCount) { a.Faulted++ }) }

func (f *faultCounters) snapshot() map[string]agentCount {
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
func (f *faultCounters) reset() {
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

// controlHandler is the proxy's control interface; README.md describes it.
func (p *faultProxy) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, p.rules.list()) })
	mux.HandleFunc("PUT /rules", func(w http.ResponseWriter, r *http.Request) { p.acceptRules(w, r, true) })
	mux.HandleFunc("POST /rules", func(w http.ResponseWriter, r *http.Request) { p.acceptRules(w, r, false) })
	mux.HandleFunc("DELETE /rules", func(w http.ResponseWriter, _ *http.Request) {
		p.rules.remove(0)
		writeJSON(w, p.rules.list())
	})
	mux.HandleFunc("DELETE /rules/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil || id < 1 || !p.rules.remove(id) {
			http.Error(w, "no such rule", http.StatusNotFound)
			return
		}
		writeJSON(w, p.rules.list())
	})
	mux.HandleFunc("GET /counters", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, p.counters.snapshot()) })
	mux.HandleFunc("DELETE /counters", func(w http.ResponseWriter, _ *http.Request) {
		p.counters.reset()
		writeJSON(w, p.counters.snapshot())
	})
	return mux
}

// acceptRules takes one rule or a list of rules.
func (p *faultProxy) acceptRules(w http.ResponseWriter, r *http.Request, replace bool) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rules, err := parseRules(raw)
	if err == nil {
		err = p.rules.add(rules, replace)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, p.rules.list())
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
