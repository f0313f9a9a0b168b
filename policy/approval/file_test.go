package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/errtest"
	"github.com/corral-exec/corral/policy"
)

const sample = `{
  "version": 1,
  "socket": {"path": "/run/x.sock", "token": "hush"},
  "note": "kept",
  "defaults": {"security": "allowlist", "askFallback": "deny", "denylist": ["shutdown"]},
  "agents": {
    "*": {"ask": "on-miss", "denylist": [{"pattern": "rm -rf", "reason": "no"}]},
    "default": {"allowlist": ["/bin/legacy"]},
    "main": {
      "ask": "always",
      "asklist": ["git push"],
      "allowlist": [
        {"id": "a1", "pattern": "/usr/bin/git status", "future": [1, 2.50]},
        {"pattern": "/bin/exact", "args": []},
        {"pattern": "/usr/bin/python3", "args": ["run.py"], "sha256": "` + zeros + `"}
      ]
    }
  }
}
`

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// newFile is a file with this text; "" if there is none.
func newFile(t *testing.T, text string) *File {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	ok(t, err)
	f, err := NewFile(filepath.Join(dir, "exec-approvals.json"), nil)
	ok(t, err)
	if text != "" {
		ok(t, os.WriteFile(f.Path(), []byte(text), 0o600))
	}
	t.Cleanup(func() { ok(t, f.Close()) })
	return f
}

var ok, wantKind = errtest.None, errtest.Kind

