package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/runner"
)

const patience = 30 * time.Second

func open(t *testing.T, cfg Config) *Hub {
	t.Helper()
	if cfg.Listen == "" && cfg.WebSocket == "" && cfg.External == nil {
		cfg.Listen = "127.0.0.1:0"
	}
	h, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, h) })
	return h
}

// shut closes a hub, also one that is closed.
func shut(t *testing.T, h *Hub) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// A machine is what corral node is made of, without its policy.
type machine struct {
	t    *testing.T
	key  nkeys.KeyPair
	line join.Line
	exec corral.Executor
	conn *nats.Conn
}

func newMachine(t *testing.T, h *Hub) *machine {
	t.Helper()
	line, err := join.ParseLine(h.Join().Line)
	if err != nil {
		t.Fatal(err)
	}
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"echo": fakeexec.Print("out\n", "", 3)}}
	m := &machine{t: t, line: line, exec: x}
	m.key, _ = natstest.NewKey(t)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// connect connects anew, with the permissions that the key has now.
func (m *machine) connect() *nats.Conn {
	m.t.Helper()
	conn, err := broker.Dial(m.line.URL(), m.line.Cert, m.key, fabric.ConnectOptions(nil)...)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(conn.Close)
	m.conn = conn
	return conn
}

type outcome struct {
	join.Verdict
	err error
}

