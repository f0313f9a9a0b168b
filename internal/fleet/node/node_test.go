package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// output runs a command on a node, and returns what it printed.
func output(t *testing.T, x corral.Executor, shell string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := x.Start(ctx, corral.Command{Shell: shell})
	must(t, err)
	return read(t, p)
}

// read is all output of a process, up to its end.
func read(t *testing.T, p corral.Process) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.Wait(ctx)
	must(t, err)
	buf, text, off := make([]byte, 4096), "", int64(0)
	for {
		c, err := p.Log().Read(ctx, off, buf)
		if err != nil {
			return text
		}
		text += string(c.Data)
		off = c.Next()
	}
}

func hello() *fakeexec.Executor {
	return &fakeexec.Executor{Programs: map[string]fakeexec.Program{
		"echo hello": func(io *fakeexec.IO) int { _, _ = io.Stdout.Write([]byte("hello\n")); return 0 },
	}}
}

// The whole way: a machine asks, shows the code that the gateway shows, is
// approved, serves, and is the same node in its next life, without a line.
func TestApprove(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, filepath.Join(t.TempDir(), "node"), hello())
	m.run(h.line.String())
	q := h.request()
	if code := m.code(); code != q.Code || q.Hello.Name != "Builder" || q.Hello.OS != "linux" {
		t.Errorf("the machine shows %s, and the gateway %+v", code, q)
	}
	if r, err := Look(m.dir); err != nil || !r.Running || r.Ready || r.Paired || r.Process.Code != q.Code || r.Process.Phase != Waiting || r.Node != q.ID {
		t.Errorf("%+v, %v", r, err)
	}
	h.approve(q.Code, "builder-7")
	m.serving()
	r, err := Look(m.dir)
	if err != nil || !r.Ready || !r.Paired || r.Name != "builder-7" || r.Gateway != h.line.String() || r.Process.PID != os.Getpid() || r.Process.Version != "v1" {
		t.Errorf("%+v, %v", r, err)
	}
	if got := output(t, h.node("builder-7"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	if err := m.stop(); err != nil {
		t.Error(err)
	}
	if r, err := Look(m.dir); err != nil || r.Running || r.Process != nil || !r.Paired {
		t.Errorf("%+v, %v", r, err)
	}
	m.run("")
	m.serving()
	if got := output(t, h.node("builder-7"), "echo hello"); got != "hello\n" || len(h.registry.Nodes()) != 1 {
		t.Errorf("%q, of %d nodes", got, len(h.registry.Nodes()))
	}
}

// With a setup token nobody has to approve it; one that does not count is an
// error that says so.
func TestToken(t *testing.T) {
	h := newHouse(t)
	token, _, err := h.registry.NewToken(time.Hour, 1, nil, "test")
	must(t, err)
	m := newMachine(t, t.TempDir(), hello())
	m.cfg.Token = token
	m.run(h.line.String())
	m.serving()
	if got := output(t, h.node("builder"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	other := newMachine(t, t.TempDir(), hello())
	other.cfg.Token = token
	other.run(h.line.String())
	if err := other.end(); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) == "" {
		t.Errorf("a token that was used: %v", err)
	}
	// A node that has a token, which was used up, and is started again.
	must(t, m.stop())
	m.run("")
	m.serving()
}

func TestReject(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.run(h.line.String())
	must(t, h.registry.Reject(h.request().Code, "test"))
	if err := m.end(); !errors.Is(err, ErrRejected) || !errors.Is(err, corral.ErrDenied) || corral.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// A node that is revoked notices, serves no more, and asks; approved again, it
// is the node that it was.
func TestRevoke(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder")
	n, err := h.registry.Revoke("builder", "test")
	must(t, err)
	code := m.code()
	if r, err := Look(m.dir); err != nil || r.Paired || r.Ready || r.EndedAt.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	if _, _, err := h.nodes.Select(t.Context(), n.ID); err == nil {
		t.Error("it can be chosen")
	}
	h.approve(code, "again")
	m.serving()
	if got := output(t, h.node("again"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	if list := h.registry.Nodes(); len(list) != 1 || list[0].ID != n.ID {
		t.Errorf("a ghost: %+v", list)
	}
	// And rejected, it ends.
	_, err = h.registry.Revoke("again", "test")
	must(t, err)
	m.code()
	must(t, h.registry.Reject(code, "test"))
	if err := m.end(); !errors.Is(err, ErrRejected) {
		t.Errorf("%v", err)
	}
}

// A machine that was approved connects anew, since the server gave out its
// permissions before.
func TestUncut(t *testing.T) {
	h := newHouseLike(t, like{uncut: true})
	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder")
	if got := output(t, h.node("builder"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
}

// A node that was revoked stops serving by itself, also where the message server
// would let it go on.
func TestLenient(t *testing.T) {
	h := newHouseLike(t, like{lenient: true})
	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder")
	n, err := h.registry.Revoke("builder", "test")
	must(t, err)
	m.code()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, _, err := h.nodes.Select(t.Context(), n.ID); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it still serves")
		}
	}
}

// Revoked while it was away: it serves for the moment that it takes to hear so.
func TestRevokedWhileAway(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder")
	must(t, m.stop())
	_, err := h.registry.Revoke("builder", "test")
	must(t, err)
	m.run("")
	h.approve(m.code(), "builder")
	m.serving()
}

// The gateway is started after the node, and again.
func TestGatewayComesAndGoes(t *testing.T) { comesAndGoes(t, newHouse(t)) }

// And so over WebSocket.
func TestWebSocket(t *testing.T) { comesAndGoes(t, newHouseLike(t, like{web: true})) }

func comesAndGoes(t *testing.T, h *house) {
	h.close()
	m := newMachine(t, t.TempDir(), hello())
	m.run(h.line.String())
	s := m.await("told that nobody listens", func(s Status) bool { return s.Error != "" })
	if s.Phase != Connecting || s.Hint == "" || !strings.Contains(s.Error, h.listen) {
		t.Errorf("%+v", s)
	}
	h.open()
	h.request()
	h.approve(m.code(), "builder")
	m.serving()
	h.close()
	m.await("cut", func(s Status) bool { return s.Phase == Connecting })
	h.open()
	m.serving()
	if got := output(t, h.node("builder"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
}

// Another certificate than the line's ends a machine that asks to be a node,
// and keeps a node waiting.
func TestWrongCertificate(t *testing.T) {
	for name, web := range map[string]bool{"TLS": false, "WebSocket": true} {
		t.Run(name, func(t *testing.T) { wrongCertificate(t, newHouseLike(t, like{web: web})) })
	}
}

func wrongCertificate(t *testing.T, h *house) {
	line := h.line
	line.Cert = strings.Repeat("0", 64)
	stranger := newMachine(t, t.TempDir(), hello())
	stranger.run(line.String())
	if err := stranger.end(); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "fingerprint") {
		t.Errorf("%v", err)
	}

	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder")
	h.close()
	must(t, os.Remove(filepath.Join(h.dir, "nodes.pem")))
	h.open()
	s := m.await("told of the certificate", func(s Status) bool { return strings.Contains(s.Error, "fingerprint") })
	if s.Phase != Connecting || s.Hint == "" {
		t.Errorf("%+v", s)
	}
	must(t, m.stop())
	// The line of the same gateway that has it needs no leave.
	m.run(h.line.String())
	m.serving()
	if list := h.registry.Nodes(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

// What the gateway calls the node is kept: it asks for it, also while it is
// connected.
func TestRenamed(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder")
	called := func(name string) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			if r, err := Look(m.dir); err != nil || r.Name == name {
				must(t, err)
				return
			} else if time.Now().After(end) {
				t.Fatalf("%+v", r)
			}
		}
	}
	_, err := h.registry.Rename("builder", "other")
	must(t, err)
	must(t, m.stop())
	m.cfg.again = 50 * time.Millisecond
	m.run("")
	m.serving()
	called("other")
	_, err = h.registry.Rename("other", "third")
	must(t, err)
	called("third")
	if got := output(t, h.node("third"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
}

// A new name, or a revocation, that cannot be kept does not end a node. The name is kept
// as soon as that works.
func TestCannotKeep(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.cfg.again = 50 * time.Millisecond
	m.pair(h, "builder")
	file := filepath.Join(m.dir, gatewayFile)
	must(t, os.Remove(file))
	must(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o700))
	_, err := h.registry.Rename("builder", "other")
	must(t, err)
	time.Sleep(300 * time.Millisecond)
	if got := output(t, h.node("other"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	must(t, os.RemoveAll(file))
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if r, err := Look(m.dir); err == nil && r.Name == "other" && r.Paired {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	must(t, os.Remove(file))
	must(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o700))
	_, err = h.registry.Revoke("other", "test")
	must(t, err)
	m.code()
}

// What the gateway cannot take of a machine that is no node yet ends it, and it
// says no more that it runs.
func TestRefusedHello(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.cfg.Hello.Name = strings.Repeat("x", 2000)
	m.run(h.line.String())
	if err := m.end(); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(m.dir, recordFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it says that it runs: %v", err)
	}
	if n := len(h.registry.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A machine that is forgotten wants the name that it was given, also if it is told
// another one since the beginning; one that it is told anew goes before.
func TestForgotten(t *testing.T) {
	h := newHouse(t)
	m := newMachine(t, t.TempDir(), hello())
	m.pair(h, "builder-7")
	forgotten := func(name string) {
		t.Helper()
		n, err := h.registry.Revoke(name, "test")
		must(t, err)
		must(t, h.registry.Forget(n.ID))
	}
	forgotten("builder-7")
	m.code()
	if q := h.request(); q.Name != "builder-7" {
		t.Errorf("%+v", q)
	}
	must(t, m.stop())
	m.cfg.Hello.Name = "Other"
	m.run("")
	h.approve(m.code(), "")
	m.serving()
	if list := h.registry.Nodes(); len(list) != 1 || list[0].Name != "other" {
		t.Errorf("%+v", list)
	}
	if r, err := Look(m.dir); err != nil || r.Name != "other" || r.Asked != "Other" {
		t.Errorf("%+v, %v", r, err)
	}
}
