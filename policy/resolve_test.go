package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Programs are found as a shell finds them. A file that cannot be looked at is no
// program.
func TestResolve(t *testing.T) {
	view := files{
		"/a/x": "", "/b/x": "", "/b/y": "-> ../a/x", "/a/dangling": "-> gone", "/a/loop": "-> loop", "/a/loop1": "-> loop2", "/a/loop2": "-> loop1",
		"/a/dir": "dir", "/a/data": "data", "/b/data": "", "/a/secret": "denied", "/b/dir": "", "/srv/x": "", "/srv/sub/x": "", "/home/a/t": "", "/a/link": "-> /b/link2", "/b/link2": "-> ../a/x",
		"/a/été": "", "/a/sp ace": "",
	}
	for _, c := range []struct {
		path, text string
		want, real string // empty: why has it
		why        string
	}{
		{"/a:/b", "x", "/a/x", "/a/x", ""},
		{"/b:/a", "x", "/b/x", "/b/x", ""},
		{"/a:/b", "y", "/b/y", "/a/x", ""},
		{"/a:/b", "link", "/a/link", "/a/x", ""},
		{"/b", "/a/x", "/a/x", "/a/x", ""},
		{"/a/../b", "x", "/b/x", "/b/x", ""},
		{"/a", "gone", "", "", "command not found on PATH"},
		{"/a", "dangling", "", "", "command not found on PATH"},
		{"/a", "loop", "", "", "cannot be looked at"},
		{"/a", "loop1", "", "", "cannot be looked at"},
		{"/a:/b", "dir", "/b/dir", "/b/dir", ""}, // a shell skips a directory of that name
		{"/a", "dir", "", "", "/a/dir is no program"},
		{"/a:/b", "data", "/b/data", "/b/data", ""},
		{"/a", "data", "", "", "/a/data cannot be executed"},
		{"/a", "./x", "/srv/x", "/srv/x", ""},
		{"/a", "sub/x", "/srv/sub/x", "/srv/sub/x", ""},
		{"/a", "../a/x", "/a/x", "/a/x", ""},
		{"/a", "secret", "", "", "cannot be looked at"},
		{"", "x", "/srv/x", "/srv/x", ""}, // an empty entry is the working directory
		{"/b:", "y", "/b/y", "/a/x", ""},
		{":/a", "x", "/srv/x", "/srv/x", ""},
		{"sub:/a", "x", "/srv/sub/x", "/srv/sub/x", ""},
		{".", "x", "/srv/x", "/srv/x", ""},
		{"/a", "~/t", "/home/a/t", "/home/a/t", ""},
		{"/a", "''", "", "", "the program has no name"},
		{"/a", "$X", "", "", "can only be told by running it"},
		{"/a", "x$X", "", "", "can only be told by running it"},
		{"/a", "~b/t", "", "", "can only be told by running it"},
		{"/a", "[x]", "", "", "can only be told by running it"},
		{"/a", "été", "/a/été", "/a/été", ""},
		{"/a", "'sp ace'", "/a/sp ace", "/a/sp ace", ""},
		{"/a", "/a", "", "", "there is no such file"},
		{"/gone:/a", "x", "/a/x", "/a/x", ""},
	} {
		d := Decide(Request{Command: c.text, Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: c.path, Home: "/home/a"}, rulesOf(SecurityAllowlist, AskOnMiss), view)
		if len(d.Segments) != 1 {
			t.Errorf("%q: %d segments", c.text, len(d.Segments))
			continue
		}
		s := d.Segments[0]
		if s.Path != c.want || s.RealPath != c.real || c.why != "" && !strings.Contains(d.Reason, c.why) {
			t.Errorf("%q with PATH=%q: %q (%q), want %q (%q): %s", c.text, c.path, s.Path, s.RealPath, c.want, c.real, d.Reason)
		}
	}
}

