package policy_test

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/policy"
)

// ordinaryPrograms are allowed in [ordinaryStrict] and [ordinaryLoose], with
// any arguments, and are in /usr/bin.
var ordinaryPrograms = strings.Fields(`
	awk basename cat cp cut date df diff dirname du echo env file find git go grep gzip head jq ls make mkdir mv nice node npm
	printf ps pwd python3 realpath rg sed seq sort stat tail tar tee test timeout touch tr tree uname uniq wc which xargs
`)

// ordinaryStrict are commands that people and models write all day. They need no
// approval if their programs are allowed.
var ordinaryStrict = []string{
	"ls",
	"ls -la",
	"ls -la src/ 'a b' \"c d\"",
	"/usr/bin/ls -l",
	"ls *.go",
	"ls **/*_test.go",
	"ls [a-c]?.txt",
	"ls {a,b}.txt",
	"ls ~",
	"ls ~/src",
	"ls $HOME",
	"ls \"$HOME/src\" ${HOME}",
	"ls \"${DIR:-.}\"",
	"ls -- -rf",
	"'ls' -l",
	"l\\s",
	"  ls  ",
	"ls # all of it",
	"ls # not ; rm -rf / # and $(this)",
	"ls \\\n  -l \\\n  src",
	"cat 'a;b' 'c&&d' 'e|f' 'g>h'",
	"cat \"a;b\" a\\;b a\\&b",
	"echo 'rm -rf /'",
	"echo rm",
	"echo \"rm -rf /; sudo reboot\"",
	"echo '$(rm -rf /)' '`rm`' \"\\$(rm)\" \\`rm\\`",
	"echo it\\'s 'it'\\''s' \"it's\"",
	"echo 'a\nb'",
	"echo \"a\nb\"",
	"echo été 中文 🙂 naïve",
	"echo a#b c=d --e=f %g @h +i ,j :k ^l ]",
	"echo {} { } !",
	"echo a=b",
	"echo $1 $# $? $$ $! $- $0",
	"echo \"$@\" \"$*\"",
	"echo $PATH | tr : '\\n'",
	"echo ${#HOME} ${HOME#/} ${HOME%/*} ${HOME##*/}",
	"printf '%s\\n' a b c",
	"printf '%d%%\\n' 50",
	"grep -n 'a;b' f",
	"grep -rn \"func (r \\*Router)\" --include='*.go' .",
	"grep -E '^(rm|mv) ' history.txt",
	"grep rm f",
	"grep -v '^#' f | sort | uniq -c | sort -rn | head -20",
	"rg 'exec\\(' -g '!vendor' -A 3",
	"find . -name '*.go' -newer go.mod -type f",
	"find . -path ./vendor -prune -o -name \"*.go\" -print",
	"find . \\( -name a -o -name b \\) -print0",
	"find . -name '*.go' | wc -l",
	"git status",
	"git status -s",
	"git -C src status",
	"git log --oneline -20",
	"git log --format='%h %an %s' --since='2 weeks ago'",
	"git diff HEAD~1 -- src/a.go",
	"git diff --stat main...HEAD",
	"git show HEAD:src/a.go | head -50",
	"git show 'HEAD@{1}'",
	"git commit -m 'rm -rf'",
	"git commit -m \"fix: don't rm; closes #12 (again) & more\"",
	"git commit -m 'one\n\ntwo: $(not run)'",
	"git commit --allow-empty --message=rm",
	"git add -A",
	"git checkout -b rm/feature",
	"git grep -n rm",
	"go test ./... -run 'TestA|TestB' -count=1",
	"make -j4 test",
	"make rm",
	"npm test",
	"python3 manage.py check",
	"node build.js",
	"cat a b | grep x | cut -d: -f1 | sort -u",
	"cat f | head -n 5",
	"cat -- '-'",
	"cat /etc/passwd",
	"du -sh * | sort -h | tail -5",
	"df -h | awk '{print $5}'",
	"sed -n '1,200p' a.go",
	"sed -n '/^func/p' a.go",
	"sed 's/a/b/g' f",
	"go build -o bin/x ./cmd/x",
	"ps aux | grep '[n]ode'",
	"tar tzf a.tar.gz",
	"tar czf a.tar.gz src",
	"jq '.items[] | {name, id}' f.json",
	"jq -r '.a // \"rm\"' f.json",
	"date +%Y-%m-%d",
	"date -d '1 day ago'",
	"stat -c '%s %n' f",
	"timeout 30 go test ./...",
	"timeout -k 5 30 ls",
	"nice -n 10 make all",
	"env ls",
	"env | sort",
	"xargs -n 1 echo",
	"find . -name '*.txt' -print0 | xargs -0 grep -l rm",
	"tee a.log",
	"which rm",
	"mkdir -p a/b",
	"test -f a.txt",
	"touch rm",
	"ls rm rm/ ./rm",
	"uname -a",
	"ls " + strings.Repeat("long-argument ", 1000),
	"echo " + strings.Repeat("x", 100_000),
	"cat " + strings.Repeat("| cat ", 200) + "| cat",
}

