package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/tool"
)

// everyCommand calls do for corral and all that is below it.
func everyCommand(t *testing.T, do func(*cobra.Command)) {
	t.Helper()
	a := &app.App{Stdin: os.Stdin, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Backends: daemon.RealBackends()}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		do(cmd)
		for _, c := range cmd.Commands() {
			if c.Name() != "completion" && c.Name() != "help" { // cobra's
				walk(c)
			}
		}
	}
	walk((&program{commands: commands{a}}).root())
}

// Help is written in one way.
func TestHelpIsConsistent(t *testing.T) {
	everyCommand(t, func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short is %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Long != "" && !strings.HasSuffix(cmd.Long, ".") {
			t.Errorf("%s: Long ends in %q", cmd.CommandPath(), cmd.Long[len(cmd.Long)-10:])
		}
		for use := range strings.SplitSeq(cmd.Use, " | ") { // the help has a line for each
			if name, _, _ := strings.Cut(use, " "); name != cmd.Name() || strings.Count(use, "{") != strings.Count(use, "}") {
				t.Errorf("%s: %q is no usage by itself", cmd.CommandPath(), use)
			}
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			if len(line) > 82 {
				t.Errorf("%s: a line of the help has %d characters: %s", cmd.CommandPath(), len(line), line)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			arg, usage := cmdline.Argument(f)
			if usage == "" || strings.HasSuffix(usage, ".") || strings.Contains(usage, "`") {
				t.Errorf("%s --%s: usage %q", cmd.CommandPath(), f.Name, f.Usage)
			}
			if (arg == "") != (f.Value.Type() == "bool") {
				t.Errorf("%s --%s: argument %q of a %s", cmd.CommandPath(), f.Name, arg, f.Value.Type())
			}
		})
	})
}

// docs/reference/cli.md knows every command, flag and variable.
func TestDocsAreComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	want := func(what string) {
		if !strings.Contains(doc, "`"+what) {
			t.Errorf("docs/reference/cli.md does not mention `%s", what)
		}
	}
	everyCommand(t, func(cmd *cobra.Command) {
		want(cmd.CommandPath())
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			want("--" + f.Name)
			for _, variable := range f.Annotations[cmdline.EnvAnnotation] {
				want(variable)
			}
		})
	})
	for _, set := range [][]string{
		{string(tool.StatusCompleted), string(tool.StatusFailed), string(tool.StatusDenied), string(tool.StatusUnknown)},
		{string(tool.ReasonTimeout), string(tool.ReasonOOM), string(tool.ReasonCancelled), string(tool.ReasonInvalid), string(tool.ReasonWorkdir), string(tool.ReasonUnavailable), string(tool.ReasonConflict), string(tool.ReasonDenied), string(tool.ReasonLost), string(tool.ReasonInternal)},
	} {
		for _, word := range set {
			want(word)
		}
	}
}
