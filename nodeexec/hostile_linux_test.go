package nodeexec_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// hostile is a node that was paired, and says whatever it likes, with another
// that is honest beside it.
type hostile struct {
	*rig
	conn  *nats.Conn
	key   nkeys.KeyPair
	asked *nats.Subscription // what it is asked
	life  string             // of the gateway
}

const evilID = "evil"

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{rig: newRig(t)}
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"produce": produce(1 << 20), "sleep": fakeexec.Sleep}}
	t.Cleanup(func() { _ = x.Close() })
	h.serve(x)
	h.key = h.pair(evilID, "")
	h.open()
	h.node()
	pinned, err := broker.Pinned(h.broker.Fingerprint(), h.key)
	if err != nil {
		t.Fatal(err)
	}
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	if h.conn, err = nats.Connect(h.address, append(pinned, quiet, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.conn.Close)
	// It learns the gateway's life as every node does: from what it is asked.
	h.asked, err = h.conn.SubscribeSync(fabric.NodeSubjects(evilID))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	selected := make(chan error, 1)
	go func() { _, _, err := h.fabric.Select(t.Context(), evilID); selected <- err }()
	m, err := h.asked.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	h.life = strings.Split(m.Reply, ".")[2]
	h.say(fabric.HelloSubject(evilID), `{"min":1,"max":1,"boot":"b"}`)
	if err := <-selected; err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hostile) say(subject, text string) {
	h.tb.Helper()
	if err := h.conn.Publish(subject, []byte(text)); err != nil {
		h.tb.Error(err)
	}
}

func (h *hostile) to(kind fabric.Kind, n uint64) string {
	return fabric.ToGateway(h.life, evilID, kind, n)
}

// logged waits until it is in the log.
func (h *hostile) logged(text string) {
	h.tb.Helper()
	for end := time.Now().Add(10 * time.Second); !strings.Contains(h.lines.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.tb.Fatalf("%q is not in the log:\n%s", text, h.lines.String())
		}
	}
}

// once waits until the gateway has heard everything, and checks that its log has one line
// about it.
func (h *hostile) once(text string) {
	h.tb.Helper()
	h.logged(text)
	if err := h.conn.Flush(); err != nil {
		h.tb.Error(err)
	}
	h.works()
	if n := strings.Count(h.lines.String(), text); n != 1 {
		h.tb.Errorf("%d lines say %q", n, text)
	}
}

