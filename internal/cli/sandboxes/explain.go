package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/inspect"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/sandbox/secrets"
)

func (a commands) explain() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "explain [flags]", Short: "Say what a sandbox would be like, and what it is refused",
		Long: `Say what an agent's sandbox would be like by the configuration: its engine, what
is mounted, its limits, its network and its profiles; and what of it is refused,
or cannot be had from the engine: where that is configured, why, and what to do
about it. Nothing is made, and no image is got.

What is refused is shown as it was asked for. Of a file with mistakes the rest is
explained, too.

Exit code: 0 if commands could run in it; 1 if something is refused or missing.`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				m, err := a.Machine()
				if err != nil {
					return err
				}
				e, err := m.Sandbox(ctx, agent)
				if err != nil {
					return err
				}
				var bad error
				if len(e.Mistakes)+len(e.Refusals)+len(e.Problems) > 0 || e.Engine.Error != "" {
					bad = &app.ExitError{Code: app.ExitFindings}
				}
				if a.JSON() {
					return a.PrintJSON(e, bad)
				}
				return errors.Join(sandboxView{e}.print(a.Stdout), bad)
			})
		},
	}
	a.AddAgentFlag(cmd, &agent)
	cmd.Flags().Lookup("agent").Usage = "`NAME`: whose sandbox"
	return app.WithJSON(cmd)
}

// A sandboxView shows a sandbox to people.
type sandboxView struct{ *inspect.Sandbox }

// print is all of it.
func (e sandboxView) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("agent", "%s", e.Agent)
	switch e.Mode {
	case daemon.ModeOff:
		line("mode", "off (sandbox.mode): without --sandbox or --host sandbox, commands run on the gateway, in no container")
	default:
		line("mode", "%s", e.Mode)
	}
	line("scope", "%s: the sandbox %s", e.Scope, e.Name)
	if e.Engine.Error != "" {
		line("engine", "none: %s", e.Engine.Error)
	} else {
		line("engine", "%s %s at %s", e.Engine.Name, e.Engine.Version, e.Engine.Address)
	}
	if e.Image != "" { // else it could not be told
		e.printBox(line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(to, e.wrong())
	return err
}

// wrong is what keeps commands from running in it, and what to do.
func (e sandboxView) wrong() string {
	var s strings.Builder
	if len(e.Mistakes) > 0 {
		s.WriteString("\n")
		for _, m := range e.Mistakes {
			fmt.Fprintf(&s, "mistake  %s:%s\n", e.File, words.OneLine(m.String()))
		}
		s.WriteString("to do    correct the file: nothing runs by it while it has a mistake\n")
	}
	for _, r := range e.Refusals {
		fmt.Fprintf(&s, "\nrefused  %s\nrule     %s\nwhere    %s\nto do    %s\n", r.Text(), r.Rule, r.Where, r.Fix)
	}
	problems := e.Problems
	if e.Engine.Error != "" {
		problems = append(slices.Clip(problems), inspect.Problem{Problem: e.Engine.Error, Fix: cmp.Or(e.Engine.Hint, "corral doctor says more")})
	}
	for _, p := range problems {
		fmt.Fprintf(&s, "\nproblem  %s\n", words.OneLine(p.Problem))
		if p.Where != "" {
			fmt.Fprintf(&s, "where    %s\n", p.Where)
		}
		fmt.Fprintf(&s, "to do    %s\n", p.Fix)
	}
	if e.More {
		s.WriteString("\nThere may be more: what is above keeps some of it from being looked at.\n")
	}
	return s.String()
}

// unlessRefused is a value with the note that it is refused, if it is.
func (e sandboxView) unlessRefused(kind, value string) string {
	if e.Refused(kind) {
		return value + refusedNote
	}
	return value
}

const refusedNote = " (refused)"

func (e sandboxView) printBox(line func(name, format string, args ...any)) {
	switch missing := slices.ContainsFunc(e.Problems, func(p inspect.Problem) bool { return strings.HasSuffix(p.Where, "sandbox.image") }); {
	case e.Missing && missing:
		line("image", "%s (the engine does not have it)", e.Image)
	case e.Missing:
		line("image", "%s (not there yet: the first command gets it)", e.Image)
	default:
		line("image", "%s", e.Image)
	}
	if e.Runtime != "" {
		line("runtime", "%s", e.Runtime)
	}
	switch user := e.unlessRefused("user", e.User); {
	case e.Root:
		line("user", "root, which can write everywhere in it; its files are %s's", user)
	case e.UIDRange != "":
		line("user", "one of its own, of %s; its files are %s's", e.UIDRange, user)
	case e.SharedUser != "":
		line("user", "%s, which others may be too: %s", user, e.SharedUser)
	default:
		line("user", "%s", user)
	}
	for _, m := range e.Mounts {
		from := cmp.Or(m.Source, "private")
		switch {
		case m.Memory && m.Bytes > 0:
			from = "memory, " + sizeText(m.Bytes)
		case m.Memory:
			from = "memory"
		case m.Bytes > 0:
			from += ", at most " + sizeText(m.Bytes)
		case m.Target == secrets.Dir:
			from = "memory: " + strings.Join(e.Secrets, ", ")
		}
		if m.Refused {
			from += refusedNote
		}
		line("mount", "%s (%s) from %s", m.Target, m.Access, from)
	}
	if len(e.Env) > 0 {
		line("variables", "%s", strings.Join(e.Env, ", "))
	}
	l := e.Limits
	swap := "no swap"
	if l.Swap != 0 {
		swap = orUnlimited(l.Swap, sizeText) + " of swap"
	}
	plain := func(n int64) string { return strconv.FormatInt(n, 10) }
	line("memory", "%s, %s", orUnlimited(l.Memory, sizeText), swap)
	cpus := orUnlimited(l.CPUs, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) })
	if e.EngineCPUs > 0 && l.CPUs > float64(e.EngineCPUs) {
		cpus += fmt.Sprintf(" (the engine's machine has %d)", e.EngineCPUs)
	}
	line("cpus", "%s", cpus)
	line("processes", "%s", orUnlimited(l.Pids, plain))
	line("files", "%s each, %s open in a process", orUnlimited(l.FileSize, sizeText), orUnlimited(l.OpenFiles, plain))
	if l.Output > 0 {
		line("output", "%s a second", sizeText(l.Output))
	}
	if l.Lifetime > 0 {
		line("lifetime", "%v", time.Duration(l.Lifetime*float64(time.Second)))
	}
	line("network", "%s", e.unlessRefused("network", e.Network))
	line("seccomp", "%s", e.unlessRefused("seccomp", e.Seccomp))
	line("apparmor", "%s", e.unlessRefused("apparmor", e.AppArmor))
}

// orUnlimited is a limit for people.
func orUnlimited[T int64 | float64](n T, text func(T) string) string {
	if n <= 0 {
		return "unlimited"
	}
	return text(n)
}

// sizeText is a size as flags take it.
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