// ask asks to be a node, and says what it shows and what comes of it.
func (m *machine) ask(token string) (<-chan join.Verdict, <-chan outcome) {
	m.t.Helper()
	conn := m.connect()
	shown, done := make(chan join.Verdict, 16), make(chan outcome, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	var owned sync.WaitGroup
	owned.Go(func() {
		v, err := join.Request(ctx, join.Options{
			Conn: linktest.Over(m.t, conn), Key: m.key, Gateway: m.line.Key, Token: token, Hello: pairing.Hello{Name: "Builder", OS: "linux", Arch: "amd64", Version: "v1"},
			Shown: func(v join.Verdict) { shown <- v },
		})
		done <- outcome{v, err}
	})
	m.t.Cleanup(func() { cancel(); owned.Wait() })
	return shown, done
}

// serve is a node until stop is called.
func (m *machine) serve(id string) (stop func()) {
	m.t.Helper()
	m.conn.Close()
	conn := m.connect()
	ctx, cancel := context.WithCancel(context.Background())
	link, done := linktest.Over(m.t, conn), make(chan error, 1)
	go func() {
		done <- fabric.Serve(ctx, link, fabric.NodeConfig{
			ID: id, Executor: m.exec, GatewayKeys: []string{m.line.Key}, About: fabric.Hello{Program: "v2", OS: "linux", Arch: "amd64", Host: "builder.example"},
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Errorf("Serve: %v", err)
		}
		conn.Close()
	})
	m.t.Cleanup(stop)
	return stop
}

// pair has a machine approved.
func (m *machine) pair(h *Hub, a api.NodeAnswer) api.Node {
	m.t.Helper()
	shown, done := m.ask("")
	code := (<-shown).Code
	asked(m.t, h, code)
	n, err := h.Approve(m.t.Context(), code, a)
	if err != nil {
		m.t.Fatal(err)
	}
	if o := <-done; o.err != nil || o.State != pairing.Approved {
		m.t.Fatalf("%+v", o)
	}
	return n
}

// The list of nodes says that two machines have one key.
func TestCopiedMachine(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	m, other := newMachine(t, h), newMachine(t, h)
	n := m.pair(h, api.NodeAnswer{Name: "seven"})
	m.serve(n.ID)
	eventually(t, func() error {
		if n, err := h.Node(t.Context(), "seven"); err != nil || n.State != api.NodeOnline || n.Problem != "" {
			return fmt.Errorf("%+v, %w", n, err)
		}
		return nil
	})
	other.key = m.key
	other.connect()
	other.serve(n.ID)
	eventually(t, func() error {
		if n, err := h.Node(t.Context(), "seven"); err != nil || !strings.Contains(n.Problem, `its host is "builder.example"`) {
			return fmt.Errorf("%+v, %w", n, err)
		}
		return nil
	})
}

// eventually waits until a function has nothing to object.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// asked waits until the hub has heard of the machine with that code: it may have
// been another one that was the first to answer.
func asked(t *testing.T, h *Hub, code string) {
	t.Helper()
	eventually(t, func() error {
		if !slices.ContainsFunc(h.Requests(), func(q api.NodeRequest) bool { return q.Code == code }) {
			return fmt.Errorf("nothing was heard of %s", code)
		}
		return nil
	})
}

// selects waits until the hub has a node of that name that is there.
func selects(t *testing.T, h *Hub, name string) corral.Executor {
	t.Helper()
	var x corral.Executor
	eventually(t, func() (err error) {
		x, _, err = h.Nodes().Select(t.Context(), name)
		return err
	})
	return x
}

func run(t *testing.T, x corral.Executor) runner.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := runner.Run(ctx, x, corral.Command{Shell: "echo"}, runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A machine asks, is approved, runs commands, and is revoked.
func TestPair(t *testing.T) {
	h := open(t, Config{Dir: filepath.Join(t.TempDir(), "nodes")})
	if _, _, err := h.Nodes().Select(t.Context(), ""); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(corral.Hint(err), "corral nodes join") {
		t.Errorf("before any pairing: %v (%s)", err, corral.Hint(err))
	}
	m := newMachine(t, h)
	shown, done := m.ask("")
	v := <-shown
	asked := h.Requests()
	if len(asked) != 1 || asked[0].Code != v.Code || asked[0].Name != "builder" || asked[0].Host != "Builder" || asked[0].State != "pending" ||
		asked[0].From != "127.0.0.1" || asked[0].OS != "linux" || asked[0].Version != "v1" {
		t.Errorf("%+v, and it shows %+v", asked, v)
	}
	if list := h.List(t.Context()); list.Pending != 1 || len(list.Nodes) != 0 || !slices.Equal(list.Listen, h.Listens()) {
		t.Errorf("%+v", list)
	}
	began := time.Now()
	n, err := h.Approve(t.Context(), v.Code, api.NodeAnswer{Name: "seven", Labels: map[string]string{"pool": "gpu"}, By: "alice"})
	if err != nil || n.Name != "seven" || n.State != api.NodeOffline || n.Labels["pool"] != "gpu" || n.ApprovedBy != "alice" {
		t.Fatalf("%+v, %v", n, err)
	}
	if o := <-done; o.err != nil || o.State != pairing.Approved || o.ID != n.ID || time.Since(began) > join.Again/2 {
		t.Errorf("%+v after %v", o, time.Since(began))
	}
	if _, err := h.Approve(t.Context(), v.Code, api.NodeAnswer{By: "bob"}); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("a second answer: %v", err)
	}

	m.serve(n.ID)
	x := selects(t, h, "seven")
	if r := run(t, x); r.Exit.Code != 3 || r.Stdout.String() != "out\n" || r.Info.Host != corral.HostNode || r.Info.Node != "seven" {
		t.Errorf("%+v", r)
	}
	n, err = h.Node(t.Context(), "seven")
	if err != nil || n.State != api.NodeOnline || n.Heard.IsZero() || n.Host != "builder.example" || n.Version != "v2" || !slices.Equal(n.Addresses, []string{"127.0.0.1"}) {
		t.Errorf("%+v, %v", n, err)
	}
	if _, full, err := h.Nodes().Select(t.Context(), "127.0.0.1"); err != nil || full != "seven" {
		t.Errorf("by the address that it was seen at: %s, %v", full, err)
	}

	if err := h.Forget("seven"); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("forgetting one that is paired: %v", err)
	}
	n, err = h.Change(t.Context(), "seven", api.NodeChange{Revoked: true, By: "carol"})
	if err != nil || n.State != api.NodeRevoked || n.RevokedBy != "carol" || n.RevokedAt.IsZero() {
		t.Errorf("%+v, %v", n, err)
	}
	if _, _, err := h.Nodes().Select(t.Context(), "seven"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("selecting one that was revoked: %v", err)
	}
	// Its connection is cut, and as a stranger it may ask.
	again, _ := m.ask("")
	if v := <-again; v.State != pairing.Pending {
		t.Errorf("%+v", v)
	}
	if asked := h.Requests(); !slices.ContainsFunc(asked, func(q api.NodeRequest) bool { return q.State == "pending" && !q.RevokedAt.IsZero() }) {
		t.Errorf("that the key was revoked is not shown: %+v", asked)
	}
	if err := h.Reject(v.Code, "dave"); err != nil {
		t.Error(err)
	}
	if err := h.Forget("seven"); err != nil {
		t.Error(err)
	}
	if list := h.List(t.Context()); list.Pending != 0 || len(list.Nodes) != 0 {
		t.Errorf("%+v", list)
	}
}

