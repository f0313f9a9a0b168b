package sessions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
)

// lineCount is how many lines, or all.
type lineCount int

const allLines lineCount = -1

func (n *lineCount) Type() string { return "lines" }

func (n *lineCount) String() string {
	if *n == allLines {
		return "all"
	}
	return strconv.Itoa(int(*n))
}

func (n *lineCount) Set(s string) error {
	if s == "all" {
		*n = allLines
		return nil
	}
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return errors.New("use a number of lines, or all")
	}
	*n = lineCount(v)
	return nil
}

// A window says where in a log to begin.
type window struct {
	tail  lineCount
	since int64 // offset; negative: by tail
}

func (w *window) addFlags(cmd *cobra.Command, tail lineCount) {
	w.tail, w.since = tail, -1
	f := cmd.Flags()
	f.Var(&w.tail, "tail", "`LINES`: begin so many lines before the end, or all")
	f.Func("since-offset", "`BYTES`: begin at this offset, such as the end of what was read before", offset(&w.since, "use a number of bytes, from 0"))
}

// offset sets n to a number from 0. Otherwise says what to use.
func offset(n *int64, otherwise string) func(string) error {
	return func(s string) error {
		v, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return errors.New(otherwise)
		}
		*n = int64(v)
		return nil
	}
}

// begin is the offset to begin at.
func (w *window) begin(ctx context.Context, log corral.Log) (int64, error) {
	if w.since >= 0 {
		return w.since, nil
	}
	if w.tail == allLines {
		return 0, nil
	}
	return foreground.LastLines(ctx, log, int(w.tail))
}

func (a commands) logsCommand() *cobra.Command {
	var agent string
	var follow, raw bool
	var w window
	cmd := &cobra.Command{
		Use: "logs [flags] ID", Short: "Print the output of a session",
		Long: `Print the output of a session, byte for byte, standard output to standard output
and standard error to standard error. What the log had to drop is said in a
warning. --follow goes on until the session has ended, also across restarts of
the gateway.

On a terminal colours and movements of the cursor are passed on, and nothing
that reaches beyond the screen, such as the clipboard or the title; --raw
passes on all.`,
		Example: `  corral logs --follow --tail 20 server`,
		Args:    oneSession, ValidArgsFunction: a.CompleteSessions(1, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd.Context(), agent, args[0], func(ctx context.Context, p *client.Process) error {
				return a.copyLog(ctx, p.Log(), &w, follow, raw)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the session has ended")
	cmd.Flags().BoolVar(&raw, "raw", false, rawUsage)
	w.addFlags(cmd, allLines)
	a.AddAgentFlag(cmd, &agent)
	return cmd
}

// oneSession refuses anything but one argument.
func oneSession(cmd *cobra.Command, args []string) error {
	if err := cmdline.AtLeastOne("ID of a session")(cmd, args); err != nil {
		return err
	}
	return cmdline.AtMost(1)(cmd, args)
}

// withSession calls do with a session of the gateway.
func (a commands) withSession(ctx context.Context, agent, id string, do func(context.Context, *client.Process) error) error {
	return a.WithClient(ctx, agent, func(ctx context.Context, c *client.Client) error {
		p, err := reach.Session(ctx, c, id)
		if err != nil {
			return err
		}
		return do(ctx, p)
	})
}

// copyLog prints a log: to its end now, or with follow to the end of the session.
func (a commands) copyLog(ctx context.Context, log corral.Log, w *window, follow, raw bool) error {
	view := &foreground.View{Streams: a.Streams(), Raw: raw}
	off, err := w.begin(ctx, log)
	if err != nil {
		return err
	}
	stat, err := log.Stat(ctx)
	if err != nil {
		return err
	}
	if off > stat.Size {
		a.Warn(fmt.Sprintf("The output has %d bytes so far, and --since-offset %d is past its end.", stat.Size, off))
	}
	until := int64(math.MaxInt64)
	if !follow {
		until = stat.Size
	}
	return view.Copy(ctx, log, off, until)
}
