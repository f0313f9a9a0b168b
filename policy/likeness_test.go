package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/programs"
)

// Which arguments a deny or ask rule matches.
func TestArgsNamed(t *testing.T) {
	for _, tt := range []struct {
		want, args string // $x is not known
		likeness   likeness
	}{
		{"", "", alike}, {"", "x", alike},
		{"push", "push", alike}, {"push", "pull", unlike}, {"push", "", unlike}, {"push", "x push", unlike},
		{"push", "-q push", alike}, {"push", "-C dir push", alike}, {"push", "-C dir x push", unlike}, {"push", "-C dir x", unlike},
		{"push", "--dir=x push", alike}, {"push", "--dir=x y push", unlike}, {"push", "--dir x push", alike},
		{"push", "$x", perhaps}, {"push", "$x push", alike}, {"push", "pull $x", unlike}, {"push origin", "push $x", perhaps},
		{"push origin", "push origin", alike}, {"push origin", "push -f origin", alike}, {"push origin", "push x origin", unlike}, {"push origin", "origin push", unlike},
		{"pu*", "push", alike}, {"pu*", "pop", unlike},

		{"-f", "-f", alike}, {"-f", "-rf", alike}, {"-f", "-fr x", alike}, {"-f", "x -f", alike}, {"-f", "--force", alike}, {"-f", "--file", alike}, {"-F", "--force", alike},
		{"-f", "", unlike}, {"-f", "f", unlike}, {"-f", "xf", unlike}, {"-f", "-", unlike}, {"-f", "--", unlike}, {"-f", "-F", unlike}, {"-f", "--no-f", unlike}, {"-f", "-x", unlike},
		{"-f", "$x", perhaps}, {"-f", "$x -f", alike}, {"-f", "-f $x", alike},
		{"-rf", "-r", unlike}, {"-rf", "-r -f", alike}, {"-rf", "-fr", alike}, {"-rf", "-r $x", perhaps},

		{"--force", "--force", alike}, {"--force", "--forc", alike}, {"--force", "--f", alike}, {"--force", "--force=x", alike}, {"--force=x", "--force", alike},
		{"--force", "--", unlike}, {"--force", "-", unlike}, {"--force", "-f", unlike}, {"--force", "--forced", unlike}, {"--force", "force", unlike}, {"--force", "x", unlike},

		{"-", "-", alike}, {"-", "x", unlike}, {"-*", "-x", alike}, {"-*", "x", unlike},
		{"push -f", "push -f", alike}, {"push -f", "-f push", alike}, {"push -f", "push", unlike}, {"push -f", "pull -f", unlike}, {"push -f", "$x", perhaps},
	} {
		var args []Word
		for text := range strings.FieldsSeq(tt.args) {
			if text == "$x" {
				args = append(args, Word{Text: text})
			} else {
				args = append(args, programs.Literal(text))
			}
		}
		if got := argsNamed(strings.Fields(tt.want), args); got != tt.likeness {
			t.Errorf("%q of %q: %d, want %d", tt.want, tt.args, got, tt.likeness)
		}
	}
}

// Which programs a deny or ask rule matches.
func TestProgramNamed(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          Outcome
	}{
		{"rm", "rm x", Denied}, {"RM", "rm x", Denied}, {"Rm", "/bin/rm x", Denied}, {"rm", "\"rm\" x", Denied}, {"rm", "ls x", Allowed}, {"r*", "rm x", Denied}, {"?m", "rm x", Denied},
		{"/bin/rm", "rm x", Denied}, {"/bin/*", "rm x", Denied}, {"/usr/bin/rm", "rm x", Allowed}, {"./run.sh", "./run.sh", Denied}, {"./run.sh", "./other.sh", Allowed},
		{"~/bin/tool", "tool", Denied}, {"~/bin/*", "tool", Denied}, {"~/tool", "tool", Allowed}, {"~", "tool", Allowed},
		{"/opt/brew/bin/rg", "rg", Denied}, {"/opt/brew/cellar/**", "rg", Denied},
	} {
		if d := Decide(requestOf(tt.text), rulesOf(SecurityFull, AskOff, deny(tt.pattern)), someFiles); d.Outcome != tt.want {
			t.Errorf("%q, %s: %s (%s), want %s", tt.pattern, tt.text, d.Outcome, d.Reason, tt.want)
		}
	}
}

func TestExpandHome(t *testing.T) {
	for _, tt := range []struct{ pattern, home, want string }{
		{"~", "/home/a", "/home/a"}, {"~/x", "/home/a", "/home/a/x"}, {"~/x", "/home/a/", "/home/a/x"}, {"~b/x", "/home/a", "~b/x"}, {"~/x", "", "~/x"}, {"x~", "/home/a", "x~"}, {"/~", "/home/a", "/~"},
	} {
		if got := expandHome(tt.pattern, tt.home); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.pattern, tt.home, got, tt.want)
		}
	}
}

// A rule "*" that names arguments does not match every command.
func TestAny(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want bool
	}{
		{Rule{Pattern: "*"}, true}, {Rule{Pattern: "ls"}, false}, {Rule{Pattern: "**"}, false}, {Rule{Pattern: "*", Args: []string{}}, false}, {Rule{Pattern: "*", ArgPattern: "^x$"}, false},
	} {
		if got := tt.rule.any(); got != tt.want {
			t.Errorf("%+v: %v", tt.rule, got)
		}
	}
}

// The time of a comparison does not grow with a power of the number of arguments.
func TestManyUnknownArguments(t *testing.T) {
	args := slices.Repeat([]Word{{Text: "$X"}}, 40_000)
	begun := time.Now()
	if got := argsNamed([]string{"push", "origin", "main"}, args); got != perhaps {
		t.Errorf("%v, want perhaps", got)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