// Behind cd the working directory is not known. So a relative path is not found; nor is
// a name, if PATH has a relative entry.
func TestMovedNames(t *testing.T) {
	view := files{"/bin/x": "", "/srv/y": "", "/srv/x": "", "/bin/cd": "", "/bin/bash": "", "/srv/run.sh": "x"}
	for _, c := range []struct {
		path, text string
		known      bool // whether the last program is found
	}{
		{"/bin", "cd sub; x", true},
		{"/bin", "cd sub; ./y", false},
		{"/bin", "./y; cd sub", true},
		{"/bin", "cd sub; /bin/x", true},
		{"/bin:", "cd sub; x", false},
		{".:/bin", "cd sub && x", false},
		{"/bin", "pushd sub; ./y", false},
		{"/bin", "(cd sub); ./y", false}, // pessimistic
		{"/bin", "$X; ./y", false},
		{"/bin", "cd sub; bash -c ./y", false},
		{"/bin", "bash -c 'cd sub; ./y'", false},
	} {
		rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("*"))
		rules.Chaining.Value = true
		d := Decide(Request{Command: c.text, Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: c.path}, rules, view)
		var last Segment
		for _, s := range d.Segments {
			if s.Argv[0] != "cd" && s.Argv[0] != "bash" {
				last = s
			}
		}
		if (last.Path != "") != c.known || d.Outcome == Allowed && !c.known {
			t.Errorf("%q with PATH=%q: %q, %s: %s", c.text, c.path, last.Path, d.Outcome, d.Reason)
		}
	}
	// The script of an interpreter too.
	d := Decide(Request{Command: "cd sub; bash run.sh", Shell: []string{"/bin/bash"}, Dir: "/srv", Path: "/bin"}, rulesOf(SecurityAllowlist, AskOnMiss), view)
	if s := d.Segments[len(d.Segments)-1]; s.Script != "" || s.SHA256 != "" {
		t.Errorf("the script behind cd is %q", s.Script)
	}
}

// A rule can have the digest of a script's file. It does not allow the script after the
// file has changed.
func TestScripts(t *testing.T) {
	sum := sha256.Sum256([]byte("echo run\n"))
	digest := hex.EncodeToString(sum[:])
	for _, c := range []struct {
		text string
		rule Rule
		want Outcome
	}{
		{"bash run.sh", allow("/srv/run.sh"), Allowed},
		{"bash ./run.sh a", allow("/srv/run.sh a"), Allowed},
		{"bash ./run.sh b", allow("/srv/run.sh a"), Asked},
		{"bash -x run.sh", allow("/srv/run.sh"), Asked}, // the rule does not cover options of the shell
		{"bash run.sh", allow("/bin/bash"), Asked},
		{"bash run.sh", allow("/bin/bash run.sh"), Asked},
		{"bash run.sh", Rule{Action: Allow, Pattern: "/bin/bash", Args: []string{"run.sh"}, SHA256: digest}, Allowed},
		{"bash run.sh", Rule{Action: Allow, Pattern: "/bin/bash", Args: []string{"run.sh"}, SHA256: strings.ToUpper(digest)}, Allowed},
		{"bash run.sh", Rule{Action: Allow, Pattern: "/bin/bash", Args: []string{"run.sh"}, SHA256: digest[1:] + "0"}, Asked},
		{"bash run.sh", Rule{Action: Allow, Pattern: "/srv/run.sh", SHA256: digest}, Allowed},
		{"python3 run.sh", Rule{Action: Allow, Pattern: "/usr/bin/python3", SHA256: digest}, Allowed},
		{"python3 gone.py", Rule{Action: Allow, Pattern: "/usr/bin/python3", SHA256: digest}, Asked},
		{"bash gone.sh", allow("/srv/gone.sh"), Asked},
		{"bash /srv", allow("/srv"), Asked},
		{"ls", Rule{Action: Allow, Pattern: "/bin/ls", SHA256: digest}, Asked},
	} {
		if d := Decide(requestOf(c.text), rulesOf(SecurityAllowlist, AskOnMiss, c.rule), someFiles); d.Outcome != c.want {
			t.Errorf("%q with %+v: %s: %s", c.text, c.rule, d.Outcome, d.Reason)
		}
	}
	d := Decide(requestOf("bash run.sh"), rulesOf(SecurityAllowlist, AskOnMiss), someFiles)
	if s := d.Segments[0]; s.Script != "/srv/run.sh" || s.SHA256 != digest {
		t.Errorf("script %q, digest %q", s.Script, s.SHA256)
	}
}

// big is a script that is too long for a digest.
type big struct{ files }

func (b big) Open(name string) (fs.File, error) { return endless{}, nil }

type endless struct{}

func (endless) Stat() (fs.FileInfo, error) { return fileInfo{name: "x"}, nil }
func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }
func (endless) Close() error               { return nil }

func TestLongScript(t *testing.T) {
	d := Decide(requestOf("bash run.sh"), rulesOf(SecurityAllowlist, AskOnMiss, allow("/srv/run.sh")), big{someFiles})
	if d.Outcome != Asked || d.Segments[0].SHA256 != "" || !strings.Contains(d.Segments[0].Unbound, "longer than 16 MiB") {
		t.Errorf("%s: %s: %+v", d.Outcome, d.Reason, d.Segments[0])
	}
}

