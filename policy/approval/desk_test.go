package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/programs"
	"github.com/corral-exec/corral/policy"
)

func openDesk(t *testing.T, dir string, change ...func(*Options)) *Desk {
	t.Helper()
	opts := Options{Dir: dir, Remember: func(context.Context, Record, []policy.Rule) error { return nil }}
	for _, c := range change {
		c(&opts)
	}
	d, err := OpenDesk(opts)
	ok(t, err)
	t.Cleanup(func() { ok(t, d.Close()) })
	return d
}

// request is a Request for a program that does not exist.
func request(command string) Request {
	words := strings.Fields(command)
	req := Request{
		Agent: "main", Host: corral.HostGateway, SessionKey: "s",
		Command: policy.Request{Command: command, Dir: "/srv", Shell: []string{"/bin/sh", "-c"}},
		Decision: policy.Decision{
			Outcome: policy.Asked, Miss: true, Ask: policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
			Segments: []policy.Segment{{Text: command, Words: programs.Literals(words...), Argv: words, Path: "/bin/" + words[0], RealPath: "/bin/" + words[0]}},
		},
	}
	req.Binding = Binding{Command: sum(command, req.Command.Args, req.Command.Shell), Dir: "/srv", RealDir: "/srv", EnvSum: sum("none")}
	return req
}

func (r Request) claim(id string) Claim {
	return Claim{CommandID: id, Agent: r.Agent, Host: r.Host, Node: r.Node, Binding: r.Binding}
}

func ask(t *testing.T, d *Desk, req Request) Record {
	t.Helper()
	r, err := d.Ask(t.Context(), req)
	ok(t, err)
	return r
}