// Rules and settings of a file name their place in it.
func TestRules(t *testing.T) {
	f := newFile(t, sample)
	h, err := f.Rules("")
	ok(t, err)
	at := func(line int, key string) policy.Source {
		return policy.Source{File: f.Path(), Line: line, Key: key}
	}
	want := Host{
		Settings: Settings{
			Security:    policy.Setting[policy.Security]{Value: "allowlist", Source: at(5, "defaults.security")},
			Ask:         policy.Setting[policy.Ask]{Value: "always", Source: at(10, "agents.main.ask")},
			AskFallback: policy.Setting[policy.Security]{Value: "deny", Source: at(5, "defaults.askFallback")},
		},
		Rules: []policy.Rule{
			{Action: policy.Deny, Pattern: "shutdown", Source: at(5, "defaults.denylist[0]")},
			{Action: policy.Deny, Pattern: "rm -rf", Reason: "no", Source: at(7, "agents.*.denylist[0]")},
			{Action: policy.Query, Pattern: "git push", Source: at(11, "agents.main.asklist[0]")},
			{Action: policy.Allow, ID: "a1", Pattern: "/usr/bin/git status", Source: at(13, "agents.main.allowlist[0]")},
			{Action: policy.Allow, Pattern: "/bin/exact", Args: []string{}, Source: at(14, "agents.main.allowlist[1]")},
			{Action: policy.Allow, Pattern: "/usr/bin/python3", Args: []string{"run.py"}, SHA256: zeros, Source: at(15, "agents.main.allowlist[2]")},
			{Action: policy.Allow, Pattern: "/bin/legacy", Source: at(8, "agents.default.allowlist[0]")},
		},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other, err := f.Rules("research")
	ok(t, err)
	if other.Ask.Value != policy.AskOnMiss || other.Ask.Source.Key != "agents.*.ask" || len(other.Rules) != 2 {
		t.Errorf("to another agent it says %+v", other)
	}
}

func TestMissingFileSaysNothing(t *testing.T) {
	f := newFile(t, "")
	h, err := f.Rules("main")
	ok(t, err)
	if diff := cmp.Diff(Host{}, h); diff != "" {
		t.Error(diff)
	}
	if e := Effective(Settings{}, h.Settings); e.Security.Value != policy.DefaultSecurity || e.Ask.Value != policy.DefaultAsk || e.AskFallback.Value != policy.DefaultAskFallback {
		t.Errorf("defaults %+v", e)
	}
}

// A file that cannot be understood allows nothing to any agent, and the error names the
// place.
func TestClosed(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":             {" ", ":1:2 (byte 1)"},
		"cut":               {"{\n  \"version\": 1,\n  \"agents\"", ":3:11"},
		"trailing":          {`{"version": 1} x`, "1:16"},
		"no object":         {`[]`, "not an object"},
		"no version":        {`{}`, "no version"},
		"version 2":         {"{\n \"version\": 2}", ":2:13 (byte 14): version: the version is not 1"},
		"version 1.0":       {`{"version": 1.0}`, "version"},
		"version text":      {`{"version": "1"}`, "version"},
		"twice":             {`{"version": 1, "agents": {}, "agents": {}}`, `"agents" is there twice`},
		"no UTF-8":          {"{\"version\": 1, \"x\": \"\xff\"}", "no UTF-8"},
		"deep":              {`{"version": 1, "x": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "deeper"},
		"security":          {`{"version": 1, "defaults": {"security": "none"}}`, `defaults.security: "none" is none of deny, allowlist, full`},
		"security case":     {`{"version": 1, "defaults": {"security": "Full"}}`, `defaults.security`},
		"ask":               {`{"version": 1, "agents": {"main": {"ask": true}}}`, "agents.main.ask: true is none of always, on-miss, off"},
		"agents list":       {`{"version": 1, "agents": []}`, "agents: it is not an object"},
		"agent":             {`{"version": 1, "agents": {"a": 1}}`, "agents.a: it is not an object"},
		"defaults":          {`{"version": 1, "defaults": 1}`, "defaults: it is not an object"},
		"name":              {`{"version": 1, "agent": {}}`, `"agent" is not known; "agents" is`},
		"name of a list":    {`{"version": 1, "defaults": {"deny": ["rm"]}}`, `"denylist" is`},
		"name of an entry":  {`{"version": 1, "agents": {"*": {"allowlist": [{"pattern": "/x", "agrs": []}]}}}`, `"args" is`},
		"control in a name": {`{"version": 1, "agents": {"*": {"den\ty": []}}}`, "invalid character"},
		"escaped control":   {`{"version": 1, "agents": {"*": {"de\tylist": []}}}`, "control"},
		"deny no list":      {`{"version": 1, "defaults": {"denylist": "rm"}}`, "not a list"},
		"deny number":       {`{"version": 1, "defaults": {"denylist": [1]}}`, "defaults.denylist[0]"},
		"deny blank":        {`{"version": 1, "defaults": {"denylist": [" "]}}`, "no pattern"},
		"deny regexp":       {`{"version": 1, "defaults": {"asklist": [{"pattern": "rm", "argPattern": "("}]}}`, "argPattern"},
		"deny args":         {`{"version": 1, "defaults": {"denylist": [{"pattern": "rm", "args": "x"}]}}`, "args"},
		"deny sha256":       {`{"version": 1, "defaults": {"denylist": [{"pattern": "rm", "sha256": "x"}]}}`, "sha256"},
		"deny command":      {`{"version": 1, "defaults": {"denylist": [{"pattern": "rm", "command": "x"}]}}`, "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.text
			if name == "control in a name" {
				text = strings.ReplaceAll(text, `\t`, "\t")
			}
			f := newFile(t, text)
			h, err := f.Rules("main")
			wantKind(t, err, corral.ErrDenied, c.says, f.Path()+":")
			var at *FileError
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 || at.Offset > len(text) || corral.Hint(err) == "" {
				t.Errorf("error %#v", at)
			}
			if s := h.Security.Source; s.String() != err.Error() || s.Fix != corral.Hint(err) {
				t.Errorf("why nothing is allowed: %+v", s)
			}
			if h.Security.Value != policy.SecurityDeny || h.AskFallback.Value != policy.SecurityDeny || len(h.Rules) > 0 {
				t.Errorf("what applies: %+v", h)
			}
			if err := f.Add("", "", policy.Rule{Action: policy.Allow, Pattern: "/x"}); err == nil {
				t.Error("something was added to it")
			}
			ok(t, os.WriteFile(f.Path(), []byte(sample), 0o600)) // mended
			if _, err := f.Rules("main"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Invalid entries of an allowlist allow nothing, but the rest of the file still counts.
func TestWarnings(t *testing.T) {
	for entry, says := range map[string]string{
		`1`:                                 "neither a pattern",
		`{}`:                                "no pattern",
		`"  "`:                              "no pattern",
		`{"pattern": 1}`:                    "pattern is no text",
		`{"pattern": "/x", "args": [1]}`:    "args",
		`{"pattern": "/x", "sha256": 1}`:    "sha256",
		`{"pattern": "/x", "sha256": "AA"}`: "sha256",
		`{"pattern": "/x", "argPattern": "(?=a)"}`:          "argPattern",
		`{"pattern": "/x", "argPattern": ""}`:               "argPattern",
		`{"pattern": "/x", "argPattern": "sha256:argv:00"}`: "digest",
		`{"pattern": "=command:613b5a60181648fd"}`:          "16 digits",
		`{"pattern": "=command:` + zeros + `x"}`:            "64",
		`{"command": ""}`:                                   "command",
	} {
		h, err := newFile(t, `{"version": 1, "agents": {"main": {"allowlist": [`+entry+`]}}}`).Rules("")
		ok(t, err)
		if len(h.Rules) > 0 || len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], says) || !strings.Contains(h.Warnings[0], ":1 agents.main.allowlist[0]") {
			t.Errorf("%s: rules %v, warnings %v", entry, h.Rules, h.Warnings)
		}
	}
	h, err := newFile(t, `{"version": 1, "defaults": {"allowlist": ["/x"]}, "agents": {"main": {"allowlist": ["ls", "*"]}}}`).Rules("")
	ok(t, err)
	if len(h.Rules) != 2 || len(h.Warnings) != 2 {
		t.Errorf("rules %v, warnings %v", h.Rules, h.Warnings)
	}
	h, err = newFile(t, `{"version": 1, "agents": {"main ": {"denylist": ["rm"]}}}`).Rules("")
	if err != nil || len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], `no agent can be called "main "`) {
		t.Errorf("warnings %v, %v", h.Warnings, err)
	}
}

func TestFileOfOthers(t *testing.T) {
	closed := func(f *File, says string) {
		t.Helper()
		h, err := f.Rules("")
		wantKind(t, err, corral.ErrDenied, says)
		if h.Security.Value != policy.SecurityDeny {
			t.Errorf("%s: %+v", says, h)
		}
	}
	f := newFile(t, sample)
	ok(t, os.Chmod(f.Path(), 0o620))
	closed(f, "can be written by others")
	ok(t, os.Chmod(f.Path(), 0o640))
	if _, err := f.Rules(""); err != nil {
		t.Error(err)
	}
	ok(t, os.Chmod(filepath.Dir(f.Path()), 0o777))
	ok(t, os.WriteFile(f.Path(), []byte(sample), 0o600))
	closed(f, "can be written by others")
	ok(t, os.Chmod(filepath.Dir(f.Path()), 0o700))

	ok(t, os.Rename(f.Path(), f.Path()+".real"))
	ok(t, os.Symlink(f.Path()+".real", f.Path()))
	closed(f, "symlink")
	wantKind(t, f.Add("", "", policy.Rule{Action: policy.Allow, Pattern: "/x"}), corral.ErrDenied, "via symlink")
	wantKind(t, f.Set([]byte(sample), ""), corral.ErrDenied, "via symlink")

	ok(t, os.Remove(f.Path()))
	ok(t, os.Mkdir(f.Path(), 0o700))
	closed(f, "not a regular file")

	real := newFile(t, "")
	link := filepath.Join(filepath.Dir(real.Path()), "link")
	ok(t, os.Symlink(t.TempDir(), link))
	through, err := NewFile(filepath.Join(link, "exec-approvals.json"), nil)
	ok(t, err)
	wantKind(t, through.Add("", "", policy.Rule{Action: policy.Allow, Pattern: "/x"}), corral.ErrDenied, "traverse symlink")
}

// A file that was cut anywhere allows nothing. With any byte flipped it allows nothing, or
// just one text in it differs: no setting is laxer, no rule is lost, and no rule is wider.
func TestDamage(t *testing.T) {
	text := []byte(sample)
	d, err := read("f", text)
	ok(t, err)
	agents := []string{"main", "other"}
	for n := range len(bytes.TrimSpace(text)) {
		if _, err := read("f", text[:n]); err == nil {
			t.Fatalf("cut to %d bytes it can be read", n)
		}
	}
	flipped := 0
	for i := range text {
		for bit := range 8 {
			damaged := bytes.Clone(text)
			damaged[i] ^= 1 << bit
			got, err := read("f", damaged)
			if err != nil {
				continue
			}
			flipped++
			if agentName(text, i) {
				continue // the name of an agent was changed, as a person might have done
			}
			for _, agent := range agents {
				was, is := d.host(agent), got.host(agent)
				if e, g := Effective(Settings{}, was.Settings), Effective(Settings{}, is.Settings); e.Security.Value != g.Security.Value || e.Ask.Value != g.Ask.Value || e.AskFallback.Value != g.AskFallback.Value {
					t.Errorf("bit %d of byte %d (%q): settings %+v", bit, i, text[i], g)
				}
				if what := laxer(was.Rules, is.Rules); what != "" {
					t.Errorf("bit %d of byte %d (%q), agent %s: %s", bit, i, text[i], agent, what)
				}
			}
		}
	}
	if flipped == 0 {
		t.Error("no flip was looked at")
	}
}

// agentName reports whether a byte is in the name of an agent.
func agentName(text []byte, i int) bool {
	for _, name := range []string{`"*"`, `"default"`, `"main"`} {
		if at := bytes.Index(text, []byte(name)); i >= at && i < at+len(name) {
			return true
		}
	}
	return false
}

// laxer says how rules became laxer; empty if they did not.
func laxer(was, is []policy.Rule) string {
	index := map[string]policy.Rule{}
	for _, r := range is {
		index[r.Source.Key] = r
	}
	different := 0
	for _, w := range was {
		g, there := index[w.Source.Key]
		if !there {
			if w.Action != policy.Allow {
				return "lost " + w.Source.Key
			}
			continue
		}
		if g.Action != w.Action || (g.Args == nil) != (w.Args == nil) || len(g.Args) != len(w.Args) || (g.SHA256 == "") != (w.SHA256 == "") || (g.Pattern == "") != (w.Pattern == "") {
			return fmt.Sprintf("%+v is now %+v", w, g)
		}
		if fingerprint(g) != fingerprint(w) {
			different++
		}
	}
	if different > 1 || len(is) > len(was) {
		return fmt.Sprintf("%d rules are other ones", different)
	}
	return ""
}

// Writing the file again keeps everything that was in it.
func TestAddKeepsTheRest(t *testing.T) {
	f := newFile(t, sample)
	secret := `curl -H "Authorization: hunter2" x > y`
	ok(t, f.Add("main", ScopeExact, policy.Rule{Action: policy.Allow, Pattern: "/bin/ls", Args: []string{}}, policy.Rule{Action: policy.Allow, Command: secret}))
	ok(t, f.Add("main", "", policy.Rule{Action: policy.Allow, Pattern: "/bin/ls", Args: []string{}}, policy.Rule{Action: policy.Allow, Command: secret}))
	ok(t, f.Add("*", "", policy.Rule{Action: policy.Deny, Pattern: "mkfs", Reason: "never"}))
	raw, err := os.ReadFile(f.Path())
	ok(t, err)
	for _, part := range []string{`"note": "kept"`, `"token": "hush"`, "2.50", `"source": "allow-always"`, `"scope": "exact"`, `"createdAt": `} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("no %s in %s", part, raw)
		}
	}
	if strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), `"default"`) || raw[len(raw)-1] != '\n' {
		t.Errorf("written: %s", raw)
	}
	h, err := f.Rules("main")
	ok(t, err)
	if len(h.Rules) != 10 {
		t.Errorf("%d rules: %+v", len(h.Rules), h.Rules)
	}
	allowed := 0
	for _, r := range h.Rules {
		if r.IsCommand(secret) {
			allowed++
		}
	}
	if allowed != 1 {
		t.Errorf("%d rules for the command", allowed)
	}
	info, err := os.Stat(f.Path())
	ok(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}

	n, err := f.Remove("main", policy.Allow, "/bin/ls")
	if err != nil || n != 1 {
		t.Errorf("removed %d, %v", n, err)
	}
	n, err = f.Remove("", policy.Allow, "a1")
	if err != nil || n != 1 {
		t.Errorf("removed %d by its ID, %v", n, err)
	}
	n, err = f.Remove("nobody", policy.Allow, "a1")
	if err != nil || n != 0 {
		t.Errorf("removed %d, %v", n, err)
	}
	for _, bad := range []policy.Rule{
		{Action: policy.Allow}, {Action: policy.Allow, Pattern: "ls"}, {Action: "x", Pattern: "/x"},
		{Action: policy.Allow, Pattern: "/x", ArgPattern: "("}, {Action: policy.Allow, Command: "x", Pattern: "/x"},
	} {
		wantKind(t, f.Add("main", "", bad), corral.ErrInvalid)
	}
	wantKind(t, f.Add("no agent", "", policy.Rule{Action: policy.Allow, Pattern: "/x"}), corral.ErrInvalid, "agent")
}

func TestGetAndSet(t *testing.T) {
	f := newFile(t, "")
	text, was, err := f.Get()
	if err != nil || text != nil || was != "" {
		t.Fatalf("%q, %q, %v", text, was, err)
	}
	ok(t, f.Set([]byte(sample), ""))
	wantKind(t, f.Set([]byte(sample), ""), corral.ErrConflict, "changed since")
	text, was, err = f.Get()
	ok(t, err)
	if now, err := f.Digest(); err != nil || now != was || strings.Contains(string(text), "hush") {
		t.Errorf("%s, %v; %s", now, err, text)
	}
	wantKind(t, f.Set([]byte("{"), was), corral.ErrInvalid, "the document:1:2")
	ok(t, f.Set(text, was))
	raw, err := os.ReadFile(f.Path())
	ok(t, err)
	if !strings.Contains(string(raw), "hush") {
		t.Error("the socket was lost")
	}
	wantKind(t, f.Set(text, was), corral.ErrConflict)
	// A broken file can be replaced.
	ok(t, os.WriteFile(f.Path(), []byte("{"), 0o600))
	_, _, err = f.Get()
	wantKind(t, err, corral.ErrDenied)
	was, err = f.Digest()
	ok(t, err)
	ok(t, f.Set([]byte(`{"version": 1}`), was))
}

// Several Files with the same path do not lose each other's rules.
func TestAddTogether(t *testing.T) {
	f := newFile(t, "")
	var wg sync.WaitGroup
	for i := range 8 {
		other, err := NewFile(f.Path(), nil)
		ok(t, err)
		wg.Go(func() {
			for n := range 10 {
				if err := other.Add("", "", policy.Rule{Action: policy.Allow, Pattern: fmt.Sprintf("/bin/%d-%d", i, n)}); err != nil {
					t.Error(err)
				}
				if _, err := other.Rules(""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h, err := f.Rules("")
	ok(t, err)
	if len(h.Rules) != 80 {
		t.Errorf("%d rules of 80", len(h.Rules))
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(f.Path()), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// A change counts at once, even within one tick of the clock and with the same size and
// name.
func TestChangeCountsAtOnce(t *testing.T) {
	f := newFile(t, "")
	for i := range 200 {
		want := []policy.Security{"deny", "full"}[i%2]
		text := fmt.Sprintf(`{"version": 1, "defaults": {"security": "%s"}}`, want)
		file, err := os.OpenFile(f.Path(), os.O_CREATE|os.O_WRONLY, 0o600)
		ok(t, err)
		_, err = file.WriteString(text)
		ok(t, err)
		ok(t, file.Close())
		h, err := f.Rules("")
		ok(t, err)
		if h.Security.Value != want {
			t.Fatalf("change %d: %s, want %s", i, h.Security.Value, want)
		}
		if f.sure {
			t.Fatal("it is thought that a change would show at once")
		}
	}
	at := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		modified, changed, read time.Duration // after at
		want                    bool
	}{
		{0, 0, 0, false}, {0, 0, time.Second, false}, {0, 0, 2 * time.Second, true}, {0, 0, -2 * time.Second, false},
		{0, 2 * time.Second, 2 * time.Second, false}, {2 * time.Second, 0, 2 * time.Second, false},
	} {
		id := fileID{Identity: Identity{Changed: at.Add(c.changed).UnixNano()}, time: at.Add(c.modified)}
		if got := id.settled(at.Add(c.read)); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// Close returns when the last uses are written, even if another goroutine has begun to
// write them.
func TestCloseWhileFlushing(t *testing.T) {
	f := newFile(t, `{"version": 1, "agents": {"main": {"allowlist": ["/usr/bin/rg"]}}}`)
	h, err := f.Rules("main")
	ok(t, err)
	f.Used("rg x", policy.Decision{Segments: []policy.Segment{{Rule: &h.Rules[0], Path: "/usr/bin/rg"}}})
	other, err := NewFile(f.Path(), nil)
	ok(t, err)
	flushed, closed := make(chan error, 1), make(chan error, 1)
	ok(t, other.locked(func(string) error {
		go func() { flushed <- f.Flush() }()
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			f.mu.Lock()
			begun = len(f.uses) == 0
			f.mu.Unlock()
		}
		go func() { closed <- f.Close() }()
		select {
		case err := <-closed:
			t.Errorf("closed before the uses are written: %v", err)
			closed <- err
		case <-time.After(50 * time.Millisecond):
		}
		return nil
	}))
	ok(t, <-closed)
	raw, err := os.ReadFile(f.Path())
	ok(t, err)
	if !strings.Contains(string(raw), "lastUsedAt") {
		t.Errorf("written: %s", raw)
	}
	ok(t, <-flushed)
}

func TestUsed(t *testing.T) {
	f := newFile(t, `{"version": 1, "agents": {"main": {"allowlist": ["/usr/bin/rg", "/usr/bin/ls"]}, "*": {"allowlist": ["/usr/bin/rg"]}}}`)
	h, err := f.Rules("")
	ok(t, err)
	before, err := f.Digest()
	ok(t, err)
	rg := h.Rules[1]
	f.Used("rg old", policy.Decision{Segments: []policy.Segment{{Rule: &rg, Path: "/usr/bin/rg"}}})
	f.Used("rg "+strings.Repeat("x", 10_000), policy.Decision{Segments: []policy.Segment{{Rule: &rg, Path: "/opt/rg"}, {}}})
	f.Used("x", policy.Decision{Rule: &policy.Rule{Action: policy.Allow, Pattern: "/usr/bin/ls"}}) // not a rule of this file
	if now, err := f.Digest(); err != nil || now != before {
		t.Errorf("it was written at once, %v", err)
	}
	ok(t, f.Flush())
	raw, err := os.ReadFile(f.Path())
	ok(t, err)
	var doc struct {
		Agents map[string]struct{ Allowlist []json.RawMessage }
	}
	ok(t, json.Unmarshal(raw, &doc))
	var entry struct {
		ID, Pattern, LastUsedCommand, LastResolvedPath string
		LastUsedAt                                     int64
	}
	ok(t, json.Unmarshal(doc.Agents["main"].Allowlist[0], &entry))
	if entry.ID == "" || entry.Pattern != "/usr/bin/rg" || entry.LastUsedAt == 0 || entry.LastResolvedPath != "/opt/rg" || len(entry.LastUsedCommand) > 4*maxLastCommand || !strings.HasPrefix(entry.LastUsedCommand, "rg xxx") {
		t.Errorf("%+v", entry)
	}
	for _, e := range []json.RawMessage{doc.Agents["main"].Allowlist[1], doc.Agents["*"].Allowlist[0]} {
		if e[0] != '"' {
			t.Errorf("%s was not used", e)
		}
	}
	// If an entry has only the digest of a command, its last use has no text either.
	ok(t, f.Add("", ScopeExact, policy.Rule{Action: policy.Allow, Command: "echo hunter2 > x"}))
	h, err = f.Rules("")
	ok(t, err)
	exact := h.Rules[len(h.Rules)-1]
	f.Used("echo hunter2 > x", policy.Decision{Segments: []policy.Segment{{Rule: &exact, Path: "/bin/echo"}}})
	ok(t, f.Flush())
	raw, err = os.ReadFile(f.Path())
	ok(t, err)
	if strings.Contains(string(raw), "hunter2") || strings.Count(string(raw), "lastUsedAt") != 2 {
		t.Errorf("written: %s", raw)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"version": 1}`))
	f.Add([]byte(`{"version": 1, "agents": {"default": {"allowlist": ["/x", {}, 1]}, "main": null}}`))
	f.Add([]byte(`{"version":1,"defaults":{"security":"full","ask":null,"denylist":[{"pattern":"a","args":["b",""]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := read("f", text)
		if err != nil {
			var at *FileError
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 || at.Offset < 0 || at.Offset > len(text) {
				t.Fatalf("error %#v", err)
			}
			return
		}
		// Written again it has the same meaning.
		again, err := read("f", d.root.encode())
		ok(t, err)
		for _, agent := range []string{"main", "*", "other"} {
			a, b := d.host(agent), again.host(agent)
			if a.Security.Value != b.Security.Value || a.Ask.Value != b.Ask.Value || a.AskFallback.Value != b.AskFallback.Value || len(a.Rules) != len(b.Rules) {
				t.Fatalf("%+v\nis after it was written\n%+v", a, b)
			}
			for i := range a.Rules {
				if fingerprint(a.Rules[i]) != fingerprint(b.Rules[i]) || a.Rules[i].Action != b.Rules[i].Action {
					t.Fatalf("%+v\nis after it was written\n%+v", a.Rules[i], b.Rules[i])
				}
			}
		}
	})
}