// ordinaryLoose need lists of commands, or harmless redirections.
var ordinaryLoose = []string{
	"cd src && make",
	"cd src && go test ./... && cd .. && git status",
	"cd /tmp; ls",
	"ls; pwd",
	"ls\npwd",
	"ls\n\n# a comment\npwd\n",
	"ls && echo ok || echo bad",
	"ls &&\n  pwd",
	"ls ;",
	"git add -A && git commit -m 'rm: a'",
	"mkdir -p a && cd a && touch b",
	"true && ls",
	"ls || true",
	"! grep -q rm f",
	"ls 2>/dev/null",
	"ls >/dev/null",
	"ls > /dev/null 2>&1",
	"ls &>/dev/null",
	"ls 2>&1 | head",
	"ls 2>&1",
	"ls >&2",
	"ls |& head",
	"cat </dev/null",
	"grep -q rm f 2>/dev/null && echo found",
	"find / -name x 2>/dev/null | head -5",
	"cat <<'EOF'\nrm -rf /; $(rm) `rm`\nEOF",
	"cat <<\\EOF\n$HOME\nEOF",
	"cat <<-'EOF'\n\tit's\n\tEOF",
	"cat <<EOF\nplain\nEOF",
	"cat <<EOF\n$HOME\nEOF",
	"cat <<'EOF' | grep rm\na\nEOF",
	"grep a <<<'a;b'",
	"grep a <<<\"$HOME\"",
	"git commit -F - <<'EOF'\nfix: `rm` & $(mv)\n\nit's (done); really\nEOF",
	"make -j4 2>&1 | tail -20",
	"cd src; make 2>&1 | tee build.log | tail -5",
}

// ordinaryAsked are ordinary too, but need an approval: they are names of aliases and
// targets, and the policy does not look up what these run.
var ordinaryAsked = []string{
	"git rm-something",
	"git st",
	"npm run build",
	"go run ./cmd/x",
	"python3 -m pytest",
}

// usrBin is a file system that has programs in /usr/bin, and nothing else.
type usrBin struct{}

func (usrBin) Stat(name string) (fs.FileInfo, error) {
	dir, base := path.Split(name)
	if dir == "/usr/bin/" && (slices.Contains(ordinaryPrograms, base) || base == "rm") || name == "/bin/bash" {
		return programInfo{}, nil
	}
	return nil, fs.ErrNotExist
}
func (usrBin) RealPath(name string) (string, error) { return name, nil }
func (usrBin) Executable(string) error              { return nil }
func (usrBin) Open(string) (fs.File, error)         { return nil, fs.ErrNotExist }

// programInfo is of a regular file.
type programInfo struct{ fs.FileInfo }

func (programInfo) Mode() fs.FileMode { return 0o755 }

// Ordinary commands need no approval if their programs are allowed, and a rule against
// rm does not match them. People switch off a guard with false alarms.
func TestOrdinary(t *testing.T) {
	var strict policy.Rules
	strict.Security.Value, strict.Ask.Value = policy.SecurityAllowlist, policy.AskOnMiss
	strict.List = []policy.Rule{{Action: policy.Deny, Pattern: "rm"}, {Action: policy.Deny, Pattern: "sudo"}, {Action: policy.Query, Pattern: "git push"}}
	for _, name := range ordinaryPrograms {
		strict.List = append(strict.List, policy.Rule{Action: policy.Allow, Pattern: "/usr/bin/" + name})
	}
	strict.SafeBins.Value = []string{"cut", "head", "sort", "tail", "tr", "uniq", "wc"}
	loose := strict
	loose.Chaining.Value, loose.Redirections.Value = true, true
	full := strict
	full.Security.Value = policy.SecurityFull

	decide := func(rules policy.Rules, text string) policy.Decision {
		return policy.Decide(policy.Request{Command: text, Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: "/usr/bin", Home: "/home/a"}, rules, usrBin{})
	}
	allowed := func(rules policy.Rules, name string, commands []string) {
		for _, text := range commands {
			d := decide(rules, text)
			if d.Outcome != policy.Allowed {
				t.Errorf("%s: %s: %s: %s", name, short(text), d.Outcome, d.Reason)
			}
			if d.Outcome == policy.Allowed && rules.Security.Value != policy.SecurityFull && d.Run == nil {
				t.Errorf("%s: %s: is allowed, and not pinned", name, short(text))
			}
		}
	}
	allowed(strict, "strict", ordinaryStrict)
	allowed(loose, "loose", ordinaryStrict)
	allowed(loose, "loose", ordinaryLoose)
	allowed(full, "full", ordinaryStrict)
	allowed(full, "full", ordinaryLoose)
	allowed(full, "full", ordinaryAsked)
	for _, text := range ordinaryAsked {
		if d := decide(loose, text); d.Outcome != policy.Asked {
			t.Errorf("%s: %s: %s, so that it belongs elsewhere", short(text), d.Outcome, d.Reason)
		}
	}
}

func short(text string) string {
	quoted := fmt.Sprintf("%q", text)
	if len(quoted) > 100 {
		quoted = quoted[:80] + "…" + quoted[len(quoted)-20:]
	}
	return quoted
}