func TestAsk(t *testing.T) {
	d := openDesk(t, t.TempDir())
	req := request("git push")
	r := ask(t, d, req)
	if r.State != Pending || len(r.ID) < 26 || strings.Count(r.Slug, "-") != 2 || len(r.AllowedDecisions) != 3 || r.ExpiresAt.Sub(r.CreatedAt) != DefaultExpiry {
		t.Errorf("%+v", r)
	}
	if r.Previews[0].Entries[0].Args[0] != "push" || r.Previews[1].Entries[0].Pattern != "/bin/git push" || r.Previews[2].Entries[0].Pattern != "/bin/git" {
		t.Errorf("previews %+v", r.Previews)
	}
	// Asking for the same command again makes no new request; another command does.
	if again := ask(t, d, req); again.ID != r.ID {
		t.Error("the same command was asked about twice")
	}
	other := req
	other.SessionKey = "another"
	node := req
	node.Host, node.Node = corral.HostNode, "n"
	env := req
	env.Binding.EnvSum = sum("other")
	for i, o := range []Request{other, node, env, request("git pull")} {
		if ask(t, d, o).ID == r.ID {
			t.Errorf("request %d is not the same", i)
		}
	}
	if _, err := d.Answer(t.Context(), r.ID, Answer{Decision: Deny}); err != nil {
		t.Error(err)
	}
	if ask(t, d, req).ID == r.ID {
		t.Error("what was denied was not asked about again")
	}

	mixed := request("git push")
	mixed.Binding.Command = sum("rm")
	for name, bad := range map[string]Request{
		"another command": mixed, "none": {Binding: req.Binding},
		"long name": {Agent: strings.Repeat("x", 1000), Command: req.Command, Binding: req.Binding},
	} {
		if _, err := d.Ask(t.Context(), bad); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	huge := request("echo " + strings.Repeat("x", maxRecord/4))
	if _, err := d.Ask(t.Context(), huge); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}

func TestTooManyPending(t *testing.T) {
	d := openDesk(t, t.TempDir(), func(o *Options) { o.MaxPending, o.MaxPerAgent = 3, 2 })
	of := func(agent, command string) Request {
		r := request(command)
		r.Agent = agent
		return r
	}
	ask(t, d, of("a", "x 1"))
	ask(t, d, of("a", "x 2"))
	_, err := d.Ask(t.Context(), of("a", "x 3"))
	wantKind(t, err, corral.ErrUnavailable, "too many")
	r := ask(t, d, of("b", "x 1"))
	_, err = d.Ask(t.Context(), of("c", "x 1"))
	wantKind(t, err, corral.ErrUnavailable, "too many")
	_, err = d.Answer(t.Context(), r.ID, Answer{Decision: Deny})
	ok(t, err)
	ask(t, d, of("c", "x 1"))

	d = openDesk(t, t.TempDir(), func(o *Options) { o.MaxPerAgent = 100 })
	d.pendingBytes = 1 << 20
	for i := range 100 {
		if _, err = d.Ask(t.Context(), of("a", fmt.Sprintf("x %d %s", i, strings.Repeat("y", 100_000)))); err != nil {
			break
		}
	}
	wantKind(t, err, corral.ErrUnavailable, "too many")
}

func TestGet(t *testing.T) {
	d := openDesk(t, t.TempDir())
	r := ask(t, d, request("git push"))
	for range 40 { // so that some begin with the same letter
		ask(t, d, request(fmt.Sprintf("x %s", corral.NewID())))
	}
	for _, ref := range []string{r.ID, strings.ToUpper(r.ID), r.Slug, " " + strings.ToUpper(r.Slug), r.ID[:20], r.Slug[:len(r.Slug)-1]} {
		got, err := d.Get("main", ref)
		if err != nil && !strings.Contains(err.Error(), "ambiguous") || err == nil && got.ID != r.ID {
			t.Errorf("%q: %v, %v", ref, got.Slug, err)
		}
	}
	_, err := d.Get("other", r.ID)
	wantKind(t, err, corral.ErrNotFound, "unknown or expired approval id")
	_, err = d.Get("", "")
	wantKind(t, err, corral.ErrNotFound, "unknown or expired approval id")
	letters := map[byte]bool{}
	for _, r := range d.List(Filter{}) {
		if letters[r.ID[0]] {
			_, err = d.Get("", r.ID[:1])
			wantKind(t, err, corral.ErrInvalid, "ambiguous approval id prefix; use the full id")
		}
		letters[r.ID[0]] = true
	}
	if len(letters) == 41 {
		t.Error("no prefix was ambiguous")
	}
}

// If many answer at the same time, one answer counts, and the others are told whose.
func TestFirstAnswerCounts(t *testing.T) {
	remembered := 0
	d := openDesk(t, t.TempDir(), func(o *Options) {
		o.Remember = func(context.Context, Record, []policy.Rule) error { remembered++; return nil }
	})
	r := ask(t, d, request("git push"))
	var mu sync.Mutex
	var won []Record
	var lost []string
	var wg sync.WaitGroup
	for i := range 100 {
		a := Answer{Decision: Verdicts[i%3], By: fmt.Sprint("user ", i)}
		wg.Go(func() {
			got, err := d.Answer(t.Context(), r.ID, a)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, got)
			case errors.Is(err, corral.ErrConflict):
				lost = append(lost, err.Error())
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || len(lost) != 99 {
		t.Fatalf("%d answers counted, %d did not", len(won), len(lost))
	}
	want := fmt.Sprintf("was answered %s by %q", won[0].Verdict, won[0].AnsweredBy)
	for _, l := range lost {
		if !strings.Contains(l, want) {
			t.Fatalf("%q does not say %q", l, want)
		}
	}
	if (remembered == 1) != (won[0].Verdict == AllowAlways) || remembered > 1 {
		t.Errorf("remembered %d times for %s", remembered, won[0].Verdict)
	}
}

func TestOneDeskADirectory(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	_, err := OpenDesk(Options{Dir: dir})
	wantKind(t, err, corral.ErrConflict, dir)
	ok(t, d.Close())
	openDesk(t, dir)
}

func TestAllowAlways(t *testing.T) {
	var got []policy.Rule
	var fails error
	var d *Desk
	d = openDesk(t, t.TempDir(), func(o *Options) {
		o.Remember = func(_ context.Context, r Record, rules []policy.Rule) error {
			if now, err := d.Get("", r.ID); err != nil || now.State != Pending {
				t.Errorf("remembered after it was answered: %s, %v", now.State, err)
			}
			got = rules
			return fails
		}
	})
	r := ask(t, d, request("git push"))
	fails = errors.New("disk full")
	if _, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways, By: "x"}); !errors.Is(err, fails) {
		t.Fatal(err)
	}
	if now, err := d.Get("", r.ID); err != nil || now.State != Pending {
		t.Errorf("%s, %v", now.State, err)
	}
	fails = nil
	_, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowOnce, Scope: ScopeExact})
	wantKind(t, err, corral.ErrInvalid, "scope")
	_, err = d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways, Scope: "all"})
	wantKind(t, err, corral.ErrInvalid, "scope")
	_, err = d.Answer(t.Context(), r.ID, Answer{Decision: "yes"})
	wantKind(t, err, corral.ErrInvalid, "decision")
	now, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways, Scope: ScopeSubcommand, By: "a\nb\x00\u202e"})
	ok(t, err)
	if now.State != Allowed || now.Scope != ScopeSubcommand || strings.ContainsAny(now.AnsweredBy, "\n\x00") || len(got) != 1 || got[0].Pattern != "/bin/git push" {
		t.Errorf("%+v; remembered %+v", now, got)
	}

	always := request("x")
	always.Decision.Ask.Value = policy.AskAlways
	byRule := request("y")
	byRule.Decision.Rule = &policy.Rule{Action: policy.Query, Pattern: "y", Source: policy.Source{File: "f", Line: 3}}
	refused := request("z")
	refused.Decision.Segments[0].Refused = "a shell runs whatever it reads"
	useless := request("w")
	useless.Again = func([]policy.Rule) policy.Decision {
		return policy.Decision{Outcome: policy.Asked, Reason: "of the weather"}
	}
	for _, c := range []struct {
		req  Request
		says string
	}{
		{always, "requires approval every time"}, {byRule, "f:3"}, {refused, "whatever it reads"}, {useless, "of the weather"},
	} {
		r := ask(t, d, c.req)
		if diff := cmp.Diff([]Verdict{AllowOnce, Deny}, r.AllowedDecisions); diff != "" {
			t.Error(diff)
		}
		_, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways})
		wantKind(t, err, corral.ErrDenied, "allow-always is unavailable", c.says)
	}
	narrow := request("git -v")
	r = ask(t, d, narrow)
	_, err = d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways, Scope: ScopeSubcommand})
	wantKind(t, err, corral.ErrDenied, "no subcommand")

	without := openDesk(t, t.TempDir(), func(o *Options) { o.Remember = nil })
	r = ask(t, without, request("x"))
	_, err = without.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways})
	wantKind(t, err, corral.ErrDenied, "no file")
}

