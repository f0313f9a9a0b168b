package nodeexec_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

func is(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, not %q", what, err, kind)
	}
}

// What is started on a node that is away did not run, and Attach cannot tell.
func TestOffline(t *testing.T) {
	r := newRig(t)
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"sleep": fakeexec.Sleep}}
	t.Cleanup(func() { _ = x.Close() })
	r.open()
	if _, _, err := r.fabric.Select(t.Context(), ""); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "no node is online") {
		t.Errorf("Select: %v", err)
	}
	_, err := r.fabric.Attach(t.Context(), "job")
	is(t, "Attach, with the node away", err, corral.ErrUnavailable)
	if strings.Contains(err.Error(), "cannot tell") { // which a Router says
		t.Errorf("Attach: %v", err)
	}

	r.serve(x)
	node := r.node()
	p := start(t, node, corral.Command{ID: "job", Shell: "sleep"})
	_, err = r.fabric.Attach(t.Context(), "none")
	is(t, "Attach to what does not exist", err, corral.ErrNotFound)
	q, err := r.fabric.Attach(t.Context(), "job")
	if err != nil || q.Info().Node != "builder" || q.Info().Host != corral.HostNode {
		t.Fatalf("Attach: %v", err)
	}
	if _, full, err := r.fabric.Select(t.Context(), nodeID[:1]); err != nil || full != "builder" {
		t.Errorf("Select: %q, %v", full, err)
	}

	r.stop()
	begun := time.Now()
	_, err = node.Start(t.Context(), corral.Command{Shell: "sleep"})
	is(t, "Start, with the node away", err, corral.ErrUnavailable)
	if errors.Is(err, corral.ErrLost) || x.Starts() != 1 {
		t.Errorf("Start: %v, and %d commands ran", err, x.Starts())
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("Start took %v", took)
	}
	begun = time.Now()
	_, err = r.fabric.Attach(t.Context(), "job")
	is(t, "Attach, with the node away again", err, corral.ErrUnavailable)
	if took := time.Since(begun); took > time.Second {
		t.Errorf("Attach took %v, although it is known that the node is away", took)
	}

	// A Wait outlasts that, and the next life of the node answers it.
	waited := make(chan error, 1)
	go func() { _, err := p.Wait(t.Context()); waited <- err }()
	r.serve(x)
	if err := p.Signal(t.Context(), corral.SIGTERM); err != nil {
		t.Errorf("Signal: %v", err)
	}
	if err := <-waited; err != nil {
		t.Errorf("Wait: %v", err)
	}
}

// A start that was sent and not answered is lost, and Attach tells later.
func TestLostStart(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	x := &fakeexec.Executor{
		Programs: map[string]fakeexec.Program{"print": fakeexec.Print("printed", "", 3)},
		Fault: func(op fakeexec.Op, _ string) error { // the answer does not come
			if op == fakeexec.OpStarted {
				<-release
			}
			return nil
		},
	}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x)
	r.open()
	node := r.node()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := node.Start(ctx, corral.Command{ID: "job", Shell: "print"})
	is(t, "Start that is not answered", err, corral.ErrLost)
	is(t, "Start that is not answered", err, context.DeadlineExceeded)
	close(release)
	p, err := r.fabric.Attach(t.Context(), "job")
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 || x.Starts() != 1 {
		t.Errorf("Wait: %v, %v; %d commands ran", exit, err, x.Starts())
	}
}

// A write on whose way the node's program is killed is lost, with what surely
// arrived; one that it could still tell of goes on in its next life.
func TestWriteAcrossLives(t *testing.T) {
	r := newRig(t)
	read := make(chan struct{})
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"consume": func(o *fakeexec.IO) int {
		<-read
		return consume(o)
	}}}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x)
	r.open()
	p := start(t, r.node(), corral.Command{Shell: "consume", Stdin: true})
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	const size = 1 << 20
	go func() {
		n, err := p.Write(t.Context(), patternOf(size))
		done <- result{n, err}
	}()
	time.Sleep(100 * time.Millisecond) // it may begin; either is to work
	r.stop()
	r.serve(x)
	close(read)
	if got := <-done; got.n != size || got.err != nil {
		t.Errorf("Write: %+v", got)
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := string(readAll(t, p)); !strings.HasPrefix(got, "1048576 ") {
		t.Errorf("the node read %s", got)
	}
}

// Closing a Fabric ends all waiting calls.
func TestClose(t *testing.T) {
	r := newRig(t)
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"sleep": fakeexec.Sleep}}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x)
	r.open()
	p := start(t, r.node(), corral.Command{Shell: "sleep", Stdin: true})
	errs := make(chan error, 3)
	go func() { _, err := p.Wait(t.Context()); errs <- err }()
	go func() { _, err := p.Log().Read(t.Context(), 0, make([]byte, 10)); errs <- err }()
	go func() { _, err := p.Write(t.Context(), make([]byte, 10)); errs <- err }()
	time.Sleep(50 * time.Millisecond)
	r.end()
	for range 3 {
		if err := <-errs; !errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrLost) {
			t.Error(err)
		}
	}
}

// A Router sends to the node what is for it, and finds it there again.
func TestRouter(t *testing.T) {
	r := newRig(t)
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"print": fakeexec.Print("printed", "", 3)}}
	t.Cleanup(func() { _ = x.Close() })
	r.serve(x)
	router := func(f *nodeexec.Fabric) *corral.Router {
		return corral.NewRouter(corral.RouterOptions{Host: corral.HostNode, Node: "builder", Nodes: f})
	}
	cmd := corral.Command{ID: "job", Shell: "print"}
	first := router(r.open())
	r.node()
	p := start(t, first, cmd)
	start(t, first, cmd)
	r.end()
	next := router(r.open())
	r.node()
	q := start(t, next, cmd)
	if exit, err := q.Wait(t.Context()); err != nil || exit.Code != 3 || x.Starts() != 1 {
		t.Errorf("Wait: %v, %v; %d commands ran", exit, err, x.Starts())
	}
	if got := q.Info(); got.Host != corral.HostNode || got.Node != "builder" || got.ID != p.Info().ID {
		t.Errorf("Info: %+v", got)
	}
	other := cmd
	other.Shell = "other"
	_, err := next.Start(t.Context(), other)
	is(t, "Start of another command", err, corral.ErrConflict)
	if err := q.Remove(t.Context()); err != nil {
		t.Errorf("Remove: %v", err)
	}
	_, err = next.Attach(t.Context(), "job")
	is(t, "Attach after Remove", err, corral.ErrNotFound)
}
