//go:build e2e

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// A cluster is three message servers, two gateways that share their nodes, and
// nodes with real commands.
type cluster struct {
	t       *testing.T
	dir     string // the workspace of all nodes
	prog    string
	servers []*natstest.Server
	hubs    []*Hub
	nodes   []*machine
	spare   *machine // that is no node yet
}

func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{t: t, dir: testdir.New(t)}
	c.prog = exectest.BuildTestProg(t, testdir.New(t))
	x, keys := externalAt(t, true, nodes+1, func(config string) (string, string) {
		c.servers = natstest.StartCluster(t, 3, config)
		var urls []string
		for _, s := range c.servers {
			urls = append(urls, s.URL)
		}
		return strings.Join(urls, ","), c.servers[0].Cert
	})
	one := open(t, Config{Dir: t.TempDir(), External: x, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	c.hubs = []*Hub{one, openAnother(t, one)}
	warden := wardenbintest.Build(t)
	for i, key := range keys {
		m := newMachine(t, one)
		m.key = key
		if i == nodes {
			c.spare = m
			break
		}
		n := m.pair(c.hubs[i%2], api.NodeAnswer{Name: fmt.Sprintf("node-%d", i)})
		h, err := hostexec.New(hostexec.Config{StateDir: filepath.Join(testdir.New(t), "host"), WardenPath: warden, Workspace: c.dir, Environ: exectest.HostEnviron(c.dir)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
		m.exec = h
		m.serve(n.ID)
		c.nodes = append(c.nodes, m)
	}
	return c
}

// busiest is the server that most gateways and nodes are connected to.
func (c *cluster) busiest() (most *natstest.Server, count int) {
	clients := map[string]int{}
	for _, h := range c.hubs {
		clients[h.conn.Conn().ConnectedUrl()]++
	}
	for _, m := range c.nodes {
		clients[m.conn.ConnectedUrl()]++
	}
	for _, s := range c.servers {
		if n := clients[s.URL]; n > count {
			most, count = s, n
		}
	}
	c.t.Logf("connections of gateways and nodes: %v", clients)
	return most, count
}

// reconnects is how often gateways and nodes have connected anew.
func (c *cluster) reconnects() (n int) {
	for _, h := range c.hubs {
		n += int(h.conn.Conn().Stats().Reconnects)
	}
	for _, m := range c.nodes {
		n += int(m.conn.Stats().Reconnects)
	}
	return n
}

// whole waits until all servers have the registry, which have said so since then,
// and returns the one that leads.
func (c *cluster) whole(since time.Time) (leader *natstest.Server) {
	c.t.Helper()
	js, err := jetstream.New(c.hubs[0].conn.Conn())
	if err != nil {
		c.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		stream, err := js.Stream(ctx, "KV_"+pairing.BucketName)
		cancel()
		var info *jetstream.ClusterInfo
		if err == nil {
			info = stream.CachedInfo().Cluster
			current := 0
			for _, r := range info.Replicas {
				if r.Current && !r.Offline && r.Active < time.Since(since) {
					current++
				}
			}
			for _, s := range c.servers {
				if s.Name == info.Leader && current == 2 {
					return s
				}
			}
		}
		if time.Now().After(end) {
			c.t.Fatalf("the registry is not on three servers: %+v, %v", info, err)
		}
	}
}

// beats are moments at which something went on.
type beats struct {
	mu            sync.Mutex
	last          time.Time
	longest       time.Duration
	count, before int
}

func (b *beats) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.last.IsZero() {
		b.longest = max(b.longest, now.Sub(b.last))
	}
	b.last, b.count = now, b.count+1
}

// phase begins another one: the longest pause counts anew.
func (b *beats) phase() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.longest, b.before = 0, b.count
}

// since is how often there was a beat in this phase, and the longest pause.
func (b *beats) since() (int, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count - b.before, b.longest
}

// A chat is a session that prints what is known, or what it reads.
type chat struct {
	beats
	id   string
	seed uint64
	size atomic.Int64 // of all that it prints; 0: not known yet
	code int
	p    corral.Process
}

const (
	piece = 1000 // bytes
	pause = 10 * time.Millisecond
)

// chats starts sessions, of which every other one prints by itself for some time,
// and the others what is written to them until done is closed. They are over when
// the function that is returned returns.
func (c *cluster) chats(count int, long time.Duration, done <-chan struct{}) (list []*chat, wait func()) {
	var work sync.WaitGroup
	for i := range count {
		s := &chat{id: fmt.Sprintf("chat-%d", i), seed: uint64(i + 1), code: 3}
		x := selects(c.t, c.hubs[i%2], fmt.Sprintf("node-%d", i%len(c.nodes)))
		cmd := corral.Command{ID: s.id}
		program := "cat"
		if i%4 < 2 { // of both gateways
			s.size.Store(piece * int64(long/pause))
			program = fmt.Sprintf("%s pattern %d %d %d %v", c.prog, s.size.Load(), s.seed, piece, pause)
		} else {
			cmd.Stdin = true
		}
		cmd.Shell = fmt.Sprintf("echo %s >>ran; %s; exit %d", s.id, program, s.code)
		var err error
		if s.p, err = x.Start(c.t.Context(), cmd); err != nil {
			c.t.Fatal(err)
		}
		list = append(list, s)
		if cmd.Stdin {
			work.Go(func() { s.write(c.t, done) })
		}
		work.Go(func() { s.read(c.t) })
		work.Go(func() {
			if exit, err := s.p.Wait(c.t.Context()); err != nil || exit.Code != s.code {
				c.t.Errorf("%s: the end is %v, %v", s.id, exit, err)
			}
		})
	}
	return list, work.Wait
}

// write writes a piece at a time until done is closed.
func (s *chat) write(t *testing.T, done <-chan struct{}) {
	buf := make([]byte, piece)
	off := int64(0)
	for open := true; open; off += piece {
		pattern.Fill(buf, s.seed, off)
		if n, err := s.p.Write(t.Context(), buf); err != nil || n != len(buf) {
			t.Errorf("%s: a write at %d: %d, %v", s.id, off, n, err)
			break
		}
		select {
		case <-done:
			open = false
		case <-time.After(pause):
		}
	}
	s.size.Store(off)
	if err := s.p.CloseStdin(t.Context()); err != nil {
		t.Errorf("%s: the end of its input: %v", s.id, err)
	}
}

// read reads all there is.
func (s *chat) read(t *testing.T) {
	buf := make([]byte, 16<<10)
	for off := int64(0); ; {
		c, err := s.p.Log().Read(t.Context(), off, buf)
		switch {
		case errors.Is(err, io.EOF):
			if size := s.size.Load(); off != size {
				t.Errorf("%s: %d bytes were read of %d", s.id, off, size)
			}
			return
		case err != nil, c.Offset != off, !pattern.Equal(c.Data, s.seed, off):
			t.Errorf("%s: reading at %d: %d bytes at %d, which may be others than were printed; %v", s.id, off, len(c.Data), c.Offset, err)
			return
		}
		off = c.Next()
		s.beat()
	}
}

// A probe runs a no-op on a node through a gateway, again and again.
type probe struct {
	beats
	name       string
	runs, lost int
	refused    int // starts, which never happened
}

// probes begins one for each gateway and node.
func (c *cluster) probes(done <-chan struct{}) (list []*probe, wait func()) {
	var work sync.WaitGroup
	for g, h := range c.hubs {
		for n := range c.nodes {
			p := &probe{name: fmt.Sprintf("g%d-n%d", g, n)}
			list = append(list, p)
			x := selects(c.t, h, fmt.Sprintf("node-%d", n))
			work.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(pause):
					}
					if err := p.once(c.t, x); err != nil {
						c.t.Errorf("probe %s: %v", p.name, err)
						return
					}
					p.beat()
				}
			})
		}
	}
	return list, work.Wait
}

