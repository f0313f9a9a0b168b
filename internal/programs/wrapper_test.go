package programs

import (
	"strings"
	"testing"
)

// line splits a line into words at blanks outside of single quotes. A word with a $ or a *
// outside of quotes is not known.
func line(s string) []Word {
	var words []Word
	var b strings.Builder
	in, quoted, known, prefix := false, false, true, ""
	for _, c := range s + " " {
		switch {
		case c == '\'':
			quoted, in = !quoted, true
		case c == ' ' && !quoted:
			if in && known {
				words = append(words, Literal(b.String()))
			} else if in {
				words = append(words, Word{Text: b.String(), Prefix: prefix})
			}
			in, known, prefix = false, true, ""
			b.Reset()
		default:
			if !quoted && known && (c == '$' || c == '*') {
				known, prefix = false, b.String()
			}
			in = true
			b.WriteRune(c)
		}
	}
	return words
}

func TestPeel(t *testing.T) {
	const (
		clean   = "clean" // only runs inner
		own     = "own"
		text    = "text"
		refused = "refused"
		none    = "none"
	)
	for _, c := range []struct {
		in, kind string
		inner    string // or text
	}{
		{"ls -l", none, ""},
		{"", none, ""},
		{"$x ls", none, ""},

		{"nice ls -l", clean, "ls -l"},
		{"nice -n 5 ls", clean, "ls"},
		{"nice -5 ls", clean, "ls"},
		{"nice --adjustment=5 ls", clean, "ls"},
		{"nice --adj 5 ls", clean, "ls"},
		{"nice -n", refused, ""},
		{"nice -n $x ls", refused, ""},
		{"nice $x", refused, ""},
		{"nice -- $x", refused, ""},
		{"nice *.sh", refused, ""},
		{"nice", none, ""},
		{"nice --help rm", none, ""},
		{"/usr/bin/nice.EXE ls", clean, "ls"},
		{"nohup -- nice ls", clean, "nice ls"},
		{"nohup -x ls", refused, ""},
		{"nohup -- -x ls", refused, "-x ls"},
		{"timeout 5 rm -rf x", clean, "rm -rf x"},
		{"timeout -s KILL -k 5s 1.5m rm x", clean, "rm x"},
		{"timeout -sKILL --foreground 5 rm x", clean, "rm x"},
		{"timeout --kill 5 5 rm x", clean, "rm x"},
		{"timeout rm x", refused, ""},
		{"timeout $t rm x", refused, ""},
		{"timeout -t 5 rm x", refused, ""},
		{"timeout 5", none, ""},
		{"stdbuf -oL -e0 grep x", clean, "grep x"},
		{"time -p ls", clean, "ls"},
		{"time -f %e ls", clean, "ls"},
		{"time -o f ls", refused, "ls"},
		{"time -vo f ls", refused, "ls"},
		{"caffeinate -i -t 60 make", clean, "make"},
		{"arch -x86_64 ls", clean, "ls"},
		{"arch -arch arm64 ls", clean, "ls"},
		{"arch -e A=b ls", refused, "ls"},
		{"arch", none, ""},
		{"command ls", clean, "ls"},
		{"command -v ls", none, ""},
		{"command -pv ls", none, ""},
		{"command -p ls", refused, "ls"},
		{"builtin cd x", clean, "cd x"},
		{"exec ls", clean, "ls"},
		{"exec -a sh busybox", refused, "busybox"},

		{"env", none, ""},
		{"env ls", clean, "ls"},
		{"env -- ls", clean, "ls"},
		{"env LANG=C ls", own, "ls"},
		{"env LANG=$x ls", refused, ""},
		{"env LANG=C LC_ALL=$x ls", own, "ls"},
		{"env A=b ls", refused, "ls"},
		{"env LD_PRELOAD=x ls", refused, "ls"},
		{"env PATH=/tmp ls", refused, "ls"},
		{"env PAGER=x git log", refused, "git log"},
		{"env A$x=b ls", refused, ""},
		{"env $x ls", refused, ""},
		{"env -i ls", refused, "ls"},
		{"env - ls", refused, "ls"},
		{"env -i /bin/ls", own, "/bin/ls"},
		{"env -u PATH ls", refused, "ls"},
		{"env -uPATH ls", refused, "ls"},
		{"env -u HOME ls", own, "ls"},
		{"env -C /tmp ./ls", refused, "./ls"},
		{"env -C/tmp /bin/ls", own, "/bin/ls"},
		{"env -S 'rm -rf x'", refused, "rm -rf x"},
		{"env '-Srm -rf' x", refused, "rm -rf x"},
		{`env -S 'r"m" -rf\_x'`, refused, "rm -rf x"},
		{"env -S 'A=b rm' x", refused, "rm x"},
		{"env --split-string='rm x' y", refused, "rm x y"},
		{"env --spl 'sh -c ls'", refused, "sh -c ls"},
		{"env -vS 'rm x'", refused, "rm x"},
		{"env LANG=C -- rm x", refused, "rm x"},
		{"env -S 'A=1 -- rm' x", refused, "rm x"},
		{"env --bogus ls", refused, ""},

		{"sudo rm -rf x", refused, "rm -rf x"},
		{"sudo -u root A=b rm x", refused, "rm x"},
		{"sudo -nu root -- rm x", refused, "rm x"},
		{"sudo -s", refused, ""},
		{"sudo -l", refused, ""},
		{"sudo -e x", refused, ""},
		{"doas rm x", refused, "rm x"},
		{"su", refused, ""},
		{"su -c 'rm x'", refused, "rm x"},
		{"su - root -c 'rm x'", refused, "rm x"},
		{"su root --command='rm x'", refused, "rm x"},
		{"runuser -u nobody -- rm x", refused, "rm x"},
		{"runuser nobody -c 'rm x'", refused, "rm x"},
		{"pkexec --user x rm y", refused, "rm y"},
		{"setsid -f rm x", refused, "rm x"},
		{"chrt -f 10 rm x", refused, "rm x"},
		{"chrt -p 10 700", none, ""},
		{"ionice -c3 rm x", refused, "rm x"},
		{"taskset -c 0,1 rm x", refused, "rm x"},
		{"chroot /x", refused, ""},
		{"chroot --userspec=a:b /x rm y", refused, "rm y"},
		{"unshare -rm", refused, ""},
		{"unshare -rm rm x", refused, "rm x"},
		{"nsenter -t 1 -m -- rm x", refused, "rm x"},
		{"setarch x86_64 -R rm x", refused, "rm x"},
		{"setarch -R rm x", refused, "rm x"},
		{"linux64 -R rm x", refused, "rm x"},
		{"linux64 rm x", refused, "rm x"},
		{"prlimit --nofile=5 rm x", refused, "rm x"},
		{"setpriv --reuid 0 rm x", refused, "rm x"},
		{"systemd-run --user -p A=b rm x", refused, "rm x"},
		{"start-stop-daemon -S -x /bin/rm -- x", refused, "/bin/rm x"},
		{"/lib64/ld-linux-x86-64.so.2 --library-path /x /bin/rm y", refused, "/bin/rm y"},
		{"/lib/ld-musl-x86_64.so.1 /bin/rm y", refused, "/bin/rm y"},
		{"gdb --args rm x", refused, "rm x"},
		{"perf stat -e x rm y", refused, "rm y"},
		{"perf list", none, ""},
		{"ip netns exec blue rm x", refused, "rm x"},
		{"ip netns list", none, ""},
		{"npx rimraf x", refused, "rimraf x"},
		{"npx -c 'rm x'", refused, "rm x"},
		{"npm exec -- rimraf x", refused, "rimraf x"},
		{"npm test", none, ""},
		{"poetry run rm x", refused, "rm x"},
		{"uv run --with y rm x", refused, "rm x"},
		{"uv pip list", none, ""},
		{"bundle exec rm x", refused, "rm x"},
		{"direnv exec . rm x", refused, "rm x"},
		{"nix-shell --run 'rm x'", refused, "rm x"},
		{"parallel rm {} ::: x", refused, "rm {}"},
		{"ssh host rm -rf x", refused, "rm -rf x"},
		{"ssh -p 22 host -v rm x", refused, "rm x"},
		{"ssh host", refused, ""},
		{"ssh -V", none, ""},
		{"script -c 'rm x' /dev/null", refused, "rm x"},
		{"script -q /dev/null rm x", refused, "rm x"},
		{"script", refused, ""},
		{"logsave f rm x", refused, "rm x"},
		{"xvfb-run -a rm x", refused, "rm x"},
		{"busybox", none, ""},
		{"busybox rm x", refused, "rm x"},
		{"busybox sh -c ls", own, "sh -c ls"},
		{"toybox -- ash x", own, "ash x"},

		{"flock f rm x", own, "rm x"},
		{"flock -n f -c 'rm x'", text, "rm x"},
		{"flock f --comm 'rm x'", text, "rm x"},
		{"flock 9", none, ""},
		{"watch -n 1 rm x", text, "rm x"},
		{"watch -x rm x", own, "rm x"},
		{"strace -f rm x", own, "rm x"},
		{"strace -o '|sh' rm x", refused, "rm x"},
		{"xargs", own, "echo …"},
		{"xargs rm -f", own, "rm -f …"},
		{"xargs -n1 -0 rm", own, "rm …"},
		{"xargs -I{} rm {} y", own, "rm {} y"},
		{"xargs -I % % y", refused, ""},
		{"xargs -i rm {}", own, "rm {}"},
		{"xargs --replace rm {}", own, "rm {}"},
		{"xargs -I% -L1 rm y", own, "rm y …"},
		{"xargs -I% -n 2 env", own, "env …"},
		{"xargs --replace --max-lines=1 rm {}", own, "rm {} …"},
		{"xargs -J% rm y", own, "rm y …"},
		{"xargs -n $x rm", refused, ""},
		{"xargs --frob rm x", refused, ""},
		{"find . -name x", none, ""},
		{"find . -name '*.go'", none, ""},
		{"find . -name *.go", refused, ""},
		{"find ./* -name x", none, ""},
		{"find . -exec rm -f {} ;", own, "rm -f {}"},
		{"find . -execdir rm -f {} +", own, "rm -f {}"},
		{"find . -ok rm {} ; -print", own, "rm {}"},
		{"find . -exec {} ;", refused, "{}"},
		{"find . -exec", none, ""},
		{"find . -exec rm $x ;", refused, ""},
		{"find . -exec grep a+ + {} +", own, "grep a+ + {}"},
		{"find . -name -exec , -exec rm {} ;", refused, ""},

		{"sh -c 'rm x'", text, "rm x"},
		{"/bin/bash -lc 'rm x'", text, "rm x"},
		{"bash -xc 'rm x' a b", text, "rm x"},
		{"bash -c -e 'rm x'", text, "rm x"},
		{"bash -euo pipefail -c 'rm x'", text, "rm x"},
		{"bash -O extglob -c 'rm x'", text, "rm x"},
		{"bash +O extglob -c 'rm x'", text, "rm x"},
		{"bash --norc --noprofile -c 'rm x'", text, "rm x"},
		{"bash -norc -c 'rm x'", text, "rm x"},
		{"bash -co errexit 'rm x'", text, "rm x"},
		{"bash -oc errexit 'rm x'", refused, "rm x"},
		{"bash -kc 'ls LD_PRELOAD=x'", refused, "ls LD_PRELOAD=x"},
		{"bash -o keyword -c 'ls LD_PRELOAD=x'", refused, "ls LD_PRELOAD=x"},
		{"bash -i +O interactive_comments -c 'ls # ; rm x'", refused, "ls # ; rm x"},
		{"zsh -ic 'ls # ; rm x'", refused, "ls # ; rm x"},
		{"bash -ic 'ls x'", text, "ls x"},
		{"bash -c -- 'rm x'", text, "rm x"},
		{"bash -c - 'rm x'", text, "rm x"},
		{"bash -c $x", refused, ""},
		{"bash -c rm$x", text, "rm$x"},
		{"find -name x", none, ""},
		{"find -L . -exec rm {} ;", own, "rm {}"},
		{"find -exec rm {} ;", own, "rm {}"},
		{"bash $x 'rm x'", refused, "rm x"},
		{"bash -c", refused, ""},
		{"bash -s x", refused, ""},
		{"bash", refused, ""},
		{"bash --rcfile x -ic ls", refused, ""},
		{"bash --init-file=x -ic ls", refused, ""},
		{"bash -rcfile x -ic ls", refused, ""},
		{"bash --frob x", refused, ""},
		{"bash --version", none, ""},
		{"bash x.sh -c 'rm x'", none, ""},
		{"bash -o errexit x.sh", none, ""},
		{"zsh -c 'rm x'", text, "rm x"},
		{"fish -c 'rm x'", text, "rm x"},
		{"fish '-crm x'", text, "rm x"},
		{"fish --command='rm x'", text, "rm x"},
		{"fish -C 'rm x' -c ls", refused, ""},
		{"fish -c ls -c 'rm x'", refused, ""},
		{"cmd /c del x", text, "del x"},
		{"cmd.exe /d /s /C del x", text, "del x"},
		{"cmd /cdel x", text, "del x"},
		{"cmd", refused, ""},
		{"powershell -Command del x", text, "del x"},
		{"PowerShell.exe -NoProfile -ExecutionPolicy Bypass -c del x", text, "del x"},
		{"powershell del x", text, "del x"},
		{"pwsh x.ps1", none, ""},
		{"pwsh -File x.ps1", none, ""},
		{"pwsh -enc AAAA", refused, "AAAA"},
		{"pwsh", refused, ""},
		{"eval rm -rf x", text, "rm -rf x"},
		{"eval rm $x", text, "rm $x"},
		{"trap 'rm x' EXIT", text, "rm x"},
		{"trap - EXIT", none, ""},
		{"trap EXIT", none, ""},
		{"trap -p EXIT", none, ""},
	} {
		l := Peel(line(c.in))
		kind := map[layerKind]string{LayerNone: none, layerArgv: own, LayerText: text, LayerRefused: refused}[l.Kind]
		if l.Kind == layerArgv && l.clean {
			kind = clean
		}
		inner := spaced(l.Inner)
		if l.Text.Text != "" {
			inner = l.Text.Text
		}
		if kind != c.kind || inner != c.inner {
			t.Errorf("peel(%s) = %s %q, want %s %q", c.in, kind, inner, c.kind, c.inner)
		}
		switch {
		case l.clean && (l.Own || l.Kind != layerArgv):
			t.Errorf("peel(%s) is clean, and has more to it: %+v", c.in, l)
		case l.Kind == layerArgv && !l.clean && !l.Own:
			t.Errorf("peel(%s) does something of its own, and need not be allowed", c.in)
		case (l.Kind == LayerRefused) != (l.Reason != ""):
			t.Errorf("peel(%s): reason %q", c.in, l.Reason)
		}
	}
}