// What it may not say is refused, by the message server or by the gateway, and
// the log says so. The other node works.
func TestHostileNodeIsRefused(t *testing.T) {
	const other = nodeID
	for _, tc := range []struct {
		name   string
		do     func(h *hostile)
		logged string
	}{
		// The message server.
		{"a hello of another", func(h *hostile) { h.say(fabric.HelloSubject(other), `{"min":1,"max":1,"boot":"b"}`) }, "Publish Violation"},
		{"an answer of another", func(h *hostile) {
			h.say(fabric.ToGateway(h.life, other, fabric.KindAnswer, 1), `{"boot":"b"}`)
		}, "Publish Violation"},
		{"a request to another", func(h *hostile) { h.say(fabric.RequestSubject(other), "replayed") }, "Publish Violation"},
		{"a request to itself", func(h *hostile) { h.say(fabric.RequestSubject(evilID), "replayed") }, "Publish Violation"},
		{"the gateway's verdict", func(h *hostile) { h.say("fab.paired."+h.public(h.gateway), "{}") }, "Publish Violation"},
		{"another key's ask", func(h *hostile) { h.say("fab.pair."+h.public(h.gateway), "{}") }, "Publish Violation"},
		{"the server's own subjects", func(h *hostile) { h.say("$SYS.REQ.USER.INFO", "") }, "Publish Violation"},
		{"hearing another's requests", func(h *hostile) { h.hear(fabric.NodeSubjects(other)) }, "Subscription Violation"},
		{"hearing everybody's", func(h *hostile) { h.hear("fab.>") }, "Subscription Violation"},
		{"hearing what others answer", func(h *hostile) { h.hear(fabric.GatewaySubjects(h.life)) }, "Subscription Violation"},
		{"a message that is too large", func(h *hostile) {
			h.raw(fmt.Sprintf("PUB %s 100000\r\n%s\r\n", h.to(fabric.KindAnswer, 1), strings.Repeat("x", 100_000)))
		}, "maximum payload exceeded"},
		{"a line that does not end", func(h *hostile) { h.raw(strings.Repeat("PUB", 10_000)) }, "arser"},
		{"noise", func(h *hostile) { h.raw("\x00\xff\x00\xff\r\n") }, "arser"},
		// The gateway.
		{"a kind of its own", func(h *hostile) { h.say("fab.gw."+h.life+"."+evilID+".x.1", "") }, "on a subject that means nothing"},
		{"no number", func(h *hostile) { h.say("fab.gw."+h.life+"."+evilID+".a.-1", "") }, "on a subject that means nothing"},
		{"a number too many", func(h *hostile) { h.say("fab.gw."+h.life+"."+evilID+".a.18446744073709551616", "") }, "on a subject that means nothing"},
		{"a hello that is none", func(h *hostile) { h.say(fabric.HelloSubject(evilID), `{"boot":"a.b"}`) }, "hello that cannot be read"},
		{"a long hello", func(h *hostile) {
			h.say(fabric.HelloSubject(evilID), `{"min":1,"max":1,"boot":"b","host":"`+strings.Repeat("x", 9000)+`"}`)
		}, "hello that cannot be read"},
		{"an answer to nothing", func(h *hostile) { h.say(h.to(fabric.KindAnswer, 1<<40), `{"boot":"b"}`) }, "about what was never asked"},
		{"the answer 0", func(h *hostile) { h.say(h.to(fabric.KindAnswer, 0), `{"boot":"b"}`) }, "about what was never asked"},
		{"output for no reader", func(h *hostile) { h.say(h.to(fabric.KindOutput, 1<<40), "") }, "about what was never asked"},
		{"input of no write", func(h *hostile) { h.say(h.to(fabric.KindInput, 1<<40), "") }, "about what was never asked"},
		{"an answer to what another was asked", func(h *hostile) {
			p := start(h.tb, h.node(), corral.Command{Shell: "sleep"})
			waited := make(chan error, 1)
			go func() { _, err := p.Wait(h.tb.Context()); waited <- err }()
			for !strings.Contains(h.lines.String(), "about what another was asked") {
				for n := range uint64(20) { // whichever it was
					h.say(h.to(fabric.KindAnswer, n+1), `{"boot":"b","exit":{"exitCode":0,"reason":"exited"}}`)
				}
				select {
				case err := <-waited:
					h.tb.Fatalf("the command of the other node has ended: %v", err)
				case <-time.After(10 * time.Millisecond):
				}
			}
			if err := p.Signal(h.tb.Context(), corral.SIGKILL); err != nil {
				h.tb.Error(err)
			}
			if err := <-waited; err != nil {
				h.tb.Error(err)
			}
		}, "about what another was asked"},
		{"output for another's reader", func(h *hostile) {
			p := start(h.tb, h.node(), corral.Command{Shell: "sleep"})
			for n := range uint64(20) {
				h.say(h.to(fabric.KindOutput, n+1), string(fabric.Output{Stream: corral.Stdout, Data: []byte("forged")}.Append(nil)))
			}
			h.logged("about what another was asked")
			if err := p.Signal(h.tb.Context(), corral.SIGKILL); err != nil {
				h.tb.Error(err)
			}
			if got := readAll(h.tb, p); len(got) > 0 {
				h.tb.Errorf("the other node's command is said to have printed %q", got)
			}
		}, "about what another was asked"},
		{"an answer that is none", func(h *hostile) {
			h.reply(fabric.KindAnswer, `{"boot":"b","exit":{"exitCode":999}}`)
		}, "no process ends as"},
		{"output that is none", func(h *hostile) {
			h.reply(fabric.KindOutput, "short")
		}, "output of 5 bytes"},
		{"output beyond what was granted", func(h *hostile) {
			h.reply(fabric.KindOutput, string(fabric.Output{From: 1 << 40, Offset: 1 << 40, Stream: corral.Stdout, Data: []byte("more")}.Append(nil)))
		}, "where at most 65536 was granted"},
		{"output at the end of all", func(h *hostile) {
			h.reply(fabric.KindOutput, string(fabric.Output{Offset: math.MaxInt64, Stream: corral.Stdout, Data: []byte("more")}.Append(nil)))
		}, "malformed message: output from 0 at 9223372036854775807"},
		{"nodes that change all the time", func(h *hostile) {
			for n := range 200 {
				h.say(fabric.HelloSubject(evilID), fmt.Sprintf(`{"min":1,"max":1,"boot":"b","link":%d}`, n))
			}
		}, "changes too often"},
		{"a flood of hellos", func(h *hostile) {
			for range 5000 {
				h.say(fabric.HelloSubject(evilID), `{"min":1,"max":1,"boot":"b"}`)
			}
			h.once("a node says too much that it was not asked")
		}, "node=evil dropped=1"},
		{"a flood of answers to a call that is over", func(h *hostile) {
			for range 30_000 {
				h.say(h.to(fabric.KindAnswer, 1), `{"boot":"b"}`)
			}
			h.once("a node says too much that it was not asked")
		}, "node=evil dropped=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			tc.do(h)
			h.logged(tc.logged)
			h.works()
		})
	}
}