// Decisions are the same on the machine's file system and on a view of a test.
func TestOSView(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"real/x": 0o755, "real/data": 0o644} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"real/link": "x", "link": "real", "real/dangling": "gone", "real/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ path, name, want, real string }{
		{"real", "x", "real/x", "real/x"},
		{"real", "link", "real/link", "real/x"},
		{"link", "x", "link/x", "real/x"}, // a link in the middle
		{"link", "link", "link/link", "real/x"},
		{"real", "data", "", ""}, {"real", "dangling", "", ""}, {"real", "loop", "", ""}, {"gone:real", "x", "real/x", "real/x"},
	} {
		var path []string
		for p := range strings.SplitSeq(c.path, ":") {
			path = append(path, filepath.Join(dir, p))
		}
		in := func(p string) string {
			if p == "" {
				return ""
			}
			return filepath.Join(dir, p)
		}
		d := Decide(Request{Command: c.name, Dir: dir, Path: strings.Join(path, ":")}, rulesOf(SecurityFull, AskOff), OS{})
		if s := d.Segments[0]; s.Path != in(c.want) || s.RealPath != in(c.real) {
			t.Errorf("%s on %s: %q (%q)", c.name, c.path, s.Path, s.RealPath)
		}
	}
}

// A program is looked at once, however often it runs.
func TestLooksOnce(t *testing.T) {
	view := &counting{files: someFiles}
	Decide(requestOf("ls | ls | ls | ls"), rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls")), view)
	if n := len(slices.Compact(slices.Sorted(slices.Values(view.stats)))); n != len(view.stats) {
		t.Errorf("looked at %q", view.stats)
	}
}

type counting struct {
	files
	stats []string
}

func (c *counting) Stat(name string) (fs.FileInfo, error) {
	c.stats = append(c.stats, name)
	return c.files.Stat(name)
}

// A rule on a script allows a shell of the system to read it. A file that is only called
// like a shell is another program, which may do anything.
func TestShellOfScript(t *testing.T) {
	view := files{"/bin/sh": "", "/usr/bin/bash": "", "/srv/bash": "", "/srv/run.sh": "ls\n", "/opt/sh/bash": ""}
	for text, want := range map[string]Outcome{
		"sh run.sh": Allowed, "/usr/bin/bash run.sh a": Allowed, "run.sh": Asked, "./run.sh": Allowed,
		"./bash run.sh": Asked, "/srv/bash run.sh a": Asked, "/opt/sh/bash run.sh": Asked, "./bash run.sh | sh run.sh": Asked,
	} {
		d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss, allow("/srv/run.sh")), view)
		if d.Outcome != want {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
	}
}

// An interpreter is known by another name, too: its script is found.
func TestScriptOfLink(t *testing.T) {
	view := files{"/usr/bin/js": "-> node", "/usr/bin/node": "", "/srv/run.js": "x", "/usr/bin/mysh": "-> /bin/bash", "/bin/bash": ""}
	for _, text := range []string{"js run.js", "js run.js a", "node run.js", "mysh run.js", "nice js run.js"} {
		d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss), view)
		if s := d.Segments[len(d.Segments)-1]; s.Script != "/srv/run.js" || len(s.SHA256) != 64 {
			t.Errorf("%q: script %q, digest %q", text, s.Script, s.SHA256)
		}
	}
	for text, unbound := range map[string]bool{"js": true, "js -r x run.js": true, "js --version": false, "js run.js": false} {
		if d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss), view); (d.Segments[0].Unbound != "") != unbound {
			t.Errorf("%q: %q", text, d.Segments[0].Unbound)
		}
	}
}

// A script is not known behind a wrapper that changes the directory.
func TestScriptElsewhere(t *testing.T) {
	view := files{"/bin/bash": "", "/bin/sh": "", "/usr/bin/env": "", "/usr/bin/find": "", "/srv/run.sh": "ls\n", "/bin/ls": "", "/srv/tool": ""}
	for text, want := range map[string]Outcome{
		"env /bin/sh run.sh": Allowed, "find . -exec /bin/sh run.sh \\;": Allowed, "env -C /tmp /bin/sh /srv/run.sh": Allowed, "env -C /tmp /bin/ls": Allowed, "find . -execdir ls \\;": Allowed,
		"env -C /tmp /bin/sh run.sh": Asked, "env --chdir=/tmp /bin/sh run.sh": Asked, "find /tmp -execdir /bin/sh run.sh \\;": Asked, "find /tmp -execdir ./tool \\;": Asked,
		"env -C /tmp /bin/sh -c 'sh run.sh'": Asked, "find /tmp -okdir sh run.sh \\;": Asked,
	} {
		d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss, allow("/srv/run.sh"), allow("/usr/bin/env"), allow("/usr/bin/find"), allow("/bin/ls"), allow("/srv/tool")), view)
		if d.Outcome != want {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
	}
}