func TestConsume(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	req := request("git push")
	r := ask(t, d, req)
	denied := func(c Claim, says string) {
		t.Helper()
		_, err := d.Consume(t.Context(), r.ID, c)
		wantKind(t, err, corral.ErrDenied, says)
	}
	denied(req.claim("one"), "pending")
	_, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowOnce, By: "anna"})
	ok(t, err)
	for says, change := range map[string]func(*Claim){
		"another agent":             func(c *Claim) { c.Agent = "evil" },
		"approved for gateway, not": func(c *Claim) { c.Host, c.Node = corral.HostNode, "n" },
		"the command is not":        func(c *Claim) { c.Binding.Command = sum("rm") },
		"environment":               func(c *Claim) { c.Binding.Env = []string{"GIT_EXTERNAL_DIFF"} },
		"working directory":         func(c *Claim) { c.Binding.RealDir = "/etc" },
	} {
		c := req.claim("one")
		change(&c)
		denied(c, says)
	}
	if _, err := d.Consume(t.Context(), r.ID, req.claim("no id/")); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
	used, err := d.Consume(t.Context(), r.ID, req.claim("one"))
	if err != nil || used.State != Consumed || used.CommandID != "one" {
		t.Fatalf("%+v, %v", used, err)
	}
	denied(req.claim("two"), "used by the command one")
	changed := req.claim("one")
	changed.Binding.EnvSum = sum("other")
	denied(changed, "environment")

	// After a crash only the same start may claim it again.
	ok(t, d.Close())
	d = openDesk(t, dir)
	if _, err := d.Consume(t.Context(), r.ID, req.claim("one")); err != nil {
		t.Error(err)
	}
	denied(req.claim("two"), "used by the command one")
	_, err = d.Consume(t.Context(), "none", req.claim("one"))
	wantKind(t, err, corral.ErrDenied, "unknown or expired")
}

