// Package desktest is what desks of approvals have to do, wherever they keep their
// records: one desk alone, or those of several gateways.
package desktest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/programs"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A World is a place in which records are kept.
type World interface {
	// Open opens the desk of a gateway, with more options.
	Open(gateway string, opts approval.Options) (*approval.Desk, error)
}

// Config of the suite.
type Config struct {
	// New makes a world that nobody has used; what the test needs of it ends with the
	// test.
	New func(testing.TB) World
	// Gateways that have a desk each; of one alone, one.
	Gateways int
	// Runs bounds how often properties are looked for. 0: as often as they are.
	Runs int
}

// Run has desks do what they have to.
func Run(t *testing.T, cfg Config) {
	for name, test := range map[string]func(*testing.T, Config){
		"FirstAnswerCounts": firstAnswerCounts, "UsedOnce": usedOnce, "BoundPlan": boundPlan, "Wait": wait, "Changes": changes,
		"Expiry": expiry, "Reopened": reopened, "Void": void, "Bounds": bounds, "Properties": properties,
	} {
		t.Run(name, func(t *testing.T) { test(t, cfg) })
	}
}

// desks are those of all gateways, which may change places.
type desks struct {
	testing.TB
	world World
	opts  approval.Options
	list  []*approval.Desk
}

func open(t testing.TB, cfg Config, opts approval.Options) *desks {
	t.Helper()
	if opts.Remember == nil {
		opts.Remember = func(context.Context, approval.Record, []policy.Rule) error { return nil }
	}
	d := &desks{TB: t, world: cfg.New(t), opts: opts}
	for range cfg.Gateways {
		d.list = append(d.list, nil)
	}
	d.open()
	t.Cleanup(d.close)
	return d
}

func (d *desks) open() {
	d.Helper()
	for i := range d.list {
		var err error
		if d.list[i], err = d.world.Open(fmt.Sprint("gw", i), d.opts); err != nil {
			d.Fatal(err)
		}
	}
}

func (d *desks) close() {
	for _, one := range d.list {
		if err := one.Close(); err != nil {
			d.Error(err)
		}
	}
}

// at is one of the desks.
func (d *desks) at(i int) *approval.Desk { return d.list[i%len(d.list)] }

// know waits until every desk knows a record as it is.
func (d *desks) know(r approval.Record) {
	d.Helper()
	for _, one := range d.list {
		soon(d, "every desk knows it", func() bool {
			got, err := one.Get("", r.ID)
			return err == nil && got.Version >= r.Version
		})
	}
}

func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%v, want %v that says %q", err, kind, says)
	}
}

