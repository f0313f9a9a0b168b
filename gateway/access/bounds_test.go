package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// A change that cannot be written down is none: no key is made, and none ends.
func TestKeysNotWritten(t *testing.T) {
	dir := filepath.Join(testdir.New(t), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(dir, "keys.json"))
	made, err := s.Create(api.NewKey{Name: "a", Role: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	_, create := s.Create(api.NewKey{Name: "b", Role: "agent"})
	_, rotate := s.Rotate("a")
	for what, err := range map[string]error{"create": create, "rotate": rotate, "revoke": s.Revoke("a")} {
		if !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Check(made.Secret); err != nil || len(s.List()) != 1 {
		t.Errorf("%v, %+v", err, s.List())
	}
	if _, err := s.Rotate("b"); !errors.Is(err, corral.ErrNotFound) {
		t.Error(err)
	}
}

// Each of several keys is its own: one ends, and the others stay, also in the file.
func TestOneOfSeveralKeys(t *testing.T) {
	path := filepath.Join(testdir.New(t), "keys.json")
	s := open(t, path)
	var made []api.MadeKey
	for i := range 5 {
		m, err := s.Create(api.NewKey{Name: fmt.Sprint("k", i), Role: "agent", TTL: api.Duration(i/3) * api.Duration(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, m)
	}
	g, err := s.Check(made[3].Secret)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // it has no rate
		if err := g.Take(time.Now()); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := g.Context(t.Context())
	defer cancel()
	if err := s.Revoke("k3"); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, errRevoked) || !errors.Is(g.Ended(), errRevoked) {
		t.Errorf("%v, %v", cause, g.Ended())
	}
	if err := s.Revoke(made[1].ID); err != nil {
		t.Fatal(err)
	}
	for life, s := range []*Store{s, open(t, path)} {
		for i, m := range made {
			if _, err := s.Check(m.Secret); (err == nil) == (i == 3 || i == 1) {
				t.Errorf("life %d, key %d: %v", life, i, err)
			}
		}
		list := s.List()
		for i := 1; i < len(list); i++ {
			if a, b := list[i-1], list[i]; len(list) != 3 || a.CreatedAt.After(b.CreatedAt) || a.CreatedAt.Equal(b.CreatedAt) && a.ID >= b.ID {
				t.Errorf("life %d: the order: %+v", life, list)
			}
		}
	}
	still, _ := s.Check(made[0].Secret)
	ctx, cancel = still.Context(t.Context())
	defer cancel()
	s.Close()
	<-ctx.Done()
	if _, err := s.Check(made[0].Secret[:30]); !errors.Is(err, errDamaged) {
		t.Errorf("a part of a secret: %v", err)
	}
}

// What a key may be at most, and what is too much.
func TestBoundsOfKeys(t *testing.T) {
	s := open(t, filepath.Join(testdir.New(t), "keys.json"))
	for name, n := range map[string]api.NewKey{
		"a long name":       {Name: strings.Repeat("x", maxName+1), Role: "agent"},
		"dots":              {Name: "..", Role: "agent"},
		"a slash":           {Name: "a/b", Role: "agent"},
		"processors":        {Name: "a", Role: "agent", Quota: api.Quota{MaxCPUs: maxCPUs + 1}},
		"fewer than none":   {Name: "a", Role: "agent", Quota: api.Quota{MaxCPUs: -1}},
		"a rate":            {Name: "a", Role: "agent", Quota: api.Quota{Rate: maxRate + 1}},
		"agents":            {Name: "a", Role: "agent", Agents: make([]string, maxAgents+1)},
		"a long agent":      {Name: "a", Role: "agent", Agents: []string{strings.Repeat("x", maxName+1)}},
		"an agent of lines": {Name: "a", Role: "agent", Agents: []string{"a\nb"}},
		"a time":            {Name: "a", Role: "agent", TTL: api.Duration(maxTTL + 1)},
	} {
		if _, err := s.Create(n); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	agents := make([]string, maxAgents)
	for i := range agents {
		agents[i] = strings.Repeat("x", maxName)
	}
	most := api.NewKey{Name: strings.Repeat("x", maxName), Role: "agent", Agents: agents, TTL: api.Duration(maxTTL), Quota: api.Quota{MaxCPUs: maxCPUs, Rate: maxRate}}
	if _, err := s.Create(most); err != nil {
		t.Error(err)
	}
	for i := len(s.keys); i < maxKeys; i++ {
		s.keys[fmt.Sprint(i)] = &held{record: record{Key: api.Key{ID: fmt.Sprint(i), Name: fmt.Sprint(i)}}, grant: &Grant{}}
	}
	if _, err := s.Create(api.NewKey{Name: "one more", Role: "agent"}); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("%d keys and one more: %v", len(s.keys), err)
	}
}

// A file that is too large is not read.
func TestLargeFile(t *testing.T) {
	path := filepath.Join(testdir.New(t), "keys.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, maxFile + 1} { // an empty one is damaged
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		_, keys := Open(path)
		_, signIns := OpenSignIns(path)
		for what, err := range map[string]error{"keys": keys, "sign-ins": signIns} {
			if !errors.Is(err, corral.ErrUnavailable) || strings.Contains(err.Error(), "it has") != (size > 0) {
				t.Errorf("%s, %d bytes: %v", what, size, err)
			}
		}
	}
}

// What is open by a sign-in ends with it, whatever ends it, and with no other.
func TestAlive(t *testing.T) {
	dir := filepath.Join(testdir.New(t), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenSignIns(filepath.Join(dir, "console.json"))
		if err != nil {
			t.Fatal(err)
		}
		first, _ := s.Begin("owner")
		time.Sleep(time.Hour)
		second, _ := s.Begin("owner")
		third, _ := s.Begin("owner")
		ended := func(in SignedIn) bool { return s.Alive(in.Cookie).Err() != nil }
		one, two, three := s.Alive(first.Cookie), s.Alive(second.Cookie), s.Alive(third.Cookie)
		if s.Alive("none").Err() == nil || one.Err() != nil || s.Alive(first.Cookie) != one {
			t.Error("a sign-in that is none is alive, or one has two contexts")
		}
		if err := s.End("none"); err != nil || ended(first) || ended(second) {
			t.Errorf("ending none: %v", err)
		}
		if err := s.End(third.Cookie); err != nil || three.Err() == nil || !ended(third) || two.Err() != nil {
			t.Errorf("signed out: %v, %v", err, three.Err())
		}
		time.Sleep(SignInTTL - time.Hour)
		synctest.Wait()
		if one.Err() == nil || !ended(first) || ended(second) {
			t.Error("expired")
		}
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		_, err = s.Begin("owner")
		for what, err := range map[string]error{"sign in": err, "sign out": s.End(second.Cookie)} {
			if !errors.Is(err, corral.ErrUnavailable) || ended(second) {
				t.Errorf("%s, which cannot be written down: %v", what, err)
			}
		}
		s.Close()
		if two.Err() == nil || len(s.alive) != 0 {
			t.Error("closed")
		}
		if s.Alive(second.Cookie).Err() != nil {
			t.Error("Close signs out")
		}
		s.Close()
	})
}

// A link signs one browser in, and makes room for others when it is used or too old.
func TestLinkOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &SignIns{links: map[string]link{}}
		for range 3 {
			var used string
			for range maxLinks {
				secret, _, err := s.Link("owner")
				if err != nil {
					t.Fatal(err)
				}
				used = secret
			}
			for _, want := range []string{"owner", ""} {
				if ref, err := s.Redeem(used); ref != want || (err == nil) != (want != "") {
					t.Errorf("%q, %v", ref, err)
				}
			}
			if _, _, err := s.Link("owner"); err != nil {
				t.Error(err)
			}
			time.Sleep(LinkTTL)
		}
	})
}

