package boundary

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type vector struct {
	ID, Fn string
	Input  struct {
		Binds, AllowedRoots    []string
		Home                   string `json:"HOME"`
		OpenClawHome           string `json:"OPENCLAW_HOME"`
		Symlink, Network, Kind string
		Value                  string
		BindRoots              []string
		Cfg                    struct {
			Binds   []string
			Network string
		}
	}
	Expect struct {
		Blocked, Allowed bool
		BlockedPath      string `json:"blocked_path"`
		Why              string
		ErrorContains    string   `json:"error_contains"`
		ContainsPairs    []object `json:"contains_pairs"`
	}
}

type object = any

// disagreements are the vectors that have another answer here, and why.
var disagreements = map[string]string{
	"DA-012": "there is no way around the reserved targets: what is at /workspace is what the file tools and the results say it is",
	"DA-013": "there is no way around the refusal of another container's network: the specification refuses host networking, and that container's could be it",
}

func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/sandbox-security.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		seen[v.ID] = true
		t.Run(v.ID, func(t *testing.T) { v.run(t) })
	}
	if err := lines.Err(); err != nil || len(seen) == 0 {
		t.Fatal(err, len(seen))
	}
	for id := range disagreements {
		if !seen[id] {
			t.Errorf("there is no vector %s", id)
		}
	}
}

func (v vector) run(t *testing.T) {
	switch v.Fn {
	case "validate_binds", "docker_create":
		v.binds(t)
	case "network_mode":
		v.same(t, Network(v.Input.Network), !v.Expect.Allowed)
	case "security_profile":
		judge := map[string]func(string) *Refusal{"seccomp": Seccomp, "apparmor": AppArmor}[v.Input.Kind]
		v.same(t, judge(v.Input.Value), !v.Expect.Allowed)
	default:
		t.Fatalf("nothing is known of %s", v.Fn)
	}
}

func (v vector) same(t *testing.T, r *Refusal, refused bool) {
	t.Helper()
	if why, ok := disagreements[v.ID]; ok {
		if (r != nil) == refused {
			t.Errorf("it agrees with the vector now, which is said to be wrong: %s", why)
		}
		return
	}
	if (r != nil) != refused {
		t.Fatalf("refused: %v, want %v", r, refused)
	}
	if r != nil && (r.Why == "" || r.Fix == "" || r.Rule == "") {
		t.Errorf("the refusal does not say it all: %+v", r)
	}
}

func (v vector) binds(t *testing.T) {
	dir := t.TempDir()
	names := strings.NewReplacer("<dir>", dir, "<ws>", dir, "<alias-home symlink>", dir+"/alias-home")
	s := Sources{Homes: []string{v.Input.Home, v.Input.OpenClawHome}}
	for _, root := range append(v.Input.AllowedRoots, v.Input.BindRoots...) {
		s.Roots = append(s.Roots, names.Replace(root))
	}
	if from, to, ok := strings.Cut(v.Input.Symlink, " -> "); ok {
		link(t, to, filepath.Join(dir, from))
	}
	if strings.Contains(strings.Join(v.Input.Binds, " "), "alias-home") {
		if err := os.MkdirAll(dir+"/real-home/.ssh", 0o700); err != nil {
			t.Fatal(err)
		}
		link(t, dir+"/real-home", dir+"/alias-home")
		s.Homes = append(s.Homes, dir+"/alias-home")
	}
	if n := v.Input.Cfg.Network; n != "" {
		v.same(t, Network(n), v.Expect.ErrorContains != "")
		return
	}
	var refusals []Refusal
	for _, text := range append(v.Input.Binds, v.Input.Cfg.Binds...) {
		b, err := ParseBind(names.Replace(text))
		refusals = append(refusals, Refusals(err)...)
		if err == nil {
			refusals = append(refusals, s.CheckAll([]Bind{b})...)
		}
	}
	var first *Refusal
	if len(refusals) > 0 {
		first = &refusals[0]
	}
	v.same(t, first, v.Expect.Blocked || v.Expect.ErrorContains != "")
	if first == nil || disagreements[v.ID] != "" {
		return
	}
	if !strings.Contains(first.Blocked+" "+first.Path, v.Expect.BlockedPath) {
		t.Errorf("blocked by %q, want %q", first.Blocked, v.Expect.BlockedPath)
	}
	for _, text := range []string{v.Expect.ErrorContains, strings.ReplaceAll(v.Expect.Why, "reserved container target", "reserved container path")} {
		if !strings.Contains(first.Error(), text) {
			t.Errorf("%q does not say %q", first.Error(), text)
		}
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}
