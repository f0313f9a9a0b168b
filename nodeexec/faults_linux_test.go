package nodeexec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// everything is a log that drops nothing.
var everything = corral.LogLimit{Head: 1 << 30, Tail: 1 << 20}

// produce writes n bytes of the pattern.
func produce(n int) fakeexec.Program {
	return func(o *fakeexec.IO) int {
		buf := make([]byte, 50_000)
		for off := 0; off < n; off += len(buf) {
			buf = buf[:min(len(buf), n-off)]
			pattern.Fill(buf, 1, int64(off))
			if _, err := o.Stdout.Write(buf); err != nil {
				return 1
			}
		}
		return 7
	}
}

// consume says how many bytes of input there were, and their hash.
func consume(o *fakeexec.IO) int {
	h := sha256.New()
	n, err := io.Copy(h, o.Stdin)
	if err != nil {
		return 1
	}
	fmt.Fprintf(o.Stdout, "%d %x", n, h.Sum(nil))
	return 0
}

func patternOf(n int) []byte {
	b := make([]byte, n)
	pattern.Fill(b, 1, 0)
	return b
}

// readAll reads a log to its end, and fails the test if a byte is missing or
// there twice.
func readAll(t testing.TB, p corral.Process) []byte {
	t.Helper()
	var got bytes.Buffer
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		c, err := p.Log().Read(t.Context(), off, buf)
		if errors.Is(err, io.EOF) {
			return got.Bytes()
		}
		if err != nil {
			t.Errorf("Read at %d: %v", off, err)
			return nil
		}
		if c.Offset != off {
			t.Errorf("Read at %d: a chunk at %d", off, c.Offset)
			return nil
		}
		got.Write(c.Data)
		off = c.Next()
	}
}

func start(t testing.TB, x corral.Executor, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := x.Start(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

// proxy is a link that can be cut.
type proxy struct {
	listener net.Listener
	target   string
	owned    sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	passed   int64
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.owned.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", target)
			if err != nil {
				_ = a.Close()
				continue
			}
			p.mu.Lock()
			p.conns[a], p.conns[b] = struct{}{}, struct{}{}
			p.mu.Unlock()
			for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
				p.owned.Go(func() {
					buf := make([]byte, 16<<10)
					for {
						n, err := ends[0].Read(buf)
						p.mu.Lock()
						p.passed += int64(n)
						p.mu.Unlock()
						if err == nil {
							_, err = ends[1].Write(buf[:n])
						}
						if err != nil {
							_, _ = a.Close(), b.Close()
							return
						}
					}
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.owned.Wait()
	})
	return p
}

// cut resets every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
		delete(p.conns, c)
	}
}

// more waits until n more bytes have passed.
func (p *proxy) more(ctx context.Context, n int64) bool {
	p.mu.Lock()
	until := p.passed + n
	p.mu.Unlock()
	for ctx.Err() == nil {
		p.mu.Lock()
		enough := p.passed >= until
		p.mu.Unlock()
		if enough {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func quick() nats.Option {
	return func(o *nats.Options) error {
		o.ReconnectWait, o.ReconnectJitter, o.ReconnectJitterTLS = 5*time.Millisecond, 0, 0
		return nil
	}
}

// The node's link is cut, again and again, while output and input flow, and the
// gateway's as well: no byte is lost, and none comes twice.
func TestCuts(t *testing.T) {
	const size, cuts = 24 << 20, 24
	r := newRig(t)
	px := newProxy(t, r.broker.Addr().String())
	r.address = "tls://" + px.listener.Addr().String()
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"produce": produce(size), "consume": consume}}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x, quick())
	r.open()
	node := r.node()
	out := start(t, node, corral.Command{Shell: "produce", Log: everything})
	in := start(t, node, corral.Command{Shell: "consume", Stdin: true})

	ctx, over := context.WithCancel(t.Context())
	var work, cutter sync.WaitGroup
	made := 0
	cutter.Go(func() {
		for made < cuts && px.more(ctx, 3*size/2/cuts) {
			if made%6 == 5 {
				r.broker.Disconnect(r.conn.Opts.Nkey)
			}
			px.cut()
			made++
		}
	})
	var got []byte
	work.Go(func() { got = readAll(t, out) })
	var wrote int
	var werr error
	work.Go(func() { wrote, werr = in.Write(t.Context(), patternOf(size)) })
	work.Wait()
	over()
	cutter.Wait()
	t.Logf("%d cuts", made)
	if made < 20 {
		t.Errorf("only %d cuts were made", made)
	}
	if !bytes.Equal(got, patternOf(size)) {
		t.Errorf("the output is not what was printed: %d bytes of %d", len(got), size)
	}
	if wrote != size || werr != nil {
		t.Fatalf("Write: %d of %d, %v", wrote, size, werr)
	}
	if err := in.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := string(readAll(t, in)), fmt.Sprintf("%d %x", size, sha256.Sum256(patternOf(size))); got != want {
		t.Errorf("the node read %s, not %s", got, want)
	}
	if exit, err := out.Wait(t.Context()); err != nil || exit.Code != 7 {
		t.Errorf("Wait: %v, %v", exit, err)
	}
	if n := x.Starts(); n != 2 {
		t.Errorf("%d commands ran", n)
	}
}

