// Package fault is a reverse proxy before the API server that makes things go wrong on demand.
package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Proxy stands between a client and the API server. It ends TLS with the API server's certificate, passes the
// client's token on, and does what the rules say.
type Proxy struct {
	rules    *ruleList
	counters *counters
	forward  *httputil.ReverseProxy
}

// New returns a proxy before target. transport must trust the API server and must not touch compression.
func New(target *url.URL, transport http.RoundTripper) *Proxy {
	p := &Proxy{rules: newRuleList(), counters: newCounters()}
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watch events must not wait
		ModifyResponse: p.shapeResponse,
		// To the client an unreachable API server is a lost connection, not a proxy's error page.
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			log.Printf("API server: %v", err)
			panic(http.ErrAbortHandler)
		},
	}
	return p
}

// connKey finds a request's TCP connection.
type connKey struct{}

// ruleKey finds the rule that was chosen for a request.
type ruleKey struct{}

// Server returns the TLS server for clients.
func (p *Proxy) Server(address string) *http.Server {
	return &http.Server{
		Addr:        address,
		Handler:     p,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(io.Discard, "", 0), // resets are our business here
	}
}

// ServeHTTP carries one request through the rules.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	count := p.counters.begin(req)
	writer := &countingWriter{ResponseWriter: w, count: count}
	defer writer.finish()
	req.Body = &countingBody{ReadCloser: req.Body, count: count}
	rule := p.rules.choose(req)
	if rule == nil {
		p.pass(writer, req)
		return
	}
	count.faulted()
	if !sleep(req.Context(), time.Duration(rule.DelayMS)*time.Millisecond) {
		return
	}
	switch rule.Action {
	case actionStatus:
		rule.reply(writer)
	case actionAbort:
		panic(http.ErrAbortHandler)
	case actionClose:
		closeConnection(req)
		panic(http.ErrAbortHandler)
	case actionLoseReply:
		p.loseReply(writer, req, rule)
	case actionFreeze:
		if !p.waitWhileFrozen(req) {
			panic(http.ErrAbortHandler)
		}
		p.pass(writer, req)
	default: // delay, and what shapeResponse does
		p.pass(writer, req.WithContext(context.WithValue(req.Context(), ruleKey{}, rule)))
	}
}

func (p *Proxy) pass(w http.ResponseWriter, req *http.Request) { p.forward.ServeHTTP(w, req) }

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func closeConnection(req *http.Request) {
	if conn, ok := req.Context().Value(connKey{}).(net.Conn); ok {
		conn.Close()
	}
}

// loseReply lets the API server carry the request out and keeps its answer from the client.
func (p *Proxy) loseReply(w http.ResponseWriter, req *http.Request, rule *Rule) {
	swallow := &swallowingWriter{header: http.Header{}}
	// The client may give up; the request must reach the server all the same.
	p.pass(swallow, req.WithContext(context.WithoutCancel(req.Context())))
	if rule.Code == 0 {
		panic(http.ErrAbortHandler)
	}
	rule.reply(w)
}

type swallowingWriter struct{ header http.Header }

func (s *swallowingWriter) Header() http.Header         { return s.header }
func (s *swallowingWriter) WriteHeader(int)             {}
func (s *swallowingWriter) Write(b []byte) (int, error) { return len(b), nil }

// waitWhileFrozen returns false when the client has gone.
func (p *Proxy) waitWhileFrozen(req *http.Request) bool {
	for {
		frozen, changed := p.rules.frozen(req)
		if !frozen {
			return true
		}
		select {
		case <-req.Context().Done():
			return false
		case <-changed:
		}
	}
}

// reply answers in the API server's stead.
func (r *Rule) reply(w http.ResponseWriter) {
	body := []byte(r.Body)
	if len(body) == 0 {
		body = r.status()
		w.Header().Set("Content-Type", "application/json")
	}
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	w.WriteHeader(r.Code)
	_, _ = io.Copy(w, bytes.NewReader(body))
}

var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:          metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusGone:                metav1.StatusReasonExpired,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
}

// status is the Kubernetes Status object for the rule's code.
func (r *Rule) status() []byte {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  "injected by the fault proxy",
		Reason:   reasons[r.Code],
		Code:     int32(r.Code),
	}
	if r.Reason != "" {
		status.Reason = metav1.StatusReason(r.Reason)
	}
	if r.RetryAfter > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(r.RetryAfter)}
	}
	body, _ := json.Marshal(status)
	return body
}
