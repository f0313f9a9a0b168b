package sandboxes

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
)

func (a commands) logs() *cobra.Command {
	var all, local bool
	cmd := &cobra.Command{
		Use: "logs [flags] NAME", Short: "Say what became of a sandbox's container, and of its setup command",
		Long: `Say what became of the container that a sandbox had last: when it was made, what
its setup command wrote, why it could not be used, and what the engine said when
it ended; with --all, of those before it as well, as far as that is kept. Also of
a container that is gone.

It is not the output of commands: corral logs shows that.`,
		Args: cmdline.Exactly("NAME"), ValidArgsFunction: a.CompleteKnownSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.KeptSandboxes(cmd.Context(), local, func(ctx context.Context, k gateway.Sandboxes, _ bool) error {
				log, err := k.Log(ctx, args[0], all)
				if err != nil {
					return err
				}
				if a.JSON() {
					return a.PrintJSON(log, nil)
				}
				if len(log.Containers) == 0 {
					_, err := fmt.Fprintf(a.Stderr, "The sandbox %s had no container yet.\n", log.Name)
					return err
				}
				for _, l := range log.Containers {
					if err := printLife(a.Stdout, l); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "of all its containers that have logs")
	app.AddLocalFlag(cmd, &local)
	return app.WithJSON(cmd)
}

// printLife prints what is known of a container. Lines of ours begin with "# ".
// What comes from inside does nothing to a terminal.
func printLife(w io.Writer, l api.SandboxLife) error {
	var lines []string
	say := func(format string, args ...any) {
		lines = append(lines, "# "+words.Printable(fmt.Sprintf(format, args...)))
	}
	from := ""
	if l.Pooled {
		from = ", for the pool"
	}
	say("%s  container %s of %s%s", l.Created.Format(time.RFC3339), l.Container, l.Image, from)
	if s := l.Setup; s != nil {
		say("%s  setup command begins", s.Started.Format(time.RFC3339))
		for line := range strings.Lines(s.Output) {
			lines = append(lines, words.Printable(strings.TrimRight(line, "\r\n")))
		}
		switch {
		case s.Ended == nil:
			say("it has not ended, or its end was not seen: the program that made the container was ended first")
		case s.Exit == "":
			say("%s  setup command: it is not known how it ended (%d bytes)", s.Ended.Format(time.RFC3339), s.Bytes)
		default:
			say("%s  setup command: %s after %s (%d bytes)", s.Ended.Format(time.RFC3339), s.Exit, words.Age(s.Ended.Sub(s.Started)), s.Bytes)
		}
	}
	if l.Error != "" {
		say("it was not used: %s", l.Error)
	}
	if e := l.Ended; e != nil {
		say("%s  %s", e.At.Format(time.RFC3339), endText(*e))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// endText is what the engine said when a container ended.
func endText(e api.SandboxEnd) string {
	switch {
	case e.Why != "":
		return "removed: " + e.Why
	case e.Removed:
		return "removed"
	case e.OOM:
		return fmt.Sprintf("ended with code %d: out of memory", e.Code)
	case e.Error != "":
		return fmt.Sprintf("ended with code %d: %s", e.Code, e.Error)
	}
	return fmt.Sprintf("ended with code %d", e.Code)
}
