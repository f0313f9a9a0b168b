package nodeexec_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// Two programs have the key of one node: a machine was copied. The one that was there
// first is the node, whatever the other says, until it leaves; the other runs nothing.
func TestRivals(t *testing.T) {
	for name, killed := range map[string]bool{"until it leaves": false, "until it is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRivals(t, killed)
		})
	}
}

func testRivals(t *testing.T, killed bool) {
	r := newRig(t)
	release := make(chan struct{})
	machine := func(name string) *fakeexec.Executor {
		x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{
			"which": fakeexec.Print(name, "", 0),
			"wait":  func(*fakeexec.IO) int { <-release; return 7 },
		}}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
	first, copied := machine("first"), machine("copy")
	r.open()
	r.serve(first)
	leave, conn := r.stop, r.nodeConn
	node := r.node()
	left := false
	which := func() string {
		t.Helper()
		p, err := node.Start(t.Context(), corral.Command{Args: []string{"which"}})
		for end := time.Now().Add(30 * time.Second); left && errors.Is(err, corral.ErrLost) && time.Now().Before(end); {
			p, err = node.Start(t.Context(), corral.Command{Args: []string{"which"}}) // it may have arrived at the one that is gone
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Log().Read(t.Context(), 0, make([]byte, 100))
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		return string(c.Data)
	}
	p, err := node.Start(t.Context(), corral.Command{Args: []string{"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	exit := make(chan corral.Exit, 1)
	go func() {
		e, err := p.Wait(context.Background())
		if err != nil {
			t.Error(err)
		}
		exit <- e
	}()

	r.serve(copied)
	problem := func() string { return r.fabric.List(t.Context())[0].Problem }
	for end := time.Now().Add(20 * time.Second); problem() == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the copy is not noticed; the log is\n%s", r.lines.String())
		}
		if got := which(); got != "first" {
			t.Fatalf("a command ran on the %s", got)
		}
	}
	for begun := time.Now(); time.Since(begun) < time.Second; {
		if got := which(); got != "first" {
			t.Fatalf("a command ran on the %s", got)
		}
	}
	if n := copied.Starts(); n != 0 {
		t.Errorf("%d commands ran on the copy", n)
	}
	if !strings.Contains(problem(), "another program has its key") || !strings.Contains(r.lines.String(), "two programs have the key of one node") {
		t.Errorf("%s; the log is\n%s", problem(), r.lines.String())
	}
	close(release)
	if e := <-exit; e.Code != 7 {
		t.Errorf("%+v", e)
	}
	left = true
	if killed {
		conn.Close() // without a word
	}
	leave()
	if got := which(); got != "copy" {
		t.Errorf("the first has left, and a command ran on the %s", got)
	}
}

// A node's program that is killed again and again is followed each time, and is no rival
// of itself.
func TestNodeKilledAgain(t *testing.T) {
	r := newRig(t)
	r.open()
	for range 3 {
		x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"hello": fakeexec.Print("hello", "", 0)}}
		r.serve(x)
		node := r.node()
		begun := time.Now()
		p, err := node.Start(t.Context(), corral.Command{Args: []string{"hello"}})
		if corral.Hint(err) == "start it again" { // it was sent to the life before, and never ran
			p, err = node.Start(t.Context(), corral.Command{Args: []string{"hello"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("it was followed after %v", took)
		}
		r.nodeConn.Close() // without a word
		r.stop()
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(r.lines.String(), "two programs") || r.fabric.List(t.Context())[0].Problem != "" {
		t.Errorf("the log is\n%s", r.lines.String())
	}
}
