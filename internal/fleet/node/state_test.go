package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/test/natstest"
)

func newLine(t *testing.T, host string) join.Line {
	t.Helper()
	_, public := natstest.NewKey(t)
	return join.Line{Hosts: []string{host}, Key: public}
}

// opened runs do with the state of a directory, and closes it.
func opened(t *testing.T, dir string, do func(*State)) {
	t.Helper()
	s, err := Open(dir, nil)
	must(t, err)
	do(s)
	must(t, s.Close())
}

func TestKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "node")
	first := ""
	opened(t, dir, func(s *State) { first = s.Key() })
	opened(t, dir, func(s *State) {
		if s.Key() != first || first == "" {
			t.Errorf("%s, and before %s", s.Key(), first)
		}
	})
	for name, mode := range map[string]fs.FileMode{"": 0o700, keyFile: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
	// Removed, it is another machine.
	must(t, os.Remove(filepath.Join(dir, keyFile)))
	opened(t, dir, func(s *State) {
		if s.Key() == first {
			t.Error("it is the same one")
		}
	})
}

// A file that is not as it should is refused, and is left as it is.
func TestSpoiledFiles(t *testing.T) {
	seed := func(create func() (nkeys.KeyPair, error)) string {
		key, err := create()
		must(t, err)
		b, err := key.Seed()
		must(t, err)
		return string(b)
	}
	line := newLine(t, "gw:1").String()
	for name, tc := range map[string]struct {
		file, text string
		mode       fs.FileMode
		kind       error
	}{
		"an empty key":          {keyFile, "", 0o600, corral.ErrDenied},
		"half a key":            {keyFile, seed(nkeys.CreateUser)[:40], 0o600, corral.ErrDenied},
		"a key for something":   {keyFile, seed(nkeys.CreateAccount), 0o600, corral.ErrDenied},
		"a key for all":         {keyFile, seed(nkeys.CreateUser), 0o644, corral.ErrDenied},
		"a large key":           {keyFile, strings.Repeat("x", maxFile+1), 0o600, corral.ErrDenied},
		"an empty gateway":      {gatewayFile, "", 0o600, corral.ErrDenied},
		"half a gateway":        {gatewayFile, `{"version":1,"line":"` + line, 0o600, corral.ErrDenied},
		"a gateway of nowhere":  {gatewayFile, `{"version":1,"line":"corral://"}`, 0o600, corral.ErrDenied},
		"a gateway for all":     {gatewayFile, `{"version":1,"line":"` + line + `"}`, 0o620, corral.ErrDenied},
		"a gateway from beyond": {gatewayFile, `{"version":2,"line":"` + line + `"}`, 0o600, corral.ErrUnavailable},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, tc.file)
		must(t, os.WriteFile(path, []byte(tc.text), tc.mode))
		must(t, os.Chmod(path, tc.mode))
		s, err := Open(dir, nil)
		if !errors.Is(err, tc.kind) || corral.Hint(err) == "" || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		if err != nil && tc.file == keyFile && len(tc.text) > 20 && strings.Contains(err.Error()+corral.Hint(err), tc.text[:20]) {
			t.Errorf("%s: the error has it: %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != tc.text {
			t.Errorf("%s: it is %q now, %v", name, got, err)
		}
	}
	dir := t.TempDir()
	must(t, os.Symlink(dir, filepath.Join(dir, keyFile)))
	if _, err := Open(dir, nil); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("a directory: %v", err)
	}
}

func TestOneProgram(t *testing.T) {
	dir := t.TempDir()
	if r, err := Look(filepath.Join(dir, "none")); err != nil || r != (Report{}) {
		t.Errorf("%+v, %v", r, err)
	}
	opened(t, dir, func(s *State) {
		if r, err := Look(dir); err != nil || !r.Running || r.Ready || r.Key != s.Key() {
			t.Errorf("%+v, %v", r, err)
		}
		if s, err := Open(dir, nil); !errors.Is(err, corral.ErrConflict) || corral.Hint(err) == "" || !strings.HasSuffix(err.Error(), dir) {
			t.Errorf("%v, %v", s, err)
		}
	})
	if r, err := Look(dir); err != nil || r.Running {
		t.Errorf("%+v, %v", r, err)
	}
	opened(t, dir, func(*State) {})
}

func TestUse(t *testing.T) {
	dir := t.TempDir()
	one, other := newLine(t, "one:1"), newLine(t, "other:1")
	moved := one
	moved.Hosts, moved.Cert = []string{"moved:1"}, strings.Repeat("a", 64)
	opened(t, dir, func(s *State) {
		if err := s.Use("", false); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%v", err)
		}
		if err := s.Use("nonsense", false); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%v", err)
		}
		must(t, s.Use(other.String(), false))
		must(t, s.save())
		must(t, s.Use(one.String(), false)) // it is no node of the other
		must(t, s.paired("builder", "Builder"))
	})
	opened(t, dir, func(s *State) {
		must(t, s.Use("", false))
		if s.Line().String() != one.String() || !s.Paired() {
			t.Errorf("%+v", s.to)
		}
		err := s.Use(other.String(), false)
		if !errors.Is(err, corral.ErrConflict) || !strings.Contains(err.Error(), "builder of the gateway at one:1") || !strings.Contains(corral.Hint(err), "--repair") {
			t.Errorf("%v", err)
		}
		must(t, s.Use(moved.String(), false))
		if s.Line().Hosts[0] != "moved:1" || !s.Paired() {
			t.Errorf("%+v", s.to)
		}
		must(t, s.ended())
		must(t, s.Use(other.String(), false))
		must(t, s.Use(moved.String(), false))
		must(t, s.paired("builder", "Builder"))
	})
	opened(t, dir, func(s *State) {
		key := s.Key()
		must(t, s.Use(other.String(), true))
		if s.Paired() || s.Key() != key || s.Line().Hosts[0] != "other:1" {
			t.Errorf("%+v", s.to)
		}
	})
	// Nothing was written yet.
	opened(t, dir, func(s *State) {
		if !s.Paired() || s.Line().Hosts[0] != "moved:1" {
			t.Errorf("%+v", s.to)
		}
	})
	// With a new key it is no node of anybody.
	must(t, os.Remove(filepath.Join(dir, keyFile)))
	opened(t, dir, func(s *State) {
		if s.Paired() || s.Line().Hosts[0] != "moved:1" {
			t.Errorf("%+v", s.to)
		}
		must(t, s.Use(other.String(), false))
	})
}

func FuzzGatewayFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"line":"corral://gw:1/UBPLOYDDEJ36JKKK4D7OJQG3QRQXLNKPZN5DPS2HUBSXX76HLK77ZFK2/system","node":"x","pairedAt":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, line, err := parseGateway(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(g)
		must(t, err)
		if h, l, err := parseGateway(again); err != nil || h.Line != g.Line || h.Node != g.Node || l.String() != line.String() || h.paired() != g.paired() {
			t.Errorf("%+v comes back as %+v, %v", g, h, err)
		}
	})
}
