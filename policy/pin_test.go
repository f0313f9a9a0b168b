package policy

import (
	"slices"
	"strings"
	"testing"
)

// The programs that run are those that were decided on: each is the path that was found.
func TestPinned(t *testing.T) {
	rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/**"))
	rules.Chaining.Value, rules.Redirections.Value = true, true
	for text, want := range map[string][]string{
		"ls -la 'a b'":              {"/bin/ls", "-la", "a b"},
		"ls \"a\"\\ b":              {"/bin/ls", "a b"},
		"~/bin/tool":                {"/bin/bash", "-c", "'/home/a/bin/tool'"},
		"rg x":                      {"/opt/brew/bin/rg", "x"}, // the path, not the file that it is a link to
		"./run.sh":                  {"/srv/run.sh"},
		"nice -n 5 ls x":            {"/usr/bin/nice", "-n", "5", "/bin/ls", "x"},
		"find . -exec ls {} \\;":    {"/usr/bin/find", ".", "-exec", "/bin/ls", "{}", ";"},
		"ls *.go":                   {"/bin/bash", "-c", "'/bin/ls' *.go"},
		"ls $X \"$Y\"":              {"/bin/bash", "-c", `'/bin/ls' $X "$Y"`},
		"ls | wc -l":                {"/bin/bash", "-c", "'/bin/ls' | '/usr/bin/wc' -l"},
		"ls && echo a || ls":        {"/bin/bash", "-c", "'/bin/ls' && '/bin/echo' a || '/bin/ls'"},
		"ls; ls":                    {"/bin/bash", "-c", "'/bin/ls'\n'/bin/ls'"},
		"cd x && ls":                {"/bin/bash", "-c", "cd x && '/bin/ls'"},
		"ls 2>/dev/null":            {"/bin/bash", "-c", "'/bin/ls' 2>/dev/null"},
		"sh -c 'ls x'":              {"/bin/sh", "-c", "'/bin/ls' x"},
		"sh -c \"sh -c 'ls | wc'\"": {"/bin/sh", "-c", `'/bin/sh' -c ''\''/bin/ls'\'' | '\''/usr/bin/wc'\'''`},
		"cat <<'X'\nrm $(x)\nX":     {"/bin/bash", "-c", "'/bin/cat' <<'X'\nrm $(x)\nX"},
		"'/srv/my tool'":            {"/srv/my tool"},
		"'/srv/my tool' *":          {"/bin/bash", "-c", "'/srv/my tool' *"},
	} {
		d := Decide(requestOf(text), rules, someFiles)
		if d.Outcome != Allowed || d.Run == nil {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		} else if !slices.Equal(d.Run.Args, want) {
			t.Errorf("%q runs %q, want %q", text, d.Run.Args, want)
		}
	}
	// A list of arguments needs no shell.
	d := Decide(Request{Args: []string{"ls", "$X; rm", "*"}, Dir: "/srv", Path: "/bin"}, rules, someFiles)
	if d.Outcome != Allowed || !slices.Equal(d.Run.Args, []string{"/bin/ls", "$X; rm", "*"}) {
		t.Errorf("%s, runs %+v", d.Outcome, d.Run)
	}
	d = Decide(Request{Args: []string{"nice", "sh", "-c", "ls | wc"}, Dir: "/srv", Path: "/usr/bin:/bin"}, rules, someFiles)
	if d.Outcome != Allowed || !slices.Equal(d.Run.Args, []string{"/usr/bin/nice", "/bin/sh", "-c", "'/bin/ls' | '/usr/bin/wc'"}) {
		t.Errorf("%s, runs %+v", d.Outcome, d.Run)
	}
	// The requested shell runs, by its path.
	req := requestOf("ls *")
	for shell, want := range map[string]string{"/bin/sh": "/bin/sh", "bash": "/bin/bash", "/usr/bin/zsh": "/bin/sh"} {
		req.Shell = []string{shell, "-c"}
		if d := Decide(req, rules, someFiles); d.Run == nil || d.Run.Args[0] != want {
			t.Errorf("%s: %s: %+v", shell, d.Reason, d.Run)
		}
	}
	req.Shell = []string{"/gone/bash"}
	if d := Decide(req, rules, someFiles); d.Outcome == Allowed {
		t.Errorf("allowed with a shell that is not there: %+v", d.Run)
	}
}

// A command that a rule allows as that very text runs as it is if it cannot be pinned.
func TestTextOfSeveralWords(t *testing.T) {
	view := files{"/bin/bash": "", "/bin/ls": "", "/bin/watch": ""}
	d := Decide(requestOf("watch ls -l"), rulesOf(SecurityAllowlist, AskOnMiss, Rule{Action: Allow, Command: "watch ls -l"}), view)
	if d.Outcome != Allowed || d.Run != nil {
		t.Errorf("%s: %s, runs %+v", d.Outcome, d.Reason, d.Run)
	}
}

// An allowlist does not allow a command that cannot be pinned; with security=full it
// runs as it is.
func TestNotPinned(t *testing.T) {
	for _, text := range []string{"$X a", "frob", "ls; $X", "eval ls"} {
		if d := Decide(requestOf(text), rulesOf(SecurityFull, AskOnMiss), someFiles); d.Outcome != Allowed || d.Run != nil {
			t.Errorf("%q: %s, runs %+v", text, d.Outcome, d.Run)
		}
		if d := Decide(requestOf(text), rulesOf(SecurityAllowlist, AskOnMiss, allow("*")), someFiles); d.Outcome == Allowed {
			t.Errorf("%q is allowed", text)
		}
	}
}

// Safe bins are trusted in the directories of the system, and in those of the
// configuration, unless other accounts can write to them.
func TestSafeBins(t *testing.T) {
	view := files{"/bin/bash": "", "/usr/bin/head": "", "/bin/wc": "", "/opt/bin/head": "", "/opt/bin/mine": "", "/opt/bin": "dir", "/tmp/head": "", "/usr/local/bin/head": "", "/usr/bin/sort": "", "/usr/bin/sed": "", "/usr/bin/python3": "", "/opt/bin/tr": "-> /tmp/evil", "/tmp/evil": ""}
	for _, c := range []struct {
		path, text string
		ok         bool
		why        string
	}{
		{"/usr/bin:/bin", "head -5", true, ""},
		{"/usr/bin:/bin", "head -5 | wc -l", true, ""},
		{"/usr/bin:/bin", "head -5 x", false, "no rule allows /usr/bin/head, and as a safe bin it has 1 arguments that may be files"},
		{"/usr/bin:/bin", "head $X", false, "whose value is not known"},
		{"/usr/bin:/bin", "head *", false, ""},
		{"/usr/bin:/bin", "head /etc/passwd", false, "may be a path"},
		{"/usr/bin:/bin", "/usr/bin/head -5", true, ""},
		{"/opt/bin:/bin", "head -5", true, ""},
		{"/opt/bin:/bin", "mine --ok", true, ""},
		{"/opt/bin:/bin", "mine --bad", false, ""},
		{"/usr/local/bin:/bin", "head -5", false, "is not in a trusted directory"},
		{"/tmp:/usr/bin", "head -5", false, "is not in a trusted directory"}, // another program of that name comes first
		{"/usr/bin:/bin", "sort -n", false, "no rule allows /usr/bin/sort"},  // not on the list
		{"/usr/bin:/bin", "sed -n p", false, ""},
		{"/usr/bin:/bin", "python3", false, ""},
		{"/usr/bin:/bin", "unprofiled", false, ""},
	} {
		rules := rulesOf(SecurityAllowlist, AskOnMiss)
		rules.SafeBins.Value = []string{" Head", "wc", "mine", "sed", "python3", "bash", "head"}
		rules.SafeBinDirs = []string{"/opt/bin"}
		rules.SafeBinProfiles = map[string]SafeBin{"mine": {Flags: []string{"--ok"}}, "sed": {MaxPositional: 9, Flags: []string{"-n"}}, "python3": {MaxPositional: 9}}
		d := Decide(Request{Command: c.text, Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: c.path}, rules, view)
		if (d.Outcome == Allowed) != c.ok || !strings.Contains(d.Reason, c.why) {
			t.Errorf("%q on %s: %s: %s", c.text, c.path, d.Outcome, d.Reason)
		}
		if c.ok && d.Segments[0].By != bySafeBin {
			t.Errorf("%q is allowed by %q", c.text, d.Segments[0].By)
		}
	}
}