// reply says something to whatever a command asks that is started on the node,
// which is not started.
func (h *hostile) reply(kind fabric.Kind, text string) {
	h.tb.Helper()
	x, _, err := h.fabric.Select(h.tb.Context(), evilID)
	if err != nil {
		h.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.tb.Context())
	started := make(chan error, 1)
	go func() {
		_, err := x.Start(ctx, corral.Command{ID: "evil-job", Shell: "sleep"})
		started <- err
	}()
	m, err := h.asked.NextMsg(10 * time.Second)
	if err != nil {
		h.tb.Fatal(err)
	}
	e, err := fabric.ParseEnvelope(m.Data)
	if err != nil {
		h.tb.Fatal(err)
	}
	_, _, read, err := fabric.DecodeStart(e.Body)
	if err != nil {
		h.tb.Fatal(err)
	}
	n := e.Seq
	if kind == fabric.KindOutput {
		n = read.Reader
	}
	h.say(h.to(kind, n), text)
	if err := h.conn.Flush(); err != nil {
		h.tb.Fatal(err)
	}
	h.say(h.to(fabric.KindAnswer, e.Seq), `{"boot":"b","error":{"code":"denied","message":"no"}}`)
	if err := <-started; !errors.Is(err, corral.ErrDenied) {
		h.tb.Errorf("Start: %v", err)
	}
	cancel()
}

func (h *hostile) hear(subject string) {
	h.tb.Helper()
	if _, err := h.conn.SubscribeSync(subject); err != nil {
		h.tb.Fatal(err)
	}
}