func (p *probe) once(t *testing.T, x corral.Executor) error {
	p.runs++
	cmd := corral.Command{ID: fmt.Sprintf("%s-%d", p.name, p.runs)}
	cmd.Shell = "echo " + cmd.ID + " >>ran; exit 5"
	q, err := x.Start(t.Context(), cmd)
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); q, err = x.Start(t.Context(), cmd) {
		switch {
		case errors.Is(err, corral.ErrLost):
			p.lost++ // which is to say: look with the same ID
		case errors.Is(err, corral.ErrUnavailable):
			p.refused++ // the node was away for some seconds
		default:
			return err
		}
	}
	if err != nil {
		return err
	}
	if exit, err := q.Wait(t.Context()); err != nil || exit.Code != 5 {
		return fmt.Errorf("it ended with %v, %w", exit, err)
	}
	return q.Remove(t.Context())
}

// each is that something went on since the phase began, at everybody's.
func each[B interface{ since() (int, time.Duration) }](t *testing.T, what string, list []B, least int) {
	t.Helper()
	var longest, sum time.Duration
	end := time.Now().Add(30 * time.Second)
	for i, b := range list {
		n, d := b.since()
		for ; n < least; n, d = b.since() {
			if t.Failed() || time.Now().After(end) {
				t.Fatalf("%s %d does not go on", what, i)
			}
			time.Sleep(5 * time.Millisecond)
		}
		longest, sum = max(longest, d), sum+d
	}
	t.Logf("%d %s: the longest pause was %v, the mean of their longest %v", len(list), what,
		longest.Round(time.Millisecond), (sum / time.Duration(len(list))).Round(time.Millisecond))
}