// A revoked node is disconnected, whatever it does.
func TestRevokedIsCut(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir()})
	m := newMachine(t, h)
	n := m.pair(h, api.NodeAnswer{})
	cut := make(chan struct{}, 1)
	m.conn.Close()
	var conn *nats.Conn
	eventually(t, func() error { // what it had as a stranger is cut, and on a busy machine this with it
		conn = m.connect()
		return errors.Join(conn.Publish(fabric.HelloSubject(n.ID), []byte("{}")), conn.Flush(), conn.LastError())
	})
	conn.SetDisconnectErrHandler(func(*nats.Conn, error) { cut <- struct{}{} })
	if _, err := h.Change(t.Context(), n.ID, api.NodeChange{Revoked: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-cut:
	case <-time.After(patience):
		t.Fatal("it is still connected")
	}
	eventually(t, func() error {
		if err := errors.Join(conn.Publish(fabric.HelloSubject(n.ID), nil), conn.Flush()); err != nil {
			return err // it connects again
		}
		if !errors.Is(conn.LastError(), nats.ErrPermissionViolation) {
			return errors.New("it may still speak as a node")
		}
		return nil
	})
}

// By WebSocket it is all the same.
func TestPairByWebSocket(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir(), WebSocket: "127.0.0.1:0"})
	m := newMachine(t, h)
	if !m.line.WebSocket {
		t.Fatalf("%+v", m.line)
	}
	m.serve(m.pair(h, api.NodeAnswer{Name: "seven"}).ID)
	if r := run(t, selects(t, h, "seven")); r.Exit.Code != 3 {
		t.Errorf("%+v", r)
	}
}

// A machine with a setup token is a node at once, with the labels of the token.
func TestToken(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir()})
	made, err := h.NewToken(api.NewNodeToken{TTL: api.Duration(time.Minute), Labels: map[string]string{"pool": "ci"}, By: "alice"})
	if err != nil || made.Left != 1 || time.Until(made.ExpiresAt) > time.Minute || !strings.Contains(made.Token, made.ID) {
		t.Fatalf("%+v, %v", made, err)
	}
	if list := h.Tokens(); len(list) != 1 || list[0].ID != made.ID || list[0].By != "alice" {
		t.Errorf("%+v", list)
	}
	m := newMachine(t, h)
	began := time.Now()
	_, done := m.ask(made.Token)
	o := <-done
	if o.err != nil || o.State != pairing.Approved || o.Name != "builder" || time.Since(began) > join.Again/2 {
		t.Fatalf("%+v after %v", o, time.Since(began))
	}
	m.serve(o.ID)
	selects(t, h, "builder")
	if n, err := h.Node(t.Context(), "builder"); err != nil || n.Labels["pool"] != "ci" || !strings.Contains(n.ApprovedBy, "alice") {
		t.Errorf("%+v, %v", n, err)
	}
	if list := h.Tokens(); len(list) != 0 {
		t.Errorf("it can be used again: %+v", list)
	}
	if made, err = h.NewToken(api.NewNodeToken{}); err != nil || time.Until(made.ExpiresAt).Round(time.Minute) != api.DefaultTokenTTL {
		t.Errorf("%+v, %v", made, err)
	}
	if err := h.Withdraw(made.ID); err != nil {
		t.Error(err)
	}
	_, done = newMachine(t, h).ask(made.Token)
	if o := <-done; !errors.Is(o.err, corral.ErrDenied) {
		t.Errorf("one that was withdrawn: %+v", o)
	}
}