func sum(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Request is one for a command on a node, which may be used at every gateway.
func Request(command string) approval.Request {
	req := approval.Request{
		Agent: "main", Host: corral.HostNode, Node: "builder", SessionKey: "s",
		Command: policy.Request{Command: command, Dir: "/srv", Shell: []string{"/bin/sh", "-c"}},
		Decision: policy.Decision{
			Outcome: policy.Asked, Miss: true, Ask: policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
			Segments: []policy.Segment{{Text: command, Words: programs.Literals(strings.Fields(command)...), Argv: strings.Fields(command), Path: "/bin/x", RealPath: "/bin/x"}},
		},
	}
	req.Binding = approval.BindOnNode(req.Command, nil, "n0de", approval.Binding{RealDir: "/srv"}, sum(command))
	return req
}

// Claim is that of a command that is as it was asked for.
func Claim(r approval.Request, id string) approval.Claim {
	return approval.Claim{CommandID: id, Agent: r.Agent, Host: r.Host, Node: r.Node, Binding: r.Binding}
}

func (d *desks) ask(i int, req approval.Request) approval.Record {
	d.Helper()
	r, err := d.at(i).Ask(d.Context(), req)
	ok(d, err)
	d.know(r)
	return r
}

func (d *desks) answer(i int, id string, v approval.Verdict) approval.Record {
	d.Helper()
	r, err := d.at(i).Answer(d.Context(), id, approval.Answer{Decision: v, By: "anna"})
	ok(d, err)
	d.know(r)
	return r
}

// However many answer at however many gateways, one does, and all others are
// told who.
func firstAnswerCounts(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	for round := range 10 {
		r := d.ask(round, Request(fmt.Sprint("x ", round)))
		var mu sync.Mutex
		var won []approval.Record
		var lost []string
		var work sync.WaitGroup
		for i := range 12 {
			a := approval.Answer{Decision: approval.Verdicts[i%3], By: fmt.Sprint("user ", i)}
			work.Go(func() {
				got, err := d.at(i).Answer(t.Context(), r.ID, a)
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
		work.Wait()
		if len(won) != 1 || len(lost) != 11 {
			t.Fatalf("%d answers counted, %d did not", len(won), len(lost))
		}
		want := fmt.Sprintf("was answered %s by %q", won[0].Verdict, won[0].AnsweredBy)
		for _, l := range lost {
			if !strings.Contains(l, want) {
				t.Fatalf("%q does not say %q", l, want)
			}
		}
		d.know(won[0])
		for _, one := range d.list {
			if got, err := one.Get("", r.ID); err != nil || got.AnsweredBy != won[0].AnsweredBy || got.Verdict != won[0].Verdict {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
}

// Of many commands that claim an approval, at however many gateways, one gets it.
func usedOnce(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	for round := range 10 {
		req := Request(fmt.Sprint("x ", round))
		r := d.answer(round+1, d.ask(round, req).ID, approval.AllowOnce)
		users := make(chan string, 12)
		var work sync.WaitGroup
		for i := range cap(users) {
			work.Go(func() {
				id := fmt.Sprint("c", i)
				_, err := d.at(i).Consume(t.Context(), r.ID, Claim(req, id))
				if err == nil {
					users <- id
				} else if !errors.Is(err, corral.ErrDenied) {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if len(users) != 1 {
			t.Fatalf("%d commands got it", len(users))
		}
		// That one may claim it again, wherever it begins anew.
		user := <-users
		for i := range d.list {
			if _, err := d.at(i).Consume(t.Context(), r.ID, Claim(req, user)); err != nil {
				t.Error(err)
			}
		}
	}
}

// An approval at one gateway is for the very same command at all.
func boundPlan(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	req := Request("git push")
	r := d.ask(0, req)
	_, err := d.at(1).Consume(t.Context(), r.ID, Claim(req, "one"))
	wantKind(t, err, corral.ErrDenied, "pending")
	r = d.answer(1, r.ID, approval.AllowOnce)
	for says, change := range map[string]func(*approval.Claim){
		"another agent":          func(c *approval.Claim) { c.Agent = "evil" },
		"approved for node":      func(c *approval.Claim) { c.Host, c.Node = corral.HostGateway, "" },
		"the node of id":         func(c *approval.Claim) { c.Binding.Node = "other" },
		"the command is not":     func(c *approval.Claim) { c.Binding.Command = sum("rm") },
		"environment":            func(c *approval.Claim) { c.Binding.EnvSum = sum("other") },
		"the working directory ": func(c *approval.Claim) { c.Binding.RealDir = "/etc" },
	} {
		c := Claim(req, "one")
		change(&c)
		for i := range d.list {
			_, err := d.at(i).Consume(t.Context(), r.ID, c)
			wantKind(t, err, corral.ErrDenied, says)
		}
	}
	used, err := d.at(0).Consume(t.Context(), r.ID, Claim(req, "one"))
	if err != nil || used.State != approval.Consumed {
		t.Errorf("%+v, %v", used, err)
	}
}

// Who waits at any gateway learns of an answer at any other.
func wait(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	for i := range d.list {
		r := d.ask(i, Request(fmt.Sprint("x ", i)))
		var work sync.WaitGroup
		for j := range d.list {
			work.Go(func() {
				if got, err := d.at(j).Wait(t.Context(), r.ID); err != nil || got.State != approval.Denied || got.AnsweredBy != "anna" {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		d.answer(i+1, r.ID, approval.Deny)
		work.Wait()
	}
}

// All gateways tell of the same changes, under the same numbers, in one order.
func changes(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	const count = 8
	type change struct {
		Seq   int64
		ID    string
		State approval.State
	}
	heard := make([][]change, len(d.list))
	var work sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i, one := range d.list {
		work.Go(func() {
			var after int64
			for ended := 0; ended < count; {
				list, next, err := one.Changes(ctx, after)
				if err != nil {
					t.Errorf("%d of %d have ended: %v", ended, count, err)
					return
				}
				for _, r := range list {
					if r.Seq <= after || r.Seq > next {
						t.Errorf("%d, after %d and before %d", r.Seq, after, next)
					}
					heard[i] = append(heard[i], change{r.Seq, r.ID, r.State})
					if r.State == approval.Denied {
						ended++
					}
				}
				after = next
			}
		})
	}
	for i := range count {
		r := d.ask(i, Request(fmt.Sprint("x ", i)))
		d.answer(i+1, r.ID, approval.Deny)
	}
	work.Wait()
	// Of two changes of one record the first may have been missed.
	last := func(list []change) map[string]change {
		m := map[string]change{}
		for _, c := range list {
			m[c.ID] = c
		}
		return m
	}
	for _, h := range heard[1:] {
		if diff := cmp.Diff(last(heard[0]), last(h)); diff != "" {
			t.Error(diff)
		}
	}
}

// What has expired has for all.
func expiry(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{Expiry: func() time.Duration { return 600 * time.Millisecond }})
	first := d.ask(0, Request("x 1"))
	second := d.answer(1, d.ask(0, Request("x 2")).ID, approval.AllowOnce)
	for i := range d.list {
		if got, err := d.at(i).Wait(t.Context(), first.ID); err != nil || got.State != approval.Expired || got.Verdict != "" {
			t.Errorf("%+v, %v", got, err)
		}
		_, err := d.at(i).Answer(t.Context(), first.ID, approval.Answer{Decision: approval.AllowOnce})
		wantKind(t, err, corral.ErrNotFound, "nobody had answered")
	}
	soon(t, "it is written that it has expired", func() bool {
		got, err := d.at(1).Get("", first.ID)
		return err == nil && got.Version == 2
	})
	soon(t, "what was allowed expires as well", func() bool {
		got, err := d.at(1).Get("", second.ID)
		return err == nil && got.State == approval.Expired
	})
	for i := range d.list {
		soon(t, "and is of no use anywhere", func() bool {
			_, err := d.at(i).Consume(t.Context(), second.ID, Claim(Request("x 2"), "c"))
			return errors.Is(err, corral.ErrDenied) && strings.Contains(err.Error(), "not used until")
		})
	}
}

// The state when all gateways end is the state when they start again.
func reopened(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	want := map[string]approval.State{}
	for i := range 3 {
		req := Request(fmt.Sprint("x ", i))
		r := d.ask(i, req)
		if i > 0 {
			r = d.answer(i+1, r.ID, approval.AllowOnce)
		}
		if i > 1 {
			var err error
			r, err = d.at(i).Consume(t.Context(), r.ID, Claim(req, "c"))
			ok(t, err)
		}
		want[r.ID] = r.State
	}
	for range 2 {
		d.close()
		d.open()
		for _, one := range d.list {
			got := map[string]approval.State{}
			for _, r := range one.List(approval.Filter{}) {
				got[r.ID] = r.State
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
	for id, state := range want {
		if state == approval.Pending {
			d.answer(1, id, approval.Deny)
		}
	}
}

func void(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{})
	r := d.answer(1, d.ask(0, Request("x")).ID, approval.AllowOnce)
	now, err := d.at(0).Void(r.ID, "the node is gone")
	if err != nil || now.State != approval.Denied || now.Void == "" {
		t.Errorf("%+v, %v", now, err)
	}
	again, err := d.at(1).Void(r.ID, "another reason")
	if err != nil || again.Void != now.Void {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = d.at(1).Consume(t.Context(), r.ID, Claim(Request("x"), "c"))
	wantKind(t, err, corral.ErrDenied, "came to nothing: the node is gone")
}

// Requests are bounded, all gateways' together, and so is each.
func bounds(t *testing.T, cfg Config) {
	d := open(t, cfg, approval.Options{MaxPending: 3, MaxPerAgent: 2})
	of := func(agent, command string) approval.Request {
		r := Request(command)
		r.Agent = agent
		return r
	}
	d.ask(0, of("a", "x 1"))
	d.ask(1, of("a", "x 2"))
	_, err := d.at(0).Ask(t.Context(), of("a", "x 3"))
	wantKind(t, err, corral.ErrUnavailable, "too many")
	r := d.ask(1, of("b", "x "+strings.Repeat("y", 200_000))) // which is in many pieces
	if got, err := d.at(0).Get("b", r.ID); err != nil || got.Command != r.Command {
		t.Errorf("%d bytes, %v", len(got.Command), err)
	}
	_, err = d.at(0).Ask(t.Context(), of("c", "x"))
	wantKind(t, err, corral.ErrUnavailable, "too many")
	d.answer(0, r.ID, approval.Deny)
	_, err = d.at(0).Ask(t.Context(), of("c", "x "+strings.Repeat("y", 8<<20)))
	wantKind(t, err, corral.ErrInvalid, "too large")
	d.ask(1, of("c", "x"))
}

// Whatever is asked, answered, used at whichever gateways, and however often they
// begin anew: a command is used only if it was allowed, by one command, and the
// first answer stays.
func properties(t *testing.T, cfg Config) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; cfg.Runs > 0 && runs > cfg.Runs {
			return
		}
		d := open(t, cfg, approval.Options{})
		defer func() { // the next one begins before the test ends
			d.close()
			d.list = nil
		}()
		answers, users, asked := map[string]approval.Verdict{}, map[string]string{}, map[string]string{}
		desk := func() *approval.Desk { return d.at(rapid.IntRange(0, len(d.list)-1).Draw(rt, "gateway")) }
		some := func() string {
			if len(asked) == 0 {
				return "none"
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(asked))).Draw(rt, "id")
		}
		command := func() string { return rapid.SampledFrom([]string{"x 1", "x 2", "y"}).Draw(rt, "command") }
		rt.Repeat(map[string]func(*rapid.T){
			"ask": func(rt *rapid.T) {
				c := command()
				r, err := desk().Ask(t.Context(), Request(c))
				if err != nil || answers[r.ID] != "" {
					rt.Fatalf("%+v, %v", r, err)
				}
				d.know(r)
				asked[r.ID] = c
			},
			"answer": func(rt *rapid.T) {
				id, v := some(), rapid.SampledFrom(approval.Verdicts).Draw(rt, "verdict")
				_, err := desk().Answer(t.Context(), id, approval.Answer{Decision: v})
				if won := err == nil; won != (answers[id] == "" && id != "none") {
					rt.Fatalf("answered %q before, and now %s: %v", answers[id], v, err)
				}
				if err == nil {
					answers[id] = v
				}
			},
			"consume": func(rt *rapid.T) {
				id, user, c := some(), rapid.SampledFrom([]string{"c1", "c2"}).Draw(rt, "user"), command()
				one := desk()
				if r, err := one.Get("", id); err == nil && r.State == approval.Pending && answers[id] != "" {
					soon(t, "the answer is heard", func() bool { r, err := one.Get("", id); return err == nil && r.State != approval.Pending })
				}
				_, err := one.Consume(t.Context(), id, Claim(Request(c), user))
				allowed := answers[id] == approval.AllowOnce || answers[id] == approval.AllowAlways
				may := allowed && c == asked[id] && (users[id] == "" || users[id] == user)
				if (err == nil) != may || err != nil && !errors.Is(err, corral.ErrDenied) {
					rt.Fatalf("answered %q, for %q used by %q; %q claims for %q: %v", answers[id], asked[id], users[id], user, c, err)
				}
				if err == nil {
					users[id] = user
				}
			},
			"restart": func(*rapid.T) { d.close(); d.open() },
			"": func(rt *rapid.T) {
				for _, one := range d.list {
					for id := range asked {
						soon(t, "every desk knows what was said", func() bool {
							r, err := one.Get("", id)
							return err == nil && r.Verdict == answers[id] && r.CommandID == users[id] && (r.State == approval.Pending) == (answers[id] == "")
						})
					}
				}
			},
		})
	})
}
