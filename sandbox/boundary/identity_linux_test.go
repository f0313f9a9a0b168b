package boundary

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only :ro is read-only.
func TestModes(t *testing.T) {
	for text, want := range map[string]bool{"/a:/b:ro": true, "/a:/b:rw": false, "/a:/b": false} {
		if b, err := ParseBind(text); err != nil || b.ReadOnly != want {
			t.Errorf("%s: %+v, %v", text, b, err)
		}
	}
}

// What is protected is so from what covers it, and what is in it.
func TestCovered(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"/state/x", "/run/engine/x", "/other"} {
		mkdir(t, dir+d)
	}
	s := Sources{Private: []string{dir + "/state/x"}, Sockets: []string{dir + "/run/engine"}}
	for path, want := range map[string]Rule{
		"/state": BindState, "/state/x": BindState, "/state/x/y": BindState, "/run": BindEngine, "/run/engine": BindEngine, "/run/engine/x": BindEngine, "/other": "", "/other/x": "",
	} {
		if got := ruleOf(&s, dir+path+":/data"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ruleOf(&s, dir+"/pipe:/data"); got != BindSpecial {
		t.Errorf("a pipe: %q", got)
	}
}

// A directory is known by its inode too: as a protected one, as one in it, or as a home.
func TestIdentity(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, dir+"/real/in/it")
	mkdir(t, dir+"/other")
	link(t, dir+"/real", dir+"/name")
	s := Sources{Homes: []string{dir + "/home"}}
	for path, want := range map[string]Rule{"/real": BindSystem, "/real/in": BindSystem, "/real/in/it": BindSystem, "/other": "", "/none": ""} {
		got := Rule("")
		if r := s.identity(dir+path, []string{dir + "/none", dir + "/name"}); r != nil {
			got = r.Rule
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	link(t, dir+"/real", dir+"/home")
	if r := s.identity(dir+"/real", nil); r == nil || r.Rule != BindHome {
		t.Errorf("a home: %+v", r)
	}
	if r := s.identity(dir+"/real/in", nil); r != nil {
		t.Errorf("in a home: %+v", r)
	}
	if r := s.identity("/", nil); r == nil || r.Rule != BindCovers {
		t.Errorf("the kernel's file systems: %+v", r)
	}
}

// On a machine whose files are not seen the name alone counts.
func TestElsewhere(t *testing.T) {
	for _, tt := range []struct {
		source    string
		workspace bool
		want      Rule
	}{
		{"/srv/x", false, ""}, {"/srv/x", true, ""}, {"/root/x", false, BindSystem}, {"/root/x", true, ""}, {"/etc/x/", false, BindSystem}, {"/etc", true, BindSystem},
		{"/home/a/.ssh", true, BindCredential}, {"/", true, BindRoot},
	} {
		r := CheckElsewhere(tt.source, tt.workspace)
		if (r == nil) != (tt.want == "") || r != nil && (r.Rule != tt.want || r.Subject != tt.source || r.Path != tt.source) {
			t.Errorf("%+v: %+v", tt, r)
		}
	}
}

// What is below a file, or behind . and .., is where a system looks for it.
func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mkdir(t, dir+"/a/b")
	link(t, "a/b", dir+"/link")
	for path, want := range map[string]string{
		"/file/x": "/file/x", "/a//./b/": "/a/b", "/a/b/../..": "", "/link/..": "/a", "/link/../../file": "/file", "/none/../a": "/a", "/none/x": "/none/x",
	} {
		if got, err := resolve(dir + path); err != nil || got != dir+want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, dir+want)
		}
	}
	if got, err := resolve("/../.."); err != nil || got != "/" {
		t.Errorf("%q, %v", got, err)
	}
}
