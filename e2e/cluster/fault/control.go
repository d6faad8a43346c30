package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Control is the control interface; the cluster's README.md describes it.
func (p *Proxy) Control() http.Handler {
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
func (p *Proxy) acceptRules(w http.ResponseWriter, r *http.Request, replace bool) {
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