// If many commands claim an approval, one gets it.
func TestConsumeOnce(t *testing.T) {
	d := openDesk(t, t.TempDir())
	req := request("git push")
	r := ask(t, d, req)
	_, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowOnce})
	ok(t, err)
	got := make(chan error, 100)
	for i := range cap(got) {
		go func() {
			_, err := d.Consume(t.Context(), r.ID, req.claim(fmt.Sprint("c", i)))
			got <- err
		}()
	}
	n := 0
	for range cap(got) {
		if err := <-got; err == nil {
			n++
		} else if !errors.Is(err, corral.ErrDenied) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d commands got it", n)
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := openDesk(t, dir)
		first := ask(t, d, request("x 1"))
		got := make(chan Record)
		go func() {
			r, err := d.Wait(t.Context(), first.ID)
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		time.Sleep(29 * time.Minute)
		second := ask(t, d, request("x 2"))
		synctest.Wait()
		select {
		case r := <-got:
			t.Fatalf("it expired early: %+v", r)
		default:
		}
		time.Sleep(time.Minute)
		if r := <-got; r.State != Expired || r.Verdict != "" {
			t.Errorf("%+v", r)
		}
		_, err := d.Answer(t.Context(), first.ID, Answer{Decision: AllowOnce})
		wantKind(t, err, corral.ErrNotFound, "unknown or expired approval id", "nobody had answered")

		// An allowed command has the same time again to start.
		_, err = d.Answer(t.Context(), second.ID, Answer{Decision: AllowOnce, By: "anna"})
		ok(t, err)
		time.Sleep(DefaultExpiry)
		synctest.Wait()
		if r, err := d.Get("", second.ID); err != nil || r.State != Expired || !strings.Contains(r.Settled(), "not used until") {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = d.Consume(t.Context(), second.ID, request("x 2").claim("c"))
		wantKind(t, err, corral.ErrDenied, "not used until")

		// A request also expires while no desk is open.
		third := ask(t, d, request("x 3"))
		ok(t, d.Close())
		time.Sleep(DefaultExpiry)
		d = openDesk(t, dir)
		if r, err := d.Get("", third.Slug); err != nil || r.State != Expired {
			t.Errorf("%+v, %v", r, err)
		}
		time.Sleep(lingering + time.Hour)
		if left := d.List(Filter{}); len(left) != 0 {
			t.Errorf("%d are still there", len(left))
		}
		if _, err := d.Wait(t.Context(), third.ID); !errors.Is(err, corral.ErrNotFound) {
			t.Error(err)
		}
		ok(t, d.Close())
	})
}

// A request does not expire while its answer is being given.
func TestAnswerAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *Desk
		d = openDesk(t, t.TempDir(), func(o *Options) {
			o.Remember = func(_ context.Context, r Record, _ []policy.Rule) error {
				time.Sleep(2 * time.Minute)
				if now, err := d.Get("", r.ID); err != nil || now.State != Pending {
					t.Errorf("while it is answered it is %s, %v", now.State, err)
				}
				return nil
			}
		})
		r := ask(t, d, request("x y"))
		time.Sleep(29 * time.Minute)
		now, err := d.Answer(t.Context(), r.ID, Answer{Decision: AllowAlways})
		if err != nil || now.State != Allowed {
			t.Errorf("%+v, %v", now, err)
		}
		ok(t, d.Close())
	})
}

