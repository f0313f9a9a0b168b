package wardenexec

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
)

// roles are what this program does as a process that a test starts.
var roles = map[string]func(){}

const roleEnv = "WARDENEXEC_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleEnv)]; role != nil {
		role()
		return
	}
	settleTimeout = 5 * time.Millisecond // hostile wardens do not answer
	goleak.VerifyTestMain(m)
}

// hostile is the connection of a warden that greets properly and then says
// what the fuzzer wants.
type hostile struct {
	script *wire.Frames
	tag    []byte // of the process that it lists
	once   sync.Once
	closed chan struct{}
	hello  chan *wire.Message
	asked  chan uint64   // numbers of requests
	last   atomic.Uint64 // number of the last one
}

func newHostile(script, tag []byte) *hostile {
	return &hostile{
		tag: tag, script: wire.NewFrames(bytes.NewReader(script), io.Discard, nopCloser{}), closed: make(chan struct{}),
		hello: make(chan *wire.Message, 3), asked: make(chan uint64, 100),
	}
}

func (h *hostile) PassesFiles() bool { return false }

func (h *hostile) Send(m *wire.Message, fds ...int) error {
	if m.Req != 0 {
		h.last.Store(m.Req)
	}
	if m.Req != 0 && m.Type != wire.Hello {
		select {
		case h.asked <- m.Req:
		default:
		}
	}
	if m.Type == wire.Hello {
		h.hello <- &wire.Message{Type: wire.Hello, Req: m.Req, Epoch: m.Epoch, Features: []string{wire.FeatureDial}}
		h.hello <- &wire.Message{Type: wire.Item, ID: "known", Req: m.Req, Tag: h.tag}
		h.hello <- &wire.Message{Type: wire.OK, Req: m.Req}
	}
	return nil
}

func (h *hostile) Recv() (*wire.Message, []int, error) {
	select {
	case m := <-h.hello:
		return m, nil, nil
	default:
	}
	m, fds, err := h.script.Recv()
	if err == io.EOF {
		<-h.closed
	}
	if err == nil && m.Req != 0 { // an answer: no script can know its number
		select {
		case m.Req = <-h.asked:
		case <-time.After(time.Millisecond):
			m.Req = h.last.Load()
		}
	}
	if err == nil && m.Type >= wire.PortData && m.Type <= wire.PortClose {
		m.Stream = h.last.Load()
	}
	return m, fds, err
}

func (h *hostile) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// Whatever a sandbox's warden says, the gateway neither panics nor hangs, and
// makes nothing up.
func FuzzHostileWarden(f *testing.F) {
	add := func(tag string, script ...*wire.Message) {
		var b bytes.Buffer
		w := wire.NewFrames(nil, &b, nopCloser{})
		for _, m := range script {
			if err := w.Send(m); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b.Bytes(), []byte(tag))
	}
	add("{}", []*wire.Message{
		{Type: wire.Started, Req: 2, ID: "known", Tag: []byte("{}"), Flags: wire.FlagStdin, Offset: 1 << 63},
		{Type: wire.Started, Req: 2, ID: "x", Tag: []byte("{}")},
		{Type: wire.Output, ID: "x", Stream: 1, Data: []byte("hello")},
		{Type: wire.Output, ID: "x", Offset: 1 << 63, Stream: 9, Data: []byte("x")},
		{Type: wire.InputAck, ID: "x", Offset: 1 << 62, Limit: 1 << 63},
		{Type: wire.Exited, ID: "x", ExitCode: 1 << 60, Signal: 1 << 50, Reason: 77},
		{Type: wire.Output, ID: "x", Offset: 5, Flags: wire.FlagEOF},
		{Type: wire.Error, Req: 3, Code: 99, Text: "a\nb\x00"},
		{Type: wire.Dialled, Req: 4, Limit: 1 << 62},
		{Type: wire.PortAck, Limit: 1 << 63},
		{Type: wire.PortData, Data: []byte("hello")},
		{Type: wire.PortData, Offset: 5, Data: []byte("x"), Flags: wire.FlagEOF},
		{Type: wire.PortClose, Text: "a\nb"},
	}...)
	for _, tag := range []string{`{"limit":{"head":10,"tail":-5}}`, `{"limit":{"head":9223372036854775807,"tail":9223372036854775807}}`} {
		add(tag,
			&wire.Message{Type: wire.Started, Req: 2, ID: "known", Tag: []byte(tag)},
			&wire.Message{Type: wire.Output, ID: "known", Stream: 1, Data: make([]byte, 64)})
	}
	f.Fuzz(func(t *testing.T, in, tag []byte) {
		h := newHostile(in, tag)
		used := false
		e, err := New(Options{
			Dir: t.TempDir(), Untrusted: true,
			Connect: func(context.Context, bool) (wire.Conn, error) {
				if used {
					return nil, ErrGone
				}
				used = true
				return h, nil
			},
			Prepare: func(context.Context, corral.Command) (pathenv.Plan, error) {
				return pathenv.Plan{Args: []string{"true"}, Dir: "/"}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := e.records.start("known", 0, tagFor("a")); err != nil {
			t.Fatal(err)
		}
		p, err := e.Attach(ctx, "known")
		if err == nil {
			_, _ = p.Write(ctx, []byte("input"))
		}
		p, err = e.Start(ctx, corral.Command{ID: "x", Shell: "true", Stdin: true})
		if err == nil {
			_, _ = p.Write(ctx, []byte("input"))
			if exit, err := p.Wait(ctx); err == nil && (exit.Code < -1 || exit.Code > 255) {
				t.Errorf("exit code %d", exit.Code)
			}
		}
		if conn, err := e.Dial(ctx, 80); err == nil {
			_ = conn.SetDeadline(time.Now().Add(time.Millisecond))
			_, _ = conn.Write([]byte("input"))
			_, _ = conn.Read(make([]byte, 100))
			conn.Close()
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
