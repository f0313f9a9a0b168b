package runshell

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

func TestWildcards(t *testing.T) {
	for pattern, commands := range map[string]string{
		"git *":      "git; git status; git commit -m 'a b'; !gitk; !'git x'",
		"git:*":      "git; git status; !gitk",
		"git status": "git status; git status -s; git  'status'; !git statusx; !git; !'git status'",
		"ls*":        "ls; lsof; ls -l; !l",
		"* --help":   "npm --help; git push --help; !npm --help x",
		"git * main": "git checkout main; !git main; !git checkout main x",
		"a*b*c":      "abc; axbxc; a b c; !ab; !acb",
		"*":          "ls; git status",
		"echo 'a b'": "echo 'a b'; echo a\\ b c; !echo a b",
		" git ":      "git; git x",
		"foo(bar)":   "!foo",
	} {
		tool := newTool(t, Config{CoreTools: entries([]string{pattern})})
		for command := range strings.SplitSeq(commands, "; ") {
			command, no := strings.CutPrefix(command, "!")
			if v := tool.Check(command); (v.Outcome == policy.Allowed) == no {
				t.Errorf("%q, %q: %+v", pattern, command, v)
			}
		}
	}
}

// A list that does not name the tool allows none of its commands: the name may be
// misspelt.
func TestNotAmongCoreTools(t *testing.T) {
	for core, want := range map[string]policy.Outcome{
		"": policy.Allowed, "*": policy.Allowed, "ReadFile,*": policy.Allowed, Name: policy.Allowed,
		"ReadFile": policy.Asked, "run_shel_command(ls)": policy.Asked, "run_shell_commander": policy.Asked,
	} {
		var list []string
		if core != "" {
			list = strings.Split(core, ",")
		}
		if v := newTool(t, Config{CoreTools: list}).Check("ls"); v.Outcome != want {
			t.Errorf("%q: %+v", core, v)
		}
	}
}

func TestExcludedInDisguise(t *testing.T) {
	tool := newTool(t, Config{CoreTools: []string{Name}, ExcludeTools: entries([]string{"rm", "git push", "docker * --privileged", "npm publish:*", "go clean *"})})
	for command, want := range map[string]policy.Outcome{
		"git -C . push": policy.Denied, "git --no-pager -c a=b push x": policy.Denied, "/usr/bin/git push": policy.Denied,
		"git commit -m push": policy.Allowed, "git commit push": policy.Allowed, "git pushx": policy.Allowed,
		"docker run --privileged": policy.Denied, "docker run": policy.Allowed,
		"FOO=1 rm x": policy.Denied, "if true; then rm x; fi": policy.Denied, "! rm x": policy.Denied, `\rm x`: policy.Denied, "r''m x": policy.Denied,
		"eval rm x": policy.Denied, "xargs rm < f": policy.Denied, "echo $(rm x)": policy.Denied, "cat <<E\n$(rm x)\nE": policy.Denied,
		"echo 'a\\'; rm x": policy.Denied, "timeout 5 nice -n 3 sudo -u x rm y": policy.Denied, "sh -c 'bash -c \"rm x\"'": policy.Denied,
		"npm publish": policy.Denied, "npm --silent publish .": policy.Denied, "npm pub": policy.Allowed,
		"git $SUB": policy.Asked, "npm $SUB": policy.Asked, "SUB=clean; go $SUB -cache": policy.Asked, "npm view $SUB": policy.Allowed, "$CMD x": policy.Asked, "echo x | sh": policy.Asked, "echo \"": policy.Asked,
		"set -euo pipefail; make": policy.Allowed, "[ -f x ] && cat x": policy.Allowed, "cat <<'E'\nrm x\nE": policy.Allowed,
	} {
		if v := tool.Check(command); v.Outcome != want {
			t.Errorf("%q: %+v", command, v)
		}
	}
}

func TestVariablesThatRunPrograms(t *testing.T) {
	tool := newTool(t, Config{CoreTools: entries([]string{"git", "export"})})
	for command, want := range map[string]policy.Outcome{
		"FOO=bar git status": policy.Allowed, "A=1 B=2 git log": policy.Allowed, "FOO=bar; git log": policy.Allowed,
		"LD_PRELOAD=/tmp/x.so git status": policy.Asked, "PATH=/tmp git status": policy.Asked, "PATH+=:/tmp; git status": policy.Asked,
		"GIT_SSH_COMMAND='sh -c x' git fetch": policy.Asked, "export BASH_ENV=x; git log": policy.Asked,
	} {
		if v := tool.Check(command); v.Outcome != want {
			t.Errorf("%q: %+v", command, v)
		}
	}
	if v := newTool(t, Config{CoreTools: []string{Name}}).Check("PATH=/tmp git status"); v.Outcome != policy.Allowed {
		t.Errorf("%+v", v)
	}
}