// The next life of a gateway has the same key and certificate, and its nodes
// come back by themselves.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	h := open(t, Config{Dir: dir})
	m := newMachine(t, h)
	n := m.pair(h, api.NodeAnswer{Name: "seven"})
	m.serve(n.ID)
	selects(t, h, "seven")
	before, at := h.Join(), h.Listens()[0]
	shut(t, h)
	h = open(t, Config{Dir: dir, Listen: at})
	if after := h.Join(); after.Line != before.Line || after.Command != "corral node --gateway "+before.Line {
		t.Errorf("it was %+v and is %+v", before, after)
	}
	if r := run(t, selects(t, h, "seven")); r.Exit.Code != 3 {
		t.Errorf("%+v", r)
	}
}

func TestChange(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir()})
	m := newMachine(t, h)
	id := m.pair(h, api.NodeAnswer{Labels: map[string]string{"a": "1", "b": "2"}}).ID
	three, none := "3", (*string)(nil)
	for _, tc := range []struct {
		change api.NodeChange
		kind   error
		name   string
		labels string
	}{
		{api.NodeChange{Name: "seven"}, nil, "seven", "1 2 "},
		{api.NodeChange{Labels: map[string]*string{"a": none, "c": &three, "x": none}}, nil, "seven", " 2 3"},
		{api.NodeChange{Name: "No Name"}, corral.ErrInvalid, "seven", " 2 3"},
		{api.NodeChange{Labels: map[string]*string{"no key": &three}}, corral.ErrInvalid, "seven", " 2 3"},
		{api.NodeChange{}, corral.ErrInvalid, "seven", " 2 3"},
		{api.NodeChange{Name: "eight", Revoked: true}, corral.ErrInvalid, "seven", " 2 3"},
		{api.NodeChange{Labels: map[string]*string{"b": none, "c": none}}, nil, "seven", "  "},
	} {
		_, err := h.Change(t.Context(), id[:6], tc.change)
		if !errors.Is(err, tc.kind) {
			t.Errorf("%+v: %v", tc.change, err)
		}
		n, err := h.Node(t.Context(), id)
		if got := n.Labels["a"] + " " + n.Labels["b"] + " " + n.Labels["c"]; err != nil || n.Name != tc.name || got != tc.labels {
			t.Errorf("%+v: %+v, %v", tc.change, n, err)
		}
	}
	if _, err := h.Change(t.Context(), "other", api.NodeChange{Name: "x"}); !errors.Is(err, corral.ErrNotFound) {
		t.Error(err)
	}
}

func TestReject(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir()})
	shown, done := newMachine(t, h).ask("")
	if err := h.Reject((<-shown).Code, "alice"); err != nil {
		t.Fatal(err)
	}
	if o := <-done; !errors.Is(o.err, corral.ErrDenied) {
		t.Errorf("%+v", o)
	}
}