// unreliable carries what a gateway and a node say from one server to another,
// and drops, repeats and reorders it.
func unreliable(t *testing.T, gateway, node *rig, seed uint64, drop, repeat, swap float64) {
	t.Helper()
	connect := func(r *rig) *nats.Conn {
		c, err := r.broker.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	a, b := connect(gateway), connect(node)
	carry := func(from, to *nats.Conn, subject string, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		var held *nats.Msg
		send := func(m *nats.Msg) { _ = to.Publish(m.Subject, m.Data) }
		sub, err := from.Subscribe(subject, func(m *nats.Msg) {
			if strings.HasPrefix(m.Subject, "fab.hb.") { // presence is not what is tested
				send(m)
				return
			}
			p := random.Float64()
			switch {
			case p < drop:
			case p < drop+repeat:
				send(m)
				send(m)
			case p < drop+repeat+swap && held == nil:
				held = m
				return
			default:
				send(m)
			}
			if held != nil {
				send(held)
				held = nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = sub.SetPendingLimits(-1, -1)
		if err := from.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	carry(a, b, "fab.n.>", seed)
	carry(b, a, "fab.gw.>", seed+1)
	carry(b, a, "fab.hb.>", seed+2)
}

// Messages are dropped, repeated and reordered in both directions.
func TestUnreliable(t *testing.T) {
	for i, tc := range []struct{ drop, repeat, swap float64 }{{0.05, 0, 0}, {0, 0.3, 0}, {0, 0, 0.3}, {0.03, 0.1, 0.1}} {
		t.Run(fmt.Sprintf("drop %v repeat %v swap %v", tc.drop, tc.repeat, tc.swap), func(t *testing.T) {
			t.Parallel()
			const size = 1 << 20
			gw, nd := newRig(t), newRig(t)
			nd.gateway = gw.gateway
			unreliable(t, gw, nd, uint64(i)*100+1, tc.drop, tc.repeat, tc.swap)
			x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"produce": produce(size), "consume": consume}}
			t.Cleanup(func() { _ = x.Close() })
			gw.open()
			nd.serve(x)
			node := gw.node()
			const each = 4
			var work sync.WaitGroup
			for range each {
				work.Go(func() {
					p, err := node.Start(t.Context(), corral.Command{Shell: "produce"})
					if err != nil {
						t.Errorf("Start: %v", err)
						return
					}
					if got := readAll(t, p); !bytes.Equal(got, patternOf(size)) {
						t.Errorf("the output is not what was printed: %d bytes of %d", len(got), size)
					}
					if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 7 {
						t.Errorf("Wait: %v, %v", exit, err)
					}
				})
				work.Go(func() {
					p, err := node.Start(t.Context(), corral.Command{Shell: "consume", Stdin: true})
					if err != nil {
						t.Errorf("Start: %v", err)
						return
					}
					for off := 0; off < size; off += size / 4 {
						if n, err := p.Write(t.Context(), patternOf(size)[off:off+size/4]); err != nil {
							t.Errorf("Write: %d, %v", n, err)
							return
						}
					}
					if err := p.CloseStdin(t.Context()); err != nil {
						t.Errorf("CloseStdin: %v", err)
					}
					if got, want := string(readAll(t, p)), fmt.Sprintf("%d %x", size, sha256.Sum256(patternOf(size))); got != want {
						t.Errorf("the node read %s, not %s", got, want)
					}
				})
			}
			work.Wait()
			if n := x.Starts(); n != 2*each {
				t.Errorf("%d commands ran, and not %d", n, 2*each)
			}
		})
	}
}

// A reader that does not read on costs the others nothing.
func TestStuckReader(t *testing.T) {
	const size, others = 4 << 20, 20
	r := newRig(t)
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"produce": produce(size)}}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x)
	r.open()
	node := r.node()
	stuck := start(t, node, corral.Command{Shell: "produce", Log: everything})
	if _, err := stuck.Log().Read(t.Context(), 0, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for range others {
		work.Go(func() {
			p, err := node.Start(t.Context(), corral.Command{Shell: "produce", Log: everything})
			if err != nil {
				t.Errorf("Start: %v", err)
				return
			}
			if got := readAll(t, p); !bytes.Equal(got, patternOf(size)) {
				t.Errorf("the output is not what was printed: %d bytes of %d", len(got), size)
			}
		})
	}
	work.Wait()
	if got := readAll(t, stuck); !bytes.Equal(got, patternOf(size)) {
		t.Errorf("what is read on is %d bytes of %d", len(got), size)
	}
}

// A node that says whatever it likes is believed nothing that is impossible,
// and harms no other.
func TestHostileNode(t *testing.T) {
	r := newRig(t)
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"produce": produce(1 << 20)}}
	t.Cleanup(func() { _ = x.Close() })
	evil, err := r.broker.Connect() // it may publish what a node may, and more
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(evil.Close)
	random := rand.New(rand.NewPCG(1, 2))
	// It answers everything that is asked of the node with nonsense beside it.
	if _, err := evil.Subscribe(fabric.NodeSubjects(nodeID), func(m *nats.Msg) {
		e, err := fabric.ParseEnvelope(m.Data)
		if err != nil {
			return
		}
		for _, kind := range []fabric.Kind{fabric.KindAnswer, fabric.KindOutput, fabric.KindInput} {
			junk := make([]byte, random.IntN(200))
			for i := range junk {
				junk[i] = byte(random.Uint32())
			}
			for _, data := range [][]byte{junk, []byte(`{"boot":""}`), []byte(`{"boot":"x","exit":{"exitCode":999}}`), bytes.Repeat([]byte{0}, 60<<10)} {
				for n := range uint64(5) {
					_ = evil.Publish(fabric.ToGateway(e.Life, nodeID, kind, n+e.Seq), data)
				}
			}
			// This one was never paired.
			_ = evil.Publish(fabric.ToGateway(e.Life, "other", kind, e.Seq), []byte(`{"boot":"x"}`))
		}
		_ = evil.Publish(fabric.HelloSubject("other"), []byte(`{"min":1,"max":1,"boot":"x"}`))
		_ = evil.Publish(fabric.HelloSubject(nodeID), []byte(`{`))
	}); err != nil {
		t.Fatal(err)
	}
	r.serve(x)
	r.open()
	node := r.node()
	p := start(t, node, corral.Command{Shell: "produce"})
	if got := readAll(t, p); !bytes.Equal(got, patternOf(1<<20)) {
		t.Errorf("the output is not what was printed: %d bytes", len(got))
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 7 {
		t.Errorf("Wait: %v, %v", exit, err)
	}
	if list := r.fabric.List(t.Context()); len(list) != 1 || list[0].ID != nodeID || !list[0].Online {
		t.Errorf("the nodes are %+v", list)
	}
}