func TestApproval(t *testing.T) {
	var asked []Request
	var answer Answer
	var fault error
	tool := newTool(t, Config{
		Executor:  anything(t, "npm install left-pad; rm -rf $X", "npm install x", "npm test", "git status && env npm test", "rm -rf $X", "sh"),
		CoreTools: entries([]string{"git"}), ExcludeTools: entries([]string{"git push"}),
		Approve: func(_ context.Context, r Request) (Answer, error) {
			asked = append(asked, r)
			return answer, fault
		},
	})
	run := func(command string, asks bool, is error) Request {
		t.Helper()
		n := len(asked)
		_, err := tool.Run(t.Context(), Input{Command: command})
		if !errors.Is(err, is) || is == nil && err != nil || len(asked)-n != map[bool]int{true: 1}[asks] {
			t.Fatalf("%s: %v, asked %d times", command, err, len(asked)-n)
		}
		return asked[len(asked)-1]
	}
	answer = AllowAlways
	r := run("npm install left-pad; rm -rf $X", true, nil)
	if got := fmt.Sprintf("%q %q %q", r.Parts, r.Programs, r.Remember); got != `["npm install left-pad" "rm -rf $X"] ["npm" "rm"] ["npm install *"]` {
		t.Error(got)
	}
	run("npm install x", false, nil)
	run("rm -rf $X", true, nil) // cannot be remembered
	run("npm test", true, nil)
	run("npm test", false, nil)
	if r = run("git status && env npm test", true, nil); !slices.Equal(r.Parts, []string{"env npm test"}) {
		t.Errorf("%q", r.Parts)
	}
	run("git push", false, corral.ErrDenied) // excluded, so no one is asked
	answer = "perhaps"
	run("sh", true, corral.ErrDenied)
	answer = DenyOnce
	run("sh", true, corral.ErrDenied)
	answer, fault = AllowOnce, errors.New("nobody is there")
	run("sh", true, corral.ErrDenied)
	// Invalid input is not asked about.
	n := len(asked)
	if _, err := tool.Run(t.Context(), Input{Command: "sh", Directory: "/"}); !errors.Is(err, corral.ErrDir) || len(asked) != n {
		t.Error(err)
	}
	many := make([]rule, 3*maxApprovals)
	if tool.approved.add(many); len(tool.approved.list) != maxApprovals {
		t.Error(len(tool.approved.list))
	}
}

// For any entries and any command: no entry allows an excluded command, and an allowing
// entry is never wider than its text.
func FuzzRestrictions(f *testing.F) {
	f.Add("run_shell_command(git)", "run_shell_command(git push)", "git push")
	f.Add("run_shell_command", "run_shell_command(rm)", "sudo rm x; $A `b`")
	f.Add("ShellTool(a*b:*)", "Bash(", "a 'x y' b | sh -c \"$c\"")
	f.Fuzz(func(t *testing.T, core, exclude, command string) {
		free := &Tool{}
		free.rules, _ = parseRestrictions(nil, []string{exclude})
		both := &Tool{}
		both.rules, _ = parseRestrictions([]string{core}, []string{exclude})
		if free.Check(command).Outcome == policy.Denied && both.Check(command).Outcome != policy.Denied {
			t.Errorf("%q allows %q, which %q excludes", core, command, exclude)
		}
		if all := (&Tool{rules: restrictions{exclude: rules{all: true}}}).Check(command); all.Outcome != policy.Denied {
			t.Errorf("%q: %+v", command, all)
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b*", "axxb")
	f.Add("*", "")
	f.Add("ab*ba", "aba")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		pieces := strings.Split(pattern, "*")
		if len(pieces) < 2 {
			return
		}
		quoted := make([]string, len(pieces))
		for i, p := range pieces {
			quoted[i] = regexp.QuoteMeta(strings.ToValidUTF8(p, "?"))
		}
		for i := range pieces {
			pieces[i] = strings.ToValidUTF8(pieces[i], "?")
		}
		text = strings.ToValidUTF8(text, "?")
		if want := regexp.MustCompile(`(?s)^` + strings.Join(quoted, ".*") + `$`).MatchString(text); globbed(text, pieces) != want {
			t.Errorf("%q, %q: not %t", pattern, text, want)
		}
	})
}

// Arguments can be any text, since a model writes them.
func FuzzParse(f *testing.F) {
	f.Add(`{"command": "ls", "is_background": "True"}`)
	f.Add(`{"command": 5, "directory": null}`)
	f.Add("[")
	f.Fuzz(func(t *testing.T, text string) {
		in, _, err := (&Tool{cfg: Config{Profile: "qwen"}}).Parse([]byte(text))
		if err != nil && !strings.HasPrefix(err.Error(), "invalid input: ") {
			t.Error(err)
		}
		_ = in.Display()
	})
}
