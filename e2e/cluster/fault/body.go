package fault

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// shapeResponse replaces the body of a reply by one that does what the rule of its request says, and makes every open
// watch obey freeze.
func (p *Proxy) shapeResponse(resp *http.Response) error {
	req := resp.Request
	rule, _ := req.Context().Value(ruleKey{}).(*Rule)
	watch := resp.StatusCode == http.StatusOK && isWatch.MatchString(req.URL.RequestURI())
	switch {
	case watch:
		resp.Body = p.shapeWatch(resp, rule)
	case rule != nil && rule.Action == actionSlowBody:
		resp.Body = &slowBody{resp.Body, rule.BytesPerSecond}
	}
	return nil
}

// errCut ends a stream without a proper end.
var errCut = errors.New("cut by the fault proxy")

// shapeWatch copies the stream frame by frame, so that what is inserted stands between two events.
func (p *Proxy) shapeWatch(resp *http.Response, rule *Rule) io.ReadCloser {
	if rule == nil {
		rule = &Rule{}
	}
	var timer <-chan time.Time
	if rule.Action == actionCutWatch || rule.Action == actionGone {
		timer = time.After(time.Duration(rule.AfterMS) * time.Millisecond)
	}
	req, upstream := resp.Request, resp.Body
	framing := framingOf(resp.Header.Get("Content-Type"))
	out, in := io.Pipe()
	frames := make(chan []byte)
	stop := make(chan struct{})
	var readErr error
	go func() {
		defer close(frames)
		reader := bufio.NewReaderSize(upstream, 64<<10)
		for {
			var frame []byte
			if frame, readErr = framing.read(reader); readErr != nil {
				return
			}
			select {
			case frames <- frame:
			case <-stop:
				return
			}
		}
	}()
	go func() {
		defer upstream.Close()
		defer close(stop)
		for {
			select {
			case <-timer:
				_ = in.CloseWithError(endWatch(in, rule, framing))
				return
			case frame, ok := <-frames:
				if !ok {
					_ = in.CloseWithError(readErr)
					return
				}
				if !p.waitWhileFrozen(req) {
					_ = in.CloseWithError(errCut)
					return
				}
				if err := writeFrame(in, rule, frame); err != nil {
					return
				}
			}
		}
	}()
	return &watchBody{out, upstream}
}

func writeFrame(w io.Writer, rule *Rule, frame []byte) error {
	if _, err := w.Write(frame); err != nil {
		return err
	}
	if rule.Action == actionDuplicate {
		_, err := w.Write(frame)
		return err
	}
	if rule.Action == actionSlowBody {
		time.Sleep(time.Duration(len(frame)) * time.Second / time.Duration(rule.BytesPerSecond))
	}
	return nil
}

// endWatch writes what comes last and returns how the stream ends.
func endWatch(w io.Writer, rule *Rule, framing framing) error {
	if rule.Action == actionGone {
		frame, err := framing.expired()
		if err != nil {
			return err
		}
		if _, err := w.Write(frame); err != nil {
			return err
		}
	}
	if rule.Abort {
		return errCut
	}
	return io.EOF
}

// watchBody closes the stream from the API server when the client goes.
type watchBody struct {
	*io.PipeReader
	upstream io.Closer
}

func (w *watchBody) Close() error {
	_ = w.upstream.Close()
	return w.PipeReader.Close()
}

// slowBody hands out a body at a given rate.
type slowBody struct {
	io.ReadCloser
	bytesPerSecond int
}

func (s *slowBody) Read(b []byte) (int, error) {
	if chunk := max(s.bytesPerSecond/10, 1); len(b) > chunk {
		b = b[:chunk]
	}
	n, err := s.ReadCloser.Read(b)
	time.Sleep(time.Duration(n) * time.Second / time.Duration(s.bytesPerSecond))
	return n, err
}

// framing separates the events of a watch: lines of JSON, or length-prefixed protobuf messages.
type framing interface {
	read(*bufio.Reader) ([]byte, error)
	expired() ([]byte, error)
}

func framingOf(contentType string) framing {
	if strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) {
		return protobufFrames{}
	}
	return jsonFrames{}
}

// expiredStatus is what the API server says when a resource version is no longer available.
func expiredStatus() *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
		Message: "too old resource version: 1 (2)",
	}
}

type jsonFrames struct{}

func (jsonFrames) read(r *bufio.Reader) ([]byte, error) { return r.ReadBytes('\n') }

func (jsonFrames) expired() ([]byte, error) {
	status, err := runtime.Encode(scheme.Codecs.LegacyCodec(), expiredStatus())
	if err != nil {
		return nil, err
	}
	return []byte(fmt.Sprintf("{\"type\":\"ERROR\",\"object\":%s}\n", strings.TrimSpace(string(status)))), nil
}

type protobufFrames struct{}

// maxFrame bounds what a length prefix may ask us to allocate.
const maxFrame = 64 << 20

func (protobufFrames) read(r *bufio.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(prefix[:])
	if size > maxFrame {
		return nil, fmt.Errorf("watch event of %d bytes", size)
	}
	frame := make([]byte, 4+size)
	copy(frame, prefix[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

func (protobufFrames) expired() ([]byte, error) {
	object, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), expiredStatus())
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: object}}
	payload, err := event.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...), nil
}
