package boundary

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestLongBind(t *testing.T) {
	long := "/" + strings.Repeat("a", maxBind-len("/:/b")) + ":/b"
	if _, err := ParseBind(long); err != nil {
		t.Errorf("%d bytes: %v", len(long), err)
	}
	if _, err := ParseBind(long + "b"); err == nil {
		t.Errorf("%d bytes: no error", len(long)+1)
	}
}

func TestFold(t *testing.T) {
	for p, want := range map[string]string{
		"/az@[": "/az@[", "/A": "/a", "/Z": "/z", "/x\u017f": "/xs", "/\u212a": "/k", "/a\u200db": "/ab", "/\x80": "/\ufffd",
	} {
		if got := fold(p); got != want {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	whole := strings.Repeat("x", maxSubject)
	for s, want := range map[string]string{whole: `"` + whole + `"`, whole + "x": `"` + whole + `…"`, whole[1:] + "é": `"` + whole[1:] + `…"`} {
		if got := quote(s); got != want {
			t.Errorf("%d bytes: %s", len(s), got)
		}
	}
}

// Tables of the machine are read up to a limit, whatever is in them.
func TestLongTables(t *testing.T) {
	for name, tt := range map[string]struct {
		read func(text string) []string
		line string
		want string
	}{
		"accounts": {func(text string) []string { return accountHomes(strings.NewReader(text)) }, "ann:x:1000:1000::/home/ann:/bin/sh\n", "/home/ann"},
		"sockets":  {func(text string) []string { return listening(strings.NewReader(text)) }, "0: 2 0 1 1 1 7 /srv/docker.sock\n", "/srv/docker.sock"},
	} {
		if got := tt.read(strings.Repeat("x\n", maxLines-1) + tt.line + tt.line); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s: %q, want one, from the last line that is read", name, got)
		}
	}
}

func TestAddHome(t *testing.T) {
	var s Sources
	for _, dir := range []string{"", "/", "//", "/srv/..", "relative", "/srv/h"} {
		s.addHome(dir)
	}
	if !slices.Equal(s.Homes, []string{"/srv/h"}) {
		t.Errorf("%q", s.Homes)
	}
}

// An engine that listens somewhere is found there.
func TestMachineListens(t *testing.T) {
	name := filepath.Join(t.TempDir(), "docker.sock")
	listen, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	if s := Machine(func(string) string { return "" }); !slices.Contains(s.Sockets, name) {
		t.Errorf("%q", s.Sockets)
	}
}

func TestUnconfinedNames(t *testing.T) {
	for name, want := range map[string]bool{
		"unconfined": true, "=unconfined": true, ":disable": true, "label=disabled": true, "mode:complain": true, "x complain": true,
		"": false, "unconfined=no": false, "unconfine": false, "default": false,
	} {
		if got := unconfined(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// A path may lead through as many links as Linux follows, and no more.
func TestManyLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxLinks + 1 {
		link(t, fmt.Sprint(i), filepath.Join(dir, fmt.Sprint(i+1)))
	}
	name := filepath.Join(dir, fmt.Sprint(maxLinks))
	if got, err := resolve(name); err != nil || got != filepath.Join(dir, "0") {
		t.Errorf("%d links: %q, %v", maxLinks, got, err)
	}
	if got, err := resolve(filepath.Join(dir, fmt.Sprint(maxLinks+1))); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("%d links: %q, %v", maxLinks+1, got, err)
	}
}

// Homes and sockets that are no place of their own protect nothing.
func TestPlacesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	link(t, "/", dir+"/to-root")
	s := Sources{Homes: []string{"/", "srv/home", dir + "/to-root"}, Private: []string{"srv/state"}, Sockets: []string{"srv/engine"}}
	for _, bind := range []string{"/.aws:/d", "/srv/home:/d", "/srv/home/.aws:/d", "/srv/state:/d", "/srv/engine:/d", "/srv:/d"} {
		if got := ruleOf(&s, bind); got != "" {
			t.Errorf("%s: %q", bind, got)
		}
	}
}

// What is protected is so under each of its names.
func TestHardLink(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, dir+"/home")
	mkdir(t, dir+"/other")
	if err := os.WriteFile(dir+"/home/.netrc", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/home/.netrc", dir+"/other/notes"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/other/more", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Sources{Homes: []string{dir + "/home"}}
	for name, want := range map[string]Rule{"notes": BindSystem, "more": ""} {
		if got := ruleOf(&s, dir+"/other/"+name+":/d"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