// raw says something that no client says, as the node.
func (h *hostile) raw(text string) {
	h.tb.Helper()
	c, err := tls.Dial("tcp", h.broker.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	if err != nil {
		h.tb.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the server closes it
	info := make([]byte, 4096)
	k, err := c.Read(info)
	if err != nil {
		h.tb.Fatal(err)
	}
	_, nonce, _ := strings.Cut(string(info[:k]), `"nonce":"`)
	nonce, _, _ = strings.Cut(nonce, `"`)
	sig, err := h.key.Sign([]byte(nonce))
	if err != nil {
		h.tb.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "CONNECT {\"nkey\":%q,\"sig\":%q}\r\n", h.public(h.key), base64.RawURLEncoding.EncodeToString(sig)); err != nil {
		h.tb.Fatal(err)
	}
	_, _ = c.Write([]byte(text)) // the server may close it before the end
	for {
		if _, err := c.Read(info); err != nil {
			return
		}
	}
}

// works fails the test if the other node does not.
func (h *hostile) works() {
	h.tb.Helper()
	p := start(h.tb, h.node(), corral.Command{Shell: "produce"})
	if got := readAll(h.tb, p); !bytes.Equal(got, patternOf(1<<20)) {
		h.tb.Errorf("the output of the other node is not what was printed: %d bytes", len(got))
	}
	if exit, err := p.Wait(h.tb.Context()); err != nil || exit.Code != 7 {
		h.tb.Errorf("Wait: %v, %v", exit, err)
	}
}

// However much it says, the gateway's memory and its log are bounded, and the
// other node works meanwhile.
func TestHostileNodeFloods(t *testing.T) {
	const memory = 256 << 20
	for _, tc := range []struct {
		name   string
		say    func(h *hostile, i int)
		logged string
	}{
		{"answers", func(h *hostile, i int) { h.say(h.to(fabric.KindAnswer, uint64(i)), strings.Repeat("x", 30_000)) }, "about what was never asked"},
		{"output", func(h *hostile, i int) {
			h.say(h.to(fabric.KindOutput, uint64(i%100)), string(fabric.Output{Stream: corral.Stdout, Data: make([]byte, 30_000)}.Append(nil)))
		}, "about what"},
		{"hellos", func(h *hostile, _ int) { h.say(fabric.HelloSubject(evilID), `{"boot":""}`) }, "hello that cannot be read"},
		{"hellos of a node that is none any more", func(h *hostile, i int) {
			if i == 1 {
				h.mu.Lock()
				delete(h.paired, h.public(h.key))
				h.mu.Unlock()
			}
			h.say(fabric.HelloSubject(evilID), `{"min":1,"max":1,"boot":"b"}`)
		}, "a node that is not paired"},
		{"what the message server stops", func(h *hostile, _ int) { h.say(fabric.RequestSubject(nodeID), "") }, "Publish Violation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHostile(t)
			var before, now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			begun := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := 1; ctx.Err() == nil; i++ {
					tc.say(h, i)
				}
			}()
			t.Cleanup(func() { cancel(); <-done })
			for over := false; !over; over = time.Since(begun) > time.Second {
				h.works()
				runtime.ReadMemStats(&now)
				if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > memory {
					t.Errorf("%d MB more are in use", grown>>20)
				}
			}
			h.logged(tc.logged)
			cancel()
			<-done
			seconds := int(time.Since(begun).Seconds()) + 1
			if n := strings.Count(h.lines.String(), "\n"); n > 100+10*seconds {
				t.Errorf("%d lines in %d s", n, seconds)
			}
			h.works()
		})
	}
}

// A node that takes another node's name does not get its commands.
func TestHelloClaimsNothing(t *testing.T) {
	h := newHostile(t)
	for _, claim := range []string{"builder", nodeID, "127.0.0.1"} {
		h.say(fabric.HelloSubject(evilID), fmt.Sprintf(`{"min":1,"max":1,"boot":"b","link":7,"host":%q,"program":"of %s"}`, claim, claim))
		if err := h.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		for heard := false; !heard; { // until it is taken
			for _, n := range h.fabric.List(t.Context()) {
				heard = heard || n.ID == evilID && n.Program == "of "+claim
			}
		}
		if x, name, err := h.fabric.Select(t.Context(), claim); err == nil && name != "builder" {
			t.Errorf("%s is %q, %v", claim, name, x)
		}
	}
	h.works()
}
