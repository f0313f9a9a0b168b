package policy

import (
	"io/fs"
	"strings"
	"testing"
)

// If there is a deny or ask rule, a variable needs an approval that changes where
// programs are found or makes a shell evaluate hidden text. Other variables do not.
func TestSteering(t *testing.T) {
	rules := rulesOf(SecurityFull, AskOnMiss, deny("rm"))
	for text, want := range map[string]Outcome{
		"PATH=x ls": Asked, "PATH=x; ls": Asked, "export PATH=x; ls": Asked, "PATH+=:x; ls": Asked, "env PATH=x ls": Asked, "nice env PATH=x ls": Asked, "for PATH in x; do ls; done": Asked, ": ${PATH:=x}": Asked,
		"read PATH <x; ls": Asked, "printf -v PATH x; ls": Asked, "printf -vPATH x; ls": Asked, "unset PATH; ls": Asked, "getopts a PATH": Asked, "declare PATH=x": Asked, "readonly PATH=x": Asked, "mapfile PATH <x": Asked, "local PATH=x": Asked,
		"LD_PRELOAD=x ls": Asked, "BASH_ENV=x bash -c ls": Asked, "DYLD_INSERT_LIBRARIES=x ls": Asked, "IFS=x; ls": Asked, "env LD_PRELOAD=x ls": Asked, "BASH_CMDS[ls]=x; ls": Asked,
		"printf -v \"$X\" y": Asked, "read \"$X\" <x": Asked, "test -v \"$X\"": Asked, "[ -v \"$X\" ]": Asked, "[[ -v $X ]]": Asked, "unset \"$X\"": Asked, "[[ X -eq 1 ]]": Asked, "((X))": Asked, "let X": Asked, "f() { echo $(($1)); }; f a[X]": Asked, "echo $((X+1))": Asked, "echo ${X[Y]}": Asked, "echo ${X:Y}": Asked, "Z[Y]=1": Asked, "echo ${!X}": Asked,

		"X=1 ls": Allowed, "X=1; echo $X": Allowed, "export NODE_ENV=test; npm test": Allowed, "env NODE_ENV=test npm test": Allowed, "CGO_ENABLED=0 make": Allowed, "PYTHONPATH=src python3 x.py": Allowed, "for i in a b; do echo $i; done": Allowed, "MYPATH=x ls": Allowed, "export PATH": Allowed, "echo $PATH": Allowed,
		"read X <x; echo $X": Allowed, "printf -v X y": Allowed, "printf %s \"$X\"": Allowed, "test -f \"$X\"": Allowed, "[ -n \"$X\" ]": Allowed, "[ \"$X\" = y ]": Allowed, "test -v X": Allowed, "[[ -n $X ]]": Allowed, "[[ $X == y ]]": Allowed, "unset X": Allowed,
		"X=1; ((X++))": Allowed, "for ((i=0; i<3; i++)); do echo $i; done": Allowed, "for i in 1 2; do echo $((i*2)); done": Allowed, "echo $((1+2))": Allowed, "echo $(($#+1))": Allowed, "X=5; [[ X -gt 3 ]]": Allowed, "X=(1 2); echo ${X[0]} ${#X[@]}": Allowed, "[[ ${#X} -gt 3 ]]": Allowed, "echo $((RANDOM % 6))": Allowed,
	} {
		if d := Decide(requestOf(text), rules, someFiles); d.Outcome != want {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
		if d := Decide(requestOf(text), rulesOf(SecurityFull, AskOnMiss), someFiles); d.Outcome != Allowed {
			t.Errorf("%q without rules that forbid: %s: %s", text, d.Outcome, d.Reason)
		}
	}
}

// A directory that other accounts can write to is never trusted.
func TestWritableDirectories(t *testing.T) {
	for mode, trusted := range map[fs.FileMode]bool{0o755: true, 0o700: true, 0o555: true, 0o775: false, 0o757: false, 0o777: false, 0o722: false} {
		view := dirMode{files{"/opt/bin/head": "", "/opt/bin": "dir", "/opt/bin/nice": "", "/bin/ls": ""}, "/opt/bin", mode}
		rules := rulesOf(SecurityAllowlist, AskOnMiss, allow("/bin/ls"))
		rules.SafeBins.Value, rules.SafeBinDirs = []string{"head"}, []string{"/opt/bin"}
		for _, args := range []string{"/opt/bin/head -5", "/opt/bin/nice /bin/ls"} {
			d := Decide(Request{Args: strings.Fields(args), Dir: "/"}, rules, view)
			if (d.Outcome == Allowed) != trusted {
				t.Errorf("%s, mode %o: %s: %s", args, mode, d.Outcome, d.Reason)
			}
		}
	}
}
