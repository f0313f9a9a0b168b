package fabric_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

const nodeID = "n1"

// rig is a node, and somebody who can send it whatever he likes.
type rig struct {
	t     *testing.T
	conn  *nats.Conn
	key   nkeys.KeyPair // of the gateway
	exec  *fakeexec.Executor
	life  string
	boot  string
	told  fabric.Hello  // of the node, the first
	epoch atomic.Uint64 // of its last hello
	seq   uint64
	heard chan *nats.Msg
	lines *logtest.Log
}

func newRig(t *testing.T, change ...func(*fakeexec.Executor)) *rig {
	t.Helper()
	return newRigOf(t, func(*fabric.NodeConfig) {}, change...)
}

func newRigServing(t *testing.T, served func(*fakeexec.Executor) corral.Executor) *rig {
	t.Helper()
	return newRigOf(t, func(c *fabric.NodeConfig) { c.Executor = served(c.Executor.(*fakeexec.Executor)) })
}

func newRigOf(t *testing.T, node func(*fabric.NodeConfig), change ...func(*fakeexec.Executor)) *rig {
	t.Helper()
	r := &rig{t: t, life: corral.NewID(), heard: make(chan *nats.Msg, 1000), lines: &logtest.Log{}, exec: &fakeexec.Executor{
		Programs: map[string]fakeexec.Program{"cat": fakeexec.Cat, "sleep": fakeexec.Sleep, "print": fakeexec.Print("printed", "", 3)},
	}}
	for _, f := range change {
		f(r.exec)
	}
	t.Cleanup(func() { _ = r.exec.Close() })
	b, err := broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Authorize: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	connect := func() *nats.Conn {
		c, err := b.Connect(fabric.ConnectOptions(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r.conn = connect()
	t.Cleanup(r.conn.Close)
	var public string
	r.key, public = natstest.NewKey(t)
	hello := make(chan fabric.Hello, 10)
	for subject, handle := range map[string]nats.MsgHandler{
		fabric.GatewaySubjects(r.life): func(m *nats.Msg) {
			select {
			case r.heard <- m:
			case <-t.Context().Done():
			}
		},
		fabric.AllHellos: func(m *nats.Msg) {
			if h, err := fabric.ParseHelloBody(m.Data); err == nil {
				r.epoch.Store(h.Epoch)
				select {
				case hello <- h:
				default:
				}
			}
		},
	} {
		if _, err := r.conn.Subscribe(subject, handle); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	cfg := fabric.NodeConfig{ID: nodeID, Executor: r.exec, GatewayKeys: []string{public}, Log: slog.New(slog.NewTextHandler(r.lines, nil))}
	node(&cfg)
	nodeConn := linktest.Over(t, connect())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fabric.Serve(ctx, nodeConn, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	r.told = <-hello
	r.boot = r.told.Boot
	return r
}

func (r *rig) header(op fabric.Op, id string) fabric.Header {
	r.seq++
	return fabric.Header{
		Version: fabric.Version, Node: nodeID, Boot: r.boot, Life: r.life, Seq: r.seq,
		Epoch: r.epoch.Load(), Op: op, ID: id,
	}
}

func (r *rig) seal(h fabric.Header, body []byte) [][]byte {
	r.t.Helper()
	return sealBy(r.t, r.key, h, body)
}

func sealBy(t *testing.T, key nkeys.KeyPair, h fabric.Header, body []byte) [][]byte {
	t.Helper()
	s, err := fabric.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Seal(h, body)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (r *rig) send(messages ...[]byte) {
	r.t.Helper()
	for i, m := range messages {
		subject := fabric.RequestSubject(nodeID)
		if i > 0 {
			subject = fabric.PartSubject(nodeID)
		}
		if err := r.conn.Publish(subject, m); err != nil {
			r.t.Fatal(err)
		}
	}
}

// answer is the answer to the request of that number.
func (r *rig) answer(seq uint64) fabric.Answer {
	r.t.Helper()
	m := r.hear(fabric.KindAnswer, seq)
	a, err := fabric.ParseAnswer(m)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) hear(kind fabric.Kind, n uint64) []byte {
	r.t.Helper()
	for limit := time.After(time.Minute); ; { // a flood takes long on a busy machine
		select {
		case m := <-r.heard:
			node, k, got, ok := fabric.ParseToGateway(r.life, m.Subject)
			if ok && node == nodeID && k == kind && got == n {
				return m.Data
			}
		case <-limit:
			r.t.Fatalf("nothing about %c %d; the log is\n%s", kind, n, r.lines)
		}
	}
}

// settled waits until the node has taken all that was sent.
func (r *rig) settled() {
	r.t.Helper()
	h := r.header(fabric.OpAttach, "none")
	r.send(r.seal(h, nil)...)
	r.answer(h.Seq)
}

func startBody(t *testing.T, id, text string) []byte {
	t.Helper()
	b, err := fabric.EncodeStart("main", corral.Command{ID: id, Shell: text, Stdin: text == "cat"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whoever can send to a node, such as the message server, and does not have the
// gateway's key, starts nothing; nor does he who has what a gateway once said.
func TestForged(t *testing.T) {
	stranger, strange := natstest.NewKey(t)
	for _, tc := range []struct {
		name    string
		change  func(h *fabric.Header)
		spoil   func(m [][]byte) [][]byte
		by      nkeys.KeyPair
		refused fabric.Refusal // empty: no answer
		logged  string
	}{
		{name: "another key", by: stranger, refused: fabric.RefusedKey, logged: "not paired with the gateway of key " + strange},
		{name: "a changed body", spoil: func(m [][]byte) [][]byte {
			return [][]byte{bytes.Replace(m[0], []byte(`"print"`), []byte(`"sleep"`), 1)}
		}, refused: fabric.RefusedKey, logged: "did not sign"},
		{name: "a changed process", spoil: func(m [][]byte) [][]byte {
			return [][]byte{bytes.Replace(m[0], []byte(`"id":"job"`), []byte(`"id":"boj"`), 1)}
		}, refused: fabric.RefusedKey, logged: "did not sign"},
		{name: "a changed operation", spoil: func(m [][]byte) [][]byte {
			return [][]byte{bytes.Replace(m[0], []byte(`"op":"start"`), []byte(`"op":"sttar"`), 1)}
		}, refused: fabric.RefusedKey, logged: "did not sign"},
		{name: "no signature", spoil: func(m [][]byte) [][]byte {
			n := 2 + int(m[0][0])<<8 + int(m[0][1])
			return [][]byte{append(append(m[0][:n:n], make([]byte, 64)...), m[0][n+64:]...)}
		}, refused: fabric.RefusedKey, logged: "did not sign"},
		{name: "another node", change: func(h *fabric.Header) { h.Node = "n2" }, logged: "request to another node"},
		{name: "another boot", change: func(h *fabric.Header) { h.Boot = "earlier" }, refused: fabric.RefusedBoot},
		{name: "an epoch that never was", change: func(h *fabric.Header) { h.Epoch++ }, refused: fabric.RefusedEpoch, logged: "does not know its epoch"},
		{name: "no epoch", change: func(h *fabric.Header) { h.Epoch = 0 }, refused: fabric.RefusedEpoch, logged: "does not know its epoch"},
		{name: "a changed epoch", spoil: func(m [][]byte) [][]byte {
			return [][]byte{bytes.Replace(m[0], []byte(`"epoch":`), []byte(`"hcope":`), 1)}
		}, refused: fabric.RefusedKey, logged: "did not sign"},
		{name: "another version", change: func(h *fabric.Header) { h.Version = 2 }, refused: fabric.RefusedVersion, logged: "speaks version 1"},
		{name: "number 0", change: func(h *fabric.Header) { h.Seq = 0 }, refused: fabric.RefusedReplay, logged: "replay"},
		{name: "another process in the body", change: func(h *fabric.Header) { h.ID = "other" }, refused: ""},
		{name: "cut", spoil: func(m [][]byte) [][]byte { return [][]byte{m[0][:len(m[0])-1]} }, logged: "request that is none"},
		{name: "empty", spoil: func([][]byte) [][]byte { return [][]byte{nil} }, logged: "request that is none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			h := r.header(fabric.OpStart, "job")
			if tc.change != nil {
				tc.change(&h)
			}
			key := r.key
			if tc.by != nil {
				key = tc.by
			}
			m := sealBy(t, key, h, startBody(t, "job", "print"))
			if tc.spoil != nil {
				m = tc.spoil(m)
			}
			r.send(m...)
			if tc.refused != "" {
				if a := r.answer(h.Seq); a.Refused != tc.refused {
					t.Errorf("the answer is %+v", a)
				}
			}
			r.settled()
			if n := r.exec.Starts(); n != 0 {
				t.Errorf("%d commands ran", n)
			}
			if !strings.Contains(r.lines.String(), tc.logged) {
				t.Errorf("%q is not in the log:\n%s", tc.logged, r.lines)
			}
		})
	}
}

// A request that is sent again is answered again, and acted upon once; also
// when what it started is long gone.
func TestReplayed(t *testing.T) {
	const kept = 100
	fabric.SetMaxAnswers(t, kept)
	r := newRig(t)
	first := r.header(fabric.OpStart, "job")
	m := r.seal(first, startBody(t, "job", "print"))
	for range 3 {
		r.send(m...)
	}
	a := r.answer(first.Seq)
	if a.Info == nil || a.Info.ID != "job" {
		t.Fatalf("the answer is %+v", a)
	}
	for _, op := range []fabric.Op{fabric.OpWait, fabric.OpRemove} {
		h := r.header(op, "job")
		r.send(r.seal(h, nil)...)
		if a := r.answer(h.Seq); a.Error != nil {
			t.Fatalf("%s: %+v", op, a.Error)
		}
	}
	r.send(m...)
	r.settled()
	if n := r.exec.Starts(); n != 1 {
		t.Errorf("%d commands ran", n)
	}
	// When its answer is forgotten, it is refused. Others make it so.
	for range kept {
		h := r.header(fabric.OpAttach, "none")
		r.send(r.seal(h, nil)...)
		r.answer(h.Seq)
	}
	r.send(m...)
	if a := r.answer(first.Seq); a.Refused != fabric.RefusedReplay {
		t.Errorf("the answer is %+v", a)
	}
	if n := r.exec.Starts(); n != 1 {
		t.Errorf("%d commands ran", n)
	}
	if !strings.Contains(r.lines.String(), "replay") {
		t.Errorf("the log is\n%s", r.lines)
	}
}

// Attach starts nothing, whatever it carries.
func TestAttachStartsNothing(t *testing.T) {
	r := newRig(t)
	h := r.header(fabric.OpAttach, "job")
	r.send(r.seal(h, startBody(t, "job", "print"))...)
	if a := r.answer(h.Seq); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), corral.ErrNotFound) || r.exec.Starts() != 0 {
		t.Errorf("%+v, %d commands ran", a, r.exec.Starts())
	}
}

// Input that is sent again is not typed again.
func TestInputReplayed(t *testing.T) {
	r := newRig(t)
	h := r.header(fabric.OpStart, "job")
	r.send(r.seal(h, startBody(t, "job", "cat"))...)
	r.answer(h.Seq)
	open := r.seal(r.header(fabric.OpOpen, "job"), fabric.Input{Write: 1, Total: 6, Data: []byte("abc")}.Append(nil))
	rest := r.seal(r.header(fabric.OpWrite, "job"), fabric.Input{Write: 1, Total: 6, Off: 3, Data: []byte("def")}.Append(nil))
	// Some of it is repeated by a gateway that has not heard of its arrival.
	again := r.seal(r.header(fabric.OpWrite, "job"), fabric.Input{Write: 1, Total: 6, Off: 2, Data: []byte("cdef")}.Append(nil))
	foreign := r.seal(r.header(fabric.OpWrite, "job"), fabric.Input{Write: 2, Total: 3, Data: []byte("xyz")}.Append(nil))
	until := func(is func(fabric.InputAck) bool) {
		for {
			a, err := fabric.ParseInputAck(r.hear(fabric.KindInput, 1), 6)
			if err != nil {
				t.Fatal(err)
			}
			if is(a) {
				return
			}
		}
	}
	r.send(open[0])
	r.send(open[0])
	until(func(a fabric.InputAck) bool { return a.Limit == 6 })
	for _, m := range [][][]byte{rest, rest, again, again, open} {
		r.send(m...)
	}
	until(func(a fabric.InputAck) bool { return a.Done == 6 }) // before the input is closed
	for _, m := range [][][]byte{foreign, open} {
		r.send(m...)
	}
	a, err := fabric.ParseInputAck(r.hear(fabric.KindInput, 2), 3)
	if err != nil || !errors.Is(a.Err(), corral.ErrLost) {
		t.Errorf("a write that was never begun: %+v, %v", a, err)
	}
	eof := r.header(fabric.OpEOF, "job")
	r.send(r.seal(eof, nil)...)
	r.answer(eof.Seq)
	wait := r.header(fabric.OpWait, "job")
	r.send(r.seal(wait, nil)...)
	if a := r.answer(wait.Seq); a.Exit == nil {
		t.Fatalf("%+v", a)
	}
	p, err := r.exec.Attach(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	got := ""
	for {
		c, err := p.Log().Read(t.Context(), int64(len(got)), buf)
		if err != nil {
			break
		}
		got += string(c.Data)
	}
	if got != "abcdef" {
		t.Errorf("the process read %q", got)
	}
}

// A reader that is told to go back while the end of its output is on its way
// does so, and ends again.
func TestResetAtEnd(t *testing.T) {
	waiting, release := make(chan struct{}, 10), make(chan struct{})
	r := newRig(t, func(x *fakeexec.Executor) {
		x.Fault = func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpWait {
				waiting <- struct{}{}
				<-release
			}
			return nil
		}
	})
	h := r.header(fabric.OpStart, "job")
	r.send(r.seal(h, startBody(t, "job", "print"))...)
	r.answer(h.Seq)
	grant := func(g fabric.Grant) {
		body, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		r.send(r.seal(r.header(fabric.OpRead, "job"), body)...)
	}
	hear := func() fabric.Output {
		o, err := fabric.ParseOutput(r.hear(fabric.KindOutput, 1))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	grant(fabric.Grant{Reader: 1, Limit: 100})
	if o := hear(); string(o.Data) != "printed" {
		t.Fatalf("%+v", o)
	}
	<-waiting
	grant(fabric.Grant{Reader: 1, Limit: 100, From: 2, Reset: true})
	r.settled()
	close(release)
	if o := hear(); o.From != 2 || string(o.Data) != "inted" {
		t.Fatalf("%+v", o)
	}
	o := hear()
	a, err := fabric.ParseAnswer(o.Data)
	if o.From != 7 || o.Flags != fabric.FlagEnd || err != nil || a.Exit == nil || a.Exit.Code != 3 {
		t.Errorf("%+v, %v", o, err)
	}
}

// Output comes packed to a reader that says it takes that, and to no other.
func TestPackedOutput(t *testing.T) {
	want := strings.Repeat("--- PASS: TestPackedOutput (0.00s)\n", 3000)
	r := newRig(t, func(x *fakeexec.Executor) { x.Programs["much"] = fakeexec.Print(want, "", 0) })
	h := r.header(fabric.OpStart, "job")
	r.send(r.seal(h, startBody(t, "job", "much"))...)
	r.answer(h.Seq)
	for reader, packed := range map[uint64]bool{1: true, 2: false} {
		g := fabric.Grant{Reader: reader, Limit: int64(len(want)) + 1, Packed: packed}
		r.send(r.seal(r.header(fabric.OpRead, "job"), g.Encode())...)
		got, size := "", 0
		for {
			m := r.hear(fabric.KindOutput, reader)
			o, err := fabric.ParseOutput(m)
			if err != nil {
				t.Fatal(err)
			}
			if o.Flags == fabric.FlagEnd {
				break
			}
			if o.From != int64(len(got)) || o.Stream != corral.Stdout {
				t.Fatalf("output from %d, not %d, of %v", o.From, len(got), o.Stream)
			}
			got, size = got+string(o.Data), size+len(m)
		}
		if got != want || (size < len(want)/5) != packed {
			t.Errorf("packed %v: %d bytes of %d, which are %d on the wire", packed, len(got), len(want), size)
		}
	}
}

// A large request comes in parts, in whatever order and number of times.
func TestParts(t *testing.T) {
	r := newRig(t)
	body, err := fabric.EncodeStart("main", corral.Command{ID: "job", Args: []string{"print", strings.Repeat("x<\x01", 400_000)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := r.header(fabric.OpStart, "job")
	m := r.seal(h, body)
	if len(m) < 50 {
		t.Fatalf("%d messages", len(m))
	}
	part := func(b []byte) {
		if err := r.conn.Publish(fabric.PartSubject(nodeID), b); err != nil {
			t.Fatal(err)
		}
	}
	part(m[1]) // nobody announced it
	r.send(m[0], m[1], m[1], m[3])
	r.settled()
	if n := r.exec.Starts(); n != 0 {
		t.Fatalf("%d commands ran", n)
	}
	r.send(m...)
	if a := r.answer(h.Seq); a.Info == nil {
		t.Fatalf("%+v", a)
	}
	r.send(m...)
	r.settled()
	if n := r.exec.Starts(); n != 1 {
		t.Errorf("%d commands ran", n)
	}

	// Parts of another body are found out.
	h = r.header(fabric.OpStart, "evil")
	m = r.seal(h, body)
	m[2] = append(bytes.Clone(m[2][:len(m[2])-1]), 'y')
	r.send(m...)
	if a := r.answer(h.Seq); a.Refused != fabric.RefusedKey {
		t.Errorf("%+v", a)
	}
	if n := r.exec.Starts(); n != 1 {
		t.Errorf("%d commands ran", n)
	}
}

// A node takes only so many large requests at a time.
func TestPartsAreBounded(t *testing.T) {
	r := newRig(t)
	body := make([]byte, 40_000)
	var last fabric.Header
	for range 65 {
		last = r.header(fabric.OpStart, "job")
		r.send(r.seal(last, body)[0])
	}
	if a := r.answer(last.Seq); a.Refused != fabric.RefusedBusy {
		t.Errorf("%+v", a)
	}
}

func TestNegotiate(t *testing.T) {
	for _, tc := range []struct {
		min, max int
		hint     string // empty: they understand each other
	}{{1, 1, ""}, {1, 5, ""}, {0, 1, ""}, {0, 0, "upgrade Corral on the node"}, {2, 3, "upgrade Corral on the gateway"}} {
		err := fabric.Negotiate("n1", fabric.Hello{Min: tc.min, Max: tc.max})
		if got := fmt.Sprint(corral.Hint(err)); got != tc.hint || (err == nil) != (tc.hint == "") {
			t.Errorf("%d to %d: %v, hint %q", tc.min, tc.max, err, got)
		}
	}
}