// Of three servers of a cluster one is killed under load, and another while it
// leads what the registry is kept by.
func TestCluster(t *testing.T) {
	const sessions, long = 20, 12 * time.Second
	began := time.Now()
	c := newCluster(t, 3)
	c.whole(began)
	t.Logf("the cluster is there after %v", time.Since(began).Round(time.Millisecond))

	done := make(chan struct{})
	stop := sync.OnceFunc(func() { close(done) })
	chats, chatted := c.chats(sessions, long, done)
	probes, probed := c.probes(done)
	defer func() { stop(); probed(); chatted() }()
	phase := func() {
		for _, s := range chats {
			s.phase()
		}
		for _, p := range probes {
			p.phase()
		}
	}
	look := func() {
		t.Helper()
		each(t, "no-op probes", probes, 20)
		each(t, "sessions", chats, 20)
	}
	phase()
	look()
	t.Log("that was without a fault; now the server with the most connections is killed")
	victim, count := c.busiest()
	phase()
	victim.Kill()
	look()
	t.Logf("%s, with %d connections, was killed; those pauses are the fail-over time", victim.Name, count)
	if n := c.reconnects(); n < count {
		t.Errorf("%d connections were made anew, not %d", n, count)
	}
	// Who begins now does not depend on which server it tries first.
	for range 4 {
		h := openAnother(t, c.hubs[0])
		selects(t, h, "node-0")
		shut(t, h)
	}

	victim.Restart()
	restarted := time.Now()
	leader := c.whole(restarted)
	t.Logf("%s has the registry again %v after it was started", victim.Name, time.Since(restarted).Round(time.Millisecond))
	var written []*chat // the others may be over
	for _, s := range chats {
		if s.size.Load() == 0 {
			written = append(written, s)
		}
	}
	phase()
	c.approveWithout(leader)
	each(t, "no-op probes", probes, 20)
	each(t, "sessions", written, 20)

	stop()
	probed()
	chatted()
	lost, refused := 0, 0
	for _, p := range probes {
		lost, refused = lost+p.lost, refused+p.refused
	}
	for _, s := range chats {
		if err := s.p.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	// Nothing ran twice.
	b, err := os.ReadFile(filepath.Join(c.dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, id := range strings.Fields(string(b)) {
		ran[id]++
	}
	want := map[string]int{}
	for _, s := range chats {
		want[s.id] = 1
	}
	for _, p := range probes {
		for i := range p.runs {
			want[fmt.Sprintf("%s-%d", p.name, i+1)] = 1
		}
	}
	for id, n := range ran {
		if n != want[id] {
			t.Errorf("%s ran %d times, not %d", id, n, want[id])
		}
	}
	for id := range want {
		if ran[id] == 0 {
			t.Errorf("%s did not run", id)
		}
	}
	t.Logf("%d commands ran, each once; %d starts were answered with ErrLost, and %d with ErrUnavailable", len(ran), lost, refused)
}

// approveWithout kills the leader of the registry while a machine is approved and
// labels change: what was said to be so is so, at both gateways, and what failed
// says so.
func (c *cluster) approveWithout(leader *natstest.Server) {
	t := c.t
	shown, _ := c.spare.ask("")
	code := (<-shown).Code
	asked(t, c.hubs[0], code)
	done := make(chan struct{})
	kept, tried, failed := 0, 0, 0
	var work sync.WaitGroup
	defer work.Wait()
	ten := make(chan struct{})
	stop := sync.OnceFunc(func() { close(done) })
	defer stop()
	work.Go(func() {
		for open := true; open; {
			tried++
			label := strconv.Itoa(tried)
			_, err := c.hubs[1].Change(t.Context(), "node-0", api.NodeChange{Labels: map[string]*string{"n": &label}})
			switch {
			case err == nil:
				kept = tried
			case errors.Is(err, corral.ErrUnavailable) && corral.Hint(err) != "":
				failed++
				t.Logf("a change: %v", err)
			default:
				t.Errorf("a change: %v", err)
			}
			if tried == 10 {
				close(ten)
			}
			select {
			case <-done:
				open = false
			default:
			}
		}
	})
	<-ten
	leader.Kill()
	began := time.Now()
	n, err := c.hubs[0].Approve(t.Context(), code, api.NodeAnswer{Name: "spare", By: "alice"})
	t.Logf("%s, which led the registry, was killed; an approval was answered after %v: %v", leader.Name, time.Since(began).Round(time.Millisecond), err)
	for err != nil {
		if !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" || time.Since(began) > 40*time.Second {
			t.Fatal(err)
		}
		n, err = c.hubs[0].Approve(t.Context(), code, api.NodeAnswer{Name: "spare", By: "alice"})
	}
	_, answered := c.spare.ask("") // as it does now and then; the first may have ended
	if o := <-answered; o.err != nil || o.State != pairing.Approved || o.ID != n.ID {
		t.Errorf("the machine that was approved hears %+v", o)
	}
	stop()
	work.Wait()
	t.Logf("%d changes meanwhile, of which %d failed and said so", tried, failed)
	c.spare.serve(n.ID)
	for i, h := range c.hubs {
		if r := run(t, selects(t, h, "spare")); r.Exit.Code != 3 {
			t.Errorf("%+v", r)
		}
		eventually(t, func() error {
			n, err := h.Node(t.Context(), "node-0")
			if err != nil {
				return err
			}
			// A change that failed may have been made nevertheless.
			if is, err := strconv.Atoi(n.Labels["n"]); err != nil || is != kept && (is < kept || failed == 0) {
				return fmt.Errorf("the label at gateway %d is %q, and %d was kept", i, n.Labels["n"], kept)
			}
			return nil
		})
	}
}

// A registry that is to outlast any one server is not made on fewer than three.
func TestClusterOfTwo(t *testing.T) {
	x, _ := externalAt(t, true, 1, func(config string) (string, string) {
		s := natstest.StartCluster(t, 2, config)
		return s[0].URL + "," + s[1].URL, s[0].Cert
	})
	_, err := Open(Config{Dir: t.TempDir(), External: x})
	if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(corral.Hint(err), "at least 3 servers") {
		t.Errorf("%v (%s)", err, corral.Hint(err))
	}
}
