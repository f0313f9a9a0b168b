package nodeexec_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// What an ended log holds came with its end: nothing is asked about it.
func TestEndTellsStat(t *testing.T) {
	r := newRig(t)
	r.open()
	host := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"hello": fakeexec.Print("hello\n", "", 3)}}
	r.serve(host)
	t.Cleanup(func() {
		r.stop()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := r.node().Start(t.Context(), corral.Command{Args: []string{"hello"}})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	off := int64(0)
	for {
		c, err := p.Log().Read(t.Context(), off, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		off = c.Next()
	}
	before := r.conn.Stats().OutMsgs
	exit, err := p.Wait(t.Context())
	if err != nil || exit.Code != 3 {
		t.Errorf("Wait: %v, %v", exit, err)
	}
	st, err := p.Log().Stat(t.Context())
	if want := (corral.LogStat{Size: 6, Ended: true}); err != nil || st != want {
		t.Errorf("Stat: %+v, %v, want %+v", st, err, want)
	}
	if n := r.conn.Stats().OutMsgs - before; n != 0 {
		t.Errorf("%d messages were sent to learn what the node had said", n)
	}
}

// An end that was told once is known, whether or not the node is there to tell it again.
func TestEndIsKnown(t *testing.T) {
	r := newRig(t)
	r.open()
	host := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"hello": fakeexec.Print("hello\n", "", 3)}}
	t.Cleanup(func() { _ = host.Close() })
	r.serve(host)
	start(t, r.node(), corral.Command{ID: "job", Args: []string{"hello"}})
	p, err := r.fabric.Attach(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Wait(t.Context())
	if err != nil || first.Code != 3 {
		t.Fatalf("Wait: %v, %v", first, err)
	}
	r.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if exit, err := p.Wait(ctx); err != nil || exit.Code != 3 {
		t.Errorf("Wait, with the node away: %v, %v", exit, err)
	}
}