// Nodes obey a key, so none is made where one was lost, and none is used that
// others may have.
func TestKey(t *testing.T) {
	begin := func(t *testing.T) (dir, key string) {
		dir = t.TempDir()
		shut(t, open(t, Config{Dir: dir}))
		return dir, filepath.Join(dir, keyFile)
	}
	refused := func(t *testing.T, dir string, kind error, text string) {
		t.Helper()
		_, err := Open(Config{Dir: dir, Listen: "127.0.0.1:0"})
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) || corral.Hint(err) == "" {
			t.Errorf("%v (%s)", err, corral.Hint(err))
		}
	}
	t.Run("is private", func(t *testing.T) {
		dir, _ := begin(t)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) < 3 {
			t.Fatalf("%v, %v", entries, err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
			}
		}
	})
	t.Run("lost", func(t *testing.T) {
		h := open(t, Config{Dir: t.TempDir()})
		newMachine(t, h).pair(h, api.NodeAnswer{})
		shut(t, h)
		if err := os.Remove(filepath.Join(h.cfg.Dir, keyFile)); err != nil {
			t.Fatal(err)
		}
		refused(t, h.cfg.Dir, corral.ErrUnavailable, "is lost")
	})
	t.Run("read by others", func(t *testing.T) {
		dir, key := begin(t)
		if err := os.Chmod(key, 0o640); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, corral.ErrDenied, "can be used by others")
	})
	t.Run("nonsense", func(t *testing.T) {
		dir, key := begin(t)
		if err := os.WriteFile(key, []byte("SUANONSENSE\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, corral.ErrDenied, "no seed")
		if _, err := readKey(key); strings.Contains(err.Error(), "SUANONSENSE") || !strings.Contains(corral.Hint(err), "put back a copy") {
			t.Errorf("what is in the file is in the error: %v, hint %q", err, corral.Hint(err))
		}
	})
	t.Run("a link", func(t *testing.T) {
		dir, key := begin(t)
		if err := errors.Join(os.Rename(key, key+".old"), os.Symlink(key+".old", key)); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, corral.ErrDenied, "not a regular file")
	})
	t.Run("made by two", func(t *testing.T) {
		dir := t.TempDir()
		keys := make([]string, 8)
		var making sync.WaitGroup
		for i := range keys {
			making.Go(func() {
				k, err := ownKey(dir)
				if err != nil {
					t.Error(err)
					return
				}
				keys[i], _ = k.PublicKey()
			})
		}
		making.Wait()
		if left := slices.Compact(slices.Clone(keys)); len(left) != 1 || left[0] == "" {
			t.Errorf("%q", left)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	})
}

func TestOneAtATime(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if _, err := Open(Config{Dir: h.cfg.Dir, Listen: "127.0.0.1:0"}); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("two hubs of one directory: %v", err)
	}
	if _, err := Open(Config{Dir: t.TempDir(), Listen: h.Listens()[0]}); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("two hubs of one address: %v", err)
	}
	if _, err := Open(Config{Dir: t.TempDir(), Listen: "nonsense"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("an address that is none: %v", err)
	}
}

func TestLine(t *testing.T) {
	h := open(t, Config{Dir: t.TempDir(), Advertise: "gw.example.com:7422, 10.0.0.1:443"})
	if l := h.Lines()[0]; !slices.Equal(l.Hosts, []string{"gw.example.com:7422", "10.0.0.1:443"}) || l.Key != h.public || l.Cert != h.server.Fingerprint() {
		t.Errorf("%+v", l)
	}
	h = open(t, Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0"})
	tls, wss := h.Lines()[0], h.Lines()[1]
	if tls.WebSocket || !wss.WebSocket || tls.Hosts[0] == wss.Hosts[0] || tls.Cert != wss.Cert || !slices.Equal(h.Listens(), []string{tls.Hosts[0], "wss://" + wss.Hosts[0]}) {
		t.Errorf("%+v, %+v, %q", tls, wss, h.Listens())
	}
	if j := h.Join(); j.Line != tls.String() || j.WebSocket == nil || j.WebSocket.Line != wss.String() {
		t.Errorf("%+v", j)
	}
	both := open(t, Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Advertise: "gw:443"}).Lines()
	if _, port, err := net.SplitHostPort(both[1].Hosts[0]); err != nil || both[0].Hosts[0] != "gw:443" || !strings.HasPrefix(both[1].Hosts[0], "gw:") || port == "443" {
		t.Errorf("%+v", both)
	}
	if l := open(t, Config{Dir: t.TempDir(), WebSocket: "127.0.0.1:0", Advertise: "gw:443"}).Lines(); len(l) != 1 || !l[0].WebSocket || l[0].Hosts[0] != "gw:443" {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"gw.example.com", "gw.example.com:0", "gw:1,", "a b:1", "http://gw:1"} {
		if _, err := Open(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Advertise: bad}); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if got := reachable(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7422}); !slices.Equal(got, []string{"127.0.0.1:7422"}) {
		t.Errorf("%q", got)
	}
	for _, all := range []net.IP{net.IPv4zero, net.IPv6zero} {
		got := reachable(&net.TCPAddr{IP: all, Port: 7422})
		if len(got) == 0 || len(got) > maxHosts {
			t.Errorf("%q", got)
		}
		for _, at := range got {
			if host, port, err := net.SplitHostPort(at); err != nil || port != "7422" || host == "0.0.0.0" || host == "::" {
				t.Errorf("%q: nobody can connect to %s", got, at)
			}
		}
	}
}
