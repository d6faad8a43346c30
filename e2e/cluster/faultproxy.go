package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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

// faultProxy stands between a client and the API server. It ends TLS with the API server's certificate, passes the
// client's token on, and does what the rules say.
type faultProxy struct {
	rules    *faultRules
	counters *faultCounters
	forward  *httputil.ReverseProxy
}

// faultProxyMain runs the proxy until it is killed.
func faultProxyMain(args []string) error {
	fs := flag.NewFlagSet("fault-proxy", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:0", "address for clients (TLS)")
	control := fs.String("control", "127.0.0.1:0", "address of the control interface (plain HTTP)")
	target := fs.String("target", "", "URL of the API server")
	caFile := fs.String("ca-file", "", "authority of the API server")
	certFile := fs.String("cert-file", "", "serving certificate")
	keyFile := fs.String("key-file", "", "its key")
	if err := fs.Parse(args); err != nil {
		return err
	}
	server, err := url.Parse(*target)
	if err != nil || server.Host == "" {
		return fmt.Errorf("--target %q: want https://HOST:PORT", *target)
	}
	health, err := healthClient(*caFile)
	if err != nil {
		return err
	}
	healthTransport, ok := health.Transport.(*http.Transport)
	if !ok {
		return errors.New("unexpected transport")
	}
	p := newFaultProxy(server, &http.Transport{
		TLSClientConfig:   healthTransport.TLSClientConfig,
		ForceAttemptHTTP2: true,
		// The client decides about compression; we pass bytes on as they are.
		DisableCompression: true,
	})
	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(*control, p.controlHandler()) }()
	go func() { failed <- p.server(*listen).ListenAndServeTLS(*certFile, *keyFile) }()
	return <-failed
}

func newFaultProxy(target *url.URL, transport http.RoundTripper) *faultProxy {
	p := &faultProxy{rules: newFaultRules(), counters: newFaultCounters()}
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

func (p *faultProxy) server(address string) *http.Server {
	return &http.Server{
		Addr:        address,
		Handler:     p,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    log.New(io.Discard, "", 0), // resets are our business here
	}
}

func (p *faultProxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
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

func (p *faultProxy) pass(w http.ResponseWriter, req *http.Request) { p.forward.ServeHTTP(w, req) }

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
func (p *faultProxy) loseReply(w http.ResponseWriter, req *http.Request, rule *faultRule) {
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
func (p *faultProxy) waitWhileFrozen(req *http.Request) bool {
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
func (r *faultRule) reply(w http.ResponseWriter) {
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
func (r *faultRule) status() []byte {
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