// A full list loses the oldest sign-in of the key that has most, also when another key signs in.
func TestRoomForSignIns(t *testing.T) {
	var list []signIn
	for i := range maxSignIns {
		ref := "many"
		if i == 0 || i == maxSignIns-1 {
			ref = "few"
		}
		list = append(list, signIn{Ref: ref, Cookie: fmt.Sprint(i)})
	}
	list = withRoom(list)
	if len(list) != maxSignIns-1 || list[0].Ref != "few" || list[1].Cookie != "2" || list[maxSignIns-2].Ref != "few" {
		t.Errorf("%d, %+v, %+v", len(list), list[:2], list[len(list)-1])
	}
}

// Whom a grant is for, and which needs it meets.
func TestGrants(t *testing.T) {
	for _, tt := range []struct {
		agents      []string
		sees, all   bool // agent a
		only        string
		mayNotWhole bool
	}{
		{nil, true, true, "", false},
		{[]string{"a"}, true, false, "a", true},
		{[]string{"b"}, false, false, "b", true},
		{[]string{"b", "a"}, true, false, "", true},
		{[]string{"a*"}, true, false, "", true},
		{[]string{"*"}, true, true, "", false},
		{[]string{"b", "*"}, true, true, "", false},
	} {
		g := &Grant{Role: Operator, Agents: tt.agents}
		only, ok := g.Only()
		if g.Sees("a") != tt.sees || (g.CheckAgent("a") == nil) != tt.sees || g.All() != tt.all || only != tt.only || ok != (only != "") {
			t.Errorf("%v: sees %t, all %t, only %q", tt.agents, g.Sees("a"), g.All(), only)
		}
		if err := g.Check(Need{Right: Operate, Whole: true}, "x"); (err != nil) != tt.mayNotWhole {
			t.Errorf("%v: what concerns all: %v", tt.agents, err)
		}
		if err := g.Check(Need{Right: Operate}, "x"); err != nil {
			t.Errorf("%v: %v", tt.agents, err)
		}
	}
	some := &Grant{Role: Admin, Hosts: []string{"sandbox"}}
	for n, want := range map[Need]bool{
		{Right: Run, Host: corral.HostSandbox}: true,
		{Right: Run, Host: corral.HostGateway}: false,
		{Right: Run}:                           true,
		{Right: Keys}:                          false,
		{Right: Configure}:                     false,
		{Right: Operate}:                       true,
	} {
		if err := some.Check(n, "x"); (err == nil) != want || err != nil && !errors.Is(err, corral.ErrDenied) {
			t.Errorf("%+v: %v", n, err)
		}
		if err := (&Grant{Role: Admin}).Check(n, "x"); err != nil {
			t.Errorf("%+v, all hosts: %v", n, err)
		}
		if err := Nothing.Check(n, "x"); err == nil {
			t.Errorf("%+v: nobody may", n)
		}
	}
	if Nothing.Ended() == nil || Everything.Ended() != nil || Nothing.Sees("a") || (*Store)(nil).Grant("x") != Nothing {
		t.Error("nobody, or the owner")
	}
	if (*Store)(nil).Grant(Token.Ref()) != Token || (*Store)(nil).Grant(Everything.Ref()) != Everything {
		t.Error("the token, or the owner, by its name")
	}
	ctx := WithGrant(t.Context(), some)
	if From(ctx) != some || From(t.Context()) != Everything {
		t.Error("the grant of a context")
	}
	for g, bounded := range map[*Grant]bool{{}: true, Everything: false, Token: false} {
		leave, err := g.Stay(1)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // one that is refused is not counted
			second, err := g.Stay(1)
			if (err != nil) != bounded {
				t.Errorf("%s: %v", g.Name, err)
			} else if err == nil {
				second()
			}
		}
		leave()
		if leave, err = g.Stay(1); err != nil {
			t.Errorf("%s: the place is not free again: %v", g.Name, err)
		} else {
			leave()
		}
		if n := g.stays.Load(); n != 0 {
			t.Errorf("%s: %d stay", g.Name, n)
		}
	}
}
