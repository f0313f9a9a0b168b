package sandbox

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// A pool is refused whose containers no sandbox would take: secrets are mounted from a
// directory of the sandbox's own, and what a pool wrote would stay.
func TestPoolOfSecrets(t *testing.T) {
	c := Config{Engine: noEngine{}, StateDir: testdir.New(t), Name: "main"}
	for range 2 {
		s, err := newSetup(c)
		if err != nil {
			t.Fatal(err)
		}
		p, err := poolSetup(c)
		if len(c.Mounts.Secrets) == 0 && (err != nil || p.hash != s.hash) {
			t.Errorf("without secrets: %v", err)
		}
		if len(c.Mounts.Secrets) > 0 && (!errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "") {
			t.Errorf("with secrets: %v", err)
			if err == nil && p.hash != s.hash {
				t.Error("and its containers are never taken")
			}
		}
		c.Mounts.Secrets = map[string]secrets.Source{"TOKEN": {Env: "CORRAL_TEST_TOKEN"}}
	}
}

// A pool is filled after a moment in which no box was taken from it, or when it has waited
// long enough.
func TestPoolRest(t *testing.T) {
	began := time.Now()
	at := func(d time.Duration) time.Time { return began.Add(d) }
	var c claims
	if got := c.rest(began); got > 0 {
		t.Errorf("without a claim: %v", got)
	}
	c.add(began)
	for after, want := range map[time.Duration]time.Duration{0: rest, 30 * time.Millisecond: rest - 30*time.Millisecond, rest: 0, time.Hour: rest - time.Hour} {
		if got := c.rest(at(after)); got != want {
			t.Errorf("%v after one claim: %v, want %v", after, got, want)
		}
	}
	last := time.Duration(0)
	for last < maxRest {
		if got := c.rest(at(last)); got <= 0 {
			t.Fatalf("%v after the first claim: %v", last, got)
		}
		last += rest / 2
		c.add(at(last))
	}
	if got := c.rest(at(last)); got > 0 {
		t.Errorf("%v after the first claim, with another just now: %v", last, got)
	}
	p := &Pool{claims: c}
	if got := p.rest(false); got != 0 || p.claims != c {
		t.Errorf("a full pool: %v, %+v", got, p.claims)
	}
	p.claims.add(time.Now())
	p.claims.first = time.Now()
	if got := p.rest(true); got <= 0 || p.claims == (claims{}) {
		t.Errorf("just after a claim: %v, %+v", got, p.claims)
	}
	p.claims.last = p.claims.last.Add(-rest)
	if got := p.rest(true); got > 0 || p.claims != (claims{}) {
		t.Errorf("a moment later: %v, %+v", got, p.claims)
	}
}

// A sandbox gets a container also if one of the pool has ended, and cannot be removed.
func TestClaimOfWhatIsStuck(t *testing.T) {
	state := testdir.New(t)
	cfg := Config{Engine: &stuckEngine{}, StateDir: state, Name: "main", Workspace: Workspace{Medium: MediumMemory}}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rec := made(t, state, poolName, 1)
	b, err := e.openBox(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.warden.Close(); err != nil { // a container of the pool has none yet
		t.Fatal(err)
	}
	set := *e.set.Load()
	b.Sandbox, b.Hash = "", set.hash
	ours, theirs := net.Pipe()
	theirs.Close() // its warden has ended
	set.Pool = &Pool{set: &set, ready: []*warm{{b, strictFrames(ours)}}}
	if got, err := e.claim(t.Context(), &set, &sandboxRecord{Name: "main"}); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
