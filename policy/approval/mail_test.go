package approval

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// An answer by mail has the same effect as a call of the desk.
func TestMail(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	m := Mail{Dir: dir}
	rec := ask(t, d, request("echo one"))
	if list, err := m.List(Filter{State: Pending}); err != nil || len(list) != 1 || list[0].ID != rec.ID {
		t.Errorf("%+v, %v", list, err)
	}
	got, err := m.Get("", rec.Slug)
	if err != nil || got.ID != rec.ID {
		t.Errorf("%+v, %v", got, err)
	}
	// No desk collects the letter: nothing is answered, and no letter is left.
	short, stop := context.WithCancel(t.Context())
	stop()
	if _, err := m.Answer(short, rec.ID, Answer{Decision: AllowOnce}); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("%v", err)
	}

	go func() { done <- d.Collect(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for ; ; time.Sleep(time.Millisecond) { // until the desk collects letters
		if _, err := os.Stat(filepath.Join(dir, mailName)); err == nil {
			break
		}
	}
	if _, err := m.Answer(t.Context(), "none", Answer{Decision: AllowOnce}); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "unknown or expired") {
		t.Errorf("%v", err)
	}
	if _, err := m.Answer(t.Context(), rec.ID, Answer{Decision: "maybe"}); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "is no decision") {
		t.Errorf("%v", err)
	}
	got, err = m.Answer(t.Context(), rec.ID, Answer{Decision: AllowOnce, By: "carol"})
	if err != nil || got.State != Allowed || got.AnsweredBy != "carol" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Answer(t.Context(), rec.ID, Answer{Decision: Deny}); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), `allow-once by "carol"`) {
		t.Errorf("the second answer: %v", err)
	}
	// An invalid letter is not answered.
	box := filepath.Join(dir, mailName)
	for name, text := range map[string]string{"a.letter": "{", "b.letter": strings.Repeat("x", maxLetter+1), "c.letter": `{"id":1}`} {
		if err := os.WriteFile(filepath.Join(box, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(box, "d.letter")); err != nil {
		t.Fatal(err)
	}
	again := ask(t, d, request("echo two"))
	if got, err = m.Answer(t.Context(), again.ID, Answer{Decision: Deny, By: "carol"}); err != nil || got.State != Denied {
		t.Errorf("%+v, %v", got, err)
	}
	if info, err := os.Stat(box); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := (Mail{Dir: t.TempDir()}).List(Filter{}); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("no desk: %v", err)
	}
}

// An approval of a gateway is used once, even with restarts.
func TestRedeem(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	req := request("echo one")
	future, past := time.Now().Add(time.Hour), time.Now().Add(-48*time.Hour)
	g := Given{ID: "given", CommandID: "one", Verdict: AllowOnce, By: "alice", Until: future}
	redeem := func(want error, again bool) {
		t.Helper()
		got, err := d.Redeem(t.Context(), g, req)
		if want == nil && err != nil || want != nil && !errors.Is(err, want) || got != again {
			t.Errorf("%t, %v; want %t, %v", got, err, again, want)
		}
	}
	redeem(nil, false)
	redeem(nil, true)
	ok(t, d.Close())
	d = openDesk(t, dir)
	redeem(nil, true)
	g.CommandID = "two"
	redeem(corral.ErrDenied, false)
	g.CommandID, req.Agent = "one", "other"
	redeem(corral.ErrDenied, false)
	req.Agent = "main"
	if rec, err := d.Get("", "given"); err != nil || rec.State != Consumed || !rec.Granted || rec.AnsweredBy != "alice" {
		t.Errorf("%+v, %v", rec, err)
	}
	g.ID, g.Until = "late", past
	redeem(corral.ErrDenied, false)
	g.Until = future
	for _, id := range []string{"", "../x", strings.Repeat("x", 100)} {
		g.ID = id
		redeem(corral.ErrInvalid, false)
	}
	// A gateway's approval is not one of the desk's own, nor the other way round.
	mine := ask(t, d, request("echo three"))
	g.ID = mine.ID
	redeem(corral.ErrDenied, false)
	if _, err := d.Consume(t.Context(), "given", Claim{CommandID: "two", Agent: "main", Host: req.Host, Binding: req.Binding}); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	// It is not forgotten while it could be used again.
	d.mu.Lock()
	for range lingeringRecords + 10 {
		id := corral.NewID()
		d.records[id] = &Record{ID: id, Slug: id, State: Denied, Verdict: Deny, Seq: d.seq + 1, CreatedAt: time.Now()}
	}
	d.tidy()
	if len(d.records) > lingeringRecords+2 {
		t.Errorf("%d records are kept", len(d.records))
	}
	d.mu.Unlock()
	g.ID = "given"
	redeem(nil, true)
}
