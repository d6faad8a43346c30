package fault

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// fixture is a server that counts what reaches it, the proxy before it, and a client over HTTP/2.
type fixture struct {
	t       *testing.T
	reached atomic.Int32
	events  chan string // what the server's watch sends
	proxy   *Proxy
	url     string
	client  *http.Client
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, events: make(chan string)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	server.EnableHTTP2 = true
	server.StartTLS()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	f.proxy = New(target, server.Client().Transport)
	front := httptest.NewUnstartedServer(f.proxy)
	front.Config = f.proxy.Server("")
	front.Config.Handler = f.proxy
	front.EnableHTTP2 = true
	front.StartTLS()
	f.url, f.client = front.URL, front.Client()
	t.Cleanup(func() {
		front.CloseClientConnections()
		server.CloseClientConnections()
		front.Close()
		server.Close()
	})
	return f
}

func (f *fixture) serve(w http.ResponseWriter, r *http.Request) {
	f.reached.Add(1)
	if !isWatch.MatchString(r.URL.RequestURI()) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("Authorization"), body)
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Accept"))
	http.NewResponseController(w).Flush()
	for {
		select {
		case e := <-f.events:
			io.WriteString(w, e)
			http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fixture) rules(text string) {
	f.t.Helper()
	f.control(http.MethodPut, "/rules", text)
}

func (f *fixture) control(method, path, body string) string {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.proxy.Control().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if w.Code != http.StatusOK {
		f.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

func (f *fixture) request(method, path, body string) (*http.Response, error) {
	req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "test")
	req.Header.Set("Authorization", "Bearer token")
	return f.client.Do(req)
}

func (f *fixture) do(method, path, body string) (int, string, error) {
	resp, err := f.request(method, path, body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		f.t.Errorf("protocol %s", resp.Proto)
	}
	got, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got), err
}

func (f *fixture) watch(accept string) *http.Response {
	f.t.Helper()
	req, err := http.NewRequest(http.MethodGet, f.url+"/pods?watch=true", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

const anEvent = `{"type":"ADDED","object":{}}` + "\n"

func TestPassesThrough(t *testing.T) {
	f := newFixture(t)
	code, body, err := f.do("POST", "/pods", "hello")
	if err != nil || code != 200 || body != "POST Bearer token hello" {
		t.Errorf("%d %q %v", code, body, err)
	}
}

func TestStatus(t *testing.T) {
	f := newFixture(t)
	f.rules(`{"action":"status","code":429,"retryAfter":3,"count":1}`)
	resp, err := f.request("GET", "/pods", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" || status.Reason != metav1.StatusReasonTooManyRequests ||
		status.Details.RetryAfterSeconds != 3 || f.reached.Load() != 0 {
		t.Errorf("%s %+v", resp.Status, status)
	}
	if code, _, err := f.do("GET", "/pods", ""); err != nil || code != 200 {
		t.Errorf("the second request: %d %v", code, err)
	}
}

func TestLostReplies(t *testing.T) {
	for _, test := range []struct {
		name, rule    string
		code, reached int
	}{
		{"abort", `{"action":"abort","count":1}`, 0, 0},
		{"close", `{"action":"close","count":1}`, 0, 0},
		{"reply lost", `{"action":"lose-reply","count":1}`, 0, 1},
		{"reply replaced", `{"action":"lose-reply","code":500,"count":1}`, 500, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.rules(test.rule)
			// A POST: the client library would repeat a GET by itself.
			code, _, err := f.do("POST", "/pods", "x")
			if code != test.code || (err == nil) != (test.code != 0) {
				t.Errorf("got %d, %v", code, err)
			}
			if got := int(f.reached.Load()); got != test.reached {
				t.Errorf("%d requests reached the server, want %d", got, test.reached)
			}
			if code, _, err := f.do("POST", "/pods", "x"); code != 200 {
				t.Errorf("the second request: %d %v", code, err)
			}
		})
	}
}

func TestFreeze(t *testing.T) {
	f := newFixture(t)
	stream := bufio.NewReader(f.watch("application/json").Body)
	f.events <- anEvent
	if _, err := stream.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	f.rules(`{"action":"freeze"}`)
	answered, seen := make(chan error, 1), make(chan error, 1)
	go func() { _, _, err := f.do("GET", "/pods", ""); answered <- err }()
	go func() { _, err := stream.ReadString('\n'); seen <- err }()
	f.events <- anEvent
	select {
	case <-answered:
		t.Fatal("a frozen request was answered")
	case <-seen:
		t.Fatal("a frozen watch delivered an event")
	case <-time.After(200 * time.Millisecond):
	}
	f.control(http.MethodDelete, "/rules", "")
	for _, c := range []chan error{answered, seen} {
		select {
		case err := <-c:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("still frozen")
		}
	}
}

func TestCutWatch(t *testing.T) {
	for abort, clean := range map[bool]bool{false: true, true: false} {
		f := newFixture(t)
		f.rules(fmt.Sprintf(`{"action":"cut-watch","afterMs":50,"abort":%t}`, abort))
		_, err := io.ReadAll(f.watch("application/json").Body)
		if (err == nil) != clean {
			t.Errorf("abort=%t: %v", abort, err)
		}
	}
}

func TestDuplicateEvent(t *testing.T) {
	f := newFixture(t)
	f.rules(`{"action":"duplicate-event"}`)
	stream := bufio.NewReader(f.watch("application/json").Body)
	f.events <- anEvent
	for range 2 {
		if got, err := stream.ReadString('\n'); err != nil || got != anEvent {
			t.Errorf("%q %v", got, err)
		}
	}
}

func TestGoneInJSON(t *testing.T) {
	f := newFixture(t)
	f.rules(`{"action":"gone","afterMs":50}`)
	body, err := io.ReadAll(f.watch("application/json").Body)
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Type   string
		Object metav1.Status
	}
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if event.Type != "ERROR" || event.Object.Code != 410 || event.Object.Reason != metav1.StatusReasonExpired || event.Object.Kind != "Status" {
		t.Errorf("%s", body)
	}
}

func TestGoneInProtobuf(t *testing.T) {
	f := newFixture(t)
	f.rules(`{"action":"gone","afterMs":50}`)
	body, err := io.ReadAll(f.watch("application/vnd.kubernetes.protobuf;stream=watch").Body)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := protobufFrames{}.read(bufio.NewReader(bytes.NewReader(body)))
	if err != nil || len(frame) != len(body) {
		t.Fatalf("%v, frame of %d bytes in %d", err, len(frame), len(body))
	}
	var event metav1.WatchEvent
	if err := event.Unmarshal(frame[4:]); err != nil {
		t.Fatal(err)
	}
	object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), event.Object.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if status, ok := object.(*metav1.Status); !ok || event.Type != "ERROR" || status.Code != 410 {
		t.Errorf("%s %+v", event.Type, object)
	}
}

func TestSlowBody(t *testing.T) {
	f := newFixture(t)
	f.rules(`{"action":"slow-body","bytesPerSecond":100}`)
	began := time.Now()
	_, body, err := f.do("POST", "/pods", strings.Repeat("x", 30))
	if err != nil || !strings.HasSuffix(body, "xxx") {
		t.Fatalf("%q %v", body, err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("%d bytes in %s", len(body), took)
	}
}

func TestCounters(t *testing.T) {
	f := newFixture(t)
	f.rules(`{"action":"status","code":503,"count":1,"body":"12345"}`)
	for range 2 {
		if _, _, err := f.do("POST", "/pods", "abc"); err != nil {
			t.Fatal(err)
		}
	}
	want := agentCount{
		Requests: 2, Faulted: 1, RequestBytes: 3,
		ResponseBytes: int64(len("12345") + len("POST Bearer token abc")),
		Codes:         map[string]int{"200": 1, "503": 1},
	}
	// The last line of a handler runs after the client has its answer.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var got map[string]agentCount
		if err := json.Unmarshal([]byte(f.control(http.MethodGet, "/counters", "")), &got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got["test"]) == fmt.Sprint(want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want %+v", got["test"], want)
		}
	}
	if got := f.control(http.MethodDelete, "/counters", ""); got != "{}\n" {
		t.Errorf("after a reset: %s", got)
	}
}

func TestControlRefusesBadRules(t *testing.T) {
	f := newFixture(t)
	w := httptest.NewRecorder()
	f.proxy.Control().ServeHTTP(w, httptest.NewRequest("PUT", "/rules", strings.NewReader(`{"action":"explode"}`)))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "explode") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
