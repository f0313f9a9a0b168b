package guard

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/policy"
)

// A file of overrides that is cut or damaged anywhere gives an agent no more rights. It is
// reported and kept aside, and the gateway still starts.
func TestOverridesDamaged(t *testing.T) {
	set := map[string]config.Overrides{
		"main": {Host: corral.HostGateway, Ask: policy.AskAlways}, "other": {Security: policy.SecurityDeny, Node: "mac"},
	}
	path := filepath.Join(t.TempDir(), "overrides.json")
	o, err := OpenOverrides(path)
	if err != nil {
		t.Fatal(err)
	}
	for agent, v := range set {
		if err := o.Set(agent, v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func(b []byte) {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, "overrides.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it has been mended
			o, err := OpenOverrides(path)
			if err != nil {
				t.Fatal(err)
			}
			whole := o.Get("main") == set["main"] && o.Get("other") == set["other"]
			for _, agent := range []string{"main", "other", "new"} {
				if got := o.Get(agent); !whole && got != (config.Overrides{Ask: policy.AskAlways}) {
					t.Fatalf("%q: %s has %+v", b, agent, got)
				}
			}
			told := o.Mend()
			aside, err := filepath.Glob(path + ".damaged-*")
			if err != nil || len(aside) > 1 || whole != (len(aside) == 0) || len(aside) > 0 && told != nil && !strings.Contains(told.Error(), aside[0]) {
				t.Fatalf("%q: %v is kept aside: %v, %v", b, aside, told, err)
			}
			if len(aside) == 1 {
				if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.HasPrefix(kept, b) {
					t.Fatalf("%q is kept of %q, %v", kept, b, err)
				}
			}
		}
		o, err := OpenOverrides(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Set("main", config.Overrides{}); err != nil {
			t.Fatal(err)
		}
		if o, err = OpenOverrides(path); err != nil || o.Get("main") != (config.Overrides{}) {
			t.Fatalf("set anew: %+v, %v", o.Get("main"), err)
		}
	}
	for n := range text {
		look(text[:n])
		flipped := bytes.Clone(text)
		flipped[n] ^= 1 << (n % 8)
		if n < len(text)-1 { // without its last newline the file is still whole
			look(flipped)
		}
	}
	look(bytes.Repeat([]byte{0xff, 0}, 100))
}

// The file of an earlier version has no checksum.
func TestOverridesUnsigned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	if err := os.WriteFile(path, []byte("{\n  \"main\": {\"host\": \"gateway\", \"ask\": \"off\"}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOverrides(path)
	if want := (config.Overrides{Host: corral.HostGateway, Ask: policy.AskOff}); err != nil || o.Get("main") != want || o.Mend() != nil {
		t.Errorf("%+v, %v", o.Get("main"), err)
	}
}
