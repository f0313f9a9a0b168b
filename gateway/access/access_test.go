package access

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestKeys(t *testing.T) {
	path := filepath.Join(testdir.New(t), "keys.json")
	s := open(t, path)
	made, err := s.Create(api.NewKey{Name: "acme", Role: "agent", Agents: []string{"acme-*"}, Hosts: []string{"sandbox"}, Quota: api.Quota{MaxSessions: 3, Rate: 5}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, random, _ := strings.Cut(strings.TrimPrefix(made.Secret, prefix), "_")
	random, _, _ = strings.Cut(random, ".")
	if len(random) != 52 || strings.Contains(string(data), random) {
		t.Errorf("the file has the secret, or it has %d characters", len(random))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	for life, s := range []*Store{s, open(t, path)} {
		g, err := s.Check(made.Secret)
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		if g.Role != Agent || !g.Sees("acme-1") || g.Sees("other") || g.All() || g.Quota.MaxSessions != 3 || s.Grant(g.Ref()) != g {
			t.Errorf("life %d: %+v", life, g)
		}
		if g.CheckHost(corral.HostSandbox) != nil || !errors.Is(g.CheckHost(corral.HostGateway), corral.ErrDenied) {
			t.Errorf("life %d: hosts", life)
		}
	}
	g, _ := s.Check(made.Secret)
	ctx, cancel := g.Context(t.Context())
	defer cancel()
	if list := s.List(); list[0].LastUsed != nil {
		t.Errorf("it was used at %v", list[0].LastUsed)
	}
	now := time.Now()
	if err := g.Take(now); err != nil {
		t.Fatal(err)
	}
	if list := s.List(); list[0].LastUsed == nil || now.Sub(*list[0].LastUsed) > time.Second {
		t.Errorf("it was used at %v", list[0].LastUsed)
	}
	rotated, err := s.Rotate("acme")
	if err != nil || rotated.Secret == made.Secret || rotated.Name != "acme" || rotated.ID == made.ID {
		t.Fatalf("%+v, %v", rotated, err)
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), api.ErrUnauthorized) {
		t.Errorf("what was open ended by %v", context.Cause(ctx))
	}
	if _, err := s.Check(made.Secret); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("the old secret: %v", err)
	}
	if _, err := s.Check(rotated.Secret); err != nil {
		t.Error(err)
	}
	if err := s.Revoke(rotated.ID); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, path)} {
		if _, err := s.Check(rotated.Secret); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("revoked: %v", err)
		}
		if len(s.List()) != 0 || s.Grant(rotated.ID) != Nothing {
			t.Error("it is still there")
		}
	}
	if err := s.Revoke(rotated.ID); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	s := open(t, filepath.Join(testdir.New(t), "keys.json"))
	made, err := s.Create(api.NewKey{Name: "short", Role: "viewer", TTL: api.Duration(2 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Check(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := g.Context(t.Context())
	defer cancel()
	<-ctx.Done()
	if _, err := s.Check(made.Secret); !errors.Is(err, api.ErrUnauthorized) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("expired: %v", err)
	}
	if s.Grant(g.Ref()) != Nothing {
		t.Error("what names the key, such as a sandbox of E2B's, is used by it although it has expired")
	}
}

// A key ends when it has expired by the clock, also if that was set, or the machine stood
// still meanwhile, so that no timer says so.
func TestExpiryByTheClock(t *testing.T) {
	s := open(t, filepath.Join(testdir.New(t), "keys.json"))
	made, err := s.Create(api.NewKey{Name: "k", Role: "viewer", TTL: api.Duration(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	*s.keys[made.ID].ExpiresAt = time.Now().Add(-time.Minute)
	if _, err := s.Check(made.Secret); !errors.Is(err, api.ErrUnauthorized) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("expired: %v", err)
	}
	if s.Grant(made.ID) != Nothing {
		t.Error("it allows something")
	}
}

func TestWrongSecrets(t *testing.T) {
	s := open(t, filepath.Join(testdir.New(t), "keys.json"))
	made, err := s.Create(api.NewKey{Name: "a", Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	_, other := newSecret()
	swapped := strings.Replace(other, other[len(prefix):len(prefix)+12], made.ID, 1)
	for _, secret := range []string{"", prefix, other, swapped, made.Secret[:len(made.Secret)-1], made.Secret + "0", strings.ToUpper(made.Secret), " " + made.Secret} {
		if _, err := s.Check(secret); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestBadKeys(t *testing.T) {
	s := open(t, filepath.Join(testdir.New(t), "keys.json"))
	for name, n := range map[string]api.NewKey{
		"no name":        {Role: "admin"},
		"a control":      {Name: "a\nb", Role: "admin"},
		"no role":        {Name: "a"},
		"another role":   {Name: "a", Role: "root"},
		"a bad pattern":  {Name: "a", Role: "agent", Agents: []string{"["}},
		"an empty agent": {Name: "a", Role: "agent", Agents: []string{""}},
		"another host":   {Name: "a", Role: "agent", Hosts: []string{"moon"}},
		"sessions":       {Name: "a", Role: "agent", Quota: api.Quota{MaxSessions: -1}},
		"sandboxes":      {Name: "a", Role: "agent", Quota: api.Quota{MaxSandboxes: -1}},
		"memory":         {Name: "a", Role: "agent", Quota: api.Quota{MaxMemory: -1}},
		"processors":     {Name: "a", Role: "agent", Quota: api.Quota{MaxCPUs: math.NaN()}},
		"a rate":         {Name: "a", Role: "agent", Quota: api.Quota{Rate: -1}},
		"a time":         {Name: "a", Role: "agent", TTL: -1},
	} {
		if _, err := s.Create(n); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Create(api.NewKey{Name: "a", Role: "agent"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(api.NewKey{Name: "a", Role: "agent"}); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
}

// A file that is not understood is not read as fewer limits.
func TestUnknownFile(t *testing.T) {
	for name, text := range map[string]string{
		"no keys":          `"keys"`,
		"another version":  `{"version":2,"keys":[]}`,
		"an unknown limit": `{"version":1,"keys":[{"id":"x","name":"a","role":"admin","maxMoney":1}]}`,
		"no role":          `{"version":1,"keys":[{"id":"x","name":"a"}]}`,
	} {
		path := filepath.Join(testdir.New(t), "keys.json")
		sealed, err := journal.Seal(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, sealed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever bit is another, and wherever it is cut: no key becomes one that may more.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(testdir.New(t), "keys.json")
	if _, err := open(t, path).Create(api.NewKey{Name: "acme", Role: "viewer", Agents: []string{"acme-*"}}); err != nil {
		t.Fatal(err)
	}
	same := func(a, b []api.Key) bool { return reflect.DeepEqual(a, b) }
	damagetest.File(t, path, "keys.json", same, func() ([]api.Key, error) {
		s, err := Open(path)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		return s.List(), nil
	})
}

func TestRate(t *testing.T) {
	s := open(t, filepath.Join(testdir.New(t), "keys.json"))
	made, err := s.Create(api.NewKey{Name: "a", Role: "agent", Quota: api.Quota{Rate: 3}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := s.Check(made.Secret)
	now := time.Now()
	for i, want := range []bool{true, true, true, false, false} {
		var many *api.TooMany
		if err := g.Take(now); (err == nil) != want || err != nil && (!errors.As(err, &many) || many.After <= 0) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if err := g.Take(now.Add(time.Second / 3)); err != nil {
		t.Errorf("a third of a second later: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	dir := f.TempDir()
	s, err := Open(filepath.Join(dir, "keys.json"))
	if err != nil {
		f.Fatal(err)
	}
	made, err := s.Create(api.NewKey{Name: "a", Role: "admin"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add(prefix + "x_y.00000000")
	f.Add(made.Secret[:40])
	f.Fuzz(func(t *testing.T, secret string) {
		if _, err := s.Check(secret); (err == nil) != (secret == made.Secret) {
			t.Errorf("%q: %v", secret, err)
		}
	})
}