func TestSettledLinger(t *testing.T) {
	d := openDesk(t, t.TempDir())
	first := ask(t, d, request("x first"))
	_, err := d.Answer(t.Context(), first.ID, Answer{Decision: Deny})
	ok(t, err)
	if r, err := d.Wait(t.Context(), first.ID); err != nil || r.State != Denied {
		t.Errorf("a late waiter: %+v, %v", r, err)
	}
	d.mu.Lock()
	d.settledBytes = 1 << 20
	d.mu.Unlock()
	big := request("x " + strings.Repeat("y", 100_000))
	for range 30 {
		r := ask(t, d, big)
		_, err := d.Answer(t.Context(), r.ID, Answer{Decision: Deny})
		ok(t, err)
	}
	if n := len(d.List(Filter{State: Denied})); n > 10 || n < 2 {
		t.Errorf("%d settled records of 31 are kept", n)
	}
	info, err := os.Stat(filepath.Join(d.opts.Dir, journalName))
	ok(t, err)
	if info.Size() > 12<<20 { // of 27
		t.Errorf("the journal has %d bytes", info.Size())
	}
	ok(t, d.Close())
	d = openDesk(t, d.opts.Dir)
	if n := len(d.List(Filter{State: Denied})); n < 2 {
		t.Errorf("%d settled records are there after it was written anew", n)
	}
}

func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, t.TempDir())
		a := ask(t, d, request("x 1"))
		got, next, err := d.Changes(t.Context(), 0)
		if err != nil || len(got) != 1 || got[0].ID != a.ID || next != 1 {
			t.Fatalf("%v, %d, %v", got, next, err)
		}
		more := make(chan Record)
		go func() {
			got, _, err := d.Changes(t.Context(), next)
			if err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
			more <- got[0]
		}()
		synctest.Wait()
		_, err = d.Answer(t.Context(), a.ID, Answer{Decision: Deny})
		ok(t, err)
		if r := <-more; r.State != Denied || r.Seq != 2 {
			t.Errorf("%+v", r)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, next, err = d.Changes(ctx, -1); !errors.Is(err, context.DeadlineExceeded) || next != 2 {
			t.Errorf("%d, %v", next, err)
		}
		go func() {
			_, err := d.Wait(t.Context(), ask(t, d, request("x 2")).ID)
			wantKind(t, err, corral.ErrUnavailable, "closed")
			close(more)
		}()
		synctest.Wait()
		ok(t, d.Close())
		<-more
		_, err = d.Ask(t.Context(), request("x 3"))
		wantKind(t, err, corral.ErrUnavailable, "closed")
	})
}

// The values of the environment are neither on disk nor in the log.
func TestNoSecrets(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	d := openDesk(t, dir, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	req := request("printenv TOKEN")
	req.Command.Dir = dir
	var err error
	req.Binding, err = Bind(req.Command, policy.Decision{}, map[string]string{"TOKEN": "hunter2-value"}, policy.OS{})
	ok(t, err)
	r := ask(t, d, req)
	if diff := cmp.Diff([]string{"TOKEN"}, r.Env); diff != "" {
		t.Error(diff)
	}
	_, err = d.Answer(t.Context(), r.ID, Answer{Decision: AllowOnce})
	ok(t, err)
	ok(t, d.Close())
	raw, err := os.ReadFile(filepath.Join(dir, journalName))
	ok(t, err)
	if strings.Contains(string(raw)+log.String(), "hunter2") {
		t.Errorf("the value is in the journal or the log")
	}
	info, err := os.Stat(filepath.Join(dir, journalName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