// Guesses at the command of a refused wrapper are kept for the deny rules.
func TestPeelGuesses(t *testing.T) {
	for in, want := range map[string]string{
		"sudo --frob rm -rf x":            "rm -rf x | x",
		"sudo --frob root rm x":           "root rm x | rm x",
		"nice $x rm y":                    "$x rm y | rm y",
		"timeout -t 5 rm x":               "5 rm x | rm x",
		"xargs --frob rm x":               "rm x | x",
		"find . -exec rm {} ; -exec ls ;": "ls",
		"find . $x rm ;":                  "$x rm ; | rm ;",
	} {
		var more []string
		for _, m := range Peel(line(in)).More {
			more = append(more, spaced(m))
		}
		if got := strings.Join(more, " | "); got != want {
			t.Errorf("peel(%s).more = %q, want %q", in, got, want)
		}
	}
}

// Words from standard input, at the end or in place of a mark, are not known.
func TestPeelUnknownWords(t *testing.T) {
	for in, want := range map[string]string{
		"xargs rm -f":                  "..?",
		"xargs -I% sh -c 'rm %'":       "..?",
		"xargs -I {} rm a{} b":         ".?.",
		"find . -exec sh -c 'ls {}' ;": "..?",
		"find . -exec mv {} x ;":       ".?.",
		"nice ls $x":                   ".?",
		"nice -n 5 -- ls -l":           "..",
	} {
		got := ""
		for _, w := range Peel(line(in)).Inner {
			if w.Static {
				got += "."
			} else {
				got += "?"
			}
		}
		if got != want {
			t.Errorf("peel(%s).inner is known as %s, want %s", in, got, want)
		}
	}
}

// The words of an inner command keep their numbers, so that the command can be pinned.
func TestPeelKeepsPlaces(t *testing.T) {
	for _, in := range []string{"nice ls x", "env LANG=C ls x", "timeout 5 ls", "find . -exec cat {} ;", "xargs -I{} cat {}"} {
		words := line(in)
		for i := range words {
			words[i].At = i + 1
		}
		for i, w := range Peel(words).Inner {
			if w.At == 0 || words[w.At-1].Text != w.Text {
				t.Errorf("peel(%s): word %d, %q, is at %d", in, i, w.Text, w.At)
			}
		}
	}
}

func TestShellArguments(t *testing.T) {
	l := Peel(line("bash -c 'rm $1' a b"))
	if l.Shell != "bash" || spaced(l.args) != "a b" {
		t.Errorf("%+v", l)
	}
}
