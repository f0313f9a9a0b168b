package policy

import (
	"fmt"
	"strings"
	"testing"
)

// The directory of a cd is known from its text, or it is not followed.
func TestDestination(t *testing.T) {
	for text, want := range map[string]string{
		"cd": "/home/a", "cd x": "x", "cd /x": "/x", "pushd x": "x", "pushd": "/home/a", "cd ..": "..",
		"cd -P x": "x", "cd -L -P x": "x", "cd -- x": "x", "cd -L -P -e x": "-e", "cd -P": "/home/a", "cd -": "", "cd -P -": "", "cd ''": "",
		"cd ~": "/home/a", "cd ~/x": "/home/a/x", "cd ~b": "", "cd ~b/x": "",
		"cd $HOME": "/home/a", `cd "$HOME"`: "/home/a", "cd ${HOME}/x": "/home/a/x", `cd "$HOME/x"`: "/home/a/x", "cd $HOMER": "", "cd $HOME/$x": "", "cd $HOME/*": "",
		"cd $x": "", "cd $(ls)": "", "cd $x/y": "", "cd x y": "x",
		"ls": "", "ls x": "", "cdx x": "", "popd": "",
	} {
		d := Decide(requestOf(text), rulesOf(SecurityFull, AskOff), someFiles)
		if len(d.Segments) == 0 {
			t.Fatalf("%s: no segment", text)
		}
		if got := destination(d.Segments[0].Words, "/home/a"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A deny rule matches each path that a program may have after some cd.
func TestWander(t *testing.T) {
	view := files{
		"/srv": "dir", "/srv/a": "dir", "/srv/a/b": "dir", "/srv/a/b/tool": "", "/srv/a/tool": "-> /opt/bad", "/opt/bad": "", "/srv/tool": "",
		"/srv/file": "", "/home/a": "dir", "/home/a/tool": "-> /opt/bad", "/bin/ls": "", "/bin/bash": "",
	}
	// All the directories that are followed, and one more.
	var most strings.Builder
	for i := range maxPlaces - 1 {
		view[fmt.Sprintf("/srv/d%d", i)] = "dir"
		if i > 0 {
			fmt.Fprintf(&most, "cd /srv/d%d; ", i)
		}
	}
	for text, want := range map[string]Outcome{
		"./tool":                            Allowed,
		"cd a; ./tool":                      Denied,
		"cd a && ./tool":                    Denied,
		"pushd a; ./tool":                   Denied,
		"cd a; cd b; ./tool":                Denied, // the second can fail
		"cd b; ./tool":                      Allowed,
		"cd nowhere; ./tool":                Allowed,
		"cd file; ./tool":                   Allowed,
		"cd a; /srv/tool":                   Allowed,
		"cd a; ls":                          Allowed,
		"cd; ./tool":                        Denied,
		"cd ~; ./tool":                      Denied,
		"cd ../home/a; ./tool":              Denied,
		"cd a/b; ../tool":                   Denied,
		most.String() + "cd /srv/a; ./tool": Denied,
		most.String() + "cd /srv/d0; cd /srv/a; ./tool": Allowed, // more than maxPlaces are not followed
		"cd /srv/d1; cd /srv/a/b; ../tool":              Denied,
		"cd /srv/d1; cd /srv/a/b; ../../x/t":            Allowed,
	} {
		d := Decide(requestOf(text), rulesOf(SecurityFull, AskOff, deny("/opt/bad")), view)
		if d.Outcome != want {
			t.Errorf("%s: %s (%s), want %s", text, d.Outcome, d.Reason, want)
		}
	}
}
